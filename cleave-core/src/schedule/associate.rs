//! The order in which the factors of a sum of products are multiplied, given the dims of a part.
//!
//! In: a framed graph and dims. Out: an equal graph in which every sum of a product has at most two operands (two: a matrix
//! product) and every reduction runs along at most one loop dim.
use super::elaborate::Framed;
use crate::axis::AxisSet;
use crate::frame::Gauge;
use crate::graph::{Graph, NodeId, Op};
use crate::rational::Rational;
use crate::tile::{Dim, DimId, DimSet, Role, dims_of};
use std::cmp::Reverse;
use std::collections::HashMap;

/// An equal graph in which every sum of a product has at most two operands.
pub fn group(framed: &Framed, dims: &[Dim]) -> Framed {
    let uses = uses(framed);
    let mut association = Association { dims, loops: loops(dims), free: vec![], uses: HashMap::new() };
    framed.rebuild(|g, old, op, mut operands| {
        if let Op::Sum(_) = op {
            operands[0] = association.body(g, operands[0])
        }
        let node = g.intern(op.clone(), operands);
        association.uses.insert(node, uses[&old]);
        node
    })
}

/// [`group`], and every reduction runs along at most one loop dim: further ones become a reduction of their own, inside.
pub fn associate(framed: &Framed, dims: &[Dim]) -> Framed {
    let loops = loops(dims);
    group(framed, dims).rebuild(|g, _, op, operands| match op {
        Op::Sum(axes) | Op::Maximum(axes) => nest(g, dims, op, *axes, operands),
        Op::Frame(row, axes) => match (row.gauge, dims_of(dims, *axes).intersection(loops).len()) {
            (_, 1) | (Gauge::Moments, 0) => g.intern(op.clone(), operands),
            // a shift that does not run along one loop is the maximum itself, in a pass of its own
            (Gauge::Exponential, _) => nest(g, dims, &Op::Maximum(*axes), *axes, operands),
            // moments that do not may be about any value
            (Gauge::Moments, _) => g.number(Rational::ZERO),
        },
        _ => g.intern(op.clone(), operands),
    })
}

fn loops(dims: &[Dim]) -> DimSet {
    (0..dims.len()).filter(|&d| dims[d].role == Role::Loop).map(|d| DimId(d as u8)).collect()
}

/// Live users of every live node.
fn uses(framed: &Framed) -> HashMap<NodeId, usize> {
    let live = framed.live();
    let mut uses: HashMap<NodeId, usize> = live.iter().map(|n| (*n, 0)).collect();
    for o in live.iter().flat_map(|n| framed.graph.operands(*n)) {
        *uses.entry(*o).or_default() += 1
    }
    uses
}

struct Association<'a> {
    dims: &'a [Dim],
    loops: DimSet,
    /// Free axes of the new graph's nodes, as far as asked for.
    free: Vec<AxisSet>,
    /// Users that the nodes had in the old graph.
    uses: HashMap<NodeId, usize>,
}

