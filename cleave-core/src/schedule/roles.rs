//! Parts and the roles of their axes.
//!
//! In: a framed graph and a [`Variant`]. Out: the groups of stores that share a grid, and the dims of each: what is in the grid,
//! what loops, what is whole on chip, what is packed together. Decisions read the term only: which axes a contraction has
//! on which operand, which are reduced, which tables bound a loop.
use super::associate::associate;
use super::elaborate::Framed;
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Graph, NodeId, Op};
use crate::tile::{Dim, DimId, DimSet, Role, Statement, contraction, dims_of};
use std::collections::BTreeSet;

/// A choice that the graph leaves open.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Variant {
    /// Axes whole on chip.
    pub chip: AxisSet,
    /// Whether grid axes that no contraction can tell apart become one dim.
    pub pack: bool,
    /// Axes along which a loop keeps values for a later loop.
    pub keep: AxisSet,
    /// Nodes that an earlier launch stores.
    pub cuts: Vec<NodeId>,
}

/// `(output, store)`: a store of a graph.
pub type StoreId = (u32, u32);

/// The framed graph with these stores alone. Outputs keep their positions.
pub fn restrict(framed: &Framed, stores: &[StoreId]) -> Framed {
    let mut restricted = framed.clone();
    for (o, output) in restricted.graph.outputs.iter_mut().enumerate() {
        let mut s = 0;
        output.stores.retain(|_| {
            s += 1;
            stores.contains(&(o as u32, s - 1))
        })
    }
    restricted
}

pub fn all_stores(graph: &Graph) -> Vec<StoreId> {
    graph.outputs.iter().enumerate().flat_map(|(o, output)| (0..output.stores.len()).map(move |s| (o as u32, s as u32))).collect()
}

/// What the cone of one store needs.
struct Needs {
    store: StoreId,
    grid: AxisSet,
    reduced: AxisSet,
    reductions: BTreeSet<NodeId>,
    /// Inputs that vary along a reduced axis.
    streams: BTreeSet<NodeId>,
}

/// The stores that run in one grid: those of the same grid that share something, and one of a smaller grid whose reductions
/// another computes anyway (a log-sum-exp beside the output).
pub fn groups(framed: &Framed, chip: AxisSet) -> Vec<Vec<StoreId>> {
    let g = &framed.graph;
    let free = g.free();
    let needs = |id: StoreId| {
        let store = &g.outputs[id.0 as usize].stores[id.1 as usize];
        let live = restrict(framed, &[id]).live();
        let reduced = live.iter().fold(AxisSet::EMPTY, |s, n| s.union(g.op(*n).reduced()));
        let streams = live.iter().copied().filter(|n| matches!(g.op(*n), Op::Input { .. }) && free[n.index()].intersects(reduced)).collect();
        let reductions = live.iter().copied().filter(|n| !g.op(*n).reduced().is_empty()).collect();
        Needs { store: id, grid: store.access.axes().difference(reduced).difference(chip), reduced, reductions, streams }
    };
    let mut order: Vec<Needs> = all_stores(g).into_iter().map(needs).collect();
    order.sort_by_key(|n| std::cmp::Reverse(n.grid.len()));
    let mut groups: Vec<Vec<Needs>> = vec![];
    for n in order {
        let joins = |group: &&mut Vec<Needs>| {
            let reductions: BTreeSet<NodeId> = group.iter().flat_map(|m| m.reductions.iter().copied()).collect();
            let reduced = group.iter().fold(AxisSet::EMPTY, |s, m| s.union(m.reduced));
            let streams = group.iter().any(|m| m.streams.intersection(&n.streams).next().is_some());
            let shares = reductions.intersection(&n.reductions).next().is_some() || streams;
            // an elementwise store joins where its axes stay in the grid
            let elementwise = n.reductions.is_empty() && !n.grid.intersects(reduced);
            let same = n.grid == group[0].grid && (shares || elementwise);
            same || n.grid.is_subset(group[0].grid) && (elementwise || !n.reductions.is_empty() && n.reductions.is_subset(&reductions))
        };
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(n),
            None => groups.push(vec![n]),
        }
    }
    groups
        .into_iter()
        .map(|group| {
            let mut stores: Vec<StoreId> = group.into_iter().map(|n| n.store).collect();
            stores.sort();
            stores
        })
        .collect()
}

