//! A variant for graphs of which outputs stand in place of inputs, where the plain program would read what it has written (see
//! [`crate::tile::in_place`]).
use super::elaborate::Framed;
use super::roles::Variant;
use crate::graph::{InputId, NodeId, Op};

/// A variant that is in order whatever the graph: all that is read from such inputs goes to workspaces, and a last launch writes.
pub fn apart(framed: &Framed, variant: &Variant) -> Variant {
    let graph = &framed.graph;
    let overwritten: Vec<InputId> = graph.outputs.iter().filter_map(|o| o.in_place).collect();
    let reads = |n: &NodeId| matches!(graph.op(*n), Op::Input { input, .. } if overwritten.contains(input));
    let mut cuts = variant.cuts.clone();
    for n in graph.stores().map(|s| s.1.node).filter(|n| graph.cone([*n]).iter().any(reads)) {
        if !cuts.contains(&n) {
            cuts.push(n)
        }
    }
    Variant { cuts, ..variant.clone() }
}
