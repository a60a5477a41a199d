//! Names and types: the kernel as written becomes a [`Formula`]. Helpers and composites are written out here. Every fault is
//! reported where it is; what depends on a faulty expression is passed over.
use super::message::{self, Message};
use super::output;
use super::report::{Errors, Place};
use super::scope::{Items, Scope, Value};
use super::suggest::nearest;
use super::syntax::*;
use super::term::*;
use crate::axis::{AxisId, AxisSet, MAX_AXES};
use crate::dtype::DType;
use crate::rational::Rational;
use proc_macro2::Ident;

/// Terms that a kernel may have, helpers written out.
const LARGEST: usize = 10_000;

pub struct Checker<'a> {
    pub errors: &'a mut Errors,
    pub formula: Formula,
    pub source: &'a Source,
    /// The call of a composite that is being written out: its faults are blamed on it.
    pub blame: Option<Place>,
    /// Helpers being written out, to find one that calls itself.
    pub active: Vec<&'a Function>,
    /// Arguments that are written in place.
    pub in_place: Vec<InPlace>,
    /// Constants being evaluated, to find one that needs itself.
    pub pending: Vec<&'a Constant>,
}

/// An argument that is written in place, at the statement at hand.
pub struct InPlace {
    pub name: String,
    pub value: Value,
    /// Where it was last written.
    pub written: Option<Place>,
}

/// The kernel's formula; without faults it has a term for each result.
pub fn check(source: &Source, errors: &mut Errors) -> Formula {
    let mut checker = Checker { errors, formula: Formula::default(), source, blame: None, active: vec![], in_place: vec![], pending: vec![] };
    checker.declare();
    let items = Items::inside(&Items::library(&source.library), &source.body);
    let mut scope = Scope { items, values: vec![], axes: vec![] };
    for (i, argument) in source.signature.arguments.iter().enumerate() {
        let value = checker.argument(i, argument);
        match argument.form {
            Form::InPlace => checker.in_place.push(InPlace { name: argument.name.to_string(), value, written: None }),
            _ => scope.values.push((argument.name.to_string(), value)),
        }
    }
    scope.values.extend(source.signature.faulty.iter().map(|name| (name.to_string(), Value::Faulty)));
    let value = checker.block(&source.body, &mut scope);
    checker.bounds();
    output::check(&mut checker, value);
    checker.formula
}

impl<'a> Checker<'a> {
    /// Axes: those of the arguments, in their order, and the constant factors.
    fn declare(&mut self) {
        let source = self.source;
        for (name, extent) in &source.attribute.factors {
            self.declare_axis(name, Some(*extent))
        }
        let extent = |a: &'a Argument| if let Form::Extent(name) = &a.form { Some(name) } else { None };
        for name in source.signature.arguments.iter().flat_map(|a| a.tensor.dims.iter().flatten().chain(extent(a))) {
            if self.named(&name.to_string()).is_none() {
                self.declare_axis(name, None)
            }
        }
        for (name, _) in &source.attribute.dtypes {
            if !source.signature.generics.contains(name) {
                self.errors.push(name.span(), message::no_generic(name))
            }
        }
        for name in &source.signature.generics {
            if !source.attribute.dtypes.iter().any(|d| d.0 == *name) {
                self.errors.push(name.span(), message::generic_without_types(name))
            }
        }
    }

    /// Bounds are of known axes.
    fn bounds(&mut self) {
        for (name, _) in &self.source.attribute.bounds {
            if self.named(&name.to_string()).is_none_or(|a| self.formula.axis(a).constant.is_some()) {
                let message = self.unknown_axis(name, &[]);
                self.errors.push(name.span(), message)
            }
        }
    }