/// The dims of a part: grid dims first, in the order in which its stores name them.
pub fn dims(framed: &Framed, variant: &Variant) -> Vec<Dim> {
    let g = &framed.graph;
    let live = framed.live();
    let free = g.free();
    let reduced = live.iter().fold(AxisSet::EMPTY, |s, n| s.union(g.op(*n).reduced()));
    let used = live.iter().fold(reduced, |s, n| s.union(free[n.index()]));
    let mut order: Vec<AxisId> = vec![];
    let stored = g.stores().flat_map(|s| s.1.access.dims.iter().flatten()).filter_map(|f| if let crate::graph::Factor::Axis(a) = f { Some(*a) } else { None });
    for a in stored.chain(used.iter()) {
        if !order.contains(&a) {
            order.push(a)
        }
    }
    let role = |a: AxisId| match () {
        _ if variant.chip.contains(a) => Role::Chip,
        _ if reduced.contains(a) => Role::Loop,
        _ => Role::Grid,
    };
    order.sort_by_key(|a| role(*a) as u8); // stable
    let singles: Vec<Dim> = order.iter().map(|a| Dim { axes: vec![*a], role: role(*a), batch: false }).collect();
    let mut dims: Vec<Dim> = vec![];
    let packs = Packs::new(framed, &singles);
    for d in singles {
        let partner = dims.iter_mut().find(|e| match d.role {
            Role::Grid => variant.pack && e.role == Role::Grid && packs.same_rows(e.axes[0], d.axes[0]),
            Role::Loop => e.role == Role::Loop && packs.same_loop(e.axes[0], d.axes[0]),
            Role::Chip => false,
        });
        match partner {
            Some(e) => e.axes.extend(d.axes),
            None => dims.push(d),
        }
    }
    let graph = associate(framed, &dims);
    for d in 0..dims.len() {
        dims[d].batch = dims[d].role == Role::Grid && is_batch(&graph, &dims, DimId(d as u8))
    }
    dims
}

pub fn node_dims(graph: &Graph, dims: &[Dim]) -> Vec<DimSet> {
    graph.free().into_iter().map(|f| dims_of(dims, f)).collect()
}

/// The operands of every live contraction.
fn contractions(framed: &Framed, dims: &[Dim]) -> Vec<(DimSet, DimSet)> {
    let node_dims = node_dims(&framed.graph, dims);
    let pair = |n: NodeId| contraction(&framed.graph, &node_dims, n).map(|(x, y)| (node_dims[x.index()], node_dims[y.index()]));
    framed.live().into_iter().filter_map(pair).collect()
}

/// Axes of tables that bound a loop.
fn table_axes(framed: &Framed, loops: AxisSet) -> AxisSet {
    let mut axes = AxisSet::EMPTY;
    for n in framed.live() {
        if let Op::Predicate(p) = framed.graph.op(n)
            && framed.graph.predicate(*p).free().intersects(loops)
        {
            axes = framed.graph.tables(*p).fold(axes, |s, t| s.union(t.access.axes()))
        }
    }
    axes
}

/// Every contraction has the dim on both operands or on neither.
fn is_batch(framed: &Framed, dims: &[Dim], dim: DimId) -> bool {
    let pairs = contractions(framed, dims);
    !pairs.is_empty() && pairs.iter().all(|(x, y)| x.contains(dim) == y.contains(dim))
}

