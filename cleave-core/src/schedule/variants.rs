//! The choices that a graph leaves open, found by mechanism.
//!
//! - packing: grid axes that no contraction can tell apart share a dim;
//! - on chip: a reduction that runs inside the loop of another is computed without a loop of its own if its axes are whole on chip, and
//!   once if the grid axes that it lacks are; or the axes of the other are, and it is the loop: the product by a second factor of low rank;
//! - aside: of such reductions, those that are no products and lack rows that the products have go to a launch of their own: a norm of each key beside its products;
//! - keeping: what one loop computed, a later loop along the same dim may recall;
//! - cuts: a reduction that would be computed again across the grid, or that a loop with a store waits for, may be a launch of its own.
use super::associate::group;
use super::elaborate::{Framed, elaborate};
use super::roles::{Variant, all_stores, dims, groups, restrict};
use crate::axis::{AxisId, AxisSet};
use crate::frame::Row;
use crate::graph::{Graph, NodeId, Op};
use std::collections::BTreeSet;

/// The graph with frames of a table, and with the factors of its products grouped, so that a group can be cut.
pub fn prepare(graph: &Graph, table: &[&'static Row]) -> Framed {
    let framed = elaborate(graph, table);
    let dims = dims(&restrict(&framed, &all_stores(&framed.graph)), &Variant::default());
    group(&framed, &dims)
}

/// A variant, and whether values may be kept along the dims that its loops repeat.
pub struct Candidate {
    pub variant: Variant,
    pub keeps: bool,
}

/// The candidates of a graph, most promising first; one of the last two has no bounds and is sound.
pub fn candidates(framed: &Framed, bounds: &[(AxisId, usize)]) -> Vec<Candidate> {
    let looped = Variant { pack: true, ..Variant::default() };
    let (inner, lacking) = nested(framed, &[]);
    let whole = inner.union(lacking);
    let grid = all_stores(&framed.graph).iter().fold(AxisSet::EMPTY, |s, id| s.union(grid_of(framed, &[*id], AxisSet::EMPTY)));
    let mut variants = vec![];
    if !whole.is_empty() && !grid.is_subset(whole) {
        variants.push(Variant { chip: whole, ..looped.clone() })
    }
    let keeps_plain = variants.is_empty();
    let (aside, cuts_aside) = aside(framed);
    if !aside.is_empty() {
        let (inner, lacking) = nested(framed, &aside);
        variants.insert(0, Variant { chip: inner.union(lacking), cuts: cuts_aside, ..looped.clone() })
    }
    let cut = Variant { cuts: cuts(framed), ..looped.clone() };
    let cut = (!cut.cuts.is_empty()).then_some(cut);
    // what is bounded is small: a cut that stores only that comes first
    let bounded: AxisSet = bounds.iter().map(|b| b.0).collect();
    let free = framed.graph.free();
    let is_small = |v: &Variant| v.cuts.iter().all(|n| free[n.index()].is_subset(bounded));
    let (small, large): (Vec<_>, Vec<_>) = cut.into_iter().partition(is_small);
    variants.splice(0..0, small);
    variants.extend(large);
    if inner != whole && !inner.is_empty() {
        variants.push(Variant { chip: inner, ..looped.clone() })
    }
    let outer = outer(framed, bounded);
    if !outer.is_empty() && outer != whole {
        variants.push(Variant { chip: outer, ..looped.clone() })
    }
    // a mask that varies along a packed axis bounds its loop better where the axis is alone; and a tensor map reads rows of one axis
    let first = variants.first().unwrap_or(&looped).clone();
    if packs_a_mask(framed, &looped) || (!first.chip.is_empty() && packs(framed, &first)) {
        variants.push(Variant { pack: false, ..first })
    }
    let mut candidates: Vec<Candidate> = variants.into_iter().map(|variant| Candidate { keeps: variant.chip == whole, variant }).collect();
    // where the loops of the plain program would nest along one axis, a launch of its own takes the inner one out
    let rescue = Variant { cuts: reused(framed), ..looped.clone() };
    candidates.push(Candidate { variant: looped, keeps: keeps_plain });
    if !rescue.cuts.is_empty() {
        let position = candidates.len() - 1;
        candidates.insert(position, Candidate { variant: rescue, keeps: false })
    }
    candidates
}

/// Whether any part has a packed dim.
fn packs(framed: &Framed, variant: &Variant) -> bool {
    groups(framed, variant.chip).iter().any(|stores| dims(&restrict(framed, stores), variant).iter().any(|d| d.axes.len() > 1 && !d.batch))
}

/// Whether the packed dims of any part hold an axis along which a mask of it varies.
fn packs_a_mask(framed: &Framed, variant: &Variant) -> bool {
    groups(framed, variant.chip).iter().any(|stores| {
        let part = restrict(framed, stores);
        let packed: AxisSet = dims(&part, variant).iter().filter(|d| d.axes.len() > 1).flat_map(|d| d.axes.iter().copied()).collect();
        part.live().iter().any(|n| matches!(part.graph.op(*n), Op::Predicate(q) if part.graph.predicate(*q).free().intersects(packed)))
    })
}

/// What the analyses look at: one part, seen by axes.
struct View {
    framed: Framed,
    free: Vec<AxisSet>,
    live: Vec<NodeId>,
    /// Reduced and not on chip.
    loops: AxisSet,
    grid: AxisSet,
}

fn grid_of(framed: &Framed, stores: &[(u32, u32)], chip: AxisSet) -> AxisSet {
    let r = restrict(framed, stores);
    let reduced = r.live().iter().fold(chip, |s, n| s.union(r.graph.op(*n).reduced()));
    r.graph.stores().fold(AxisSet::EMPTY, |s, t| s.union(t.1.access.axes())).difference(reduced)
}

fn views(framed: &Framed, chip: AxisSet) -> Vec<View> {
    let view = |stores: Vec<(u32, u32)>| {
        let restricted = restrict(framed, &stores);
        let live = restricted.live();
        let loops = live.iter().fold(AxisSet::EMPTY, |s, n| s.union(restricted.graph.op(*n).reduced())).difference(chip);
        View { free: restricted.graph.free(), live, loops, grid: grid_of(framed, &stores, chip), framed: restricted }
    };
    groups(framed, chip).into_iter().map(view).collect()
}

impl View {
    fn graph(&self) -> &Graph {
        &self.framed.graph
    }
    fn free(&self, n: NodeId) -> AxisSet {
        self.free[n.index()]
    }
    /// Whether the node is a reduction along a loop, inside the loop of another.
    fn is_nested(&self, n: NodeId) -> bool {
        self.graph().op(n).reduced().intersects(self.loops) && self.free(n).intersects(self.loops)
    }
    /// Whether a reduction is a sum of a product of two values neither of which varies along all that the other does.
    fn is_product(&self, n: NodeId) -> bool {
        let (g, body) = (self.graph(), self.graph().operands(n)[0]);
        let (Op::Sum(_), Op::Product(_), [x, y]) = (g.op(n), g.op(body), g.operands(body)) else { return false };
        !self.free(*x).is_subset(self.free(*y)) && !self.free(*y).is_subset(self.free(*x))
    }
    fn lacking(&self, n: NodeId) -> AxisSet {
        self.grid.difference(self.free(n))
    }
    /// The reductions along loops below a node, itself included.
    fn reductions(&self, n: NodeId) -> Vec<NodeId> {
        self.graph().cone([n]).into_iter().filter(|m| self.graph().op(*m).reduced().intersects(self.loops)).collect()
    }
    /// What a loop for `root` waits for: the outermost nodes below it that vary along no loop and depend on one.
    fn awaited(&self, operands: &[NodeId]) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let mut todo = operands.to_vec();
        let mut seen = BTreeSet::new();
        while let Some(n) = todo.pop() {
            if !seen.insert(n) {
                continue;
            }
            if self.free(n).intersects(self.loops) {
                todo.extend(self.graph().operands(n))
            } else if !self.reductions(n).is_empty() {
                found.insert(n);
            }
        }
        found
    }
    /// The outermost nodes at or below `n` that hold a nested reduction and no frame: what another launch can compute.
    fn frontier(&self, n: NodeId, found: &mut BTreeSet<NodeId>) {
        let g = self.graph();
        if !self.reductions(n).iter().any(|r| self.is_nested(*r) && !self.lacking(*r).is_empty()) {
            return;
        }
        let cone = g.cone([n]);
        let has_frame = cone.iter().any(|m| matches!(g.op(*m), Op::Frame(..)));
        let product = matches!(g.op(n), Op::Product(_)) && g.operands(n).iter().any(|o| matches!(g.op(*o), Op::Input { .. }));
        if !has_frame && !product && self.free(n).intersects(self.loops) {
            found.insert(n);
        } else {
            g.operands(n).iter().for_each(|o| self.frontier(*o, found))
        }
    }
}

