//! Axes numbered by their first use in the formula, whatever order the arguments declare them in.
//!
//! Comes in: a graph. Goes out: the same graph under other axis numbers, and the way back for graphs and costs. Ties between equal
//! costs fall by axis numbers here and there; numbered like this, permuted arguments find the same algorithms.
use crate::axis::{AxisId, AxisSet};
use crate::cost::{Cost, Polynomial};
use crate::graph::{Access, Factor, Graph, Op};
use crate::predicate::{Atom, Predicate};

/// A permutation of axes: the new number of each.
pub struct Relabel {
    to: Vec<AxisId>,
}

impl Relabel {
    /// Axes in order of their first use in a read, an index or an extent; those that only predicates or no node uses last.
    pub fn by_use(graph: &Graph) -> Self {
        let mut order: Vec<AxisId> = vec![];
        let mut meet = |a: AxisId| {
            if !order.contains(&a) {
                order.push(a)
            }
        };
        for n in graph.cone(graph.stores().map(|s| s.1.node)) {
            match graph.op(n) {
                Op::Input { access, .. } => axes(access).for_each(&mut meet),
                Op::Index(a) | Op::Size(a) => meet(*a),
                _ => {}
            }
        }
        graph.stores().for_each(|(_, s)| axes(&s.access).for_each(&mut meet));
        graph.all_axes().for_each(&mut meet);
        let mut to = vec![AxisId(0); order.len()];
        order.iter().enumerate().for_each(|(new, old)| to[old.0 as usize] = AxisId(new as u8));
        Relabel { to }
    }
    pub fn inverse(&self) -> Self {
        let mut to = self.to.clone();
        self.to.iter().enumerate().for_each(|(old, new)| to[new.0 as usize] = AxisId(old as u8));
        Relabel { to }
    }
    pub fn axis(&self, a: AxisId) -> AxisId {
        self.to[a.0 as usize]
    }
    fn set(&self, axes: AxisSet) -> AxisSet {
        axes.iter().map(|a| self.axis(a)).collect()
    }
    fn access(&self, access: &Access) -> Access {
        let factor = |f: &Factor| if let Factor::Axis(a) = f { Factor::Axis(self.axis(*a)) } else { *f };
        Access { dims: access.dims.iter().map(|d| d.iter().map(factor).collect()).collect() }
    }
    fn atom(&self, atom: &Atom) -> Atom {
        let mut a = atom.clone();
        a.indices.iter_mut().for_each(|x| x.0 = self.axis(x.0));
        a.extents.iter_mut().for_each(|x| x.0 = self.axis(x.0));
        a.tables.iter_mut().for_each(|x| x.0.access = self.access(&x.0.access));
        a.quotients.iter_mut().for_each(|x| x.0.of = self.atom(&x.0.of));
        a.indices.sort();
        a.extents.sort();
        a.tables.sort();
        a.quotients.sort();
        a
    }
    /// All of a graph but its nodes.
    fn frame(&self, graph: &Graph) -> Graph {
        let mut g = graph.without_nodes();
        graph.axes.iter().enumerate().for_each(|(old, axis)| g.axes[self.to[old].0 as usize] = axis.clone());
        g.equal.iter_mut().for_each(|(a, b)| (*a, *b) = (self.axis(*a), self.axis(*b)));
        for i in &mut g.inputs {
            i.storage = self.access(&i.storage);
            i.extent = i.extent.map(|a| self.axis(a))
        }
        let clauses = |p: &Predicate| p.clauses.iter().map(|c| c.iter().map(|a| self.atom(a)).collect()).collect();
        g.predicates = graph.predicates.iter().map(|p| Predicate { clauses: clauses(p) }).collect();
        for output in &mut g.outputs {
            output.storage = self.access(&output.storage);
            output.stores.iter_mut().for_each(|s| s.access = self.access(&s.access))
        }
        g
    }
    /// The graph under the new numbers; its nodes keep theirs.
    pub fn graph(&self, graph: &Graph) -> Graph {
        self.nodes(graph, self.frame(graph))
    }
    /// The same for an algorithm of a relabelled graph whose original is `like`.
    pub fn back(&self, graph: &Graph, like: &Graph) -> Graph {
        let mut g = self.nodes(graph, like.without_nodes());
        let nodes: Vec<_> = graph.stores().map(|s| s.1.node).collect();
        g.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(nodes).for_each(|(s, n)| s.node = n);
        g
    }
    fn nodes(&self, graph: &Graph, mut g: Graph) -> Graph {
        for node in &graph.nodes {
            let op = match &node.op {
                Op::Input { input, access } => Op::Input { input: *input, access: self.access(access) },
                Op::Size(a) => Op::Size(self.axis(*a)),
                Op::Index(a) => Op::Index(self.axis(*a)),
                Op::Sum(a) => Op::Sum(self.set(*a)),
                Op::Maximum(a) => Op::Maximum(self.set(*a)),
                Op::Frame(row, a) => Op::Frame(*row, self.set(*a)),
                op => op.clone(),
            };
            g.intern(op, node.operands.clone());
        }
        g
    }
    fn polynomial(&self, p: &Polynomial) -> Polynomial {
        let mut q = Polynomial::default();
        p.terms.iter().for_each(|(axes, c)| q.add(self.set(*axes), *c));
        q
    }
    pub fn cost(&self, cost: &Cost) -> Cost {
        let mut passes: Vec<(AxisId, u8)> = cost.passes.iter().map(|(a, n)| (self.axis(*a), *n)).collect();
        passes.sort();
        Cost { flops: self.polynomial(&cost.flops), passes, spills: self.polynomial(&cost.spills), compulsory: self.polynomial(&cost.compulsory) }
    }
}

fn axes(access: &Access) -> impl Iterator<Item = AxisId> {
    access.dims.iter().flatten().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None })
}
