//! Facts about a kernel's data that no proof could give: `assume!(sum::<N>(p) == 1.0)`.
//!
//! Comes in: both sides as terms of the kernel's graph. Goes out: a graph that computes them, and a look at whether they agree on the
//! inputs of a call. The search takes an assumption for an equality like those that its rules give; what it finds by it is equal to
//! the source only where the assumption holds. So it is looked at in debug builds.
use crate::axis::{AxisId, AxisSet};
use crate::dtype::{DType, Element};
use crate::graph::{Access, Graph, NodeId, Op, Store};
use crate::magnitude::magnitude;
use crate::oracle::{self, Elements};
use crate::rational::Rational;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Two terms of a kernel that are equal wherever its callers keep their promise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Assumption {
    /// As the user wrote it, without the macro.
    pub statement: String,
    pub message: Option<String>,
    /// Over the kernel's axes, inputs and predicates. It stores three values for each choice of the sides' constant factors: the left side, the
    /// right side, and the magnitude of what was added up for them, by which a difference is measured.
    pub graph: Graph,
}

/// A place at which the sides of an assumption differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Broken {
    /// The index along each axis of the sides.
    pub place: Vec<(String, i64)>,
    pub left: f64,
    pub right: f64,
}

/// How many places are looked at in a call, at most.
const PLACES: u64 = 64;
/// Elementary operations that looking may take in a call; one place is looked at whatever it takes.
const WORK: f64 = 2e6;
/// The sides may differ by this share of their magnitude, or by so many roundings of the least exact type that they read.
const TOLERANCE: f64 = 1e-4;
const ROUNDINGS: f64 = 4.0;

impl Assumption {
    /// `sides`: of each choice of constant factors. `graph` holds their nodes.
    pub fn new(graph: &Graph, sides: &[(NodeId, NodeId)], statement: String, message: Option<String>) -> Assumption {
        let mut g = graph.clone();
        g.outputs.clear();
        let free = g.free();
        let axes = sides.iter().fold(AxisSet::EMPTY, |s, (l, r)| s.union(free[l.index()]).union(free[r.index()]));
        let mut known = HashMap::new();
        for (left, right) in sides {
            let magnitudes = [*left, *right].map(|x| (Rational::ONE, magnitude(&mut g, x, &mut known)));
            let scale = g.linear(&magnitudes, Rational::ZERO);
            for (name, node) in [("left", *left), ("right", *right), ("scale", scale)] {
                let access = Access::plain(axes.iter());
                g.add_output(name, Element::Type(DType::F32), access.clone(), vec![Store { node, access }])
            }
        }
        Assumption { statement, message, graph: g.pruned() }
    }
    /// What the user calls it.
    pub fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.statement)
    }
    /// Both sides, for each choice of constant factors.
    pub fn sides(&self) -> Vec<(NodeId, NodeId)> {
        let nodes: Vec<NodeId> = self.graph.stores().map(|s| s.1.node).collect();
        nodes.chunks_exact(3).map(|n| (n[0], n[1])).collect()
    }
    /// The inputs that the sides read.
    pub fn reads(&self) -> Vec<usize> {
        let mut inputs = vec![];
        for n in &self.graph.nodes {
            match &n.op {
                Op::Input { input, .. } => inputs.push(input.index()),
                Op::Predicate(p) => inputs.extend(self.graph.tables(*p).map(|t| t.input.index())),
                _ => {}
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }
    /// The share of their magnitude by which the sides may differ on data stored in the types of an instance.
    pub fn tolerance(&self, types: &[DType]) -> f64 {
        let roundings = self.reads().into_iter().map(|i| ROUNDINGS * self.graph.inputs[i].element.resolve(types).epsilon());
        roundings.fold(TOLERANCE, f64::max)
    }
    /// Looks at some places, others for each `call`; the first at which the sides differ.
    pub fn broken(&self, extents: &[i64], elements: &impl Elements, tolerance: f64, call: u64) -> Option<Broken> {
        let axes: Vec<AxisId> = self.graph.outputs.first().map_or(AxisSet::EMPTY, |o| o.storage.axes()).iter().collect();
        let size = |axes: AxisSet| axes.iter().map(|a| extents[a.0 as usize] as f64).product::<f64>();
        let all = axes.iter().try_fold(1u64, |n, a| n.checked_mul(extents[a.0 as usize].max(0) as u64)).unwrap_or(u64::MAX);
        let work: f64 = oracle::tabulated(&self.graph).into_iter().map(size).sum();
        let places = ((WORK / work.max(1.0)) as u64).clamp(1, PLACES).min(all);
        (0..places).find_map(|i| {
            // from the first to the last, other ones between them in other calls
            let even = if places > 1 { (i as u128 * (all - 1) as u128 / (places - 1) as u128) as u64 } else { 0 };
            let mut rest = even.wrapping_add(call.wrapping_mul(all / places / 3 + 1)) % all;
            let mut at = vec![0; extents.len()];
            for a in axes.iter().rev() {
                let n = extents[a.0 as usize] as u64;
                at[a.0 as usize] = (rest % n) as i64;
                rest /= n
            }
            let values = oracle::at(&self.graph, extents, elements, &at);
            let differs = values.chunks_exact(3).find(|v| !agree(v[0], v[1], tolerance * v[2]))?;
            let place = axes.iter().map(|a| (self.graph.axis(*a).to_string(), at[a.0 as usize])).collect();
            Some(Broken { place, left: differs[0], right: differs[1] })
        })
    }
}

/// `sum::<N>(p) == 1 (rows are distributions)`
impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.statement)?;
        self.message.as_ref().map_or(Ok(()), |m| write!(f, " ({m})"))
    }
}

fn agree(left: f64, right: f64, bound: f64) -> bool {
    left == right || left.is_nan() && right.is_nan() || (left - right).abs() <= bound
}