/// The axes that take every reduction out of the loops of others, and the grid axes that these reductions lack. The innermost go
/// first: with their axes on chip, others may no longer be inside a loop. Some are computed elsewhere.
fn nested(framed: &Framed, elsewhere: &[NodeId]) -> (AxisSet, AxisSet) {
    let (mut inner, mut lacking) = (AxisSet::EMPTY, AxisSet::EMPTY);
    loop {
        let before = inner;
        for view in views(framed, inner) {
            let nested: Vec<NodeId> = view.live.iter().copied().filter(|n| view.is_nested(*n) && !elsewhere.contains(n)).collect();
            let innermost = |n: &&NodeId| nested.iter().all(|m| m == *n || !view.graph().cone([**n]).contains(m));
            for &n in nested.iter().filter(innermost) {
                inner = inner.union(view.graph().op(n).reduced());
                lacking = lacking.union(view.lacking(n))
            }
        }
        if inner == before {
            return (inner, lacking);
        }
    }
}

/// The axes of the reductions that others run inside of, if they are bounded: with these whole on chip the inner ones are the loops, and what the outer ones
/// reduce is a tile that follows. Empty if something is nested still.
fn outer(framed: &Framed, bounded: AxisSet) -> AxisSet {
    let nested = |view: &View| view.live.iter().copied().filter(|n| view.is_nested(*n)).collect::<Vec<_>>();
    let around = |view: View| nested(&view).into_iter().fold(AxisSet::EMPTY, |s, n| s.union(view.free(n).intersection(view.loops)));
    let outer = views(framed, AxisSet::EMPTY).into_iter().map(around).fold(AxisSet::EMPTY, AxisSet::union);
    let settled = outer.is_subset(bounded) && views(framed, outer).iter().all(|v| nested(v).is_empty());
    if settled { outer } else { AxisSet::EMPTY }
}

