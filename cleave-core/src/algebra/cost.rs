//! Symbolic costs of a formula.
//!
//! Comes in: a graph, or the forms that the extraction chooses among. Goes out: flops as a polynomial, passes over each axis,
//! what is spilled between passes, compulsory traffic. Both users share the functions here, so that they agree.
use crate::axis::{AxisId, AxisSet};
use crate::cost::Cost;
use crate::graph::{Graph, Op};
use crate::rational::Rational;
use std::collections::BTreeSet;

/// What of an operation its flops depend on.
pub enum Form<'a> {
    Leaf,
    Function,
    Greatest,
    Reduction,
    Product(&'a [i8]),
    Linear(&'a [Rational], Rational),
}

impl<'a> From<&'a Op> for Form<'a> {
    fn from(op: &'a Op) -> Self {
        match op {
            Op::Input { .. } | Op::Number(_) | Op::Size(_) | Op::Index(_) | Op::Predicate(_) => Form::Leaf,
            Op::Apply(_) => Form::Function,
            Op::Greatest => Form::Greatest,
            Op::Sum(_) | Op::Maximum(_) | Op::Frame(..) => Form::Reduction,
            Op::Product(e) => Form::Product(e),
            Op::Linear(k, c) => Form::Linear(k, *c),
        }
    }
}

/// Operations of a transcendental function, of a division or root, of a square.
pub const FUNCTION: f64 = 8.0;
const ROOT: f64 = 4.0;
const SQUARE: f64 = 1.0;

/// What of an operand the flops of its user depend on.
#[derive(Clone, Copy)]
pub struct Operand {
    pub free: AxisSet,
    pub predicate: bool,
}

/// The flops of one operation that varies over `free`.
pub fn flops(form: Form, free: AxisSet, operands: &[Operand]) -> Vec<(AxisSet, f64)> {
    match form {
        Form::Leaf => vec![],
        Form::Function => vec![(free, FUNCTION)],
        Form::Greatest => vec![(free, operands.len() as f64 - 1.0)],
        Form::Reduction => vec![(operands.iter().fold(AxisSet::EMPTY, |s, o| s.union(o.free)), 1.0)],
        Form::Linear(k, c) => {
            let scaled = operands.iter().zip(k).filter(|(_, k)| !k.is_one() && **k != Rational::MINUS_ONE).map(|(o, _)| (o.free, 1.0));
            let additions = k.len() as f64 - if c.is_zero() { 1.0 } else { 0.0 };
            scaled.chain([(free, additions)]).filter(|t| t.1 != 0.0).collect()
        }
        Form::Product(e) => {
            let powers = operands.iter().zip(e).filter(|(_, e)| **e != 2).map(|(o, e)| (o.free, if *e == 4 { SQUARE } else { ROOT }));
            let mut flops: Vec<(AxisSet, f64)> = powers.collect();
            let (masks, mut order): (Vec<&Operand>, Vec<&Operand>) = operands.iter().partition(|o| o.predicate);
            // operands of few axes meet first; a mask acts on the smallest one that varies wherever it does
            order.sort_unstable_by_key(|o| (o.free.len(), o.free));
            let mut met = order.first().map_or(free, |o| o.free);
            for o in order.iter().skip(1) {
                met = met.union(o.free);
                flops.push((met, 1.0))
            }
            for mask in masks {
                flops.push((order.iter().find(|o| mask.free.is_subset(o.free)).map_or(free, |o| o.free), 1.0))
            }
            flops
        }
    }
}

/// One operation of a formula in topological order, for the analysis of passes. The last ones are the stores' operands.
pub struct Step<'a> {
    pub operands: &'a [usize],
    pub free: AxisSet,
    pub reduced: AxisSet,
}

/// The result of the analysis of passes: for each axis of `lanes` the number of passes, and the steps that are spilled.
pub struct Passes {
    pub counts: Vec<u8>,
    pub spilled: Vec<usize>,
}

