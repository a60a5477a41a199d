//! Choosing algorithms out of the e-graph.
//!
//! Comes in: the saturated terms of a kernel. Goes out: graphs, each the best that was found for an objective (flops, passes,
//! spills) under a scenario of extents. For each objective a fixpoint over the classes takes the form that is cheapest as a
//! tree; hill climbing over single choices then lowers the exact cost of the DAG, in which shared terms count once. Only forms
//! within scope are chosen: their free axes are those of their class.
use super::cost::{self, Form, Operand, Step};
use super::term::{Head, Node, Terms, free_of};
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Function, Graph, NodeId};
use egg::Id;

/// What a choice is ranked by, first to last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Objective {
    Passes,
    Spills,
    Flops,
}

/// Extents for which flops are compared: one for each axis.
pub type Extents = Vec<f64>;

/// A form of a class, as far as the choice needs to know it.
struct Item<'a> {
    node: &'a Node,
    children: Vec<usize>,
    reduced: AxisSet,
    flops: Vec<(AxisSet, f64)>,
    /// The flops under the scenario at hand.
    price: f64,
}

/// The forms of every class; classes are renumbered in order of their ids.
pub struct Space<'a> {
    terms: &'a Terms,
    classes: Vec<Vec<Item<'a>>>,
    free: Vec<AxisSet>,
    lanes: Vec<AxisId>,
    root: usize,
}

/// For each class the form chosen.
type Choice = Vec<Option<usize>>;

/// The cost of a choice in the order of an objective.
type Key = [f64; 3];

/// Relative differences of costs that count as none.
const TIE: f64 = 1e-9;

fn less(a: &Key, b: &Key) -> bool {
    for (x, y) in a.iter().zip(b) {
        if (x - y).abs() > TIE * x.abs().max(y.abs()) {
            return x < y;
        }
    }
    false
}

fn volume(axes: AxisSet, extents: &Extents) -> f64 {
    let (mut bits, mut product) = (axes.0, 1.0);
    while bits != 0 {
        product *= extents[bits.trailing_zeros() as usize];
        bits &= bits - 1
    }
    product
}