/// Nested reductions that are no products and would be computed again for rows that nested products have: these, and what is to be stored of each.
fn aside(framed: &Framed) -> (Vec<NodeId>, Vec<NodeId>) {
    let (mut found, mut stored) = (BTreeSet::new(), BTreeSet::new());
    for view in views(framed, AxisSet::EMPTY) {
        let g = view.graph();
        let (products, others): (Vec<NodeId>, Vec<NodeId>) = view.live.iter().copied().filter(|n| view.is_nested(*n)).partition(|n| view.is_product(*n));
        let lacking = products.iter().fold(AxisSet::EMPTY, |s, n| s.union(view.lacking(*n)));
        if products.is_empty() {
            continue;
        }
        for n in others.into_iter().filter(|n| !view.lacking(*n).is_subset(lacking)) {
            let alone = !g.cone([n]).into_iter().any(|m| matches!(g.op(m), Op::Frame(..)) || products.contains(&m));
            if !alone {
                continue;
            }
            // and what is made of it alone
            let mut top = n;
            let users = |of: NodeId| view.live.iter().copied().filter(move |m| g.operands(*m).contains(&of)).collect::<Vec<_>>();
            while let [user] = users(top)[..]
                && view.free(user) == view.free(n)
                && g.op(user).reduced().is_empty()
            {
                top = user
            }
            found.insert(n);
            stored.insert(top);
        }
    }
    (found.into_iter().collect(), stored.into_iter().collect())
}

/// Reductions inside loops along an axis above which that axis is free again.
fn reused(framed: &Framed) -> Vec<NodeId> {
    let mut found: BTreeSet<NodeId> = BTreeSet::new();
    for view in views(framed, AxisSet::EMPTY) {
        let g = view.graph();
        for &n in view.live.iter().filter(|n| view.is_nested(**n)) {
            let axes = g.op(n).reduced().intersection(view.loops);
            let above = |m: NodeId| m != n && g.cone([m]).contains(&n);
            let again = view.live.iter().any(|m| above(*m) && view.free(*m).intersects(axes));
            if again || g.stores().any(|s| s.1.access.axes().intersects(axes)) {
                found.insert(n);
            }
        }
    }
    let innermost = |n: &&NodeId| found.iter().all(|m| m == *n || !framed.graph.cone([**n]).contains(m));
    found.iter().filter(innermost).copied().collect()
}

/// The nodes that may be left to an earlier launch: the innermost ones that would be computed again inside the loop of another
/// reduction, or, without such, what loops wait for: those with a store, and those that would wait for the same in several tiles.
fn cuts(framed: &Framed) -> Vec<NodeId> {
    let (mut nested, mut awaited): (BTreeSet<NodeId>, BTreeSet<NodeId>) = Default::default();
    for view in views(framed, AxisSet::EMPTY) {
        let g = view.graph();
        for s in g.stores() {
            if s.1.access.axes().intersects(view.loops) || view.free(s.1.node).intersects(view.loops) {
                awaited.extend(view.awaited(&[s.1.node]))
            }
        }
        for &n in view.live.iter().filter(|n| g.op(**n).reduced().intersects(view.loops)) {
            let own_frame = |e: &NodeId| view.framed.tower_of(n).is_some_and(|t| t.frame == *e);
            let recomputed = |e: &NodeId| view.reductions(*e).iter().any(|r| !view.lacking(*r).is_empty());
            awaited.extend(view.awaited(g.operands(n)).into_iter().filter(|e| !own_frame(e) && recomputed(e)));
            g.operands(n).iter().for_each(|o| view.frontier(*o, &mut nested))
        }
    }
    let innermost = |n: &&NodeId| nested.iter().all(|m| m == *n || !framed.graph.cone([**n]).contains(m));
    if nested.is_empty() { awaited.into_iter().collect() } else { nested.iter().filter(innermost).copied().collect() }
}
