//! The normaliser: constructors that keep real expressions in normal form.
//!
//! Comes in: forms in normal form. Goes out: the same, put together. Each step is an identity of real numbers that [`super::lemmas`]
//! proves by induction for any extent, or holds under a condition that is noted for the solver.
//!
//! - Products and sums: a commutative ring; powers of one base add, with a condition where that needs it.
//! - Sums over domains: linear; what does not mention an index leaves; a sum of a sum is one sum; a sum over indices that no factor
//!   connects is a product of sums; a sum of 1 is the number of positions.
//! - Maxima: what does not mention an index leaves, added or (if positive) multiplied; the maximum of an exp is the exp of the maximum.
//! - Exponentials of one monomial are one exponential; the exponential of a sum over a family is the family's product, and is
//!   always written as the former. The logarithm of a product is a sum of logarithms.
//! - Bound indices are numbered so that the form is the least one, the outer after the inner.
use super::facts::Facts;
use super::names::{Names, Touches, rename_atom};
use super::poly::{Atom, Base, Binder, Exponent, Index, Mentions, Monomial, OPEN, Poly};
use crate::graph::Function;
use crate::rational::Rational;
use std::collections::BTreeMap;

/// What a step needs, at every position of the indices that it mentions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Condition {
    NonZero(Poly),
    /// Of a factor under a logarithm: not 0; or where it is 0, so is the product, and the logarithm is -inf on both sides.
    InLogarithm(Poly),
    Positive(Poly),
    NonNegative(Poly),
    /// Powers of a base that may be merged.
    Merge(Base, Exponent, Exponent),
    /// A reduction over nothing was dropped.
    Nonempty(Binder),
    /// A coefficient did not fit.
    Never,
}

/// Powers above this (in halves) of polynomials stay unexpanded.
const EXPANDED: i32 = 8;

/// A source of fresh indices, and the conditions so far.
#[derive(Default, Debug)]
pub struct Normal {
    fresh: u32,
    pub conditions: Vec<Condition>,
    /// What is known of atoms. Then conditions that follow are not noted, and powers of opposite signs whose base may be 0 stay apart.
    pub facts: Option<Facts>,
}

impl Normal {
    pub fn with(facts: Facts) -> Self {
        Normal { facts: Some(facts), ..Normal::default() }
    }
    pub fn fresh(&mut self, binder: Binder) -> Index {
        self.fresh += 1;
        Index { domain: binder.index.domain, id: OPEN + self.fresh }
    }
    pub(super) fn need(&mut self, condition: Condition) {
        if self.facts.as_ref().is_some_and(|f| f.imply(&condition)) {
            return;
        }
        if !self.conditions.contains(&condition) {
            self.conditions.push(condition)
        }
    }
    fn number(&mut self, value: Option<Rational>) -> Rational {
        value.unwrap_or_else(|| {
            self.need(Condition::Never);
            Rational::ZERO
        })
    }

    // ---- ring ---------------------------------------------------------------------------------------------------

