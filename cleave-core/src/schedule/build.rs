//! Statements: levels, horizontal fusion, loops.
//!
//! In: an associated graph and the dims of a part. Out: the part's body. At each scope (the loop dims that are bound) the items
//! that are wanted fall in two classes: those that live here are computed here, as far out as their free loop dims allow;
//! a *unit*, a reduction, frame or store along a further loop dim, needs a loop. Units get levels, units of one level that share
//! what they stream share one loop, and the body of that loop is built in the same way.
use super::elaborate::Framed;
use super::levels::levels;
use crate::axis::AxisSet;
use crate::graph::{Factor, Graph, NodeId, Op};
use crate::tile::{Dim, DimId, DimSet, Loop, Member, Role, State, Statement, contraction, dims_of};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Something to be computed or stored; nodes come before stores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Item {
    Node(NodeId),
    Store { output: u32, store: u32 },
}

pub struct Builder<'a> {
    pub framed: &'a Framed,
    pub dims: &'a [Dim],
    pub node_dims: &'a [DimSet],
    pub grid: DimSet,
    /// Dims along which a loop keeps values for a later loop.
    pub keep: DimSet,
    /// Set where no order of loops is found: the body is then none.
    pub is_cyclic: Cell<bool>,
}

/// An item that needs a loop along `dim`, what that loop computes for it, and what it needs from outside.
pub struct Unit {
    pub item: Item,
    pub dim: DimId,
    pub inner: BTreeSet<Item>,
    pub edge: BTreeSet<Item>,
}

/// What a scope computes.
pub struct Scope<'a> {
    pub available: &'a HashSet<Item>,
    pub here: Vec<Item>,
    pub units: Vec<Unit>,
    /// Nodes that an earlier loop kept.
    pub recall: &'a BTreeMap<NodeId, DimId>,
}

