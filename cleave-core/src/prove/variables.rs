//! The variables of a row: what each stands for, and of which family it is a member's own.
use super::denote::Unclear;
use crate::algebra::schema::{Addend, Axes, Coefficient, Factor, Guard, Place, Power, Row, Split, Term, Var};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Term,
    Factors,
    Addends,
    Axes,
    Power,
    Coefficient,
    Predicates,
    Family,
    /// A term of a known form.
    Named(Term),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    pub kind: Kind,
    pub family: Option<Var>,
}

pub type Variables = BTreeMap<Var, Variable>;

type Result<T> = std::result::Result<T, Unclear>;

/// The variables that the left side of a row binds.
///
/// # Errors
/// If one stands for two things, or the left side holds what only a right side may.
pub fn variables(row: &Row) -> Result<Variables> {
    let mut found = Collector { row, variables: Variables::new() };
    found.term(&row.left, None)?;
    Ok(found.variables)
}

struct Collector<'a> {
    row: &'a Row,
    variables: Variables,
}

impl Collector<'_> {
    fn bind(&mut self, v: Var, kind: Kind, family: Option<Var>) -> Result<()> {
        // what a family shares is no member's own
        let family = if self.row.split == Split::Shared(v) { None } else { family };
        match self.variables.get(&v) {
            Some(known) if known.kind == kind || matches!((known.kind, kind), (Kind::Named(_), Kind::Term)) => Ok(()),
            Some(_) => Err(Unclear::TwoThings(v)),
            None => {
                self.variables.insert(v, Variable { kind, family });
                Ok(())
            }
        }
    }
    fn term(&mut self, term: &Term, family: Option<Var>) -> Result<()> {
        match term {
            Term::Any(v) => self.bind(*v, Kind::Term, family),
            Term::Named(v, inner) => {
                self.bind(*v, Kind::Named(**inner), family)?;
                self.term(inner, family)
            }
            Term::Product(factors) => factors.iter().try_for_each(|f| match f {
                Factor::One(t, power) => self.power(power, family).and_then(|()| self.term(t, family)),
                Factor::Many(v) => self.bind(*v, Kind::Factors, family),
                Factor::Every(v, t, power) => {
                    self.bind(*v, Kind::Family, None)?;
                    self.power(power, Some(*v))?;
                    self.term(t, Some(*v))
                }
            }),
            Term::Linear(addends) => addends.iter().try_for_each(|a| match a {
                Addend::One(k, t) => self.coefficient(k, family).and_then(|()| self.term(t, family)),
                Addend::Many(v) => self.bind(*v, Kind::Addends, family),
                Addend::Every(v, k, t) => {
                    self.bind(*v, Kind::Family, None)?;
                    self.coefficient(k, Some(*v))?;
                    self.term(t, Some(*v))
                }
                Addend::Groups(v, group) => {
                    self.bind(*v, Kind::Family, None)?;
                    self.bind(*group, Kind::Addends, Some(*v))
                }
                Addend::Pairs(..) => Err(Unclear::Misplaced("each pair".into())),
            }),
            Term::Sum(axes, x) => self.axes(axes, family).and_then(|()| self.term(x, family)),
            Term::Maximum(axes, x, predicates) => {
                self.axes(axes, family)?;
                predicates.map_or(Ok(()), |p| self.bind(p, Kind::Predicates, family))?;
                self.term(x, family)
            }
            Term::Apply(_, x) | Term::AtLeastZero(x) => self.term(x, family),
            Term::Greatest(all) => all.iter().try_for_each(|x| self.term(x, family)),
            Term::Number(_) => Ok(()),
            // proved, though never searched for
            Term::Size(a) => self.axes(&Axes::Is(*a), family),
        }
    }
    fn axes(&mut self, axes: &Axes, family: Option<Var>) -> Result<()> {
        match axes {
            Axes::Is(v) => self.bind(*v, Kind::Axes, family),
            Axes::Both(v, w) => self.bind(*v, Kind::Axes, family).and_then(|()| self.bind(*w, Kind::Axes, family)),
        }
    }
    fn power(&mut self, power: &Power, family: Option<Var>) -> Result<()> {
        match power {
            Power::Any(v) | Power::Even(v) => self.bind(*v, Kind::Power, family),
            Power::Is(_) => Ok(()),
            Power::Total(..) => Err(Unclear::Misplaced(power.to_string())),
        }
    }
    fn coefficient(&mut self, k: &Coefficient, family: Option<Var>) -> Result<()> {
        match k {
            Coefficient::Any(v) => self.bind(*v, Kind::Coefficient, family),
            Coefficient::One | Coefficient::MinusOne | Coefficient::Number(_) => Ok(()),
            _ => Err(Unclear::Misplaced(k.to_string())),
        }
    }
}

/// Sets of axes that have none in common: a union on the left says so, or a guard.
pub fn apart(row: &Row, guards: bool) -> BTreeSet<(Var, Var)> {
    fn unions(term: &Term, found: &mut BTreeSet<(Var, Var)>) {
        if let Term::Sum(Axes::Both(v, w), _) | Term::Maximum(Axes::Both(v, w), ..) = term {
            found.extend([(*v, *w), (*w, *v)])
        }
        term.parts().into_iter().for_each(|t| unions(t, found))
    }
    let mut found = BTreeSet::new();
    unions(&row.left, &mut found);
    for g in row.guards.iter().filter(|_| guards) {
        if let Guard::Disjoint(Place::Axes(v), Place::Axes(w)) = g {
            found.extend([(*v, *w), (*w, *v)])
        }
    }
    found
}

/// Powers that are matched as whole ones.
pub fn whole_powers(row: &Row) -> BTreeSet<Var> {
    fn of_term(term: &Term, found: &mut BTreeSet<Var>) {
        if let Term::Product(factors) = term {
            let power = |f: &Factor| match f {
                Factor::One(_, Power::Even(v)) | Factor::Every(_, _, Power::Even(v)) => Some(*v),
                _ => None,
            };
            found.extend(factors.iter().filter_map(power))
        }
        term.parts().into_iter().for_each(|t| of_term(t, found))
    }
    let mut found = BTreeSet::new();
    of_term(&row.left, &mut found);
    found
}
