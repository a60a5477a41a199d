//! The kernel's value against the types of its results.
use super::check::Checker;
use super::message::{self, Message};
use super::report::Place;
use super::scope::Value;
use super::syntax::{Expr, ExprKind, Tensor};
use super::term::{Kind, TermId};
use crate::axis::AxisSet;

/// Sets the formula's results, if they are without fault.
pub fn check(checker: &mut Checker, value: Value) {
    let source = checker.source;
    let results = &source.signature.results;
    let tail = tail(&source.body.value);
    for name in results.iter().flat_map(|r| r.dims.iter().flatten()) {
        checker.result_axis(name);
    }
    let mut written = vec![];
    for (i, argument) in source.signature.in_place() {
        let Some(state) = checker.in_place.iter().find(|a| argument.name == a.name) else { continue };
        match (state.value.clone(), state.written) {
            (value, Some(place)) => written.push(one(checker, value, &argument.tensor, place)),
            (_, None) => {
                checker.fault(source.signature.arguments[i].name.span().into(), message::never_written(&argument.name));
                written.push(None)
            }
        }
    }
    if results.len() != source.signature.promised {
        return; // a type was refused
    }
    if results.is_empty() {
        match value {
            Value::Tuple(values) if values.is_empty() => checker.formula.results = written.into_iter().flatten().collect(),
            Value::Faulty => {}
            Value::Tuple(values) => drop(checker.fault(tail.place, mismatch(0, values.len()))),
            Value::Term(_) => drop(checker.fault(tail.place, mismatch(0, 1))),
        }
        return;
    }
    let values = match (value, source.signature.tuple) {
        (Value::Faulty, _) => return,
        (Value::Tuple(values), true) => values,
        (value @ Value::Term(_), false) => vec![value],
        (Value::Tuple(values), false) => {
            checker.fault(tail.place, mismatch(1, values.len()));
            return;
        }
        (Value::Term(_), true) => {
            checker.fault(tail.place, mismatch(results.len(), 1));
            return;
        }
    };
    if values.len() != results.len() {
        checker.fault(tail.place, mismatch(results.len(), values.len()));
        return;
    }
    let place = |i: usize| match &tail.kind {
        ExprKind::Tuple(members) if source.signature.tuple => members[i].place,
        _ => tail.place,
    };
    let terms = values.into_iter().zip(results).enumerate().map(|(i, (v, r))| one(checker, v, r, place(i))).collect::<Vec<_>>();
    if let Some(terms) = written.into_iter().chain(terms).collect() {
        checker.formula.results = terms
    }
}

fn one(checker: &mut Checker, value: Value, result: &Tensor, place: Place) -> Option<TermId> {
    let term = match value {
        Value::Term(t) => t,
        Value::Tuple(_) => {
            checker.fault(place, message::tuple_as_value());
            return None;
        }
        Value::Faulty => return None,
    };
    let ty = checker.ty(term);
    if ty.kind == Kind::Truth {
        checker.fault(place, message::condition_as_value());
        return None;
    }
    if ty.masked {
        checker.fault(place, message::masked_output());
        return None;
    }
    let declared: AxisSet = checker.axes_of(result);
    for axis in ty.axes.difference(declared).iter() {
        let name = checker.formula.axis(axis).name.clone();
        checker.fault(place, message::axis_not_in_output(name));
    }
    for axis in declared.difference(ty.axes).iter() {
        // an axis that the formula lacks broadcasts; one that it reduces was probably forgotten
        if let Some(reduction) = checker.formula.reduction_over(term, axis) {
            let name = checker.formula.axis(axis).name.clone();
            let place = checker.formula.term(reduction).place;
            checker.fault(place, message::reduced_in_output(name));
        }
    }
    Some(term)
}

fn mismatch(wanted: usize, found: usize) -> Message {
    message::output_count(message::count(wanted, "output"), found)
}

/// The expression that gives a block its value.
fn tail(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Block(b) => tail(&b.value),
        _ => e,
    }
}
