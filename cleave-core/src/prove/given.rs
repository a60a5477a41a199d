//! What is given with a claim: the guards of its row, and what its forms say by themselves.
use super::denote::{Denoter, Result, Scope, Value};
use super::logic::{Formula, all, nonnegative, positive, positive_power, power_is, whole, zero};
use super::poly::{Binder, Domain, Exponent, Index, Mentions, Poly};
use super::variables::{self, Kind};
use crate::algebra::schema::{Axes, Guard, Var};
use crate::rational::Rational;
use std::collections::BTreeSet;

impl Denoter<'_> {
    /// All positions at which the formula speaks of a variable.
    fn throughout(&mut self, make: impl Fn(&mut Self, &Scope) -> Result<Formula>) -> Formula {
        let free = Scope { at: (0..self.spaces.len() as Domain).map(Index::free).collect(), other: None };
        let mut binders: Vec<Binder> = vec![];
        let mut scope = free;
        // families first: cells may depend on a member
        let order = (0..self.spaces.len()).filter(|d| self.spaces[*d].family).chain((0..self.spaces.len()).filter(|d| !self.spaces[*d].family));
        for d in order.collect::<Vec<_>>() {
            let b = self.binder(d as Domain, &scope);
            scope.at[d] = b.index;
            binders.push(b)
        }
        let Ok(formula) = make(self, &scope) else { return Formula::True };
        let mut used = formula.indices();
        used.extend(binders.iter().filter(|b| used.contains(&b.index)).filter_map(|b| b.within).collect::<Vec<_>>());
        binders.retain(|b| used.contains(&b.index));
        formula.everywhere(&binders)
    }
    pub(super) fn given(&mut self) -> Vec<Formula> {
        let mut given = vec![];
        for (v, variable) in self.variables.clone() {
            given.push(match variable.kind {
                // neither is ever 0 in a normal form
                Kind::Power => self.throughout(|d, s| Ok(power_is(&Exponent::symbol(d.atom(v, "", s)?), 0).not())),
                Kind::Coefficient => self.throughout(|d, s| Ok(zero(&Poly::atom(d.atom(v, "", s)?)).not())),
                Kind::Factors => self.throughout(|d, s| {
                    let members = Formula::Holds(d.atom(v, ">=0", s)?);
                    let (top, bottom) = (Poly::atom(d.atom(v, "", s)?), Poly::atom(d.atom(v, "/", s)?));
                    let roots = Formula::Holds(d.atom(v, "'s roots", s)?);
                    Ok(members.implies(all([nonnegative(&top), nonnegative(&bottom), roots])))
                }),
                _ => Formula::True,
            })
        }
        for v in variables::whole_powers(self.row) {
            given.push(self.throughout(|d, s| Ok(whole(&Exponent::symbol(d.atom(v, "", s)?)))))
        }
        for guard in self.row.guards {
            given.push(self.throughout(|d, s| d.guard(guard, s)))
        }
        given.retain(|g| *g != Formula::True);
        given
    }
    /// The sides are compared at positions that there are.
    pub(super) fn positions(&self, sides: &[&Value]) -> Vec<Formula> {
        let mut used = BTreeSet::new();
        for side in sides {
            used.extend(side.real.outer());
            [&side.none, &side.infinite, &side.zero].into_iter().for_each(|f| f.mentions(&mut used))
        }
        let within = |i: &Index| self.spaces[i.domain as usize].within.map(Index::free);
        used.iter().filter(|i| i.id == 0).map(|i| Formula::Inside(Binder { index: *i, within: within(i) })).collect()
    }
    fn guard(&mut self, guard: &Guard, scope: &Scope) -> Result<Formula> {
        match guard {
            // said by what a variable varies with, and by the cells
            Guard::Disjoint(..) => Ok(Formula::True),
            Guard::NonZero(v) => self.fact(*v, scope, |x| zero(x).not(), false),
            Guard::NonNegative(v) => self.fact(*v, scope, nonnegative, true),
            Guard::Positive(v) => self.fact(*v, scope, positive, true),
            Guard::Negative(v) => self.fact(*v, scope, |x| nonnegative(x).not(), false),
            // about what has no value beside a predicate of 0: no variable is such
            Guard::NoPredicate(_) | Guard::InverseOf(..) => Ok(Formula::True),
            Guard::RootOf(e, x) => {
                let whole = whole(&Exponent::symbol(self.atom(*e, "", scope)?));
                Ok(whole.or(self.fact(*x, scope, nonnegative, true)?))
            }
            Guard::DivisorOf(e, x) => {
                let up = positive_power(&Exponent::symbol(self.atom(*e, "", scope)?));
                Ok(up.or(self.fact(*x, scope, |x| zero(x).not(), false)?))
            }
            Guard::DividendOf(e, x) => {
                let down = positive_power(&Exponent::symbol(self.atom(*e, "", scope)?)).not();
                Ok(down.or(self.fact(*x, scope, |x| zero(x).not(), false)?))
            }
            Guard::Boolean(v) => {
                let x = Poly::atom(self.atom(*v, "", scope)?);
                let less = self.normal.add(&x, &Poly::number(Rational::MINUS_ONE));
                Ok(zero(&x).or(zero(&less)))
            }
            Guard::Single(v) => {
                let mut same = vec![];
                for d in self.cells(&Axes::Is(*v), scope)? {
                    let (a, b) = (self.binder(d, scope), self.binder(d, scope));
                    same.push(Formula::Same(a.index, b.index).everywhere(&[a, b]))
                }
                Ok(all(same))
            }
            Guard::HasValue(v) => match self.variable(*v)?.kind {
                Kind::Factors => Ok(zero(&Poly::atom(self.atom(*v, "/", scope)?)).not().and(Formula::Holds(self.atom(*v, "'s roots", scope)?))),
                _ => Ok(Formula::True),
            },
        }
    }
    /// A fact about a variable; of a multiset about every member (`signed`: then the members' roots exist).
    fn fact(&mut self, v: Var, scope: &Scope, says: impl Fn(&Poly) -> Formula, signed: bool) -> Result<Formula> {
        match self.variable(v)?.kind {
            Kind::Factors => {
                let (top, bottom) = (Poly::atom(self.atom(v, "", scope)?), Poly::atom(self.atom(v, "/", scope)?));
                let members = if signed { Formula::Holds(self.atom(v, ">=0", scope)?) } else { Formula::True };
                Ok(all([says(&top), says(&bottom), members]))
            }
            Kind::Term | Kind::Coefficient => Ok(says(&Poly::atom(self.atom(v, "", scope)?))),
            Kind::Named(term) => {
                let x = self.term(&term, scope)?;
                Ok(says(&x.real))
            }
            // of the members of a sum nothing follows for it that rows use
            _ => Ok(Formula::True),
        }
    }
}
