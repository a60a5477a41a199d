//! Building a side of a row under an instance's bindings.
//!
//! Comes in: a schema and the environments in scope. Goes out: a term of a [`Target`]: a class of the e-graph for the search, a
//! node of a graph for printing; `None` where a coefficient or an exponent does not fit, then the instance is dropped.
use super::matcher::{Env, Value};
use super::schema::{Addend, Axes, Coefficient, Factor, Power, Term, Var};
use super::term::{self, Head, Node, Terms};
use crate::axis::{AxisId, AxisSet};
use crate::graph::Function;
use crate::rational::Rational;
use egg::Id;

/// Where terms are built.
pub trait Target {
    type Id: Copy;
    /// What a variable bound to a class stands for.
    fn class(&mut self, class: Id) -> Self::Id;
    fn number(&mut self, value: Rational) -> Self::Id;
    fn size(&mut self, axis: AxisId) -> Self::Id;
    fn apply(&mut self, function: Function, x: Self::Id) -> Self::Id;
    fn product(&mut self, factors: &[(Self::Id, i8)]) -> Option<Self::Id>;
    fn linear(&mut self, addends: &[(Rational, Self::Id)], constant: Rational) -> Option<Self::Id>;
    fn sum(&mut self, axes: AxisSet, x: Self::Id) -> Self::Id;
    fn maximum(&mut self, axes: AxisSet, x: Self::Id, predicates: &[Self::Id]) -> Self::Id;
    /// `None` where it is not spoken about.
    fn greatest(&mut self, _all: &[Self::Id]) -> Option<Self::Id> {
        None
    }
    /// `None` where it is not spoken about.
    fn at_least_zero(&mut self, _x: Self::Id) -> Option<Self::Id> {
        None
    }
}

impl Target for Terms {
    type Id = Id;
    fn class(&mut self, class: Id) -> Id {
        class
    }
    fn number(&mut self, value: Rational) -> Id {
        term::number(self, value)
    }
    fn size(&mut self, axis: AxisId) -> Id {
        self.add(Node::new(Head::Size(axis), vec![]))
    }
    fn apply(&mut self, function: Function, x: Id) -> Id {
        term::apply(self, function, x)
    }
    fn product(&mut self, factors: &[(Id, i8)]) -> Option<Id> {
        term::product(self, factors)
    }
    fn linear(&mut self, addends: &[(Rational, Id)], constant: Rational) -> Option<Id> {
        term::linear(self, addends, constant)
    }
    fn sum(&mut self, axes: AxisSet, x: Id) -> Id {
        term::sum(self, axes, x)
    }
    fn maximum(&mut self, axes: AxisSet, x: Id, predicates: &[Id]) -> Id {
        term::maximum(self, axes, x, predicates)
    }
}

/// The environments in scope, the innermost first.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    env: &'a Env,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    pub fn new(env: &'a Env) -> Self {
        Scope { env, outer: None }
    }
    fn within(&'a self, env: &'a Env) -> Scope<'a> {
        Scope { env, outer: Some(self) }
    }
    fn get(&self, v: Var) -> Option<&'a Value> {
        self.env.get(v).or_else(|| self.outer.and_then(|o| o.get(v)))
    }
    fn family(&self, v: Var) -> Option<&'a [Env]> {
        if let Some(Value::Family(all)) = self.get(v) { Some(all) } else { None }
    }
    fn axes(&self, axes: &Axes) -> Option<AxisSet> {
        let one = |v: &Var| if let Some(Value::Axes(a)) = self.get(*v) { Some(*a) } else { None };
        match axes {
            Axes::Is(v) => one(v),
            Axes::Both(v, w) => Some(one(v)?.union(one(w)?)),
        }
    }
    fn number(&self, v: Var) -> Option<i8> {
        if let Some(Value::Power(e)) = self.get(v) { Some(*e) } else { None }
    }
    fn power(&self, power: &Power) -> Option<i8> {
        match power {
            Power::Is(e) => Some(*e),
            Power::Any(v) | Power::Even(v) => self.number(*v),
            Power::Total(v, w) => self.number(*v)?.checked_add(self.number(*w)?),
        }
    }
    fn coefficient(&self, coefficient: &Coefficient) -> Option<Rational> {
        let bound = |v: &Var| if let Some(Value::Coefficient(k)) = self.get(*v) { Some(*k) } else { None };
        match coefficient {
            Coefficient::One => Some(Rational::ONE),
            Coefficient::MinusOne => Some(Rational::MINUS_ONE),
            Coefficient::Number(k) => Some(*k),
            Coefficient::Any(v) => bound(v),
            Coefficient::Minus(v) => bound(v)?.neg(),
            Coefficient::HalfOf(v) => Rational::new(self.number(*v)? as i128, 2),
        }
    }
}

