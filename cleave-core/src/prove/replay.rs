//! An algorithm against its source, once more and another way: without the e-graph, for all extents.
//!
//! Comes in: two graphs over the same inputs. Goes out: nothing, or where they differ. Each output becomes a real expression over its
//! axes and is brought to the normal form of [`super::normal`]; an algorithm equals its source if the forms are equal, and every
//! condition of a step follows from [`super::facts`]: then they are the same wherever both have a value. The search's terms, constructors, facts and rows have no part in it.
use super::facts::Facts;
use super::normal::{Condition, Normal};
use super::poly::{Atom, Base, Binder, Index, Poly};
use crate::axis::AxisSet;
use crate::graph::{Graph, NodeId, Op};
use std::collections::BTreeMap;

/// Why an algorithm could not be shown to equal its source.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Gap {
    #[error("output `{output}` is\n    {wanted}\nin the source and\n    {found}")]
    Different { output: String, wanted: String, found: String },
    #[error("the normal form of output `{output}` rests on what does not follow: {condition:?}")]
    Open { output: String, condition: Box<Condition> },
    #[error("`{0}` has no real expression")]
    Foreign(String),
}

/// Shows that two graphs compute the same.
///
/// # Errors
/// At the first output that is not shown to be the same.
pub fn replay(source: &Graph, algorithm: &Graph) -> Result<(), Gap> {
    let (mut one, mut other) = (Forms::new(source), Forms::new(algorithm));
    for ((output, a), (_, b)) in source.stores().zip(algorithm.stores()) {
        let name = || source.outputs[output].name.clone();
        let (wanted, found) = (one.form(a.node)?, other.form(b.node)?);
        if wanted != found {
            return Err(Gap::Different { output: name(), wanted: wanted.to_string(), found: found.to_string() });
        }
        if let Some(condition) = one.normal.conditions.iter().chain(&other.normal.conditions).next() {
            return Err(Gap::Open { output: name(), condition: Box::new(condition.clone()) });
        }
    }
    Ok(())
}

/// The real expressions of a graph's nodes; a domain is an axis.
pub struct Forms<'a> {
    graph: &'a Graph,
    normal: Normal,
    free: Vec<AxisSet>,
    known: BTreeMap<NodeId, Poly>,
}

