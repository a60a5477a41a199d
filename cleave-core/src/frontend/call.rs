//! Names and calls: what a word means, axis arguments, and helpers and composites written out at their call.
use super::builtin::{self, Row};
use super::check::Checker;
use super::composite;
use super::message::{self, count};
use super::report::Place;
use super::scope::{Items, Scope, Value};
use super::suggest::nearest;
use super::syntax::*;
use super::term::{Kind, Op};
use crate::axis::AxisId;
use crate::dtype::{DType, Element};
use crate::graph::Function as Apply;
use crate::rational::Rational;
use proc_macro2::Ident;
use std::rc::Rc;

impl<'a> Checker<'a> {
    pub fn name(&mut self, name: &Ident, scope: &Scope<'a>) -> Value {
        let word = name.to_string();
        if let Some(value) = scope.value(&word) {
            return value.clone();
        }
        if self.active.is_empty() && self.in_place.iter().any(|a| a.name == word) {
            return self.fault(name.span().into(), message::read_in_place(name));
        }
        if let Some((constant, items)) = scope.items.constant(&word) {
            return self.constant(constant, items);
        }
        if scope.items.function(&word).is_some() || builtin::find(&word, false).is_some() || composite::names().any(|c| c == word) {
            return self.fault(name.span().into(), message::function_as_value(name));
        }
        let constants = scope.items.constant_names();
        let known = scope.values.iter().map(|v| v.0.as_str()).chain(constants.iter().map(|c| c.as_str()));
        let hint = match nearest(&word, known) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if self.named(&word).is_some() => {
                Some(format!("`{word}` is an axis: its extent is `extent::<{word}>()`, the position along it `index::<{word}>()`"))
            }
            None if !self.active.is_empty() && self.of_kernel(&word) => Some(format!("a helper sees its own arguments only: hand `{word}` over")),
            None if word.chars().all(|c| c.is_uppercase() || c == '_' || c.is_numeric()) => {
                Some("a constant stands inside the kernel's body: outside it the compiler does not see its value".into())
            }
            None => None,
        };
        self.fault(name.span().into(), message::unknown_name(name).or_hint(hint))
    }

    /// Whether the kernel itself has a value of this name.
    fn of_kernel(&self, name: &str) -> bool {
        fn binds(pattern: &Pattern, name: &str) -> bool {
            match pattern {
                Pattern::Name(n) => n == name,
                Pattern::Ignore => false,
                Pattern::Tuple(members, _) => members.iter().any(|m| binds(m, name)),
            }
        }
        self.source.signature.arguments.iter().any(|a| a.name == name)
            || self.source.body.statements.iter().any(|s| matches!(s, Statement::Let(p, _) if binds(p, name)))
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

    pub fn call(&mut self, place: Place, function: &Ident, axes: &'a [Vec<Ident>], arguments: &'a [Expr], scope: &mut Scope<'a>) -> Value {
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
        if self.source.faulty.contains(&word) {
            return Value::Faulty;
        }
        if let Some((_, hint)) = builtin::FOREIGN.iter().find(|f| f.0 == word) {
            return self.fault(function.span().into(), message::unsupported(format!("`{word}`")).or_hint(Some(hint.to_string())));
        }
        let names = scope.items.function_names();
        let language = composite::names().chain(builtin::TABLE.iter().map(|r| r.name));
        let known: Vec<&str> = names.iter().map(|s| s.as_str()).chain(language.map(|n| -> &str { n })).collect();
        let hint = nearest(&word, known).map(|n| format!("did you mean `{n}`?"));
        self.fault(function.span().into(), message::unknown_function(function).or_hint(hint).or_hint(Some(message::HELPERS.into())))
    }

    fn builtin_call(&mut self, place: Place, name: &Ident, row: &Row, axes: &'a [Vec<Ident>], arguments: &'a [Expr], scope: &mut Scope<'a>) -> Value {
        if axes.len() != row.axes {
            arguments.iter().for_each(|a| drop(self.expr(a, scope)));
            return self.axis_fault(place, name, row.axes, axes.len());
        }
        if arguments.len() != row.arguments {
            arguments.iter().for_each(|a| drop(self.expr(a, scope)));
            let two_meanings = builtin::TABLE.iter().filter(|r| r.name == row.name).count() == 2;
            let hint = two_meanings.then(|| format!("`{name}::<N>(x)` along an axis, `{name}(x, y)` of two values"));
            return self.fault(place, message::argument_count(name, count(row.arguments, "argument"), arguments.len()).or_hint(hint));
        }
        let values: Vec<_> = arguments.iter().map(|a| (self.expr(a, scope), a.place)).collect();
        if let builtin::Builtin::Cast = row.builtin {
            return self.cast(place, &axes[0], values);
        }
        // no input need have the axis that another one is renamed to
        if let (builtin::Builtin::Rename, [_, to]) = (row.builtin, axes)
            && let [name] = &to[..]
            && !scope.axes.iter().any(|a| name == &a.0)
            && self.named(&name.to_string()).is_none()
        {
            self.declare_axis(name, None)
        }
        let resolved: Vec<_> = axes.iter().map(|a| self.axes(a, scope)).collect();
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
            return self.axis_fault(place, name, helper.axes.len(), axes.len());
        }
        if values.len() != helper.parameters.len() {
            return self.fault(place, message::argument_count(name, count(helper.parameters.len(), "argument"), values.len()));
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

    /// A value rounded to a type, which stands where other functions have an axis.
    fn cast(&mut self, place: Place, types: &[Ident], values: Vec<(Value, Place)>) -> Value {
        let [name] = types else { return self.fault(place, message::cast_needs_type()) };
        let generics = &self.source.signature.generics;
        let to = match (generics.iter().position(|g| g == name), DType::parse(&name.to_string())) {
            (Some(i), _) => Element::Param(i as u8),
            (None, Some(t)) if t != DType::I32 => Element::Type(t),
            _ => return self.fault(name.span().into(), message::cast_type(name)),
        };
        let Some(x) = values.first().and_then(|v| self.number_argument(v)) else { return Value::Faulty };
        if let Element::Type(DType::F32) = to {
            // values are f32 already; of an integer it makes a value
            let Value::Term(one) = self.number(Rational::ONE, false, place) else { return Value::Faulty };
            return self.elementwise(Op::Multiply, Kind::Number, vec![x, one], place);
        }
        self.elementwise(Op::Apply(Apply::Round(to)), Kind::Number, vec![x], place)
    }

    fn axis_fault(&mut self, place: Place, name: &Ident, wanted: usize, found: usize) -> Value {
        let message = match (wanted, found) {
            (0, _) => message::no_axis(name),
            _ if name == "cast" => message::cast_needs_type(),
            (1, 0) => message::axis_needed(name),
            _ => message::axis_count(name, if wanted == 1 { "1 axis".into() } else { format!("{wanted} axes") }, found),
        };
        self.fault(place, message)
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
