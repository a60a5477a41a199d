//! One order of nodes and operands for one formula, whatever way the search took to it.
//!
//! Comes in: a graph that was found, and the source. Goes out: the same graph with its nodes in the order of a walk from the stores
//! that visits operands by what they are made of: by the source's order of the leaves below them, then by their form. So sources
//! that have an algorithm in common have it node by node.
use crate::graph::{Graph, Node, NodeId, Op};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// What a node is made of: the leaves below it by their place in the source, and its form.
type Key = (Vec<u32>, u64);

/// FNV-1a: the same value on every run and machine of one byte order.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ *b as u64).wrapping_mul(0x100_0000_01b3)
        }
    }
}

fn hash(x: impl Hash) -> u64 {
    let mut h = Fnv(0xcbf2_9ce4_8422_2325);
    x.hash(&mut h);
    h.finish()
}

fn key(node: &Node, keys: &[Key], leaves: &HashMap<&Op, u32>) -> Key {
    if let Some(place) = leaves.get(&node.op) {
        return (vec![*place], hash(place));
    }
    let of = |o: &NodeId| keys[o.index()].1;
    // operands that commute are added up
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, |s, x| s.wrapping_add(x));
    let form = match &node.op {
        Op::Product(e) => hash(("product", sum(&mut node.operands.iter().zip(e).map(|(o, e)| hash((of(o), e)))))),
        Op::Linear(k, c) => hash(("linear", c, sum(&mut node.operands.iter().zip(k).map(|(o, k)| hash((of(o), k)))))),
        Op::Greatest => hash(("greatest", sum(&mut node.operands.iter().map(of)))),
        Op::Maximum(a) => hash(("maximum", a, of(&node.operands[0]), sum(&mut node.operands[1..].iter().map(of)))),
        op => hash((op, node.operands.iter().map(of).collect::<Vec<_>>())),
    };
    let mut below: Vec<u32> = node.operands.iter().flat_map(|o| keys[o.index()].0.iter().copied()).collect();
    below.sort_unstable();
    below.dedup();
    (below, form)
}

pub fn settle(graph: &Graph, source: &Graph) -> Graph {
    let is_leaf = |op: &Op| matches!(op, Op::Input { .. } | Op::Index(_) | Op::Predicate(_));
    let leaves: HashMap<&Op, u32> = source.nodes.iter().zip(0..).filter(|(n, _)| is_leaf(&n.op)).map(|(n, i)| (&n.op, i)).collect();
    let mut keys: Vec<Key> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let k = key(node, &keys, &leaves);
        keys.push(k)
    }
    let mut settled = graph.without_nodes();
    let mut done: Vec<Option<NodeId>> = vec![None; graph.nodes.len()];
    let stores: Vec<NodeId> = graph.stores().map(|s| visit(graph, s.1.node, &keys, &mut settled, &mut done)).collect();
    settled.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(stores).for_each(|(s, n)| s.node = n);
    settled
}

fn visit(graph: &Graph, id: NodeId, keys: &[Key], settled: &mut Graph, done: &mut [Option<NodeId>]) -> NodeId {
    if let Some(known) = done[id.index()] {
        return known;
    }
    let mut order = graph.operands(id).to_vec();
    order.sort_by(|a, b| keys[a.index()].cmp(&keys[b.index()]));
    for o in order {
        visit(graph, o, keys, settled, done);
    }
    let operands: Vec<NodeId> = graph.operands(id).iter().map(|o| visit(graph, *o, keys, settled, done)).collect();
    // the constructors sort again by the new numbers
    let new = match graph.op(id) {
        Op::Product(e) => settled.product(&operands.into_iter().zip(e.iter().copied()).collect::<Vec<_>>()),
        Op::Linear(k, c) => settled.linear(&k.iter().copied().zip(operands).collect::<Vec<_>>(), *c),
        Op::Greatest => settled.greatest(&operands),
        Op::Maximum(a) => settled.maximum(*a, operands[0], &operands[1..]),
        op => settled.intern(op.clone(), operands),
    };
    done[id.index()] = Some(new);
    new
}
