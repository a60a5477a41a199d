//! The formula as a [`Graph`]: constant factors unrolled, masks turned into predicates.
//!
//! Axes, inputs, predicates and nodes are numbered by first use in a walk from the results, so that neither the names of
//! axes nor the order of arguments nor unused `let`s have an effect on the graph.
use super::message;
use super::report::Errors;
use super::syntax::{ElementName, Form, Source, Tensor};
use super::term::{Assumed, Declared, Formula, Op, Reduction, TermId};
use crate::assumption::Assumption;
use crate::axis::{AxisId, AxisSet};
use crate::dtype::Element;
use crate::graph::{Access, Factor, Graph, InputId, NodeId, Store};
use crate::kernel::Assertion;
use crate::predicate::Predicate;
use crate::rational::Rational;
use std::collections::{BTreeMap, HashMap};
use syn::ext::IdentExt;

/// Nodes that a kernel may have: unrolling multiplies.
const LARGEST: usize = 4096;

/// What a declared axis stands for while a term is lowered: another axis, or one index of a constant factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Binding {
    Axis(AxisId),
    Part(u32),
}

/// The axes that do not stand for themselves.
pub type Bindings = BTreeMap<AxisId, Binding>;

/// A value, and the condition under which it is present.
#[derive(Clone)]
struct Lowered {
    node: NodeId,
    present: Option<Predicate>,
}

pub struct Lowering<'a> {
    pub formula: &'a Formula,
    pub errors: &'a mut Errors,
    pub source: &'a Source,
    pub graph: Graph,
    /// By declared axis.
    axes: Vec<Option<AxisId>>,
    /// By declared argument.
    inputs: Vec<Option<InputId>>,
    memo: HashMap<(TermId, Bindings), Lowered>,
}

/// A graph, the input of each argument, and the axis of each declared one.
pub struct Numbered {
    pub graph: Graph,
    pub arguments: Vec<InputId>,
    pub axes: Vec<Option<AxisId>>,
    pub assertions: Vec<Assertion>,
    pub assumptions: Vec<Assumption>,
}

pub fn lower(source: &Source, formula: &Formula, errors: &mut Errors) -> Numbered {
    let mut l = Lowering {
        formula,
        errors,
        source,
        graph: Graph::default(),
        axes: vec![None; formula.axes.len()],
        inputs: vec![None; source.signature.arguments.len()],
        memo: HashMap::new(),
    };
    let name = |i| if source.signature.tuple { format!("output{i}") } else { "output".into() };
    let in_place = source.signature.in_place().map(|(i, a)| (a.name.unraw().to_string(), &a.tensor, Some(i)));
    let results = in_place.chain(source.signature.results.iter().enumerate().map(|(i, r)| (name(i), r, None)));
    for ((name, result, in_place), term) in results.zip(&formula.results) {
        let factors = l.factors(result);
        let stores = l.assignments(factors).into_iter().map(|parts| {
            let node = l.term(*term, &parts).node;
            Store { node, access: l.access(result, &parts) }
        });
        let stores: Vec<Store> = stores.collect();
        let (element, storage) = (l.element(result), l.storage(result));
        l.graph.add_output(&name, element, storage, stores);
        let input = in_place.map(|i| l.input(i));
        l.graph.outputs.iter_mut().last().into_iter().for_each(|o| o.in_place = input);
        if l.graph.nodes.len() > LARGEST {
            l.errors.push(source.name.span(), message::too_large());
            break;
        }
    }
    let mut assertions = vec![];
    for a in &formula.assertions {
        let predicate = l.condition(a.condition, &Bindings::new(), true);
        match &predicate.clauses[..] {
            [] => l.errors.push(formula.term(a.condition).place, message::assertion_never()),
            [clause] if clause.is_empty() => {}
            _ => assertions.push(Assertion { predicate, condition: a.text.clone(), message: a.message.clone() }),
        }
    }
    let assumed: Vec<Vec<(NodeId, NodeId)>> = formula.assumptions.iter().map(|a| l.assumed(a)).collect();
    let arguments = (0..source.signature.arguments.len()).map(|i| l.input(i)).collect();
    // all inputs and predicates are known now
    let stated = formula.assumptions.iter().zip(assumed);
    let assumptions = stated.map(|(a, sides)| Assumption::new(&l.graph, &sides, a.text.clone(), a.message.clone())).collect();
    Numbered { graph: l.graph.pruned(), arguments, axes: l.axes, assertions, assumptions }
}