    pub fn add(&mut self, a: &Poly, b: &Poly) -> Poly {
        let mut sum = a.clone();
        for (m, k) in &b.0 {
            let total = match sum.0.get(m) {
                Some(old) => self.number(old.add(*k)),
                None => *k,
            };
            sum.0.insert(m.clone(), total);
        }
        sum.without_zeros()
    }
    pub fn scale(&mut self, p: &Poly, k: Rational) -> Poly {
        Poly(p.0.iter().map(|(m, c)| (m.clone(), self.number(c.mul(k)))).collect()).without_zeros()
    }
    pub fn mul(&mut self, a: &Poly, b: &Poly) -> Poly {
        let mut total = Poly::zero();
        for (m, k) in &a.0 {
            for (n, c) in &b.0 {
                let factors = m.0.iter().chain(&n.0).map(|(b, e)| (b.clone(), e.clone()));
                let product = self.product(factors.collect());
                let coefficient = self.number(k.mul(*c));
                let product = self.scale(&product, coefficient);
                total = self.add(&total, &product)
            }
        }
        total
    }
    /// One monomial of powers of bases, with its coefficient.
    fn product(&mut self, factors: Vec<(Base, Exponent)>) -> Poly {
        if let Some((at, log)) = self.under_its_predicate(&factors) {
            let log = self.power(&log, &factors[at].1);
            let rest = self.product([&factors[..at], &factors[at + 1..]].concat());
            return self.mul(&rest, &log);
        }
        let mut merged = BTreeMap::new();
        let mut exponent = Poly::zero();
        for (base, power) in factors {
            if let Base::Exp(p) = &base {
                let half = self.half_of(&power);
                let p = self.mul(p, &half);
                exponent = self.add(&exponent, &p);
                continue;
            }
            self.insert(&mut merged, base, power)
        }
        if exponent.0.is_empty() {
            return Poly(BTreeMap::from([(Monomial(merged), Rational::ONE)]));
        }
        let Poly(parts) = self.exp(&exponent);
        let Some((Monomial(mut all), k)) = parts.into_iter().next() else { return Poly::zero() };
        for (base, power) in merged {
            self.insert(&mut all, base, power)
        }
        Poly(BTreeMap::from([(Monomial(all), k)]))
    }
    /// The place of a logarithm beside a predicate that is a factor within it, and the logarithm without: where the predicate is 0 so is the product.
    fn under_its_predicate(&mut self, factors: &[(Base, Exponent)]) -> Option<(usize, Poly)> {
        let facts = self.facts.as_ref()?;
        let predicates: Vec<&Base> = factors.iter().filter(|f| f.1.constant().is_some_and(|n| n > 0) && facts.is_predicate(&f.0)).map(|f| &f.0).collect();
        let (at, rest) = factors.iter().enumerate().find_map(|(i, (base, _))| {
            let Base::Log(inner) = base else { return None };
            let (m, k) = inner.monomial().filter(|(m, _)| m.0.keys().any(|b| predicates.contains(&b)))?;
            let rest = Monomial(m.0.iter().filter(|(b, _)| !predicates.contains(b)).map(|(b, e)| (b.clone(), e.clone())).collect());
            Some((i, Poly(BTreeMap::from([(rest, k)]))))
        })?;
        Some((at, self.log(&rest)))
    }
    /// One more factor of a monomial.
    pub(super) fn insert(&mut self, all: &mut BTreeMap<Base, Exponent>, base: Base, power: Exponent) {
        let Some(old) = all.get(&base).cloned() else {
            all.insert(base, power);
            return;
        };
        if self.facts.as_ref().is_some_and(|f| f.is_predicate(&base)) && old.halves > 0 && power.halves > 0 {
            return; // 0 and 1 are their own powers
        }
        let condition = Condition::Merge(base.clone(), old.clone(), power.clone());
        if let Some(facts) = &self.facts
            && !facts.imply(&condition)
            && !matches!(base, Base::Poly(_))
        {
            // the divisor stands apart, under a name of its own
            let (up, down) = if power.halves < 0 { (old, power) } else { (power, old) };
            all.insert(base.clone(), up);
            return self.insert(all, Base::Poly(Poly::base(base)), down);
        }
        self.merge(&base, &old, &power);
        let total = old.add(&power);
        if total.is_zero() {
            all.remove(&base);
        } else {
            all.insert(base, total);
        }
    }
    fn merge(&mut self, base: &Base, a: &Exponent, b: &Exponent) {
        let plain = matches!((a.constant(), b.constant()), (Some(x), Some(y)) if x % 2 == 0 && y % 2 == 0 && (x > 0) == (y > 0));
        if !plain {
            self.need(Condition::Merge(base.clone(), a.clone(), b.clone()))
        }
    }
    /// The number that a power is.
    pub fn half_of(&mut self, power: &Exponent) -> Poly {
        let half = |n: i32| Rational::new(n as i128, 2);
        let mut p = Poly::number(self.number(half(power.halves)));
        for (symbol, n) in &power.symbols {
            let k = self.number(half(*n));
            let term = self.scale(&Poly::atom(symbol.clone()), k);
            p = self.add(&p, &term)
        }
        p
    }
    pub fn power(&mut self, p: &Poly, e: &Exponent) -> Poly {
        if e.is_zero() {
            return Poly::one();
        }
        if e.constant() == Some(2) {
            return p.clone();
        }
        if let Some(k) = p.as_number() {
            return match e.constant() {
                _ if k.is_zero() || k.is_one() => p.clone(),
                Some(n) if n % 2 == 0 => Poly::number(self.number(k.pow(n / 2))),
                _ => Poly(BTreeMap::from([(Monomial::of(Base::Poly(p.clone()), e.clone()), Rational::ONE)])),
            };
        }
        if let Some((m, k)) = p.monomial() {
            let factors: Option<Vec<_>> = m.0.iter().map(|(b, a)| Some((b.clone(), self.power_of_power(b, a, e)?))).collect();
            if let Some(factors) = factors {
                let coefficient = self.power(&Poly::number(k), e);
                let product = self.product(factors);
                return self.mul(&coefficient, &product);
            }
        }
        match e.constant() {
            Some(n) if n > 0 && n % 2 == 0 && n <= EXPANDED => (1..n / 2).fold(p.clone(), |all, _| self.mul(&all, p)),
            _ => Poly(BTreeMap::from([(Monomial::of(Base::Poly(p.clone()), e.clone()), Rational::ONE)])),
        }
    }
    /// `(b^(a/2))^(e/2)` as a power of b.
    fn power_of_power(&mut self, b: &Base, a: &Exponent, e: &Exponent) -> Option<Exponent> {
        // in normal form an exponential stands alone, to the power 1, and any power of it is one
        if let (Base::Exp(_), Some(2)) = (b, a.constant()) {
            return Some(e.clone());
        }
        let unsigned = match (a.constant(), e.constant()) {
            (Some(a), Some(e)) if a * e % 2 == 0 => {
                let signless = a % 2 != 0 || e % 2 != 0;
                let result = a * e / 2;
                (Exponent::number(result), signless && result % 2 == 0)
            }
            (Some(a), None) if a % 2 == 0 => (e.times(a / 2), a.abs() != 2),
            (None, Some(e)) if e % 2 == 0 => (a.times(e / 2), e.abs() != 2),
            _ => return None,
        };
        if unsigned.1 {
            self.need(Condition::NonNegative(Poly::base(b.clone())))
        }
        Some(unsigned.0)
    }