impl Association<'_> {
    fn dims(&mut self, g: &Graph, node: NodeId) -> DimSet {
        while self.free.len() <= node.index() {
            let n = &g.nodes[self.free.len()];
            let f = g.free_of(&n.op, &n.operands, |o| self.free[o.index()]);
            self.free.push(f)
        }
        dims_of(self.dims, self.free[node.index()])
    }
    /// A sum's body with its factors grouped. A factor whose dims another covers is multiplied into it, by preference into one that
    /// lives in an outer scope (a gain on q leaves the loop over n), then into the one that is used most (x of several projections,
    /// never their weights), then into the smaller one.
    fn body(&mut self, g: &mut Graph, body: NodeId) -> NodeId {
        let Op::Product(exponents) = g.op(body).clone() else { return body };
        let mut groups: Vec<Vec<(NodeId, i8)>> = g.operands(body).iter().copied().zip(exponents).map(|f| vec![f]).collect();
        let is_predicate = |g: &Graph, q: &[(NodeId, i8)]| q.iter().any(|f| matches!(g.op(f.0), Op::Predicate(_)));
        let is_raw = |g: &Graph, q: &[(NodeId, i8)]| q.iter().any(|f| matches!(g.op(f.0), Op::Input { .. }));
        while groups.len() > 1 {
            let dims: Vec<DimSet> = groups.iter().map(|q| q.iter().fold(DimSet::EMPTY, |s, f| s.union(self.dims(g, f.0)))).collect();
            let pairs = (0..groups.len()).flat_map(|i| (0..groups.len()).map(move |j| (i, j))).filter(|&(i, j)| i != j && dims[i].is_subset(dims[j]));
            let used = |q: &[(NodeId, i8)]| q.iter().map(|f| self.uses.get(&f.0).copied().unwrap_or(0)).max();
            let best = pairs.min_by_key(|&(i, j)| {
                // a mask never multiplies a raw operand, whose hidden rows may hold NaN, if it can join a computed factor
                let masked = is_predicate(g, &groups[i]) && is_raw(g, &groups[j]);
                (masked, dims[j].intersection(self.loops).len(), Reverse(used(&groups[j])), dims[j].len(), j, i)
            });
            let (from, into) = match best {
                Some(pair) => pair,
                None if groups.len() == 2 => break,
                None => {
                    // no factor covers another: the two smallest join
                    let mut order: Vec<usize> = (0..groups.len()).collect();
                    order.sort_by_key(|&i| (dims[i].len(), i));
                    (order[1], order[0])
                }
            };
            let moved = groups[from].clone();
            groups[into].extend(moved);
            groups.remove(from);
        }
        let single = groups.len() == 1;
        // what a predicate hides may be anything: it hides it in both operands, unless they are tensors as they are
        for from in 0..if single { 0 } else { groups.len() } {
            for p in groups[from].clone().into_iter().filter(|f| matches!(g.op(f.0), Op::Predicate(_))) {
                for other in (0..groups.len()).filter(|o| *o != from) {
                    let dims = groups[other].iter().fold(DimSet::EMPTY, |s, f| s.union(self.dims(g, f.0)));
                    let computed =
                        groups[other].iter().any(|f| !matches!(g.op(f.0), Op::Input { .. } | Op::Predicate(_) | Op::Number(_) | Op::Index(_) | Op::Size(_)));
                    if computed && self.dims(g, p.0).is_subset(dims) && !groups[other].contains(&p) {
                        groups[other].push(p)
                    }
                }
            }
        }
        let mut operands: Vec<NodeId> = groups.into_iter().map(|q| multiply(g, q)).collect();
        if single {
            return operands[0];
        }
        operands.sort();
        g.intern(Op::Product(vec![2; operands.len()]), operands)
    }
}

fn nest(g: &mut Graph, dims: &[Dim], op: &Op, axes: AxisSet, mut operands: Vec<NodeId>) -> NodeId {
    let with = |axes| if matches!(op, Op::Sum(_)) { Op::Sum(axes) } else { Op::Maximum(axes) };
    let mut rest = axes;
    for d in dims_of(dims, axes).intersection(loops(dims)).iter().skip(1) {
        let inner: AxisSet = dims[d.0 as usize].axes.iter().copied().collect::<AxisSet>().intersection(axes);
        rest = rest.difference(inner);
        operands = vec![g.intern(with(inner), operands)];
    }
    g.intern(with(rest), operands)
}

/// The product of factors as a node, not flattened.
fn multiply(g: &mut Graph, mut factors: Vec<(NodeId, i8)>) -> NodeId {
    if let [(x, 2)] = factors[..] {
        return x;
    }
    factors.sort();
    let (operands, exponents) = factors.into_iter().unzip();
    g.intern(Op::Product(exponents), operands)
}