/// Makes batches of the grid dims along which a table that bounds a loop varies: loads are clipped to one length.
pub fn bound_by_tables(dims: &mut [Dim], graph: &Graph, body: &[Statement]) {
    for s in body {
        let Statement::Loop(l) = s else { continue };
        for n in l.domain.iter().flatten() {
            let Op::Predicate(p) = graph.op(*n) else { continue };
            let axes = graph.tables(*p).fold(AxisSet::EMPTY, |s, t| s.union(t.access.axes()));
            for d in dims.iter_mut().filter(|d| d.role == Role::Grid && d.axes.iter().any(|a| axes.contains(*a))) {
                d.batch = true
            }
        }
        bound_by_tables(dims, graph, &l.body)
    }
}

/// Which axes may share a dim.
struct Packs {
    /// For every axis: on which operands of which reductions, and in which stores, it is. `None`: it stays alone.
    rows: Vec<Option<Vec<bool>>>,
    /// For every axis: which reductions run along it. `None`: it stays alone.
    loops: Vec<Option<Vec<bool>>>,
}

impl Packs {
    fn new(framed: &Framed, singles: &[Dim]) -> Self {
        let reduced: Vec<AxisSet> = framed.live().iter().map(|n| framed.graph.op(*n).reduced()).filter(|r| !r.is_empty()).collect();
        let framed = &associate(framed, singles);
        let g = &framed.graph;
        let live = framed.live();
        let free = g.free();
        let node_dims = node_dims(g, singles);
        let loop_axes: AxisSet = singles.iter().filter(|d| d.role == Role::Loop).map(|d| d.axes[0]).collect();
        let bounding = table_axes(framed, loop_axes);
        let predicates = live.iter().filter(|n| matches!(g.op(**n), Op::Predicate(_))).fold(AxisSet::EMPTY, |s, n| s.union(free[n.index()]));
        let pairs: Vec<(AxisSet, AxisSet)> =
            live.iter().filter_map(|n| contraction(g, &node_dims, *n)).map(|(x, y)| (free[x.index()], free[y.index()])).collect();
        let bodies: Vec<AxisSet> = live.iter().filter(|n| !g.op(**n).reduced().is_empty()).map(|n| free[g.operands(*n)[0].index()]).collect();
        let reads: Vec<AxisSet> = live.iter().filter(|n| matches!(g.op(**n), Op::Input { .. })).map(|n| free[n.index()]).collect();
        let stores: Vec<AxisSet> = g.stores().map(|s| s.1.access.axes()).collect();
        let row = |a: AxisId| {
            let on_one_side = pairs.iter().all(|(x, y)| !(x.contains(a) && y.contains(a)));
            let contracted = pairs.is_empty() || pairs.iter().any(|(x, y)| x.contains(a) || y.contains(a));
            if !on_one_side || !contracted || bounding.contains(a) {
                return None;
            }
            let mut sets: Vec<AxisSet> = stores.clone();
            sets.extend(pairs.iter().flat_map(|p| [p.0, p.1]));
            sets.extend(if bodies.is_empty() { &reads } else { &bodies });
            Some(sets.into_iter().map(|s| s.contains(a)).collect())
        };
        let a_loop = |a: AxisId| {
            // a predicate bounds a loop over its own axis alone
            let alone = predicates.contains(a) || !loop_axes.contains(a);
            (!alone).then(|| reduced.iter().chain(&stores).map(|s| s.contains(a)).collect())
        };
        Packs { rows: g.all_axes().map(row).collect(), loops: g.all_axes().map(a_loop).collect() }
    }
    fn same_rows(&self, a: AxisId, b: AxisId) -> bool {
        self.rows[a.0 as usize].is_some() && self.rows[a.0 as usize] == self.rows[b.0 as usize]
    }
    fn same_loop(&self, a: AxisId, b: AxisId) -> bool {
        self.loops[a.0 as usize].is_some() && self.loops[a.0 as usize] == self.loops[b.0 as usize]
    }
}
