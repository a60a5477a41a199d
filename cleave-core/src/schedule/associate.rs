//! The order in which the factors of a sum of products are multiplied, given the dims of a part.
//!
//! In: a framed graph and dims. Out: an equal graph in which every sum of a product has at most two operands (two: a matrix
//! product) and every reduction runs along at most one loop dim.
use super::elaborate::Framed;
use crate::absence::{Absence, Where, absence, selecting, unless_zero};
use crate::axis::AxisSet;
use crate::frame::Gauge;
use crate::graph::{Graph, NodeId, Op};
use crate::rational::Rational;
use crate::tile::{Dim, DimId, DimSet, Role, dims_of};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Factors of one operand, with exponents in halves.
type Group = Vec<(NodeId, i8)>;

/// An equal graph in which every sum of a product has at most two operands.
pub fn group(framed: &Framed, dims: &[Dim]) -> Framed {
    let uses = uses(framed);
    let mut association = Association { dims, loops: loops(dims), free: vec![], absent: vec![], uses: HashMap::new() };
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
    /// What becomes of them where predicates hold nowhere.
    absent: Vec<Absence>,
    /// Users that the nodes had in the old graph.
    uses: HashMap<NodeId, usize>,
}

impl Association<'_> {
    /// Makes the facts about nodes that are new.
    fn learn(&mut self, g: &Graph) {
        for i in self.free.len()..g.nodes.len() {
            let n = &g.nodes[i];
            self.free.push(g.free_of(&n.op, &n.operands, |o| self.free[o.index()]));
            let known = absence(g, NodeId(i as u32), |o| &self.absent[o.index()]);
            self.absent.push(known)
        }
    }
    fn dims(&self, node: NodeId) -> DimSet {
        dims_of(self.dims, self.free[node.index()])
    }
    fn dims_of(&self, group: &[(NodeId, i8)]) -> DimSet {
        group.iter().fold(DimSet::EMPTY, |s, f| s.union(self.dims(f.0)))
    }
    /// A sum's body with its factors grouped.
    fn body(&mut self, g: &mut Graph, body: NodeId) -> NodeId {
        let Op::Product(exponents) = g.op(body).clone() else { return body };
        self.learn(g);
        let mut groups: Vec<Group> = g.operands(body).iter().copied().zip(exponents).map(|f| vec![f]).collect();
        self.join(g, &mut groups);
        let mut moves = g.operands(body).len();
        while let Some((from, factor, into)) = self.parted(g, &groups) {
            let f = groups[from][factor];
            // the operand may hold it, and nothing that it leaves behind must be 0 with it
            let stays = groups[from].iter().any(|v| *v != f && self.is_zero_apart(g, *v, &groups, into));
            if moves == 0 || stays || !self.dims(f.0).is_subset(self.dims_of(&groups[into])) {
                groups = vec![groups.concat()]
            } else {
                moves -= 1;
                groups[from].remove(factor);
                groups[into].push(f);
                groups.retain(|q| !q.is_empty());
                self.join(g, &mut groups)
            }
        }
        if let [all] = &mut groups[..] {
            return multiply(g, std::mem::take(all));
        }
        let hidden: Vec<Group> = (0..groups.len()).map(|i| self.hidden(g, &groups, i)).collect();
        let mut operands: Vec<NodeId> = groups.into_iter().zip(hidden).map(|(q, p)| multiply(g, [q, p].concat())).collect();
        operands.sort();
        g.intern(Op::Product(vec![2; operands.len()]), operands)
    }
    /// Groups until there are two operands, or one. A factor whose dims another covers is multiplied into it, by preference into one that
    /// lives in an outer scope (a gain on q leaves the loop over n), then into the one that is used most (x of several projections,
    /// never their weights), then into the smaller one.
    fn join(&self, g: &Graph, groups: &mut Vec<Group>) {
        let is_raw = |q: &[(NodeId, i8)]| q.iter().any(|f| matches!(g.op(f.0), Op::Input { .. }));
        while groups.len() > 1 {
            let dims: Vec<DimSet> = groups.iter().map(|q| self.dims_of(q)).collect();
            let pairs = (0..groups.len()).flat_map(|i| (0..groups.len()).map(move |j| (i, j))).filter(|&(i, j)| i != j && dims[i].is_subset(dims[j]));
            let used = |q: &[(NodeId, i8)]| q.iter().map(|f| self.uses.get(&f.0).copied().unwrap_or(0)).max();
            let best = pairs.min_by_key(|&(i, j)| {
                // a mask never multiplies a raw operand, whose hidden rows may hold NaN, if it can join a computed factor
                let masked = groups[i].iter().any(|f| is_predicate(g, f)) && is_raw(&groups[j]);
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
    }
    /// The predicates of other groups that hide in this one too: what a predicate hides may be anything, in both operands, unless they are tensors
    /// as they are.
    fn hidden(&self, g: &Graph, groups: &[Group], i: usize) -> Group {
        let leaf = |f: &(NodeId, i8)| matches!(g.op(f.0), Op::Input { .. } | Op::Predicate(_) | Op::Number(_) | Op::Index(_) | Op::Size(_));
        if groups[i].iter().all(leaf) {
            return vec![];
        }
        let dims = self.dims_of(&groups[i]);
        let mut all: Group = groups.concat();
        all.retain(|p| is_predicate(g, p) && !groups[i].contains(p) && self.dims(p.0).is_subset(dims));
        all
    }
    /// Whether a factor can be 0 for want of elements, and a group knows nothing of it.
    fn is_zero_apart(&self, g: &Graph, v: (NodeId, i8), groups: &[Group], i: usize) -> bool {
        v.1 > 0 && self.absent[v.0.index()].vanishes && !groups[i].contains(&v) && !self.hidden(g, groups, i).contains(&v)
    }
    /// A factor that may have no value where one of another group is 0: the product is 0 there, that of their operands is not. Its group, its
    /// place there, and the other group.
    fn parted(&self, g: &Graph, groups: &[Group]) -> Option<(usize, usize, usize)> {
        (0..groups.len()).find_map(|i| {
            let selected = selecting(g, groups[i].iter().copied().chain(self.hidden(g, groups, i)));
            let within = |w: &Where| w.as_ref().is_some_and(|s| s.is_subset(&selected));
            let fine = |f: &(NodeId, i8)| {
                let known = &self.absent[f.0.index()];
                within(&known.valued) && (f.1 > 0 || within(&unless_zero(known)))
            };
            let factor = groups[i].iter().position(|f| !fine(f))?;
            let into = (0..groups.len()).find(|j| *j != i && groups[*j].iter().any(|v| self.is_zero_apart(g, *v, groups, i)))?;
            Some((i, factor, into))
        })
    }
}

fn is_predicate(g: &Graph, factor: &(NodeId, i8)) -> bool {
    matches!(g.op(factor.0), Op::Predicate(_))
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