    // ---- functions ----------------------------------------------------------------------------------------------

    pub fn exp(&mut self, p: &Poly) -> Poly {
        let (mut rest, mut result) = (Poly::zero(), Poly::one());
        for (m, k) in &p.0 {
            let halves = k.mul(Rational::integer(2)).filter(|h| h.denominator() == 1).and_then(|h| i32::try_from(h.numerator()).ok());
            match (m.0.iter().next(), halves) {
                (Some((Base::Log(inner), power)), Some(halves)) if m.0.len() == 1 && power.constant() == Some(2) => {
                    self.need(Condition::Positive(inner.clone()));
                    let inner = self.power(inner, &Exponent::number(halves));
                    result = self.mul(&result, &inner)
                }
                _ => {
                    rest.0.insert(m.clone(), *k);
                }
            }
        }
        if rest.0.is_empty() {
            return result;
        }
        let rest = Poly::base(Base::Exp(rest));
        if result == Poly::one() { rest } else { self.mul(&result, &rest) }
    }
    pub fn log(&mut self, p: &Poly) -> Poly {
        if p.as_number().is_some_and(|k| k.is_one()) {
            return Poly::zero();
        }
        let lone = p.as_base().is_some_and(|b| !matches!(b, Base::Exp(_) | Base::Product(..)));
        let Some((m, k)) = p.monomial().filter(|(m, k)| !lone && !k.is_negative() && !m.0.is_empty()) else {
            return Poly::base(Base::Log(p.clone()));
        };
        // a 0 above a divisor that may be 0 too: the logarithm is -inf, and no difference of two
        let nonzero = |b: &Base| self.facts.as_ref().is_some_and(|f| f.imply(&Condition::NonZero(Poly::base(b.clone()))));
        let mut down = m.0.iter().filter(|(_, e)| e.constant().is_some_and(|n| n < 0)).map(|(b, _)| b);
        let mut up = m.0.iter().filter(|(_, e)| e.constant().is_none_or(|n| n > 0)).map(|(b, _)| b);
        let full = up.all(nonzero);
        if self.facts.is_some() && !full && !down.all(nonzero) {
            return Poly::base(Base::Log(p.clone()));
        }
        let mut total = if k.is_one() { Poly::zero() } else { Poly::base(Base::Log(Poly::number(k))) };
        for (base, power) in &m.0 {
            let half = self.half_of(power);
            let log = match base {
                Base::Exp(inner) => inner.clone(),
                Base::Product(binder, inner, e) => {
                    let (open, binder) = self.open_binder(*binder);
                    let inner = self.rename_base(inner, &open);
                    let e = self.rename_exponent(e, &open);
                    let each = self.power(&inner, &e);
                    let log = self.log(&each);
                    self.sum(&[binder], &log)
                }
                _ => {
                    let inner = if let Base::Poly(p) = base { p.clone() } else { Poly::base(base.clone()) };
                    let up = power.constant().is_some_and(|n| n > 0);
                    if up {
                        self.need(Condition::InLogarithm(inner.clone()))
                    } else {
                        // of 1/0 there is no logarithm, nor of 0 a negative
                        let fine = self.facts.is_some() && full;
                        self.need(if fine { Condition::NonNegative(inner.clone()) } else { Condition::NonZero(inner.clone()) })
                    }
                    Poly::base(Base::Log(inner))
                }
            };
            let log = self.mul(&log, &half);
            total = self.add(&total, &log)
        }
        total
    }
    pub fn apply(&mut self, function: Function, p: &Poly) -> Poly {
        match function {
            Function::Exp => self.exp(p),
            Function::Log => self.log(p),
            // by definition
            Function::Sigmoid => {
                let negative = self.scale(p, Rational::MINUS_ONE);
                let e = self.exp(&negative);
                let sum = self.add(&Poly::one(), &e);
                self.power(&sum, &Exponent::number(-2))
            }
            Function::Tanh | Function::Abs | Function::Round(_) => Poly::base(Base::Apply(function, p.clone())),
        }
    }
    pub fn greatest(&mut self, all: &[Poly]) -> Poly {
        let mut all = all.to_vec();
        all.sort();
        all.dedup();
        // the exponential grows
        let exponents = all.iter().map(|p| if let Some(Base::Exp(inner)) = p.as_base() { Some(inner.clone()) } else { None });
        if let Some(exponents) = exponents.collect::<Option<Vec<Poly>>>() {
            let greatest = self.greatest(&exponents);
            return self.exp(&greatest);
        }
        if let [one] = &all[..] { one.clone() } else { Poly::base(Base::Greatest(all)) }
    }

