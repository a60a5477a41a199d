//! The chain of applications that led to an algorithm, checked one by one.
//!
//! Comes in: an application of a row, as terms of a graph. Goes out: nothing, or what is wrong with it. Its guards are looked up anew, by
//! the normal forms and facts of this module's neighbours, and its two sides must have the same normal form: so a step is checked as an
//! instance, whatever the search thought when it took it.
use super::poly::Mentions;
use super::replay::{Forms, Gap};
use crate::algebra::derive::{Applied, Bindings, Bound};
use crate::algebra::schema::{Guard, Place, Var};
use crate::axis::{AxisId, AxisSet};
use crate::graph::NodeId;
use crate::rational::Rational;

/// What is wrong with an application.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("`{guard}` does not follow")]
    Guard { guard: String },
    #[error("{0}")]
    Sides(#[from] Gap),
}

/// Checks one application.
///
/// # Errors
/// If a guard does not follow from the facts about the leaves, or the sides are not shown to be equal.
pub fn check(applied: &Applied) -> Result<(), Fault> {
    let mut forms = Forms::new(&applied.graph);
    for guard in applied.row.guards {
        if !holds(guard, &applied.bindings, &mut forms)? {
            return Err(Fault::Guard { guard: guard.to_string() });
        }
    }
    let (before, after) = (forms.form(applied.before)?, forms.form(applied.after)?);
    if before != after {
        return Err(Gap::Different { output: applied.row.name.into(), wanted: before.to_string(), found: after.to_string() }.into());
    }
    match forms.open().first() {
        Some(condition) => Err(Gap::Open { output: applied.row.name.into(), condition: Box::new(condition.clone()) }.into()),
        None => Ok(()),
    }
}

fn get<'a>(v: Var, scopes: &[&'a Bindings]) -> Option<&'a Bound> {
    scopes.iter().find_map(|s| s.iter().find(|b| b.0 == v)).map(|b| &b.1)
}

/// Of the bindings of the row, and of those of every member of a family.
fn holds(guard: &Guard, bindings: &Bindings, forms: &mut Forms) -> Result<bool, Gap> {
    let none = vec![];
    let families = bindings.iter().filter_map(|b| if let Bound::Family(all) = &b.1 { Some(all) } else { None });
    let members: Vec<&Bindings> = std::iter::once(&none).chain(families.flatten()).collect();
    for member in members {
        if !holds_in(guard, &[member, bindings], forms)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn members(bound: &Bound) -> Vec<(NodeId, i8)> {
    match bound {
        Bound::Nodes(all) => all.iter().map(|x| (*x, 2)).collect(),
        Bound::Factors(all) => all.clone(),
        Bound::Addends(all, _) => all.iter().map(|a| (a.1, 2)).collect(),
        _ => vec![],
    }
}

fn holds_in(guard: &Guard, scopes: &[&Bindings], forms: &mut Forms) -> Result<bool, Gap> {
    // a fact of every member whose power asks for it
    let mut every = |v: Var, asks: fn(i8) -> bool, fact: fn((bool, bool)) -> bool| -> Result<bool, Gap> {
        let Some(bound) = get(v, scopes) else { return Ok(true) };
        if let Bound::Coefficient(k) = bound {
            return Ok(fact((!k.is_negative(), !k.is_zero())));
        }
        for (x, e) in members(bound) {
            if asks(e) && !fact(forms.signs(x)?) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let always = |_: i8| true;
    let power = |v: Var| if let Some(Bound::Power(e)) = get(v, scopes) { *e } else { 2 };
    match guard {
        Guard::Disjoint(a, b) => Ok(!place(a, scopes, forms)?.intersects(place(b, scopes, forms)?)),
        Guard::NonZero(v) => every(*v, always, |s| s.1),
        Guard::NonNegative(v) => every(*v, always, |s| s.0),
        Guard::Positive(v) => every(*v, always, |s| s.0 && s.1),
        Guard::Negative(v) => match get(*v, scopes) {
            Some(Bound::Coefficient(k)) => Ok(*k < Rational::ZERO),
            _ => Ok(false),
        },
        Guard::NoPredicate(v) => no_predicate(*v, scopes, forms),
        Guard::RootOf(e, v) => Ok(power(*e) % 2 == 0 || every(*v, always, |s| s.0)?),
        Guard::InverseOf(e, v) => Ok(power(*e) > 0 || no_predicate(*v, scopes, forms)?),
        Guard::DivisorOf(e, v) => Ok(power(*e) > 0 || every(*v, always, |s| s.1)?),
        Guard::DividendOf(e, v) => Ok(power(*e) < 0 || every(*v, always, |s| s.1)?),
        Guard::Boolean(v) => boolean(*v, scopes, forms),
        Guard::Single(_) => Ok(false),
        Guard::HasValue(v) => {
            let divides = every(*v, |e| e < 0, |s| s.1)?;
            Ok(divides && every(*v, |e| e % 2 != 0, |s| s.0)?)
        }
    }
}

fn boolean(v: Var, scopes: &[&Bindings], forms: &mut Forms) -> Result<bool, Gap> {
    for (x, _) in get(v, scopes).map(members).unwrap_or_default() {
        let form = forms.form(x)?;
        if !form.as_base().is_some_and(|b| forms.is_predicate(b)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn no_predicate(v: Var, scopes: &[&Bindings], forms: &mut Forms) -> Result<bool, Gap> {
    for (x, _) in get(v, scopes).map(members).unwrap_or_default() {
        let form = forms.form(x)?;
        if form.as_base().is_some_and(|b| forms.is_predicate(b)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The axes of a set, or those at which the normal form of a term varies.
fn place(place: &Place, scopes: &[&Bindings], forms: &mut Forms) -> Result<AxisSet, Gap> {
    match place {
        Place::Axes(v) => Ok(if let Some(Bound::Axes(a)) = get(*v, scopes) { *a } else { AxisSet::EMPTY }),
        Place::Free(v) => {
            let mut axes = AxisSet::EMPTY;
            for (x, _) in get(*v, scopes).map(members).unwrap_or_default() {
                forms.form(x)?.outer().into_iter().for_each(|i| axes.insert(AxisId(i.domain)))
            }
            Ok(axes)
        }
    }
}