    pub fn declare_axis(&mut self, name: &Ident, constant: Option<u32>) {
        let word = name.to_string();
        if self.named(&word).is_some() {
            self.errors.push(name.span(), message::declared_twice(name))
        } else if self.source.signature.generics.contains(name) || DType::parse(&word).is_some() {
            self.errors.push(name.span(), message::type_as_axis(name))
        } else if self.formula.axes.len() == MAX_AXES {
            self.errors.push(name.span(), message::too_many_axes(MAX_AXES))
        } else {
            self.formula.axes.push(Declared { name: word, ident: name.clone(), constant })
        }
    }

    pub fn named(&self, name: &str) -> Option<AxisId> {
        self.formula.axes.iter().position(|a| a.name == name).map(|i| AxisId(i as u8))
    }

    pub fn unknown_axis(&self, name: &Ident, more: &[String]) -> Message {
        let word = name.to_string();
        let known = self.formula.axes.iter().map(|a| a.name.as_str()).chain(more.iter().map(|s| s.as_str()));
        message::unknown_axis(name).or_hint(nearest(&word, known).map(|n| format!("did you mean `{n}`?")))
    }

    /// The declared axes of a tensor.
    pub fn axes_of(&self, tensor: &Tensor) -> AxisSet {
        tensor.dims.iter().flatten().filter_map(|n| self.named(&n.to_string())).collect()
    }

    /// An axis of a result's type.
    pub fn result_axis(&mut self, name: &Ident) -> Option<AxisId> {
        let found = self.named(&name.to_string());
        if found.is_none() {
            let message = self.unknown_axis(name, &[]);
            self.errors.push(name.span(), message)
        }
        found
    }

    fn argument(&mut self, i: usize, argument: &Argument) -> Value {
        if let Form::Extent(name) = &argument.form {
            let Some(axis) = self.named(&name.to_string()) else { return Value::Faulty };
            if self.formula.axis(axis).constant.is_some() {
                return self.fault(name.span().into(), message::extent_of_factor(name));
            }
            return self.push(Op::Size(axis), vec![], Type { kind: Kind::Integer, axes: AxisSet::EMPTY, masked: false }, argument.name.span().into());
        }
        let kind = if matches!(argument.tensor.element, ElementName::Type(DType::I32)) { Kind::Integer } else { Kind::Number };
        let axes = self.axes_of(&argument.tensor);
        self.push(Op::Read(i), vec![], Type { kind, axes, masked: false }, argument.name.span().into())
    }

    pub fn fault(&mut self, place: Place, message: Message) -> Value {
        let message = match self.active.iter().rev().find(|f| f.shared) {
            Some(helper) => Message { text: format!("in `{}`: {}", helper.name, message.text), ..message },
            None => message,
        };
        self.errors.push(self.blame.unwrap_or(place), message);
        Value::Faulty
    }

    pub fn push(&mut self, op: Op, operands: Vec<TermId>, ty: Type, place: Place) -> Value {
        if self.formula.terms.len() == LARGEST {
            let name = self.source.name.span().into();
            self.blame = None;
            return self.fault(name, message::too_large());
        }
        let place = self.blame.unwrap_or(place);
        self.formula.terms.push(Term { op, operands, ty, place });
        Value::Term(TermId(self.formula.terms.len() as u32 - 1))
    }

    pub fn ty(&self, term: TermId) -> Type {
        self.formula.term(term).ty
    }

    pub fn number(&mut self, value: Rational, integer: bool, place: Place) -> Value {
        let kind = if integer { Kind::Integer } else { Kind::Number };
        self.push(Op::Number(value), vec![], Type { kind, axes: AxisSet::EMPTY, masked: false }, place)
    }

    /// An elementwise operation on numbers.
    pub fn elementwise(&mut self, op: Op, kind: Kind, operands: Vec<TermId>, place: Place) -> Value {
        let axes = operands.iter().fold(AxisSet::EMPTY, |s, o| s.union(self.ty(*o).axes));
        let masked = operands.iter().any(|o| self.ty(*o).masked);
        self.push(op, operands, Type { kind, axes, masked }, place)
    }