    // ---- reductions ---------------------------------------------------------------------------------------------

    pub fn sum(&mut self, binders: &[Binder], p: &Poly) -> Poly {
        let mut total = Poly::zero();
        for (m, k) in &p.0 {
            let sum = self.sum_of_monomial(binders, m);
            let sum = self.scale(&sum, *k);
            total = self.add(&total, &sum)
        }
        total
    }
    fn sum_of_monomial(&mut self, binders: &[Binder], m: &Monomial) -> Poly {
        let mut binders = binders.to_vec();
        let mut pending: Vec<(Base, Exponent)> = m.0.iter().map(|(b, e)| (b.clone(), e.clone())).collect();
        let mut factors: Vec<(Base, Exponent)> = vec![];
        let mentions = |base: &Base, power: &Exponent, binders: &[Binder]| {
            let mut all = base.indices();
            power.mentions(&mut all);
            binders.iter().any(|b| all.contains(&b.index))
        };
        // a sum within joins, as often as its power says
        while let Some((base, power)) = pending.pop() {
            match (&base, power.constant()) {
                (Base::Sum(inner, body), Some(e)) if e > 0 && e % 2 == 0 && mentions(&base, &power, &binders) => {
                    for _ in 0..e / 2 {
                        let (open, opened) = self.open(inner);
                        let Poly(body) = self.rename_monomial(body, &open);
                        binders.extend(opened);
                        pending.extend(body.into_keys().flat_map(|m| m.0))
                    }
                }
                // of an exponential of a sum every addend is a factor
                (Base::Exp(p), Some(2)) if p.0.len() > 1 => {
                    let addends = p.0.iter().map(|(m, k)| Base::Exp(Poly(BTreeMap::from([(m.clone(), *k)]))));
                    factors.extend(addends.map(|b| (b, Exponent::number(2))))
                }
                _ => factors.push((base, power)),
            }
        }
        // indices that factors connect stay together
        let mut group: Vec<usize> = (0..binders.len()).collect();
        let mut touched: Vec<Vec<usize>> = vec![];
        for (base, power) in &factors {
            let mut all = base.indices();
            power.mentions(&mut all);
            touched.push((0..binders.len()).filter(|i| all.contains(&binders[*i].index)).collect())
        }
        let within: Vec<Vec<usize>> =
            (0..binders.len()).filter_map(|i| Some(vec![i, binders.iter().position(|b| Some(b.index) == binders[i].within)?])).collect();
        for connected in touched.iter().chain(&within) {
            if let Some(first) = connected.first().map(|i| group[*i]) {
                let joined: Vec<usize> = connected.iter().map(|i| group[*i]).collect();
                group.iter_mut().filter(|g| joined.contains(g)).for_each(|g| *g = first)
            }
        }
        let mut outside: Vec<(Base, Exponent)> = vec![];
        let mut inside: BTreeMap<usize, Vec<(Base, Exponent)>> = binders.iter().enumerate().map(|(i, _)| (group[i], vec![])).collect();
        for (factor, touched) in factors.into_iter().zip(&touched) {
            match touched.first() {
                Some(i) => inside.entry(group[*i]).or_default().push(factor),
                None => outside.push(factor),
            }
        }
        let mut result = self.product(outside);
        for (g, factors) in inside {
            let mine: Vec<Binder> = binders.iter().zip(&group).filter(|(_, x)| **x == g).map(|(b, _)| *b).collect();
            let sum = match (&mine[..], &factors[..]) {
                ([b], []) => Poly::base(Base::Size(b.index.domain, b.within)),
                _ => {
                    let Poly(body) = self.product(factors);
                    let mut sums = Poly::zero();
                    for (body, k) in body {
                        let (binders, body) = self.close_sum(&mine, &body);
                        let sum = self.scale(&Poly::base(Base::Sum(binders, body)), k);
                        sums = self.add(&sums, &sum)
                    }
                    sums
                }
            };
            result = self.mul(&result, &sum)
        }
        result
    }
    /// The product over the members of a family.
    pub fn product_over(&mut self, binder: Binder, p: &Poly) -> Poly {
        let parts: Vec<(Base, Exponent)> = match p.monomial() {
            Some((m, k)) if k.is_one() => m.0.iter().map(|(b, e)| (b.clone(), e.clone())).collect(),
            _ => vec![(Base::Poly(p.clone()), Exponent::number(2))],
        };
        let mut result = Poly::one();
        for (base, power) in parts {
            let over = match &base {
                Base::Exp(inner) => {
                    let half = self.half_of(&power);
                    let inner = self.mul(inner, &half);
                    let sum = self.sum(&[binder], &inner);
                    self.exp(&sum)
                }
                _ => {
                    let id = base.greatest_bound().max(power.greatest_bound()) + 1;
                    let bound = Index { domain: binder.index.domain, id };
                    let names = Names::from([(binder.index, bound)]);
                    let power = self.rename_exponent(&power, &names);
                    match self.rename_base(&base, &names).as_base() {
                        Some(base) => Poly::base(Base::Product(Binder { index: bound, ..binder }, Box::new(base.clone()), power)),
                        None => {
                            self.need(Condition::Never);
                            Poly::zero()
                        }
                    }
                }
            };
            result = self.mul(&result, &over)
        }
        result
    }
    pub fn maximum(&mut self, binders: &[Binder], predicates: &[Atom], p: &Poly) -> Poly {
        let (mut binders, mut predicates) = (binders.to_vec(), predicates.to_vec());
        let mut body = p.clone();
        // the maximum of a maximum
        while let Some(Base::Maximum(inner, more, deeper)) = body.as_base().cloned() {
            let (open, opened) = self.open(&inner);
            body = self.rename(&deeper, &open);
            predicates.extend(more.iter().map(|a| rename_atom(a, &open)));
            binders.extend(opened)
        }
        let hidden = |b: &Binder, predicates: &[Atom]| predicates.iter().any(|p| p.arguments.contains(&b.index)) || !predicates.is_empty();
        let used = body.indices();
        for b in binders.iter().filter(|b| !used.contains(&b.index) && !hidden(b, &predicates)) {
            self.need(Condition::Nonempty(*b))
        }
        binders.retain(|b| used.contains(&b.index) || hidden(b, &predicates));
        let free = |x: &dyn Touches| !x.touches(&binders);
        let (shift, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = body.0.into_iter().partition(|(m, _)| free(m));
        let (shift, rest) = (Poly(shift), Poly(rest));
        if rest.0.is_empty() {
            return shift;
        }
        let greatest = self.maximum_of_rest(&binders, &predicates, &rest);
        self.add(&shift, &greatest)
    }
    fn maximum_of_rest(&mut self, binders: &[Binder], predicates: &[Atom], rest: &Poly) -> Poly {
        if let Some((m, k)) = rest.monomial()
            && !k.is_negative()
        {
            let positive = |b: &Base| self.facts.as_ref().is_none_or(|f| f.imply(&Condition::Positive(Poly::base(b.clone()))));
            let (outside, inside): (Vec<_>, Vec<_>) = m.0.iter().partition(|(b, e)| !b.touches(binders) && !e.touches(binders) && positive(b));
            if !outside.is_empty() || !k.is_one() {
                for (b, _) in &outside {
                    self.need(Condition::Positive(Poly::base((*b).clone())))
                }
                let inside = Poly(BTreeMap::from([(Monomial(inside.into_iter().map(|(b, e)| (b.clone(), e.clone())).collect()), Rational::ONE)]));
                let greatest = self.maximum(binders, predicates, &inside);
                let factor = Poly(BTreeMap::from([(Monomial(outside.into_iter().map(|(b, e)| (b.clone(), e.clone())).collect()), k)]));
                return self.mul(&factor, &greatest);
            }
            if let Some(Base::Exp(inner)) = rest.as_base() {
                let inner = self.maximum(binders, predicates, &inner.clone());
                return self.exp(&inner);
            }
        }
        let (binders, predicates, body) = self.close_maximum(binders, predicates, rest);
        Poly::base(Base::Maximum(binders, predicates, body))
    }
}
