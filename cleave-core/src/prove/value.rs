//! What a term of a row is, at the current indices: a number, -inf, or none.
//!
//! Comes in: a term and the indices in scope. Goes out: a [`Value`], its real part in normal form.
use super::denote::{Denoter, Result, Scope, Unclear, Value};
use super::logic::{Formula, all, any, nonnegative, positive, positive_power, power_is, whole, zero};
use super::normal::Condition;
use super::poly::{Atom, Base, Binder, Exponent, Poly};
use super::variables::{Kind, Variable};
use crate::algebra::schema::{Addend, Axes, Coefficient, Factor, Power, Term, Var};
use crate::graph::Function;
use crate::rational::Rational;
use std::collections::BTreeMap;

impl Denoter<'_> {
    fn plain(real: Poly) -> Value {
        Value { none: Formula::False, infinite: Formula::False, zero: zero(&real), real, improper: Formula::False }
    }
    pub(super) fn term(&mut self, term: &Term, scope: &Scope) -> Result<Value> {
        match term {
            Term::Any(v) => match self.variable(scope.other.filter(|o| o.0 == *v).map_or(*v, |o| o.1))?.kind {
                Kind::Named(inner) => self.term(&inner, scope),
                Kind::Factors => self.product(&[Factor::Many(*v)], scope),
                Kind::Term | Kind::Addends => Ok(Self::plain(Poly::atom(self.atom(*v, "", scope)?))),
                _ => Err(Unclear::TwoThings(*v)),
            },
            Term::Named(_, inner) => self.term(inner, scope),
            Term::Product(factors) => self.product(factors, scope),
            Term::Linear(addends) => self.linear(addends, scope),
            Term::Sum(axes, x) => {
                let binders: Vec<Binder> = self.cells(axes, scope)?.into_iter().map(|d| self.binder(d, scope)).collect();
                let x = self.term(x, &Self::bound(scope, &binders))?;
                let none = x.none.somewhere(&binders);
                let infinite = none.clone().not().and(x.infinite.somewhere(&binders));
                let real = self.normal.sum(&binders, &x.real);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Ok(Value { none, infinite, zero, real, improper: x.improper.somewhere(&binders) })
            }
            Term::Maximum(axes, x, predicates) => {
                let binders: Vec<Binder> = self.cells(axes, scope)?.into_iter().map(|d| self.binder(d, scope)).collect();
                let inner = Self::bound(scope, &binders);
                let x = self.term(x, &inner)?;
                let predicates: Vec<Atom> = predicates.iter().map(|p| self.atom(*p, "", &inner)).collect::<Result<_>>()?;
                let visible = all(predicates.iter().cloned().map(Formula::Holds));
                let none = visible.clone().and(x.none).somewhere(&binders);
                // of nothing too
                let infinite = none.clone().not().and(visible.clone().implies(x.infinite.clone()).everywhere(&binders));
                let improper = visible.and(x.improper.or(x.infinite)).somewhere(&binders);
                let real = self.normal.maximum(&binders, &predicates, &x.real);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Ok(Value { none, infinite, zero, real, improper })
            }
            Term::Apply(function, x) => {
                let x = self.term(x, scope)?;
                Ok(self.apply(*function, x))
            }
            Term::Greatest(all_of) => {
                let values: Vec<Value> = all_of.iter().map(|x| self.term(x, scope)).collect::<Result<_>>()?;
                let none = any(values.iter().map(|v| v.none.clone()));
                let infinite = none.clone().not().and(all(values.iter().map(|v| v.infinite.clone())));
                let improper = any(values.iter().flat_map(|v| [v.improper.clone(), v.infinite.clone()]));
                let reals: Vec<Poly> = values.iter().map(|v| v.real.clone()).collect();
                let real = self.normal.greatest(&reals);
                Ok(Value { zero: all([none.clone().not(), infinite.clone().not(), zero(&real)]), none, infinite, real, improper })
            }
            Term::AtLeastZero(x) => {
                let x = self.term(x, scope)?;
                let none = x.none.or(x.infinite);
                let real = match x.real.as_number() {
                    Some(k) => Poly::number(if k.is_negative() { Rational::ZERO } else { Rational::ONE }),
                    None => Poly::base(Base::AtLeastZero(x.real)),
                };
                Ok(Value { zero: none.clone().not().and(zero(&real)), none, infinite: Formula::False, real, improper: x.improper })
            }
            Term::Size(v) => {
                let mut real = Poly::one();
                for d in self.cells(&Axes::Is(*v), scope)? {
                    let within = self.spaces[d as usize].within.map(|f| scope.at[f as usize]);
                    real = self.normal.mul(&real, &Poly::base(Base::Size(d, within)))
                }
                Ok(Self::plain(real))
            }
            Term::Number(n) => Ok(Self::plain(Poly::number(Rational::integer(*n)))),
        }
    }
    fn apply(&mut self, function: Function, x: Value) -> Value {
        let real = self.normal.apply(function, &x.real);
        match function {
            Function::Exp => {
                Value { zero: x.none.clone().not().and(x.infinite.clone()), none: x.none, infinite: Formula::False, real, improper: x.improper.or(x.infinite) }
            }
            Function::Log => {
                let none = any([x.none, x.infinite, x.zero.clone().not().and(positive(&x.real).not())]);
                let infinite = none.clone().not().and(x.zero);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Value { none, infinite, zero, real, improper: x.improper }
            }
            Function::Tanh | Function::Sigmoid | Function::Abs | Function::Round(_) => {
                let none = x.none.or(x.infinite);
                Value { zero: none.clone().not().and(zero(&real)), none, infinite: Formula::False, real, improper: x.improper }
            }
        }
    }
    fn exponent(&self, power: &Power, scope: &Scope) -> Result<Exponent> {
        Ok(match power {
            Power::Is(n) => Exponent::number(*n as i32),
            Power::Any(v) | Power::Even(v) => Exponent::symbol(self.atom(*v, "", scope)?),
            Power::Total(v, w) => Exponent::symbol(self.atom(*v, "", scope)?).add(&Exponent::symbol(self.atom(*w, "", scope)?)),
        })
    }
    fn product(&mut self, factors: &[Factor], scope: &Scope) -> Result<Value> {
        let mut parts = vec![];
        for f in factors {
            parts.push(self.factor(f, scope)?)
        }
        let zero = any(parts.iter().map(|p| p.zero.clone()));
        let fine = all(parts.iter().map(|p| p.fine.clone()));
        let alone = |i: usize| {
            let others = parts.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| p.fine.clone().and(positive(&p.real)));
            parts[i].infinite.clone().and(all(others))
        };
        let infinite = zero.clone().not().and(any((0..parts.len()).map(alone)));
        let none = any([zero.clone(), fine, infinite.clone()]).not();
        let mut real = Poly::one();
        for p in &parts {
            real = self.normal.mul(&real, &p.real)
        }
        Ok(Value { none, infinite, zero, real, improper: any(parts.into_iter().map(|p| p.improper)) })
    }
    fn factor(&mut self, factor: &Factor, scope: &Scope) -> Result<Part> {
        match factor {
            Factor::Many(v) => self.factor(&Factor::One(Term::Any(*v), Power::Is(2)), scope),
            Factor::One(term, power) => {
                let e = self.exponent(power, scope)?;
                if let Term::Any(v) = term
                    && let Ok(Variable { kind: Kind::Factors, .. }) = self.variable(*v)
                {
                    return self.multiset(*v, &e, scope);
                }
                let x = self.term(term, scope)?;
                let up = positive_power(&e);
                Ok(Part {
                    zero: up.clone().and(x.zero.clone()),
                    fine: all([x.none.clone().not(), x.infinite.clone().not(), whole(&e).or(nonnegative(&x.real)), up.or(x.zero.clone().not())]),
                    infinite: x.none.not().and(x.infinite).and(power_is(&e, 2)),
                    real: self.normal.power(&x.real, &e),
                    improper: x.improper,
                })
            }
            Factor::Every(family, term, power) => {
                let binder = self.binder(self.family(*family)?, scope);
                let inner = Self::bound(scope, &[binder]);
                let part = self.factor(&Factor::One(**term, *power), &inner)?;
                Ok(Part {
                    zero: part.zero.somewhere(&[binder]),
                    fine: part.fine.everywhere(&[binder]),
                    infinite: Formula::False,
                    real: self.normal.product_over(binder, &part.real),
                    improper: part.improper.or(part.infinite).somewhere(&[binder]),
                })
            }
        }
    }
    fn multiset(&mut self, v: Var, e: &Exponent, scope: &Scope) -> Result<Part> {
        let numerator = Poly::atom(self.atom(v, "", scope)?);
        let denominator = Poly::atom(self.atom(v, "/", scope)?);
        let rooted = whole(e).or(Formula::Holds(self.atom(v, ">=0", scope)?));
        let up = positive_power(e);
        let down = up.clone().not();
        let (top, bottom) = (self.normal.power(&numerator, e), self.normal.power(&denominator, &e.times(-1)));
        Ok(Part {
            zero: up.clone().and(zero(&numerator)).or(down.clone().and(zero(&denominator))),
            fine: all([Formula::Holds(self.atom(v, "'s roots", scope)?), rooted, up.implies(zero(&denominator).not()), down.implies(zero(&numerator).not())]),
            infinite: Formula::False,
            real: self.normal.mul(&top, &bottom),
            improper: Formula::False,
        })
    }
    fn coefficient(&mut self, k: &Coefficient, scope: &Scope) -> Result<Poly> {
        Ok(match k {
            Coefficient::One => Poly::one(),
            Coefficient::MinusOne => Poly::number(Rational::MINUS_ONE),
            Coefficient::Number(k) => Poly::number(*k),
            Coefficient::Any(v) => Poly::atom(self.atom(*v, "", scope)?),
            Coefficient::Minus(v) => {
                let k = Poly::atom(self.atom(*v, "", scope)?);
                self.normal.scale(&k, Rational::MINUS_ONE)
            }
            Coefficient::HalfOf(v) => {
                let e = Exponent::symbol(self.atom(*v, "", scope)?);
                self.normal.half_of(&e)
            }
        })
    }
    fn linear(&mut self, addends: &[Addend], scope: &Scope) -> Result<Value> {
        let mut sum = Self::plain(Poly::zero());
        let mut infinite = Formula::False;
        for a in addends {
            let x = self.addend(a, scope)?;
            sum.none = sum.none.or(x.none);
            infinite = infinite.or(x.infinite);
            sum.improper = sum.improper.or(x.improper);
            sum.real = self.normal.add(&sum.real, &x.real)
        }
        sum.infinite = sum.none.clone().not().and(infinite);
        sum.zero = all([sum.none.clone().not(), sum.infinite.clone().not(), zero(&sum.real)]);
        Ok(sum)
    }
    fn addend(&mut self, addend: &Addend, scope: &Scope) -> Result<Value> {
        match addend {
            Addend::Many(v) => self.term(&Term::Any(*v), scope),
            Addend::One(k, term) => {
                let k = self.coefficient(k, scope)?;
                let x = self.term(term, scope)?;
                Ok(Value { none: x.none.or(x.infinite.clone().and(positive(&k).not())), real: self.normal.mul(&k, &x.real), ..x })
            }
            Addend::Every(family, k, term) => self.every(*family, k, term, scope),
            Addend::Groups(family, v) => self.every(*family, &Coefficient::One, &Term::Any(*v), scope),
            Addend::Pairs(family, (v, other), k, term) => {
                let first = self.binder(self.family(*family)?, scope);
                let second = self.binder(first.index.domain, scope);
                let inner = Scope { other: Some((*other, *v, second.index)), ..Self::bound(scope, &[first]) };
                let x = self.term(term, &inner)?;
                // 2 * the sum over pairs is the sum over both less the sum over equal ones, for what is the same either way
                let swap = BTreeMap::from([(first.index, second.index), (second.index, first.index)]);
                if self.normal.rename(&x.real, &swap) != x.real {
                    self.normal.conditions.push(Condition::Never)
                }
                let diagonal = self.normal.rename(&x.real, &BTreeMap::from([(second.index, first.index)]));
                let (square, diagonal) = (self.normal.sum(&[first, second], &x.real), self.normal.sum(&[first], &diagonal));
                let less = self.normal.scale(&diagonal, Rational::MINUS_ONE);
                let both = self.normal.add(&square, &less);
                let half = Rational::new(*k as i128, 2).unwrap_or(Rational::ZERO);
                Ok(Value {
                    none: x.none.or(x.infinite).somewhere(&[first, second]),
                    infinite: Formula::False,
                    real: self.normal.scale(&both, half),
                    improper: x.improper.somewhere(&[first, second]),
                    zero: Formula::False,
                })
            }
        }
    }

    fn every(&mut self, family: Var, k: &Coefficient, term: &Term, scope: &Scope) -> Result<Value> {
        let binder = self.binder(self.family(family)?, scope);
        let x = self.addend(&Addend::One(*k, *term), &Self::bound(scope, &[binder]))?;
        Ok(Value {
            none: x.none.somewhere(&[binder]),
            infinite: x.infinite.somewhere(&[binder]),
            real: self.normal.sum(&[binder], &x.real),
            improper: x.improper.somewhere(&[binder]),
            zero: Formula::False,
        })
    }
}

/// What a factor does to its product.
struct Part {
    /// It is 0, and so is the product.
    zero: Formula,
    /// It is a number.
    fine: Formula,
    infinite: Formula,
    real: Poly,
    improper: Formula,
}
