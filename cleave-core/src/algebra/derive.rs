//! From the log of a search to the derivation of one algorithm.
//!
//! Comes in: the log and the forms that make up the algorithm. Goes out: those applications, in order, that made a form of it,
//! the forms that these matched, and so on back to the source. Each is printed by building both sides of its row under its
//! substitution.
use super::build::{Scope, Target, build};
use super::extract::emit;
use super::saturate::Application;
use super::schema::Row;
use super::term::{Node, Terms};
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Function, Graph, NodeId};
use crate::kernel::Step;
use crate::rational::Rational;
use crate::show;
use egg::{Id, Language};
use std::collections::{BTreeSet, HashMap};

/// The search's terms and log, indexed for derivations.
pub struct Derivations<'a> {
    terms: &'a Terms,
    rows: &'a [Row],
    log: &'a [Application],
    /// The first id that was made for each form, as the classes stand in the end.
    made: HashMap<Node, usize>,
}

impl<'a> Derivations<'a> {
    pub fn new(terms: &'a Terms, rows: &'a [Row], log: &'a [Application]) -> Self {
        let mut made = HashMap::new();
        for (id, node) in terms.nodes().iter().enumerate() {
            made.entry(settled(terms, node)).or_insert(id);
        }
        Derivations { terms, rows, log, made }
    }
    /// The application that made a form; none for the forms of the source.
    fn maker(&self, node: &Node) -> Option<usize> {
        let id = *self.made.get(&settled(self.terms, node))?;
        let after = self.log.partition_point(|a| a.last <= id);
        self.log.get(after).filter(|a| a.first <= id).map(|_| after)
    }
    /// The steps that lead to an algorithm made of these forms.
    pub fn steps(&self, chosen: &[Node], like: &Graph) -> Vec<Step> {
        let mut needed = BTreeSet::new();
        let mut todo: Vec<usize> = chosen.iter().filter_map(|n| self.maker(n)).collect();
        while let Some(i) = todo.pop() {
            if needed.insert(i) {
                todo.extend(self.maker(&self.log[i].node))
            }
        }
        needed.into_iter().filter_map(|i| self.step(&self.log[i], like)).collect()
    }
    fn step(&self, application: &Application, like: &Graph) -> Option<Step> {
        let row = &self.rows[application.row?];
        let side = |term| {
            let mut page = Page { graph: like.without_nodes(), terms: self.terms, written: HashMap::new() };
            let node = build(&mut page, term, &Scope::new(&application.env))?;
            Some(show::term(&page.graph, node))
        };
        Some(Step { rule: row.name.into(), before: side(row.replaced())?, after: side(&row.right)? })
    }
}

/// A node under the final names of its classes.
fn settled(terms: &Terms, node: &Node) -> Node {
    let mut node = node.clone();
    node.update_children(|c| terms.find(c));
    node
}

/// A graph on which sides of rows are written; a class stands for the first term that it had.
struct Page<'a> {
    graph: Graph,
    terms: &'a Terms,
    written: HashMap<Id, NodeId>,
}

impl Target for Page<'_> {
    type Id = NodeId;
    fn class(&mut self, class: Id) -> NodeId {
        if let Some(node) = self.written.get(&class) {
            return *node;
        }
        // the children of a node were made before it, so this ends
        let node = self.terms.id_to_node(class);
        let operands: Vec<NodeId> = node.children.iter().map(|c| self.class(*c)).collect();
        let id = emit(&mut self.graph, self.terms, node, &operands);
        self.written.insert(class, id);
        id
    }
    fn number(&mut self, value: Rational) -> NodeId {
        self.graph.number(value)
    }
    fn size(&mut self, axis: AxisId) -> NodeId {
        self.graph.size(axis)
    }
    fn apply(&mut self, function: Function, x: NodeId) -> NodeId {
        self.graph.apply(function, x)
    }
    fn product(&mut self, factors: &[(NodeId, i8)]) -> Option<NodeId> {
        Some(self.graph.product(factors))
    }
    fn linear(&mut self, addends: &[(Rational, NodeId)], constant: Rational) -> Option<NodeId> {
        Some(self.graph.linear(addends, constant))
    }
    fn sum(&mut self, axes: AxisSet, x: NodeId) -> NodeId {
        self.graph.sum(axes, x)
    }
    fn maximum(&mut self, axes: AxisSet, x: NodeId, predicates: &[NodeId]) -> NodeId {
        self.graph.maximum(axes, x, predicates)
    }
}