impl Lowering<'_> {
    /// The final number of a declared axis, given at its first use.
    pub fn axis(&mut self, axis: AxisId) -> AxisId {
        let slot = axis.0 as usize;
        *self.axes[slot].get_or_insert_with(|| self.graph.add_axis(&self.formula.axes[slot].ident.unraw().to_string()))
    }

    pub fn input(&mut self, argument: usize) -> InputId {
        if let Some(input) = self.inputs[argument] {
            return input;
        }
        let source = self.source;
        let a = &source.signature.arguments[argument];
        let (element, storage) = (self.element(&a.tensor), self.storage(&a.tensor));
        let input = self.graph.add_input(&a.name.unraw().to_string(), element, storage);
        if let Form::Extent(name) = &a.form {
            let axis = self.declared(&name.to_string()).map(|d| d.0);
            self.graph.inputs[input.index()].extent = axis.map(|a| self.axis(a))
        }
        self.inputs[argument] = Some(input);
        input
    }

    fn element(&self, tensor: &Tensor) -> Element {
        match &tensor.element {
            ElementName::Type(t) => Element::Type(*t),
            ElementName::Generic(name) => Element::Param(self.source.signature.generics.iter().position(|g| g == name).unwrap_or(0) as u8),
        }
    }

    fn declared(&self, name: &str) -> Option<(AxisId, &Declared)> {
        let i = self.formula.axes.iter().position(|a| a.name == name)?;
        Some((AxisId(i as u8), &self.formula.axes[i]))
    }

    /// The dimensions of a tensor under bindings.
    pub fn access(&mut self, tensor: &Tensor, bindings: &Bindings) -> Access {
        let mut dims = vec![];
        for names in &tensor.dims {
            let mut factors = vec![];
            for name in names {
                let Some((axis, declared)) = self.declared(&name.to_string()) else { continue };
                let constant = declared.constant;
                factors.push(match (bindings.get(&axis), constant) {
                    (Some(Binding::Part(index)), Some(of)) => Factor::Part { index: *index, of },
                    (None, Some(of)) => Factor::Part { index: 0, of },
                    (Some(Binding::Axis(other)), _) => Factor::Axis(self.axis(*other)),
                    _ => Factor::Axis(self.axis(axis)),
                })
            }
            dims.push(factors)
        }
        Access { dims }
    }

    fn storage(&mut self, tensor: &Tensor) -> Access {
        self.access(tensor, &Bindings::new())
    }

    /// The constant factors of a tensor.
    fn factors(&self, tensor: &Tensor) -> AxisSet {
        let names = tensor.dims.iter().flatten();
        names.filter_map(|n| self.declared(&n.to_string())).filter(|(_, d)| d.constant.is_some()).map(|(a, _)| a).collect()
    }

    /// Every choice of an index for each of some constant factors, in ascending order.
    fn assignments(&self, factors: AxisSet) -> Vec<Bindings> {
        factors.iter().fold(vec![Bindings::new()], |all, axis| {
            let extent = self.formula.axis(axis).constant.unwrap_or(1);
            let with = |b: &Bindings, i| b.iter().map(|(a, x)| (*a, *x)).chain([(axis, Binding::Part(i))]).collect();
            all.iter().flat_map(|b| (0..extent).map(move |i| with(b, i)).collect::<Vec<_>>()).collect()
        })
    }

    /// The sides of an assumption, for each index of their constant factors.
    fn assumed(&mut self, assumed: &Assumed) -> Vec<(NodeId, NodeId)> {
        let formula = self.formula;
        let [left, right] = assumed.sides;
        let axes = formula.term(left).ty.axes.union(formula.term(right).ty.axes);
        let parts = self.assignments(formula.constants(axes));
        let sides: Vec<(NodeId, NodeId)> = parts.iter().map(|p| (self.term(left, p).node, self.term(right, p).node)).collect();
        let differ = |(l, r): &(NodeId, NodeId)| l != r && [l, r].iter().all(|x| matches!(self.graph.op(**x), crate::graph::Op::Number(_)));
        if sides.iter().any(differ) {
            self.errors.push(assumed.place, message::assertion_never())
        } else if sides.iter().all(|(l, r)| l == r) {
            self.errors.push(assumed.place, message::assumption_of_nothing())
        }
        if self.graph.nodes.len() > LARGEST {
            self.errors.push(self.source.name.span(), message::too_large())
        }
        sides
    }

    fn term(&mut self, id: TermId, bindings: &Bindings) -> Lowered {
        let free = self.formula.term(id).ty.axes;
        let bindings: Bindings = bindings.iter().filter(|(a, _)| free.contains(**a)).map(|(a, b)| (*a, *b)).collect();
        let key = (id, bindings);
        if let Some(known) = self.memo.get(&key) {
            return known.clone();
        }
        let lowered = if self.graph.nodes.len() > LARGEST {
            Lowered { node: self.graph.number(Rational::ZERO), present: None } // reported at the end
        } else {
            self.fresh(id, &key.1)
        };
        self.memo.insert(key, lowered.clone());
        lowered
    }

    fn fresh(&mut self, id: TermId, bindings: &Bindings) -> Lowered {
        let formula = self.formula;
        let term = formula.term(id);
        let operand = |i: usize| term.operands[i];
        let bound = |axis: AxisId| bindings.get(&axis).copied();
        let plain = |node| Lowered { node, present: None };
        match &term.op {
            Op::Read(argument) => {
                let source = self.source;
                let input = self.input(*argument);
                let access = self.access(&source.signature.arguments[*argument].tensor, bindings);
                plain(self.graph.read(input, access))
            }
            Op::Number(value) => plain(self.graph.number(*value)),
            Op::Size(axis) => plain(self.size(*axis)),
            Op::Index(axis) => match bound(*axis) {
                Some(Binding::Part(i)) => plain(self.graph.number(Rational::integer(i as i64))),
                Some(Binding::Axis(other)) => {
                    let other = self.axis(other);
                    plain(self.graph.index(other))
                }
                None => {
                    let axis = self.axis(*axis);
                    plain(self.graph.index(axis))
                }
            },
            Op::Add | Op::Subtract => {
                let sign = if matches!(term.op, Op::Add) { Rational::ONE } else { Rational::MINUS_ONE };
                let (x, y) = (self.term(operand(0), bindings), self.term(operand(1), bindings));
                let node = self.graph.linear(&[(Rational::ONE, x.node), (sign, y.node)], Rational::ZERO);
                self.present(id, node, [x.present, y.present])
            }
            Op::Multiply => {
                let (x, y) = (self.term(operand(0), bindings), self.term(operand(1), bindings));
                let node = self.graph.mul(&[x.node, y.node]);
                self.present(id, node, [x.present, y.present])
            }
            Op::Quotient(_) => {
                self.errors.push(term.place, message::quotient_as_value());
                plain(self.graph.number(Rational::ZERO))
            }
            Op::Power(halves) => {
                let x = self.term(operand(0), bindings);
                Lowered { node: self.graph.product(&[(x.node, *halves)]), ..x }
            }
            Op::Apply(function) => {
                let x = self.term(operand(0), bindings);
                let node = self.graph.apply(*function, x.node);
                match x.present {
                    // exp of an absent value is 0, which is no longer absent
                    Some(p) if *function == crate::graph::Function::Exp => plain(self.selected(&p, node)),
                    present => Lowered { node, present },
                }
            }
            Op::Max => {
                let (x, y) = (self.term(operand(0), bindings), self.term(operand(1), bindings));
                let node = self.graph.greatest(&[x.node, y.node]);
                self.present(id, node, [x.present, y.present])
            }
            Op::Min => {
                let (x, y) = (self.term(operand(0), bindings), self.term(operand(1), bindings));
                let (a, b) = (self.negative(x.node), self.negative(y.node));
                let greatest = self.graph.greatest(&[a, b]);
                let node = self.negative(greatest);
                self.present(id, node, [x.present, y.present])
            }
            Op::Reduce(reduction, axes) => plain(self.reduce(*reduction, *axes, operand(0), bindings)),
            Op::Mask => {
                let x = self.term(operand(0), bindings);
                let condition = self.condition(operand(1), bindings, true);
                self.present(id, x.node, [x.present, Some(condition)])
            }
            Op::If => {
                let then = self.condition(operand(0), bindings, true);
                let otherwise = self.condition(operand(0), bindings, false);
                let (x, y) = (self.term(operand(1), bindings), self.term(operand(2), bindings));
                let (a, b) = (self.selected(&then, x.node), self.selected(&otherwise, y.node));
                let node = self.graph.linear(&[(Rational::ONE, a), (Rational::ONE, b)], Rational::ZERO);
                let present = match (x.present, y.present) {
                    (None, None) => None,
                    (p, q) => {
                        let left = p.map_or(then.clone(), |p| then.and(&p));
                        let right = q.map_or(otherwise.clone(), |q| otherwise.and(&q));
                        Some(self.limited(left.or(&right), id))
                    }
                };
                Lowered { node, present }
            }
            Op::Part(..) | Op::Reverse(_) | Op::Rename(..) => {
                let inner = self.rebound(&term.op, bindings);
                self.term(operand(0), &inner)
            }
            Op::Stack(factor) => {
                let Some(Binding::Part(i)) = bound(*factor) else { return plain(self.graph.number(Rational::ZERO)) };
                self.term(operand(i as usize), bindings)
            }
            Op::Truth(_) | Op::Compare(_) | Op::And | Op::Or | Op::Not => {
                let condition = self.condition(id, bindings, true);
                plain(self.holds(&condition))
            }
        }
    }

    /// The bindings inside of an operation that changes them.
    pub fn rebound(&mut self, op: &Op, bindings: &Bindings) -> Bindings {
        let mut inner = bindings.clone();
        match op {
            Op::Part(factor, index) => drop(inner.insert(*factor, Binding::Part(*index))),
            Op::Reverse(factor) => {
                if let (Some(Binding::Part(i)), Some(of)) = (bindings.get(factor), self.formula.axis(*factor).constant) {
                    inner.insert(*factor, Binding::Part(of - 1 - i));
                }
            }
            Op::Rename(from, to) => {
                let target = bindings.get(to).copied().unwrap_or(Binding::Axis(*to));
                inner.insert(*from, target);
                if let Binding::Axis(to) = target {
                    let equal = (self.axis(*from), self.axis(to));
                    if !self.graph.equal.contains(&equal) {
                        self.graph.equal.push(equal)
                    }
                }
            }
            _ => {}
        }
        inner
    }

    fn size(&mut self, axis: AxisId) -> NodeId {
        match self.formula.axis(axis).constant {
            Some(n) => self.graph.number(Rational::integer(n as i64)),
            None => {
                let axis = self.axis(axis);
                self.graph.size(axis)
            }
        }
    }

    fn negative(&mut self, x: NodeId) -> NodeId {
        self.graph.linear(&[(Rational::MINUS_ONE, x)], Rational::ZERO)
    }

    /// A predicate as a 0/1 term; one that always or never holds is a number.
    fn holds(&mut self, predicate: &Predicate) -> NodeId {
        match predicate.clauses.as_slice() {
            [] => self.graph.number(Rational::ZERO),
            [clause] if clause.is_empty() => self.graph.number(Rational::ONE),
            _ => self.graph.holds(predicate.clone()),
        }
    }

    /// `x` where the predicate holds, else 0.
    fn selected(&mut self, predicate: &Predicate, x: NodeId) -> NodeId {
        let holds = self.holds(predicate);
        self.graph.mul(&[holds, x])
    }

    /// `node`, present where all of `conditions` hold.
    fn present(&mut self, id: TermId, node: NodeId, conditions: [Option<Predicate>; 2]) -> Lowered {
        let present = conditions.into_iter().flatten().reduce(|p, q| p.and(&q));
        Lowered { node, present: present.map(|p| self.limited(p, id)) }
    }

    fn reduce(&mut self, reduction: Reduction, over: AxisSet, operand: TermId, bindings: &Bindings) -> NodeId {
        let factors = self.formula.constants(over);
        let mut partial = vec![];
        let mut counts = vec![];
        for parts in self.assignments(factors) {
            let inner: Bindings = bindings.iter().chain(&parts).map(|(a, b)| (*a, *b)).collect();
            let Lowered { node, present } = self.term(operand, &inner);
            let axes: AxisSet = over.difference(factors).iter().map(|a| self.axis(a)).collect();
            let holds = present.map(|p| self.selecting(&p));
            let selected = holds.map_or(node, |h| self.graph.mul(&[h, node]));
            partial.push(match reduction {
                Reduction::Sum | Reduction::Mean => self.sum(axes, selected),
                Reduction::Max if axes.is_empty() => node,
                Reduction::Min if axes.is_empty() => self.negative(node),
                Reduction::Max => self.graph.maximum(axes, node, holds.as_slice()),
                Reduction::Min => {
                    let negative = self.negative(node);
                    self.graph.maximum(axes, negative, holds.as_slice())
                }
            });
            if reduction == Reduction::Mean {
                // of a masked value: of those elements that are present
                counts.push(match holds {
                    Some(h) => self.sum(axes, h),
                    None => {
                        let sizes: Vec<NodeId> = axes.iter().map(|a| self.graph.size(a)).collect();
                        self.graph.mul(&sizes)
                    }
                })
            }
        }
        let total = |graph: &mut Graph, terms: &[NodeId]| graph.linear(&terms.iter().map(|t| (Rational::ONE, *t)).collect::<Vec<_>>(), Rational::ZERO);
        match reduction {
            Reduction::Sum => total(&mut self.graph, &partial),
            Reduction::Mean => {
                let (sum, count) = (total(&mut self.graph, &partial), total(&mut self.graph, &counts));
                self.graph.product(&[(sum, 2), (count, -2)])
            }
            Reduction::Max => self.graph.greatest(&partial),
            Reduction::Min => {
                let greatest = self.graph.greatest(&partial);
                self.negative(greatest)
            }
        }
    }

    /// A predicate as a 0/1 term even if it never holds: a maximum over no element is not one over the number 0.
    fn selecting(&mut self, predicate: &Predicate) -> NodeId {
        match predicate.clauses.as_slice() {
            [] => self.graph.holds(predicate.clone()),
            _ => self.holds(predicate),
        }
    }

    /// A sum; along an axis at which only a dropped factor varied it is a multiple.
    fn sum(&mut self, axes: AxisSet, x: NodeId) -> NodeId {
        let free = self.graph.free()[x.index()];
        let sum = self.graph.sum(axes.intersection(free), x);
        let sizes: Vec<NodeId> = axes.difference(free).iter().map(|a| self.graph.size(a)).collect();
        if sizes.is_empty() { sum } else { self.graph.mul(&[&[sum], &sizes[..]].concat()) }
    }
}