impl Builder<'_> {
    fn graph(&self) -> &Graph {
        &self.framed.graph
    }
    fn loops(&self) -> DimSet {
        (0..self.dims.len()).filter(|&d| self.dims[d].role == Role::Loop).map(|d| DimId(d as u8)).collect()
    }
    fn access(&self, output: u32, store: u32) -> AxisSet {
        self.graph().outputs[output as usize].stores[store as usize].access.axes()
    }
    fn reduced(&self, item: Item) -> DimSet {
        match item {
            Item::Node(n) => dims_of(self.dims, self.graph().op(n).reduced()),
            Item::Store { .. } => DimSet::EMPTY,
        }
    }
    /// The loop dims along which an item varies.
    fn scope(&self, item: Item) -> DimSet {
        let varies = match item {
            Item::Node(n) => self.node_dims[n.index()],
            Item::Store { output, store } => {
                let node = self.graph().outputs[output as usize].stores[store as usize].node;
                dims_of(self.dims, self.access(output, store)).union(self.node_dims[node.index()])
            }
        };
        varies.intersection(self.loops())
    }
    /// What an item is computed from: of a matrix product the two operands, not their product.
    pub fn needs(&self, item: Item) -> Vec<Item> {
        match item {
            Item::Store { output, store } => vec![Item::Node(self.graph().outputs[output as usize].stores[store as usize].node)],
            Item::Node(n) => match contraction(self.graph(), self.node_dims, n) {
                Some((x, y)) => vec![Item::Node(x), Item::Node(y)],
                None => self.graph().operands(n).iter().map(|o| Item::Node(*o)).collect(),
            },
        }
    }
    /// Whether `edge` is the frame of `unit`: the two run in one loop.
    pub fn is_own_frame(&self, edge: Item, unit: Item) -> bool {
        self.framed.towers.iter().any(|t| Item::Node(t.frame) == edge && t.members.iter().any(|m| Item::Node(m.0) == unit))
    }
    /// The frame whose cluster an item belongs to.
    pub fn frame_of(&self, item: Item) -> Option<NodeId> {
        let Item::Node(n) = item else { return None };
        self.framed.towers.iter().find(|t| t.frame == n).or_else(|| self.framed.tower_of(n)).map(|t| t.frame)
    }
    pub fn is_load(&self, item: Item) -> bool {
        matches!(item, Item::Node(n) if matches!(self.graph().op(n), Op::Input { .. }))
    }
    /// Elements of a load as a rank: each dim counts the same.
    pub fn weight(&self, item: Item) -> f64 {
        match item {
            Item::Node(n) => 64f64.powi(self.node_dims[n.index()].len() as i32),
            Item::Store { .. } => 0.0,
        }
    }
    /// Predicates along a dim outside of which a reduction has nothing to add.
    fn guards(&self, reduction: NodeId, dim: DimId) -> BTreeSet<NodeId> {
        let operands = self.graph().operands(reduction);
        let all = match self.graph().op(reduction) {
            Op::Sum(_) => self.hiding(operands[0], dim),
            Op::Maximum(_) | Op::Frame(..) => operands[1..].iter().copied().collect(),
            _ => BTreeSet::new(),
        };
        all.into_iter().filter(|p| self.node_dims[p.index()].contains(dim)).collect()
    }
    /// Predicates without which a value is 0. Those of a sum along the dim speak of other positions than the value does.
    fn hiding(&self, node: NodeId, dim: DimId) -> BTreeSet<NodeId> {
        let operands = self.graph().operands(node);
        match self.graph().op(node) {
            Op::Predicate(_) => [node].into(),
            Op::Product(exponents) => operands.iter().zip(exponents).filter(|f| *f.1 > 0).flat_map(|f| self.hiding(*f.0, dim)).collect(),
            Op::Sum(axes) if !dims_of(self.dims, *axes).contains(dim) => self.hiding(operands[0], dim),
            Op::Linear(_, constant) if operands.len() == 1 && constant.is_zero() => self.hiding(operands[0], dim),
            _ => BTreeSet::new(),
        }
    }

    /// The statements of the whole part.
    pub fn body(&self) -> Vec<Statement> {
        let wanted: Vec<Item> = super::roles::all_stores(self.graph()).into_iter().map(|(output, store)| Item::Store { output, store }).collect();
        self.build(DimSet::EMPTY, HashSet::new(), &wanted, &HashSet::new(), &BTreeMap::new())
    }

    /// Statements that make `wanted` available where the dims of `scope` are bound; `folds` are the items that this loop carries.
    fn build(&self, scope: DimSet, mut available: HashSet<Item>, wanted: &[Item], folds: &HashSet<Item>, recall: &BTreeMap<NodeId, DimId>) -> Vec<Statement> {
        let outside = available.clone();
        let current = self.survey(scope, &outside, wanted, folds, recall);
        let level = levels(self, &current);
        let place = super::levels::places(self, &current, &level);
        let is_unit = |item: Item| current.units.iter().any(|u| u.item == item);
        let mut out = vec![];
        for l in 0..=level.iter().copied().max().unwrap_or(0) {
            for &item in current.here.iter().filter(|i| place[i] == l && !is_unit(**i)) {
                let recalled = match item {
                    Item::Node(node) => recall.get(&node).map(|dim| Statement::Recall { node, dim: *dim }),
                    Item::Store { .. } => None,
                };
                let statement = recalled.unwrap_or_else(|| self.statement(item, folds, &out));
                out.push(statement);
                available.insert(item);
            }
            let at: Vec<usize> = (0..current.units.len()).filter(|&i| level[i] == l + 1).collect();
            for group in self.fuse(&current.units, &at) {
                let units: Vec<&Unit> = group.iter().map(|&i| &current.units[i]).collect();
                self.the_loop(scope, &available, &units, &mut out);
                available.extend(units.iter().map(|u| u.item))
            }
        }
        out
    }

    /// Everything below `wanted`: what lives here, and the units.
    fn survey<'a>(
        &self,
        scope: DimSet,
        available: &'a HashSet<Item>,
        wanted: &[Item],
        folds: &HashSet<Item>,
        recall: &'a BTreeMap<NodeId, DimId>,
    ) -> Scope<'a> {
        let is_here = |item: Item| folds.contains(&item) || self.scope(item).is_subset(scope);
        let is_recalled = |item: Item| matches!(item, Item::Node(n) if recall.contains_key(&n));
        let (mut reach, mut todo): (BTreeSet<Item>, Vec<Item>) = (BTreeSet::new(), wanted.to_vec());
        while let Some(item) = todo.pop() {
            if available.contains(&item) || !reach.insert(item) || is_recalled(item) {
                continue;
            }
            todo.extend(self.needs(item));
            // transport needs the whole tower
            if let Item::Node(n) = item
                && let Some(tower) = self.framed.tower_of(n)
            {
                todo.extend(tower.members.iter().map(|m| Item::Node(m.0)))
            }
        }
        let here: Vec<Item> = reach.iter().copied().filter(|i| is_here(*i)).collect();
        let mut units = vec![];
        for &item in &reach {
            let over = match item {
                Item::Store { .. } => self.scope(item),
                _ if is_here(item) && !folds.contains(&item) => self.reduced(item).intersection(self.loops()),
                _ => DimSet::EMPTY,
            };
            // the loop along which most reductions vary comes first
            let varying = |d: DimId| reach.iter().filter(|i| self.reduced(**i).intersects(self.loops()) && self.scope(**i).contains(d)).count();
            let Some(dim) = over.difference(scope).iter().max_by_key(|d| varying(*d)) else { continue };
            let mut unit = Unit { item, dim, inner: BTreeSet::new(), edge: BTreeSet::new() };
            let mut todo = self.needs(item);
            while let Some(x) = todo.pop() {
                if is_here(x) {
                    unit.edge.insert(x);
                } else if unit.inner.insert(x) && !is_recalled(x) {
                    todo.extend(self.needs(x))
                }
            }
            units.push(unit)
        }
        Scope { available, here, units, recall }
    }

    /// Horizontal fusion: units of one level run in one loop if they have the dim in common and share something that the loop
    /// streams or computes, or are a frame and its member.
    fn fuse(&self, units: &[Unit], at: &[usize]) -> Vec<Vec<usize>> {
        let free = |i: &Item| matches!(i, Item::Node(n) if matches!(self.graph().op(*n), Op::Number(_) | Op::Size(_) | Op::Predicate(_) | Op::Index(_)));
        let joined = |i: usize, j: usize| {
            let shared = units[i].inner.intersection(&units[j].inner).any(|x| !free(x));
            units[i].dim == units[j].dim && (shared || self.is_own_frame(units[i].item, units[j].item) || self.is_own_frame(units[j].item, units[i].item))
        };
        let mut groups: Vec<Vec<usize>> = vec![];
        for &i in at {
            let (mut with, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.iter().any(|&j| joined(i, j)));
            with.push(vec![i]);
            groups = rest;
            groups.push(with.concat())
        }
        groups.iter_mut().for_each(|g| g.sort());
        groups.sort();
        groups
    }

    fn the_loop(&self, scope: DimSet, available: &HashSet<Item>, units: &[&Unit], out: &mut Vec<Statement>) {
        let dim = units[0].dim;
        let items: Vec<Item> = units.iter().map(|u| u.item).collect();
        let domain = self.domain(&items, dim);
        let kept = self.kept(dim, &domain, out);
        let folds: HashSet<Item> = items.iter().copied().collect();
        let recall: BTreeMap<NodeId, DimId> = kept.keys().map(|n| (*n, dim)).collect();
        let body = self.build(scope.union(DimSet::of(dim)), available.clone(), &items, &folds, &recall);
        for s in &body {
            if let Statement::Recall { node, .. } = s
                && let Statement::Loop(earlier) = &mut out[kept[node]]
                && !earlier.keep.contains(node)
            {
                earlier.keep.push(*node)
            }
        }
        out.push(Statement::Loop(Loop { dim, domain, states: self.states(&items), keep: vec![], body }))
    }

    fn states(&self, items: &[Item]) -> Vec<State> {
        let nodes: Vec<NodeId> = items.iter().filter_map(|i| if let Item::Node(n) = i { Some(*n) } else { None }).collect();
        let mut states = vec![];
        let mut framed: BTreeSet<NodeId> = BTreeSet::new();
        for &frame in nodes.iter().filter(|n| matches!(self.graph().op(**n), Op::Frame(..))) {
            let towers = self.framed.towers.iter().enumerate().filter(|t| t.1.frame == frame);
            let members: Vec<Member> = towers
                .flat_map(|(tower, t)| t.members.iter().map(move |&(node, moment)| Member { node, halves: t.halves, moment, tower: tower as u32 }))
                .filter(|m| nodes.contains(&m.node))
                .collect();
            framed.insert(frame);
            framed.extend(members.iter().map(|m| m.node));
            states.push(State { frame: Some(frame), members })
        }
        let plain = nodes.iter().filter(|n| !framed.contains(n));
        states.extend(plain.map(|&node| State { frame: None, members: vec![Member { node, halves: 0, moment: 0, tower: 0 }] }));
        states
    }

    /// The union of what the members can reach; a member that nothing guards, as a store, makes the loop visit every tile.
    fn domain(&self, items: &[Item], dim: DimId) -> Vec<Vec<NodeId>> {
        let guards = |item: &Item| match item {
            Item::Node(n) => self.guards(*n, dim).into_iter().collect(),
            Item::Store { .. } => vec![],
        };
        let mut domain: Vec<Vec<NodeId>> = items.iter().map(guards).collect();
        if domain.iter().any(|c| c.is_empty()) {
            domain.clear()
        }
        domain.sort();
        domain.dedup();
        // a conjunction that implies another adds nothing
        let all = domain.clone();
        domain.retain(|c| !all.iter().any(|d| d != c && d.iter().all(|p| c.contains(p))));
        domain
    }

    /// What an earlier loop along a kept dim computed and this one may recall, with that loop's position: not under a running frame,
    /// whose value is final only after the loop.
    fn kept(&self, dim: DimId, domain: &[Vec<NodeId>], out: &[Statement]) -> BTreeMap<NodeId, usize> {
        let mut kept = BTreeMap::new();
        if !self.keep.contains(dim) {
            return kept;
        }
        for (position, s) in out.iter().enumerate() {
            let Statement::Loop(earlier) = s else { continue };
            if earlier.dim != dim || earlier.domain != domain {
                continue;
            }
            let running: Vec<NodeId> = earlier.states.iter().flat_map(|s| s.members.iter().map(|m| m.node).chain(s.frame)).collect();
            for s in &earlier.body {
                let (Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. }) = s else { continue };
                let cone = self.graph().cone([*node]);
                let steady = !running.iter().any(|r| cone.contains(r));
                if self.node_dims[node.index()].contains(dim) && !matches!(self.graph().op(*node), Op::Predicate(_)) && steady {
                    kept.insert(*node, position);
                }
            }
        }
        kept
    }

    fn statement(&self, item: Item, folds: &HashSet<Item>, before: &[Statement]) -> Statement {
        let node = match item {
            Item::Store { output, store } => {
                let first = self.grid.difference(dims_of(self.dims, self.access(output, store)));
                return Statement::Store { output, store, first };
            }
            Item::Node(node) => node,
        };
        let over = self.reduced(item);
        match self.graph().op(node) {
            Op::Input { .. } => Statement::Load { node, view_of: self.view(node, before) },
            Op::Frame(..) if folds.contains(&item) => Statement::Rebase { frame: node },
            Op::Sum(_) | Op::Maximum(_) if folds.contains(&item) => Statement::Fold { node, over },
            Op::Sum(_) | Op::Maximum(_) | Op::Frame(..) => Statement::Reduce { node, over },
            _ => Statement::Map { node },
        }
    }

    /// The same tensor under other axes: one tile, seen twice, where every factor has the same tile map (equal, or whole).
    fn view(&self, node: NodeId, before: &[Statement]) -> Option<NodeId> {
        let Op::Input { input, access } = self.graph().op(node) else { return None };
        let whole = |f: &Factor| matches!(f, Factor::Axis(a) if self.dims.iter().any(|d| d.role == Role::Chip && d.axes == [*a]));
        before.iter().find_map(|s| {
            let Statement::Load { node: other, view_of: None } = s else { return None };
            let Op::Input { input: j, access: b } = self.graph().op(*other) else { return None };
            let pairs = || access.dims.iter().flatten().zip(b.dims.iter().flatten());
            let same_shape = access.dims.iter().map(Vec::len).eq(b.dims.iter().map(Vec::len));
            (input == j && same_shape && pairs().all(|(x, y)| x == y || whole(x) && whole(y))).then_some(*other)
        })
    }
}