pub fn build<T: Target>(target: &mut T, term: &Term, scope: &Scope) -> Option<T::Id> {
    match term {
        Term::Any(v) => match scope.get(*v)? {
            Value::Class(x) => Some(target.class(*x)),
            Value::Factors(_) => product(target, &[Factor::Many(*v)], scope),
            Value::Addends(..) => linear(target, &[Addend::Many(*v)], scope),
            _ => None,
        },
        Term::Named(_, inner) => build(target, inner, scope),
        Term::Product(patterns) => product(target, patterns, scope),
        Term::Linear(patterns) => linear(target, patterns, scope),
        Term::Sum(axes, x) => {
            let x = build(target, x, scope)?;
            Some(target.sum(scope.axes(axes)?, x))
        }
        Term::Maximum(axes, x, predicates) => {
            let x = build(target, x, scope)?;
            let mut guards = vec![];
            if let Some(v) = predicates {
                let Some(Value::Classes(all)) = scope.get(*v) else { return None };
                guards.extend(all.iter().map(|p| target.class(*p)))
            }
            Some(target.maximum(scope.axes(axes)?, x, &guards))
        }
        Term::Apply(f, x) => {
            let x = build(target, x, scope)?;
            Some(target.apply(*f, x))
        }
        Term::Size(v) => {
            let sizes: Vec<(T::Id, i8)> = scope.axes(&Axes::Is(*v))?.iter().map(|a| (target.size(a), 2)).collect();
            target.product(&sizes)
        }
        Term::Number(n) => Some(target.number(Rational::integer(*n))),
        Term::Greatest(all) => {
            let all: Vec<T::Id> = all.iter().map(|x| build(target, x, scope)).collect::<Option<_>>()?;
            target.greatest(&all)
        }
        Term::AtLeastZero(x) => {
            let x = build(target, x, scope)?;
            target.at_least_zero(x)
        }
    }
}

fn product<T: Target>(target: &mut T, patterns: &[Factor], scope: &Scope) -> Option<T::Id> {
    let mut factors = vec![];
    patterns.iter().try_for_each(|p| factor(target, p, scope, &mut factors))?;
    target.product(&factors)
}

fn linear<T: Target>(target: &mut T, patterns: &[Addend], scope: &Scope) -> Option<T::Id> {
    let (mut addends, mut constant) = (vec![], Rational::ZERO);
    patterns.iter().try_for_each(|p| addend(target, p, scope, &mut addends, &mut constant))?;
    target.linear(&addends, constant)
}

fn factor<T: Target>(target: &mut T, pattern: &Factor, scope: &Scope, out: &mut Vec<(T::Id, i8)>) -> Option<()> {
    match pattern {
        Factor::Many(v) => factor(target, &Factor::One(Term::Any(*v), Power::Is(2)), scope, out),
        Factor::One(term, power) => {
            let e = scope.power(power)?;
            if let Term::Any(v) = term
                && let Some(Value::Factors(all)) = scope.get(*v)
            {
                // a multiset joins the product: (x^a ..)^e is x^(a e / 2) ..
                for (x, a) in all {
                    let twice = *a as i32 * e as i32;
                    if twice % 2 != 0 {
                        return None;
                    }
                    out.push((target.class(*x), i8::try_from(twice / 2).ok()?))
                }
                return Some(());
            }
            out.push((build(target, term, scope)?, e));
            Some(())
        }
        Factor::Every(family, term, power) => {
            for member in scope.family(*family)? {
                let inner = scope.within(member);
                out.push((build(target, term, &inner)?, inner.power(power)?))
            }
            Some(())
        }
    }
}

fn addend<T: Target>(target: &mut T, pattern: &Addend, scope: &Scope, out: &mut Vec<(Rational, T::Id)>, constant: &mut Rational) -> Option<()> {
    match pattern {
        Addend::Many(v) => addend(target, &Addend::One(Coefficient::One, Term::Any(*v)), scope, out, constant),
        Addend::One(coefficient, term) => {
            let k = scope.coefficient(coefficient)?;
            if let Term::Any(v) = term
                && let Some(Value::Addends(all, c)) = scope.get(*v)
            {
                // a multiset joins the form
                *constant = constant.add(c.mul(k)?)?;
                for (inner, x) in all {
                    out.push((inner.mul(k)?, target.class(*x)))
                }
                return Some(());
            }
            out.push((k, build(target, term, scope)?));
            Some(())
        }
        Addend::Every(family, coefficient, term) => {
            for member in scope.family(*family)? {
                let inner = scope.within(member);
                out.push((inner.coefficient(coefficient)?, build(target, term, &inner)?))
            }
            Some(())
        }
        // all groups of the family together
        Addend::Groups(family, v) => {
            scope.family(*family)?.iter().try_for_each(|member| addend(target, &Addend::Many(*v), &scope.within(member), out, constant))
        }
        Addend::Pairs(family, (v, other), k, term) => {
            let all = scope.family(*family)?;
            for (i, second) in all.iter().enumerate() {
                let mut renamed = Env::default();
                renamed.bind(*other, second.get(*v)?.clone());
                let with_other = scope.within(&renamed);
                for first in &all[..i] {
                    out.push((Rational::integer(*k), build(target, term, &with_other.within(first))?))
                }
            }
            Some(())
        }
    }
}
