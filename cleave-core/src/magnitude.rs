//! The size of the numbers that a value was made of, by which a difference of two ways to compute it is measured.
use crate::graph::{Function, Graph, NodeId, Op};
use crate::rational::Rational;
use std::collections::HashMap;

/// A graph whose stores are the magnitudes of those of another.
pub fn magnitudes(graph: &Graph) -> Graph {
    let mut g = graph.clone();
    let mut known = HashMap::new();
    let stores: Vec<NodeId> = graph.stores().map(|s| s.1.node).collect();
    let sizes: Vec<NodeId> = stores.into_iter().map(|n| magnitude(&mut g, n, &mut known)).collect();
    g.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(sizes).for_each(|(s, n)| s.node = n);
    g.pruned()
}

/// The term with every leaf and coefficient by its absolute value: the size of the numbers that a value was made of. What stands under a division
/// or in a function keeps its value.
pub fn magnitude(g: &mut Graph, x: NodeId, known: &mut HashMap<NodeId, NodeId>) -> NodeId {
    if let Some(m) = known.get(&x) {
        return *m;
    }
    let (op, operands) = (g.op(x).clone(), g.operands(x).to_vec());
    let size = |r: Rational| if r.is_negative() { r.neg().unwrap_or(r) } else { r };
    let mut below = |g: &mut Graph, i: usize| magnitude(g, operands[i], known);
    let m = match op {
        Op::Size(_) | Op::Index(_) | Op::Predicate(_) | Op::Frame(..) => x,
        Op::Number(r) => g.number(size(r)),
        Op::Apply(Function::Round(_)) => below(g, 0),
        Op::Input { .. } | Op::Apply(_) => g.apply(Function::Abs, x),
        Op::Product(exponents) => {
            let factor = |(i, e): (usize, &i8)| (if *e > 0 { below(g, i) } else { g.apply(Function::Abs, operands[i]) }, *e);
            let factors: Vec<(NodeId, i8)> = exponents.iter().enumerate().map(factor).collect();
            g.product(&factors)
        }
        Op::Linear(coefficients, constant) => {
            let addends: Vec<(Rational, NodeId)> = coefficients.iter().enumerate().map(|(i, k)| (size(*k), below(g, i))).collect();
            g.linear(&addends, size(constant))
        }
        Op::Greatest => {
            let all: Vec<NodeId> = (0..operands.len()).map(|i| below(g, i)).collect();
            g.greatest(&all)
        }
        Op::Sum(axes) => {
            let inner = below(g, 0);
            g.sum(axes, inner)
        }
        Op::Maximum(axes) => {
            let inner = below(g, 0);
            g.maximum(axes, inner, &operands[1..])
        }
    };
    known.insert(x, m);
    m
}
