//! What follows for a real expression from what is known of its atoms. The search has its own analysis of facts on classes; this one is
//! on normal forms, and neither knows the other.
use super::logic::Formula;
use super::logic::{positive_power, whole};
use super::normal::Condition;
use super::poly::{Atom, Base, Binder, Exponent, Index, Mentions, Monomial, Poly};
use crate::graph::Function;
use std::collections::{BTreeMap, BTreeSet};

/// Names of atoms that are positive, and of those that are 0 or 1. Axes have at least one position.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    pub positive: BTreeSet<String>,
    pub predicates: BTreeSet<String>,
    /// At least 0: positions along an axis.
    pub nonnegative: BTreeSet<String>,
}

/// A sign, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Sign {
    Unknown,
    NonNegative,
    Positive,
}

impl Facts {
    pub fn is_predicate(&self, base: &Base) -> bool {
        matches!(base, Base::Atom(a) if self.predicates.contains(&a.name))
    }
    /// Does a condition follow?
    pub fn imply(&self, condition: &Condition) -> bool {
        match condition {
            Condition::NonZero(p) => self.nonzero(p),
            Condition::InLogarithm(p) => self.nonzero(p) || self.sign(p) >= Sign::NonNegative,
            Condition::Positive(p) => self.sign(p) == Sign::Positive,
            Condition::NonNegative(p) => self.sign(p) >= Sign::NonNegative,
            Condition::Nonempty(_) => true,
            Condition::Never => false,
            Condition::Merge(base, a, b) => {
                let sign = self.sign_of_base(base);
                let alike = positive_power(a) == positive_power(b) && a.constant().is_some() && b.constant().is_some();
                // under a root a base is not negative where there is a value at all
                let signed = [a, b].into_iter().all(|e| whole(e) == Formula::True) || [a, b].into_iter().any(|e| whole(e) == Formula::False);
                (signed || sign >= Sign::NonNegative) && (alike || sign == Sign::Positive || self.nonzero(&Poly::base(base.clone())))
            }
        }
    }
    fn nonzero(&self, p: &Poly) -> bool {
        if self.sign(p) == Sign::Positive {
            return true;
        }
        // a product of what is not 0
        p.monomial().is_some_and(|(m, k)| !k.is_zero() && m.0.keys().all(|b| self.sign_of_base(b) == Sign::Positive))
    }
    fn sign(&self, p: &Poly) -> Sign {
        let each = p.0.iter().map(|(m, k)| if k.is_negative() { Sign::Unknown } else { self.sign_of_monomial(m) });
        let (mut all, mut some) = (Sign::NonNegative, false);
        for s in each {
            all = all.min(s);
            some |= s == Sign::Positive
        }
        if all == Sign::NonNegative && some { Sign::Positive } else { all }
    }
    fn sign_of_monomial(&self, m: &Monomial) -> Sign {
        m.0.iter().map(|(b, e)| self.sign_of_power(b, e)).min().unwrap_or(Sign::Positive)
    }
    fn sign_of_power(&self, base: &Base, e: &Exponent) -> Sign {
        match self.sign_of_base(base) {
            Sign::Unknown if e.constant().is_some_and(|n| n % 4 == 0 || n % 2 != 0) => Sign::NonNegative,
            sign => sign,
        }
    }
    fn sign_of_base(&self, base: &Base) -> Sign {
        match base {
            Base::Atom(a) if self.positive.contains(&a.name) => Sign::Positive,
            Base::Atom(a) if self.predicates.contains(&a.name) || self.nonnegative.contains(&a.name) => Sign::NonNegative,
            Base::Atom(_) | Base::Log(_) => Sign::Unknown,
            Base::Size(..) | Base::Exp(_) => Sign::Positive,
            Base::Sum(binders, body) => match self.sign_of_monomial(body) {
                Sign::Unknown if self.is_square(binders, body) => Sign::NonNegative,
                sign => sign,
            },
            Base::Maximum(_, predicates, body) if predicates.is_empty() => self.sign(body),
            Base::Maximum(..) => Sign::Unknown,
            Base::Product(_, inner, e) => self.sign_of_power(inner, e),
            Base::Apply(Function::Abs, p) if self.nonzero(p) => Sign::Positive,
            Base::Apply(Function::Abs, _) | Base::AtLeastZero(_) => Sign::NonNegative,
            Base::Apply(..) => Sign::Unknown,
            Base::Greatest(all) => all.iter().map(|p| self.sign(p)).max().unwrap_or(Sign::Unknown),
            Base::Poly(p) => self.sign(p),
        }
    }
    /// Is a sum that of squares? `sum_c w_c * (sum_a x_ac)^2` stands in normal form as a sum over c, a and another a: an exchange of
    /// indices takes each factor that mentions one side to a factor that mentions the other.
    fn is_square(&self, binders: &[Binder], body: &Monomial) -> bool {
        exchanges(binders).into_iter().any(|exchange| {
            let (one, other): (BTreeSet<Index>, BTreeSet<Index>) = exchange.iter().copied().unzip();
            let both: BTreeMap<Index, Index> = exchange.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect();
            body.0.iter().all(|(base, e)| {
                let mentioned = base.indices();
                let (left, right) = (!mentioned.is_disjoint(&one), !mentioned.is_disjoint(&other));
                match (left, right, base) {
                    (false, false, _) => self.sign_of_power(base, e) >= Sign::NonNegative,
                    (true, true, _) => false,
                    (_, _, Base::Atom(a)) => {
                        let arguments = a.arguments.iter().map(|i| both.get(i).copied().unwrap_or(*i)).collect();
                        body.0.get(&Base::Atom(Atom { name: a.name.clone(), arguments })) == Some(e)
                    }
                    _ => false,
                }
            })
        })
    }
}

/// Every way to pair some indices with others of the same domain.
fn exchanges(binders: &[Binder]) -> Vec<Vec<(Index, Index)>> {
    let Some((first, rest)) = binders.split_first() else { return vec![vec![]] };
    let mut all = exchanges(rest);
    for (i, partner) in rest.iter().enumerate().filter(|(_, b)| b.index.domain == first.index.domain) {
        let others = [&rest[..i], &rest[i + 1..]].concat();
        for mut pairs in exchanges(&others) {
            pairs.push((first.index, partner.index));
            all.push(pairs)
        }
    }
    all
}
