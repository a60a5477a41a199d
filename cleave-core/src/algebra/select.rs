//! Which of the extracted graphs become algorithms, and their names.
//!
//! Comes in: the source and candidates. Goes out: the source and those candidates that are better than every other one in
//! something: work or spills under some scenario, or passes. Graphs of equal symbolic cost are one.
use super::MOST;
use super::extract::{Extents, Extracted};
use crate::axis::{AxisId, AxisSet};
use crate::cost::Cost;
use crate::graph::{Graph, NodeId, Op};
use crate::kernel::Algorithm;
use crate::show;
use std::collections::HashSet;

pub struct Candidate {
    pub extracted: Extracted,
    pub cost: Cost,
    /// The search that found it.
    pub run: usize,
    /// A rule that may cancel was at hand; it is no better than a form found without, whatever it costs.
    pub cancels: bool,
    /// The assumptions that it rests on: it beats nothing that rests on fewer.
    pub assumes: Vec<u32>,
}

/// A cost is better only if it is so by more than this share.
const MARGIN: f64 = 0.1;
/// Operations that pass while one element is read or written: arithmetic below the traffic's shadow is no merit.
const BALANCE: f64 = 16.0;

/// Passes in all, then spills and work (operations, and compulsory traffic in operations) under each scenario.
fn profile(cost: &Cost, scenarios: &[Extents]) -> Vec<f64> {
    let passes: f64 = cost.passes.iter().map(|p| p.1 as f64).sum();
    let mut profile = vec![passes];
    for s in scenarios {
        let extent = |a: AxisId| s[a.0 as usize];
        profile.push(cost.spills.evaluate(&extent));
        profile.push(cost.flops.evaluate(&extent) + BALANCE * cost.compulsory.evaluate(&extent))
    }
    profile
}

fn as_good(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| *a <= b * (1.0 + MARGIN))
}

/// The names and candidates that are worth keeping beside the source, at most [`MOST`] - 1.
pub fn select(source: &Algorithm, candidates: Vec<Candidate>, scenarios: &[Extents]) -> Vec<(String, Candidate)> {
    let same = |a: &Cost, b: &Cost| a.flops == b.flops && a.passes == b.passes && a.spills == b.spills;
    let mut ranked: Vec<(Vec<f64>, Candidate)> = candidates.into_iter().map(|c| (profile(&c.cost, scenarios), c)).collect();
    ranked.sort_by(|a, b| {
        a.0.iter().zip(&b.0).map(|(x, y)| x.total_cmp(y)).find(|o| o.is_ne()).unwrap_or((a.1.cancels, a.1.assumes.len()).cmp(&(b.1.cancels, b.1.assumes.len())))
    });
    let mut kept: Vec<(Vec<f64>, Candidate)> = vec![];
    let of_source = profile(&source.cost, scenarios);
    for (p, c) in ranked {
        let beaten = |(q, other): &(Vec<f64>, Candidate)| {
            let as_safe = (c.cancels || !other.cancels) && other.assumes.iter().all(|a| c.assumes.contains(a));
            same(&other.cost, &c.cost) || as_safe && as_good(q, &p)
        };
        if !same(&source.cost, &c.cost) && !as_good(&of_source, &p) && !kept.iter().any(beaten) {
            kept.push((p, c))
        }
    }
    kept.truncate(MOST - 1);
    let mut named: Vec<(String, Candidate)> = vec![];
    for (_, c) in kept {
        named.push((name(source, &named, &c), c))
    }
    named
}

// ---- names ----------------------------------------------------------------------------------------------------------

/// What distinguishes a candidate from the source: fewer passes; if that is not unique what it contracts first; then a number.
fn name(source: &Algorithm, others: &[(String, Candidate)], candidate: &Candidate) -> String {
    let graph = &candidate.extracted.graph;
    let fewer = candidate.cost.passes.iter().filter(|(axis, n)| source.cost.passes.iter().any(|(a, m)| a == axis && n < m));
    let mut parts: Vec<String> = fewer
        .map(|(axis, n)| {
            let count = match n {
                1 => "one pass".into(),
                2 => "two passes".into(),
                n => format!("{n} passes"),
            };
            format!("{count} over {}", graph.axis(*axis))
        })
        .collect();
    let taken = |n: &str| n.is_empty() || n == source.name || others.iter().any(|a| a.0 == n);
    for first in first_contractions(&source.graph, graph) {
        if !taken(&parts.join(", ")) {
            break;
        }
        parts.push(first)
    }
    if parts.is_empty() {
        parts.push("rearranged".into())
    }
    let base = parts.join(", ");
    if !taken(&base) { base } else { (2..).map(|i| format!("{base} ({i})")).find(|n| !taken(n)).unwrap_or(base) }
}

/// The reductions of inputs alone that the source does not have: `k * v over N first`.
fn first_contractions(source: &Graph, graph: &Graph) -> Vec<String> {
    let inputs = |g: &Graph, n: NodeId| -> Option<Vec<String>> {
        let of = |x: NodeId| if let Op::Input { input, access } = g.op(x) { (!access.dims.is_empty()).then(|| g.input(*input).name.clone()) } else { None };
        match g.op(n) {
            Op::Product(_) => g.operands(n).iter().map(|o| of(*o)).collect(),
            _ => Some(vec![of(n)?]),
        }
    };
    let contractions = |g: &Graph| -> Vec<(AxisSet, Vec<String>)> {
        let live = g.cone(g.stores().map(|s| s.1.node));
        live.into_iter().filter_map(|n| if let Op::Sum(a) = g.op(n) { Some((*a, inputs(g, g.operands(n)[0])?)) } else { None }).collect()
    };
    let known: HashSet<_> = contractions(source).into_iter().collect();
    contractions(graph)
        .into_iter()
        .filter(|c| !known.contains(c))
        .map(|(a, names)| format!("{} over {} first", names.join(" * "), show::axes(graph, a)))
        .collect()
}
