//! Names and types: the kernel as written becomes a [`Formula`]. Helpers and composites are written out here. Every fault is
//! reported where it is; what depends on a faulty expression is passed over.
use super::builtin::{self, Row};
use super::message::{self, Message};
use super::report::{Errors, Place};
use super::scope::{Items, Scope, Value};
use super::suggest::nearest;
use super::syntax::*;
use super::term::*;
use super::{composite, output};
use crate::axis::{AxisId, AxisSet, MAX_AXES};
use crate::dtype::DType;
use crate::rational::Rational;
use proc_macro2::Ident;
use std::rc::Rc;

/// Terms that a kernel may have, helpers written out.
const LARGEST: usize = 10_000;

pub struct Checker<'a> {
    pub errors: &'a mut Errors,
    pub formula: Formula,
    pub source: &'a Source,
    /// The call of a composite that is being written out: its faults are blamed on it.
    blame: Option<Place>,
    /// Helpers being written out, to find one that calls itself.
    active: Vec<&'a Function>,
    /// Constants being evaluated, to find one that needs itself.
    pending: Vec<&'a Constant>,
}

/// The kernel's formula; without faults it has a term for each result.
pub fn check(source: &Source, errors: &mut Errors) -> Formula {
    let library = composite::library();
    let mut checker = Checker { errors, formula: Formula::default(), source, blame: None, active: vec![], pending: vec![] };
    checker.declare();
    let items = Items::inside(&Items::library(&library), &source.body);
    let mut scope = Scope { items, values: vec![], axes: vec![] };
    for (i, argument) in source.signature.arguments.iter().enumerate() {
        let value = checker.argument(i, argument);
        scope.values.push((argument.name.to_string(), value))
    }
    let value = checker.block(&source.body, &mut scope);
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
        for name in source.signature.arguments.iter().flat_map(|a| a.tensor.dims.iter().flatten()) {
            if self.named(&name.to_string()).is_none() {
                self.declare_axis(name, None)
            }
        }
        for (name, _) in &source.attribute.bounds {
            if self.named(&name.to_string()).is_none_or(|a| self.formula.axis(a).constant.is_some()) {
                let message = self.unknown_axis(name, &[]);
                self.errors.push(name.span(), message)
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

    fn declare_axis(&mut self, name: &Ident, constant: Option<u32>) {
        let word = name.to_string();
        if self.named(&word).is_some() {
            self.errors.push(name.span(), message::declared_twice(name))
        } else if self.source.signature.generics.contains(name) || DType::parse(&word).is_some() {
            self.errors.push(name.span(), message::type_as_axis(name))
        } else if self.formula.axes.len() == MAX_AXES {
            self.errors.push(name.span(), message::too_many_axes(MAX_AXES))
        } else {
            self.formula.axes.push(Declared { name: word, constant, place: name.span().into() })
        }
    }

    fn named(&self, name: &str) -> Option<AxisId> {
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
        let kind = if matches!(argument.tensor.element, ElementName::Type(DType::I32)) { Kind::Integer } else { Kind::Number };
        let axes = self.axes_of(&argument.tensor);
        self.push(Op::Read(i), vec![], Type { kind, axes, masked: false }, argument.name.span().into())
    }

    pub fn fault(&mut self, place: Place, message: Message) -> Value {
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

    fn block(&mut self, block: &'a Block, scope: &mut Scope<'a>) -> Value {
        let (around, visible) = (scope.items.clone(), scope.values.len());
        scope.items = Items::inside(&around, block);
        for (pattern, e) in &block.lets {
            let value = self.expr(e, scope);
            self.bind(pattern, value, scope)
        }
        let value = self.expr(&block.value, scope);
        scope.values.truncate(visible);
        scope.items = around;
        value
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
                    Value::Tuple(values) => drop(self.fault(*place, message::tuple_length(members.len(), values.len()))),
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
            ExprKind::Compare(op, a, b) => match (self.integer(a, scope), self.integer(b, scope)) {
                (Some(a), Some(b)) => self.elementwise(Op::Compare(*op), Kind::Truth, vec![a, b], e.place),
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

    fn name(&mut self, name: &Ident, scope: &Scope<'a>) -> Value {
        let word = name.to_string();
        if let Some(value) = scope.value(&word) {
            return value.clone();
        }
        if let Some((constant, items)) = scope.items.constant(&word) {
            return self.constant(constant, items);
        }
        if scope.items.function(&word).is_some() || builtin::find(&word, false).is_some() {
            return self.fault(name.span().into(), message::function_as_value(name));
        }
        let constants = scope.items.constant_names();
        let known = scope.values.iter().map(|v| v.0.as_str()).chain(constants.iter().map(|c| c.as_str()));
        let hint = match nearest(&word, known) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if self.named(&word).is_some() => {
                Some(format!("`{word}` is an axis: its extent is `extent::<{word}>()`, the position along it `index::<{word}>()`"))
            }
            None if word.chars().all(|c| c.is_uppercase() || c == '_' || c.is_numeric()) => {
                Some("a constant stands inside the kernel's body: outside it the compiler does not see its value".into())
            }
            None => None,
        };
        self.fault(name.span().into(), message::unknown_name(name).or_hint(hint))
    }

    fn constant(&mut self, constant: &'a Constant, items: Rc<Items<'a>>) -> Value {
        let place = constant.value.place;
        if self.pending.iter().any(|c| std::ptr::eq(*c, constant)) {
            return self.fault(place, message::recursion(&constant.name));
        }
        let mut inner = Scope { items, values: vec![], axes: vec![] };
        self.pending.push(constant);
        let value = self.expr(&constant.value, &mut inner);
        self.pending.pop();
        match value {
            Value::Term(t) => match self.formula.number(t) {
                Some(value) if constant.integer && value.denominator() != 1 => self.fault(place, message::constant_value(&constant.name)),
                Some(value) => self.number(value, constant.integer, place),
                None => self.fault(place, message::constant_value(&constant.name)),
            },
            Value::Tuple(_) => self.fault(place, message::constant_value(&constant.name)),
            Value::Faulty => Value::Faulty,
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

    /// What can be compared.
    fn integer(&mut self, e: &'a Expr, scope: &mut Scope<'a>) -> Option<TermId> {
        let t = self.numeric(e, scope)?;
        if self.ty(t).kind == Kind::Integer {
            return Some(t);
        }
        self.fault(e.place, message::compared_values());
        None
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

    fn arithmetic(&mut self, op: Arithmetic, a: TermId, b: TermId, place: Place) -> Value {
        let integers = [a, b].iter().all(|t| self.ty(*t).kind == Kind::Integer);
        let numbers = self.formula.number(a).zip(self.formula.number(b));
        if let (Arithmetic::Divide, Some(divisor)) = (op, self.formula.number(b)) {
            if divisor.is_zero() {
                return self.fault(place, message::division_by_zero());
            }
            if integers && numbers.is_some() {
                return self.fault(place, message::integer_division());
            }
        }
        if let Some((x, y)) = numbers {
            let folded = match op {
                Arithmetic::Add => x.add(y),
                Arithmetic::Subtract => y.neg().and_then(|y| x.add(y)),
                Arithmetic::Multiply => x.mul(y),
                Arithmetic::Divide => y.pow(-1).and_then(|y| x.mul(y)),
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
            Arithmetic::Divide => match self.elementwise(Op::Power(-2), Kind::Number, vec![b], place) {
                Value::Term(reciprocal) => self.elementwise(Op::Multiply, Kind::Number, vec![a, reciprocal], place),
                _ => Value::Faulty,
            },
        }
    }

    /// One axis argument: an axis, several, or a helper's parameter that stands for some.
    fn axes(&mut self, names: &[Ident], scope: &Scope<'a>) -> Option<Vec<AxisId>> {
        let mut out = vec![];
        let mut good = true;
        for name in names {
            let word = name.to_string();
            let bound = scope.axes.iter().find(|a| a.0 == word).map(|a| a.1.clone());
            match bound.or_else(|| self.named(&word).map(|a| vec![a])) {
                Some(axes) => {
                    if axes.iter().any(|a| out.contains(a)) {
                        self.fault(name.span().into(), message::axis_twice(name));
                        good = false
                    }
                    out.extend(axes)
                }
                None => {
                    let more: Vec<String> = scope.axes.iter().map(|a| a.0.clone()).collect();
                    let message = self.unknown_axis(name, &more);
                    self.fault(name.span().into(), message);
                    good = false
                }
            }
        }
        good.then_some(out)
    }

    fn call(&mut self, place: Place, function: &Ident, axes: &'a [Vec<Ident>], arguments: &'a [Expr], scope: &mut Scope<'a>) -> Value {
        let word = function.to_string();
        if scope.value(&word).is_some() {
            arguments.iter().for_each(|a| drop(self.expr(a, scope)));
            return self.fault(function.span().into(), message::value_as_function(function));
        }
        if let Some((helper, items)) = scope.items.function(&word) {
            return self.helper(place, helper, items, axes, arguments, scope);
        }
        if let Some(row) = builtin::find(&word, !axes.is_empty()) {
            return self.builtin_call(place, function, row, axes, arguments, scope);
        }
        arguments.iter().for_each(|a| drop(self.expr(a, scope)));
        if let Some((_, hint)) = builtin::FOREIGN.iter().find(|f| f.0 == word) {
            return self.fault(function.span().into(), message::unsupported(format!("`{word}`")).or_hint(Some(hint.to_string())));
        }
        let names = scope.items.function_names();
        let known = names.iter().map(|s| s.as_str()).chain(builtin::TABLE.iter().map(|r| r.name));
        let hint = nearest(&word, known).map(|n| format!("did you mean `{n}`?"));
        self.fault(function.span().into(), message::unknown_function(function).or_hint(hint))
    }

    fn builtin_call(&mut self, place: Place, name: &Ident, row: &Row, axes: &'a [Vec<Ident>], arguments: &'a [Expr], scope: &mut Scope<'a>) -> Value {
        if let builtin::Builtin::Cast = row.builtin {
            return self.fault(place, message::cast());
        }
        if axes.len() != row.axes {
            arguments.iter().for_each(|a| drop(self.expr(a, scope)));
            return self.fault(place, message::axis_count(name, row.axes, axes.len()));
        }
        if arguments.len() != row.arguments {
            arguments.iter().for_each(|a| drop(self.expr(a, scope)));
            return self.fault(place, message::argument_count(name, row.arguments, arguments.len()));
        }
        let resolved: Vec<_> = axes.iter().map(|a| self.axes(a, scope)).collect();
        let values: Vec<_> = arguments.iter().map(|a| (self.expr(a, scope), a.place)).collect();
        match resolved.into_iter().collect::<Option<Vec<_>>>() {
            Some(axes) => self.builtin(place, row, &axes, values),
            None => Value::Faulty,
        }
    }

    fn helper(
        &mut self,
        place: Place,
        helper: &'a Function,
        items: Rc<Items<'a>>,
        axes: &'a [Vec<Ident>],
        arguments: &'a [Expr],
        scope: &mut Scope<'a>,
    ) -> Value {
        let values: Vec<_> = arguments.iter().map(|a| self.expr(a, scope)).collect();
        let resolved: Vec<_> = axes.iter().map(|a| self.axes(a, scope)).collect();
        let name = &helper.name;
        if axes.len() != helper.axes.len() {
            return self.fault(place, message::axis_count(name, helper.axes.len(), axes.len()));
        }
        if values.len() != helper.parameters.len() {
            return self.fault(place, message::argument_count(name, helper.parameters.len(), values.len()));
        }
        if self.active.iter().any(|f| std::ptr::eq(*f, helper)) {
            return self.fault(place, message::recursion(name));
        }
        let Some(resolved) = resolved.into_iter().collect::<Option<Vec<_>>>() else { return Value::Faulty };
        for ((value, argument), (_, shape)) in values.iter().zip(arguments).zip(&helper.parameters) {
            if !self.has_shape(value, shape) {
                return self.fault(argument.place, message::argument_shape(shape));
            }
        }
        let library = items.library;
        let mut inner = Scope {
            items,
            values: helper.parameters.iter().map(|p| p.0.to_string()).zip(values).collect(),
            axes: helper.axes.iter().map(|a| a.to_string()).zip(resolved).collect(),
        };
        let outer = self.blame;
        self.blame = outer.or(library.then_some(place));
        self.active.push(helper);
        let result = self.block(&helper.body, &mut inner);
        self.active.pop();
        self.blame = outer;
        if !self.has_shape(&result, &helper.result.0) {
            return self.fault(helper.result.1, message::result_shape(&helper.result.0));
        }
        result
    }

    fn has_shape(&self, value: &Value, shape: &Shape) -> bool {
        match (value, shape) {
            (Value::Faulty, _) => true,
            (Value::Term(t), Shape::Value) => self.ty(*t).kind != Kind::Truth,
            (Value::Term(t), Shape::Truth) => self.ty(*t).kind == Kind::Truth,
            (Value::Tuple(v), Shape::Tuple(s)) => v.len() == s.len() && v.iter().zip(s).all(|(v, s)| self.has_shape(v, s)),
            _ => false,
        }
    }
}