/// The longest chains of dependent reductions over each axis of `lanes`; a store that has an axis after a reduction over it costs
/// one more pass. A reduction's result is spilled if passes of different levels over one of its own axes use it.
pub fn passes(steps: &[Step], stores: &[usize], lanes: &[AxisId]) -> Passes {
    let width = lanes.len();
    let mut depth = vec![0u8; steps.len() * width];
    for (i, step) in steps.iter().enumerate() {
        for &o in step.operands {
            for l in 0..width {
                depth[i * width + l] = depth[i * width + l].max(depth[o * width + l])
            }
        }
        for (l, a) in lanes.iter().enumerate() {
            depth[i * width + l] = depth[i * width + l].saturating_add(step.reduced.contains(*a) as u8)
        }
    }
    let mut counts = vec![0u8; width];
    let mut levels = vec![0u64; steps.len() * width];
    let bit = |d: u8| 1u64 << d.min(63);
    for &s in stores {
        for (l, a) in lanes.iter().enumerate() {
            let d = depth[s * width + l];
            let whole = steps[s].free.contains(*a);
            counts[l] = counts[l].max(if whole && d > 0 { d.saturating_add(1) } else { d });
            if whole {
                levels[s * width + l] |= bit(d.saturating_add(1))
            }
        }
    }
    let mut spilled = vec![];
    for i in (0..steps.len()).rev() {
        let step = &steps[i];
        for (l, a) in lanes.iter().enumerate() {
            let level = if step.reduced.contains(*a) { bit(depth[i * width + l]) } else { levels[i * width + l] };
            for &o in step.operands {
                if steps[o].free.contains(*a) {
                    levels[o * width + l] |= level
                }
            }
        }
        if !step.reduced.is_empty() && (0..width).any(|l| step.free.contains(lanes[l]) && levels[i * width + l].count_ones() > 1) {
            spilled.push(i)
        }
    }
    spilled.reverse();
    Passes { counts, spilled }
}

/// The costs of a graph; of nodes that no store reaches there are none.
pub fn cost(graph: &Graph) -> Cost {
    let free = graph.free();
    let live = graph.cone(graph.stores().map(|s| s.1.node));
    let mut cost = Cost::default();
    let mut place = vec![usize::MAX; graph.nodes.len()];
    let mut operands: Vec<Vec<usize>> = vec![];
    let mut reads = BTreeSet::new();
    let mut reduced = AxisSet::EMPTY;
    for (i, n) in live.iter().enumerate() {
        place[n.index()] = i;
        operands.push(graph.operands(*n).iter().map(|o| place[o.index()]).collect());
        let of: Vec<Operand> =
            graph.operands(*n).iter().map(|o| Operand { free: free[o.index()], predicate: matches!(graph.op(*o), Op::Predicate(_)) }).collect();
        for (axes, c) in flops(graph.op(*n).into(), free[n.index()], &of) {
            cost.flops.add(axes, c)
        }
        reduced = reduced.union(graph.op(*n).reduced());
        match graph.op(*n) {
            Op::Input { input, access } => drop(reads.insert((*input, access.clone()))),
            Op::Predicate(p) => reads.extend(graph.tables(*p).map(|t| (t.input, t.access.clone()))),
            _ => {}
        }
    }
    let steps: Vec<Step> = live.iter().zip(&operands).map(|(n, o)| Step { operands: o, free: free[n.index()], reduced: graph.op(*n).reduced() }).collect();
    let stores: Vec<usize> = graph.stores().map(|s| place[s.1.node.index()]).collect();
    let lanes: Vec<AxisId> = reduced.iter().collect();
    let analysis = passes(&steps, &stores, &lanes);
    cost.passes = lanes.into_iter().zip(analysis.counts).collect();
    for s in analysis.spilled {
        cost.spills.add(steps[s].free, 1.0)
    }
    for axes in reads.iter().map(|r| r.1.axes()).chain(graph.stores().map(|s| s.1.access.axes())) {
        cost.compulsory.add(axes, 1.0)
    }
    cost
}