    pub fn block(&mut self, block: &'a Block, scope: &mut Scope<'a>) -> Value {
        let (around, visible) = (scope.items.clone(), scope.values.len());
        scope.items = Items::inside(&around, block);
        for statement in &block.statements {
            match statement {
                Statement::Let(pattern, e) => {
                    let value = self.expr(e, scope);
                    self.bind(pattern, value, scope)
                }
                Statement::Assign { target, operator, value } => self.assign(block, target, *operator, value, scope),
                Statement::Assert(assertion) => self.assertion(assertion, scope),
                Statement::Assume(assumption) => self.assumption(assumption, scope),
            }
        }
        let value = self.expr(&block.value, scope);
        scope.values.truncate(visible);
        scope.items = around;
        value
    }

    fn assign(&mut self, block: &'a Block, target: &'a Ident, operator: Option<Arithmetic>, value: &'a Expr, scope: &mut Scope<'a>) {
        let at = target.span().into();
        let old = operator.map(|_| self.current(target, at));
        let new = match (operator, old) {
            (Some(op), Some(Value::Term(old))) => match self.numeric(value, scope) {
                Some(new) => self.arithmetic(op, old, new, value.place),
                None => Value::Faulty,
            },
            _ => self.expr(value, scope),
        };
        if !std::ptr::eq(block, &self.source.body) {
            self.fault(at, message::assignment_place());
        } else if let Some(argument) = self.in_place.iter_mut().find(|a| target == &a.name) {
            (argument.value, argument.written) = (new, Some(value.place))
        } else if operator.is_none() {
            self.fault(at, message::not_in_place(target));
        }
    }

    /// `*x`
    fn current(&mut self, name: &Ident, place: Place) -> Value {
        let known = self.in_place.iter().find(|a| name == &a.name).map(|a| a.value.clone());
        match known.filter(|_| self.active.is_empty()) {
            Some(value) => value,
            None => self.fault(place, message::not_in_place(name)),
        }
    }

    fn assertion(&mut self, assertion: &'a Assertion, scope: &mut Scope<'a>) {
        let Some(condition) = self.truth(&assertion.condition, scope) else { return };
        match self.ty(condition).axes.iter().next() {
            Some(axis) => {
                let name = self.formula.axis(axis).name.clone();
                self.fault(assertion.condition.place, message::assertion_varies(name));
            }
            None => {
                let asserted = Asserted { condition, text: assertion.condition.to_string(), message: assertion.message.clone() };
                self.formula.assertions.push(asserted)
            }
        }
    }

    fn assumption(&mut self, assumption: &'a Assertion, scope: &mut Scope<'a>) {
        let place = assumption.condition.place;
        let (left, right) = match &assumption.condition.kind {
            ExprKind::Compare(Comparison::Equal, left, right) => (left, right),
            ExprKind::Faulty => return,
            _ => return drop(self.fault(place, message::assumption_syntax())),
        };
        let (Some(x), Some(y)) = (self.numeric(left, scope), self.numeric(right, scope)) else { return };
        let sides = [(left, x), (right, y)];
        if let Some((absent, _)) = sides.iter().find(|(_, t)| self.ty(*t).masked) {
            self.fault(absent.place, message::masked_assumption());
        } else if sides.iter().all(|(_, t)| self.ty(*t).kind == Kind::Integer) {
            self.fault(place, message::assumption_of_integers());
        } else {
            let (text, message) = (assumption.condition.to_string(), assumption.message.clone());
            self.formula.assumptions.push(Assumed { sides: [x, y], text, message, place })
        }
    }

    fn bind(&mut self, pattern: &Pattern, value: Value, scope: &mut Scope) {
        match (pattern, value) {
            (Pattern::Ignore, _) => {}
            (Pattern::Name(name), value) => scope.values.push((name.to_string(), value)),
            (Pattern::Tuple(members, _), Value::Tuple(values)) if members.len() == values.len() => {
                members.iter().zip(values).for_each(|(m, v)| self.bind(m, v, scope))
            }
            (Pattern::Tuple(members, place), value) => {
                match value {
                    Value::Faulty => {}
                    Value::Tuple(values) => drop(self.fault(*place, message::tuple_length(message::count(members.len(), "name"), values.len()))),
                    Value::Term(_) => drop(self.fault(*place, message::no_tuple())),
                }
                members.iter().for_each(|m| self.bind(m, Value::Faulty, scope))
            }
        }
    }