impl<'a> Space<'a> {
    pub fn new(terms: &'a Terms, root: Id) -> Self {
        let mut ids: Vec<Id> = terms.classes().map(|c| c.id).collect();
        ids.sort_unstable();
        let mut place = vec![usize::MAX; terms.nodes().len()];
        ids.iter().enumerate().for_each(|(i, id)| place[usize::from(*id)] = i);
        let free = |id: Id| terms[id].data.free;
        let mut reduced = AxisSet::EMPTY;
        let classes = ids.iter().map(|id| {
            let in_scope = terms[*id].nodes.iter().filter(|n| free_of(n, &terms.analysis, free) == free(*id));
            let items = in_scope.map(|node| {
                reduced = reduced.union(node.head.reduced());
                let operands: Vec<Operand> = node.children.iter().map(|c| Operand { free: free(*c), predicate: terms[*c].data.predicate }).collect();
                let mut flops = cost::flops(form(&node.head), free(*id), &operands);
                if let Head::Product(_) = node.head {
                    // a product of exponentials costs as if each were taken where the product is, so that the exponential of the
                    // sum is preferred: its exponent is what a frame shifts
                    let exponentials = node.children.iter().filter(|c| is_exponential(terms, **c)).count();
                    if exponentials > 1 {
                        flops.push((free(*id), cost::FUNCTION * (exponentials - 1) as f64))
                    }
                }
                let children = node.children.iter().map(|c| place[usize::from(terms.find(*c))]).collect();
                Item { node, children, reduced: node.head.reduced(), flops, price: 0.0 }
            });
            items.collect()
        });
        let classes = classes.collect();
        let root = place[usize::from(terms.find(root))];
        Space { terms, classes, free: ids.iter().map(|id| free(*id)).collect(), lanes: reduced.iter().collect(), root }
    }
    /// The best graph for an objective under a scenario; `None` if a class in reach has no form within scope.
    pub fn best(&mut self, objective: Objective, extents: &Extents, like: &Graph) -> Option<Extracted> {
        for item in self.classes.iter_mut().flatten() {
            item.price = item.flops.iter().map(|(axes, c)| c * volume(*axes, extents)).sum()
        }
        let choice = self.climb(self.cheapest(objective), objective, extents)?;
        self.graph(&choice, like)
    }
    /// The cheapest form of every class as a tree.
    fn cheapest(&self, objective: Objective) -> Choice {
        let width = self.lanes.len();
        let mut best: Vec<Option<(Key, f64)>> = vec![None; self.classes.len()];
        let mut depth = vec![0u8; self.classes.len() * width];
        let mut choice = vec![None; self.classes.len()];
        let mut lanes = vec![0u8; width];
        loop {
            let mut changed = false;
            for (c, items) in self.classes.iter().enumerate() {
                'items: for (i, item) in items.iter().enumerate() {
                    let mut flops = item.price + 1.0;
                    lanes.fill(0);
                    for &child in &item.children {
                        let Some((_, below)) = &best[child] else { continue 'items };
                        flops += below;
                        lanes.iter_mut().zip(&depth[child * width..]).for_each(|(l, d)| *l = (*l).max(*d))
                    }
                    if !item.reduced.is_empty() {
                        lanes.iter_mut().zip(&self.lanes).for_each(|(l, a)| *l = l.saturating_add(item.reduced.contains(*a) as u8))
                    }
                    let passes: f64 = lanes.iter().map(|l| *l as f64).sum();
                    let key = if objective == Objective::Passes { [passes, flops, 0.0] } else { [flops, passes, 0.0] };
                    if best[c].as_ref().is_none_or(|b| less(&key, &b.0)) {
                        best[c] = Some((key, flops));
                        depth[c * width..(c + 1) * width].copy_from_slice(&lanes);
                        choice[c] = Some(i);
                        changed = true
                    }
                }
            }
            if !changed {
                return choice;
            }
        }
    }
    /// The classes that a choice reaches, operands first; `None` if it has a cycle or a gap.
    fn order(&self, choice: &Choice, mark: &mut Vec<u8>) -> Option<Vec<usize>> {
        fn visit(space: &Space, choice: &Choice, c: usize, mark: &mut [u8], order: &mut Vec<usize>) -> Option<()> {
            match mark[c] {
                2 => return Some(()),
                1 => return None,
                _ => mark[c] = 1,
            }
            for &child in &space.classes[c][choice[c]?].children {
                visit(space, choice, child, mark, order)?
            }
            mark[c] = 2;
            order.push(c);
            Some(())
        }
        mark.clear();
        mark.resize(self.classes.len(), 0);
        let mut order = vec![];
        visit(self, choice, self.root, mark, &mut order)?;
        Some(order)
    }
    /// The exact cost of a choice, or `None` as soon as it cannot be below `bound`.
    fn price(&self, choice: &Choice, objective: Objective, extents: &Extents, bound: Option<&Key>, mark: &mut Vec<u8>) -> Option<Key> {
        let order = self.order(choice, mark)?;
        let item = |c: usize| &self.classes[c][choice[c].unwrap_or(0)];
        let flops: f64 = order.iter().map(|c| item(*c).price).sum();
        if objective == Objective::Flops && bound.is_some_and(|b| flops > b[0] * (1.0 + TIE)) {
            return None;
        }
        let mut place = vec![0; self.classes.len()];
        order.iter().enumerate().for_each(|(i, c)| place[*c] = i);
        let operands: Vec<Vec<usize>> = order.iter().map(|c| item(*c).children.iter().map(|x| place[*x]).collect()).collect();
        let steps: Vec<Step> = order.iter().zip(&operands).map(|(c, o)| Step { operands: o, free: self.free[*c], reduced: item(*c).reduced }).collect();
        let (stores, steps) = (&operands[steps.len() - 1], &steps[..steps.len() - 1]);
        let analysis = cost::passes(steps, stores, &self.lanes);
        let passes: f64 = analysis.counts.iter().map(|n| *n as f64).sum();
        let spills: f64 = analysis.spilled.iter().map(|s| volume(steps[*s].free, extents)).sum();
        Some(match objective {
            Objective::Passes => [passes, spills, flops],
            Objective::Spills => [spills, flops, passes],
            Objective::Flops => [flops, passes, spills],
        })
    }
    /// Changes single choices while that lowers the exact cost.
    fn climb(&self, mut choice: Choice, objective: Objective, extents: &Extents) -> Option<Choice> {
        let mut mark = vec![];
        let mut key = self.price(&choice, objective, extents, None, &mut mark)?;
        loop {
            let mut improved = false;
            for c in self.order(&choice, &mut mark)?.into_iter().rev() {
                for i in 0..self.classes[c].len() {
                    let old = choice[c];
                    if old == Some(i) {
                        continue;
                    }
                    choice[c] = Some(i);
                    match self.price(&choice, objective, extents, Some(&key), &mut mark) {
                        Some(found) if less(&found, &key) => {
                            key = found;
                            improved = true
                        }
                        _ => choice[c] = old,
                    }
                }
            }
            if !improved {
                return Some(choice);
            }
        }
    }
    /// The chosen forms as a graph like the kernel's.
    fn graph(&self, choice: &Choice, like: &Graph) -> Option<Extracted> {
        let mut graph = like.without_nodes();
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.classes.len()];
        let order = self.order(choice, &mut vec![])?;
        let chosen: Vec<&Node> = order.iter().map(|c| Some(self.classes[*c][choice[*c]?].node)).collect::<Option<_>>()?;
        for (c, node) in order.iter().zip(&chosen[..order.len() - 1]) {
            let operands: Vec<NodeId> = self.classes[*c][choice[*c]?].children.iter().map(|x| nodes[*x]).collect::<Option<_>>()?;
            nodes[*c] = Some(emit(&mut graph, self.terms, node, &operands))
        }
        let stores: Vec<NodeId> = self.classes[self.root][choice[self.root]?].children.iter().map(|x| nodes[*x]).collect::<Option<_>>()?;
        graph.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(stores).for_each(|(slot, node)| slot.node = node);
        Some(Extracted { graph: graph.pruned(), chosen: chosen.into_iter().cloned().collect() })
    }
}

