//! From the log of a search to the derivation of one algorithm.
//!
//! Comes in: the log and the forms that make up the algorithm. Goes out: those applications, in order, that made a form of it,
//! the forms that these matched, and so on back to the source. Each is written out by building both sides of its row under its
//! substitution, so that it can be printed, and checked again without the search.
use super::build::{Scope, Target, build};
use super::extract::emit;
use super::matcher::{Env, Value};
use super::saturate::Application;
use super::schema::{Guard, Place, Row, Var};
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
    /// The applications that lead to an algorithm made of these forms.
    pub fn applied(&self, chosen: &[Node], like: &Graph) -> Vec<Applied> {
        let mut needed = BTreeSet::new();
        let mut todo: Vec<usize> = chosen.iter().filter_map(|n| self.maker(n)).collect();
        while let Some(i) = todo.pop() {
            if needed.insert(i) {
                todo.extend(self.maker(&self.log[i].node))
            }
        }
        needed.into_iter().filter_map(|i| self.application(&self.log[i], like)).collect()
    }
    fn application(&self, application: &Application, like: &Graph) -> Option<Applied> {
        let row = self.rows[application.row?];
        let mut page = Page { graph: like.without_nodes(), terms: self.terms, written: HashMap::new() };
        let before = build(&mut page, row.replaced(), &Scope::new(&application.env))?;
        let after = build(&mut page, &row.right, &Scope::new(&application.env))?;
        let bindings = page.bindings(&application.env);
        Some(Applied { row, bindings, graph: page.graph, before, after })
    }
}

/// What a variable of a row stands for in an application.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    Nodes(Vec<NodeId>),
    /// Powers in halves.
    Factors(Vec<(NodeId, i8)>),
    Addends(Vec<(Rational, NodeId)>, Rational),
    Axes(AxisSet),
    Power(i8),
    Coefficient(Rational),
    /// The bindings of each member of a family.
    Family(Vec<Bindings>),
}

pub type Bindings = Vec<(Var, Bound)>;

/// One application of a row, as terms of a graph that stores nothing.
#[derive(Clone, Debug)]
pub struct Applied {
    pub row: Row,
    pub bindings: Bindings,
    pub graph: Graph,
    pub before: NodeId,
    pub after: NodeId,
}

impl Applied {
    /// The application in words.
    pub fn step(&self) -> Step {
        let text = |node: NodeId| show::term(&self.graph, node);
        let free = self.graph.free();
        let guards = self.row.guards.iter().map(|g| self.guard(g, &free)).collect();
        Step { rule: self.row.name.into(), assumed: false, bindings: self.describe(&self.bindings), guards, before: text(self.before), after: text(self.after) }
    }
    /// A condition, with the sets that it speaks of.
    fn guard(&self, guard: &Guard, free: &[AxisSet]) -> String {
        let set = |place: &Place| {
            let (Place::Axes(v) | Place::Free(v)) = place;
            let union = |nodes: &mut dyn Iterator<Item = NodeId>| nodes.fold(AxisSet::EMPTY, |s, x| s.union(free[x.index()]));
            let axes = match &self.bindings.iter().find(|b| b.0 == *v)?.1 {
                Bound::Axes(axes) => *axes,
                Bound::Nodes(all) => union(&mut all.iter().copied()),
                Bound::Factors(all) => union(&mut all.iter().map(|f| f.0)),
                Bound::Addends(all, _) => union(&mut all.iter().map(|a| a.1)),
                Bound::Power(_) | Bound::Coefficient(_) | Bound::Family(_) => return None,
            };
            Some(show::axes(&self.graph, axes))
        };
        match guard {
            Guard::Disjoint(a, b) => match (set(a), set(b)) {
                (Some(a), Some(b)) => format!("{guard}: {{{a}}}, {{{b}}}"),
                // of each member of a family
                _ => guard.to_string(),
            },
            guard => guard.to_string(),
        }
    }
    fn describe(&self, bindings: &Bindings) -> Vec<(String, String)> {
        let text = |node: &NodeId| show::term(&self.graph, *node);
        let joined = |all: Vec<String>, between: &str, none: &str| if all.is_empty() { none.into() } else { all.join(between) };
        let one = |bound: &Bound| match bound {
            Bound::Nodes(all) => joined(all.iter().map(text).collect(), ", ", "none"),
            Bound::Factors(all) => {
                let factor = |(x, e): &(NodeId, i8)| if *e == 2 { text(x) } else { format!("({})^({e}/2)", text(x)) };
                joined(all.iter().map(factor).collect(), " * ", "1")
            }
            Bound::Addends(all, c) => {
                let addend = |(k, x): &(Rational, NodeId)| if k.is_one() { text(x) } else { format!("{k} * ({})", text(x)) };
                let constant = (!c.is_zero() || all.is_empty()).then(|| c.to_string());
                all.iter().map(addend).chain(constant).collect::<Vec<_>>().join(" + ")
            }
            Bound::Axes(axes) => format!("{{{}}}", axes.iter().map(|a| self.graph.axis(a)).collect::<Vec<_>>().join(",")),
            Bound::Power(e) => e.to_string(),
            Bound::Coefficient(k) => k.to_string(),
            Bound::Family(all) => {
                let member = |m: &Bindings| self.describe(m).into_iter().map(|(v, text)| format!("{v} = {text}")).collect::<Vec<_>>().join(", ");
                all.iter().map(member).collect::<Vec<_>>().join("; ")
            }
        };
        bindings.iter().map(|(v, bound)| (v.to_string(), one(bound))).collect()
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

impl Page<'_> {
    fn bindings(&mut self, env: &Env) -> Bindings {
        let mut one = |value: &Value| match value {
            Value::Class(x) => Bound::Nodes(vec![self.class(*x)]),
            Value::Classes(all) => Bound::Nodes(all.iter().map(|x| self.class(*x)).collect()),
            Value::Factors(all) => Bound::Factors(all.iter().map(|(x, e)| (self.class(*x), *e)).collect()),
            Value::Addends(all, c) => Bound::Addends(all.iter().map(|(k, x)| (*k, self.class(*x))).collect(), *c),
            Value::Axes(axes) => Bound::Axes(*axes),
            Value::Power(e) => Bound::Power(*e),
            Value::Coefficient(k) => Bound::Coefficient(*k),
            Value::Family(all) => Bound::Family(all.iter().map(|m| self.bindings(m)).collect()),
        };
        env.0.iter().map(|(v, value)| (*v, one(value))).collect()
    }
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