    pub fn expr(&mut self, e: &'a Expr, scope: &mut Scope<'a>) -> Value {
        match &e.kind {
            ExprKind::Faulty => Value::Faulty,
            ExprKind::Number { value, integer } => self.number(*value, *integer, e.place),
            ExprKind::Truth(value) => {
                let ty = Type { kind: Kind::Truth, axes: AxisSet::EMPTY, masked: false };
                self.push(Op::Truth(*value), vec![], ty, e.place)
            }
            ExprKind::Name(name) => self.name(name, scope),
            ExprKind::Current(name) => self.current(name, e.place),
            ExprKind::Block(block) => self.block(block, scope),
            ExprKind::Tuple(members) => Value::Tuple(members.iter().map(|m| self.expr(m, scope)).collect()),
            ExprKind::Call { function, axes, arguments } => self.call(e.place, function, axes, arguments, scope),
            ExprKind::Negate(x) => match self.numeric(x, scope) {
                Some(x) => self.negate(x, e.place),
                None => Value::Faulty,
            },
            ExprKind::Not(x) => match self.truth(x, scope) {
                Some(x) => self.elementwise(Op::Not, Kind::Truth, vec![x], e.place),
                None => Value::Faulty,
            },
            ExprKind::Arithmetic(op, a, b) => match (self.numeric(a, scope), self.numeric(b, scope)) {
                (Some(a), Some(b)) => self.arithmetic(*op, a, b, e.place),
                _ => Value::Faulty,
            },
            ExprKind::Compare(op, a, b) => match (self.numeric(a, scope), self.numeric(b, scope)) {
                (Some(x), Some(y)) => match [x, y].map(|t| self.ty(t).kind == Kind::Integer) {
                    [true, true] => self.elementwise(Op::Compare(*op), Kind::Truth, vec![x, y], e.place),
                    [false, true] => self.fault(a.place, message::compared_values()),
                    [true, false] => self.fault(b.place, message::compared_values()),
                    [false, false] => self.fault(e.place, message::compared_values()),
                },
                _ => Value::Faulty,
            },
            ExprKind::And(a, b) | ExprKind::Or(a, b) => match (self.truth(a, scope), self.truth(b, scope)) {
                (Some(a), Some(b)) => {
                    let op = if matches!(e.kind, ExprKind::And(..)) { Op::And } else { Op::Or };
                    self.elementwise(op, Kind::Truth, vec![a, b], e.place)
                }
                _ => Value::Faulty,
            },
            ExprKind::If(c, a, b) => {
                let condition = self.truth(c, scope);
                let (then, otherwise) = (self.expr(a, scope), self.expr(b, scope));
                match (condition, then, otherwise) {
                    (Some(c), Value::Term(x), Value::Term(y)) => {
                        let truths = [x, y].map(|t| self.ty(t).kind == Kind::Truth);
                        match truths {
                            [true, true] => self.elementwise(Op::If, Kind::Truth, vec![c, x, y], e.place),
                            [false, false] => self.elementwise(Op::If, Kind::Number, vec![c, x, y], e.place),
                            _ => self.fault(e.place, message::branches_differ()),
                        }
                    }
                    (_, Value::Tuple(_), _) | (_, _, Value::Tuple(_)) => self.fault(e.place, message::tuple_as_value()),
                    _ => Value::Faulty,
                }
            }
        }
    }

    /// A value that is no condition and no tuple.
    pub fn numeric(&mut self, e: &'a Expr, scope: &mut Scope<'a>) -> Option<TermId> {
        match self.expr(e, scope) {
            Value::Term(t) if self.ty(t).kind != Kind::Truth => Some(t),
            Value::Term(_) => {
                self.fault(e.place, message::condition_as_value());
                None
            }
            Value::Tuple(_) => {
                self.fault(e.place, message::tuple_as_value());
                None
            }
            Value::Faulty => None,
        }
    }