impl<'a> Forms<'a> {
    pub fn new(graph: &'a Graph) -> Self {
        let mut facts = Facts::default();
        for node in &graph.nodes {
            match &node.op {
                Op::Input { input, .. } if graph.input(*input).positive => facts.positive.insert(leaf(&node.op)),
                Op::Index(_) => facts.nonnegative.insert(leaf(&node.op)),
                Op::Predicate(_) => facts.predicates.insert(leaf(&node.op)),
                _ => false,
            };
        }
        Forms { graph, normal: Normal::with(facts), free: graph.free(), known: BTreeMap::new() }
    }
    /// The conditions that do not follow.
    pub fn open(&self) -> &[Condition] {
        &self.normal.conditions
    }
    /// Is a node's value never negative, and never 0? Said by its normal form, or by how it is written: a sum of squares may not look
    /// like one once it is multiplied out.
    ///
    /// # Errors
    /// If a scheduler's node is below it.
    pub fn signs(&mut self, node: NodeId) -> Result<(bool, bool), Gap> {
        let form = self.form(node)?;
        let (nonnegative, nonzero) = (self.follows(&Condition::NonNegative(form.clone())), self.follows(&Condition::NonZero(form)));
        if nonnegative && nonzero {
            return Ok((true, true));
        }
        let graph = self.graph;
        let below: Vec<(bool, bool)> = graph.operands(node).iter().map(|o| self.signs(*o)).collect::<Result<_, _>>()?;
        let all = |f: fn(&(bool, bool)) -> bool| below.iter().all(f);
        let (written_nonnegative, written_nonzero) = match graph.op(node) {
            Op::Product(e) => (below.iter().zip(e).all(|(s, e)| e % 4 == 0 || e % 2 != 0 || s.0), all(|s| s.1)),
            Op::Linear(k, c) => {
                let nonnegative = all(|s| s.0) && k.iter().all(|k| !k.is_negative()) && !c.is_negative();
                (nonnegative, nonnegative && (!c.is_zero() || below.iter().any(|s| s.1)))
            }
            Op::Sum(_) => (all(|s| s.0), all(|s| s.0 && s.1)),
            _ => (false, false),
        };
        Ok((nonnegative || written_nonnegative, nonzero || written_nonzero))
    }
    /// Does a condition follow from the facts about the leaves?
    pub fn follows(&self, condition: &Condition) -> bool {
        self.normal.facts.as_ref().is_some_and(|f| f.imply(condition))
    }
    pub fn is_predicate(&self, base: &Base) -> bool {
        self.normal.facts.as_ref().is_some_and(|f| f.is_predicate(base))
    }
    fn atom(&self, node: NodeId) -> Atom {
        Atom { name: leaf(self.graph.op(node)), arguments: self.free[node.index()].iter().map(|a| Index::free(a.0)).collect() }
    }
    /// The normal form of a node.
    ///
    /// # Errors
    /// If a scheduler's node is below it.
    pub fn form(&mut self, node: NodeId) -> Result<Poly, Gap> {
        if let Some(known) = self.known.get(&node) {
            return Ok(known.clone());
        }
        let graph = self.graph;
        let operands: Vec<Poly> = graph.operands(node).iter().map(|o| self.form(*o)).collect::<Result<_, _>>()?;
        let normal = &mut self.normal;
        let form = match graph.op(node) {
            Op::Input { .. } | Op::Index(_) | Op::Predicate(_) => Poly::atom(self.atom(node)),
            Op::Number(r) => Poly::number(*r),
            Op::Size(a) => Poly::base(Base::Size(a.0, None)),
            Op::Apply(f) => normal.apply(*f, &operands[0]),
            Op::Product(exponents) => {
                let mut product = Poly::one();
                for (x, e) in operands.iter().zip(exponents) {
                    let power = normal.power(x, &super::poly::Exponent::number(*e as i32));
                    product = normal.mul(&product, &power)
                }
                product
            }
            Op::Linear(coefficients, constant) => {
                let mut sum = Poly::number(*constant);
                for (x, k) in operands.iter().zip(coefficients) {
                    let term = normal.scale(x, *k);
                    sum = normal.add(&sum, &term)
                }
                sum
            }
            Op::Greatest => normal.greatest(&operands),
            Op::Sum(axes) => {
                let (binders, names) = bind(normal, *axes);
                let x = normal.rename(&operands[0], &names);
                normal.sum(&binders, &x)
            }
            Op::Maximum(axes) => {
                let (binders, names) = bind(normal, *axes);
                let x = normal.rename(&operands[0], &names);
                let mut predicates = vec![];
                for p in &operands[1..] {
                    match normal.rename(p, &names).as_base() {
                        Some(Base::Atom(a)) => predicates.push(a.clone()),
                        _ => return Err(Gap::Foreign(format!("a maximum where {p} holds"))),
                    }
                }
                normal.maximum(&binders, &predicates, &x)
            }
            Op::Frame(..) => return Err(Gap::Foreign("a frame".into())),
        };
        self.known.insert(node, form.clone());
        Ok(form)
    }
}

/// Reads of one tensor under other axes are other leaves.
fn leaf(op: &Op) -> String {
    match op {
        Op::Input { input, access } => {
            let plain: Vec<String> = access.dims.iter().map(|d| format!("{d:?}")).collect();
            format!("input {}{}", input.0, plain.concat())
        }
        Op::Index(a) => format!("index {}", a.0),
        Op::Predicate(p) => format!("[{}]", p.0),
        other => format!("{other:?}"),
    }
}

fn bind(normal: &mut Normal, axes: AxisSet) -> (Vec<Binder>, BTreeMap<Index, Index>) {
    let mut names = BTreeMap::new();
    let binders = axes.iter().map(|a| {
        let free = Index::free(a.0);
        let index = normal.fresh(Binder { index: free, within: None });
        names.insert(free, index);
        Binder { index, within: None }
    });
    (binders.collect(), names)
}