/// An algorithm as found, with the forms that make it up.
#[derive(Clone)]
pub struct Extracted {
    pub graph: Graph,
    pub chosen: Vec<Node>,
}

fn is_exponential(terms: &Terms, class: Id) -> bool {
    terms[class].nodes.iter().any(|n| n.head == Head::Apply(Function::Exp))
}

fn form(head: &Head) -> Form<'_> {
    match head {
        Head::Leaf(_) | Head::Number(_) | Head::Size(_) | Head::Tuple => Form::Leaf,
        Head::Apply(_) => Form::Function,
        Head::Greatest => Form::Greatest,
        Head::Sum(_) | Head::Maximum(_) => Form::Reduction,
        Head::Product(e) => Form::Product(e),
        Head::Linear(k, c) => Form::Linear(k, *c),
    }
}

/// One node by the graph's own constructors, whose normal form is flat.
pub fn emit(graph: &mut Graph, terms: &Terms, node: &Node, operands: &[NodeId]) -> NodeId {
    match &node.head {
        Head::Leaf(i) => graph.intern(terms.analysis.leaves[*i as usize].op.clone(), vec![]),
        Head::Number(r) => graph.number(*r),
        Head::Size(a) => graph.size(*a),
        Head::Apply(f) => graph.apply(*f, operands[0]),
        Head::Product(e) => graph.product(&operands.iter().copied().zip(e.iter().copied()).collect::<Vec<_>>()),
        Head::Linear(k, c) => graph.linear(&k.iter().copied().zip(operands.iter().copied()).collect::<Vec<_>>(), *c),
        Head::Greatest => graph.greatest(operands),
        Head::Sum(a) => graph.sum(*a, operands[0]),
        Head::Maximum(a) => graph.maximum(*a, operands[0], &operands[1..]),
        Head::Tuple => operands[0],
    }
}

/// The extent that an axis without a bound has in a scenario, what a bounded one has at most, and what a small one has.
const USUAL: f64 = 2048.0;
const BOUNDED: f64 = 512.0;
const SMALL: f64 = 4.0;

/// The scenarios: all axes at their usual extents; each axis in turn small, but those that all tensors have in common (they
/// scale all costs alike). Extents differ a little, so that no two costs tie by accident.
pub fn scenarios(graph: &Graph, bounds: &[(AxisId, usize)]) -> Vec<Extents> {
    let bound = |a: AxisId| bounds.iter().find(|b| b.0 == a).map(|b| (b.1 as f64).min(BOUNDED));
    let usual: Extents = graph.all_axes().map(|a| bound(a).unwrap_or(USUAL) + a.0 as f64).collect();
    let tensors = graph.inputs.iter().map(|i| i.storage.axes()).chain(graph.outputs.iter().map(|o| o.storage.axes()));
    let common = tensors.filter(|a| !a.is_empty()).fold(AxisSet(u64::MAX), |s, a| s.intersection(a));
    let small = graph.all_axes().filter(|a| !common.contains(*a)).map(|a| {
        let mut extents = usual.clone();
        extents[a.0 as usize] = SMALL;
        for (x, y) in graph.equal.iter().filter(|(x, y)| *x == a || *y == a) {
            (extents[x.0 as usize], extents[y.0 as usize]) = (SMALL, SMALL)
        }
        extents
    });
    [usual.clone()].into_iter().chain(small).collect()
}