    pub fn truth(&mut self, e: &'a Expr, scope: &mut Scope<'a>) -> Option<TermId> {
        match self.expr(e, scope) {
            Value::Term(t) if self.ty(t).kind == Kind::Truth => Some(t),
            Value::Faulty => None,
            _ => {
                self.fault(e.place, message::value_as_condition());
                None
            }
        }
    }

    pub fn negate(&mut self, x: TermId, place: Place) -> Value {
        let Value::Term(minus) = self.number(Rational::MINUS_ONE, true, place) else { return Value::Faulty };
        self.arithmetic(Arithmetic::Multiply, minus, x, place)
    }

    pub fn arithmetic(&mut self, op: Arithmetic, a: TermId, b: TermId, place: Place) -> Value {
        let integers = [a, b].iter().all(|t| self.ty(*t).kind == Kind::Integer);
        let numbers = self.formula.number(a).zip(self.formula.number(b));
        if let (Arithmetic::Divide | Arithmetic::Remainder, Some(divisor)) = (op, self.formula.number(b))
            && divisor.is_zero()
        {
            return self.fault(place, message::division_by_zero());
        }
        match op {
            Arithmetic::Divide if integers && numbers.is_some() => return self.fault(place, message::integer_division()),
            Arithmetic::Remainder if !integers => return self.fault(place, message::remainder_of_values()),
            Arithmetic::Divide | Arithmetic::Remainder if integers => return self.integer_quotient(op, a, b, place),
            _ => {}
        }
        if let Some((x, y)) = numbers {
            let folded = match op {
                Arithmetic::Add => x.add(y),
                Arithmetic::Subtract => y.neg().and_then(|y| x.add(y)),
                Arithmetic::Multiply => x.mul(y),
                Arithmetic::Divide | Arithmetic::Remainder => y.pow(-1).and_then(|y| x.mul(y)),
            };
            return match folded {
                Some(value) => self.number(value, integers, place),
                None => self.fault(place, message::number_range()),
            };
        }
        let constant = self.formula.number(a).or(self.formula.number(b)).is_some();
        let kind = |affine: bool| if affine { Kind::Integer } else { Kind::Number };
        match op {
            Arithmetic::Add => self.elementwise(Op::Add, kind(integers), vec![a, b], place),
            Arithmetic::Subtract => self.elementwise(Op::Subtract, kind(integers), vec![a, b], place),
            Arithmetic::Multiply => self.elementwise(Op::Multiply, kind(integers && constant), vec![a, b], place),
            Arithmetic::Divide | Arithmetic::Remainder => match self.elementwise(Op::Power(-2), Kind::Number, vec![b], place) {
                Value::Term(reciprocal) => self.elementwise(Op::Multiply, Kind::Number, vec![a, reciprocal], place),
                _ => Value::Faulty,
            },
        }
    }

    /// `a / b` or `a % b` of integers: rounded down, so that the remainder is never negative.
    fn integer_quotient(&mut self, op: Arithmetic, a: TermId, b: TermId, place: Place) -> Value {
        let divisor = self.formula.number(b).filter(|r| r.denominator() == 1 && r.numerator() > 0).map(|r| r.numerator());
        let Some(divisor) = divisor else { return self.fault(place, message::integer_divisor()) };
        let Value::Term(quotient) = self.elementwise(Op::Quotient(divisor), Kind::Integer, vec![a], place) else { return Value::Faulty };
        if op == Arithmetic::Divide {
            return Value::Term(quotient);
        }
        match self.arithmetic(Arithmetic::Multiply, quotient, b, place) {
            Value::Term(multiple) => self.arithmetic(Arithmetic::Subtract, a, multiple, place),
            _ => Value::Faulty,
        }
    }
}
