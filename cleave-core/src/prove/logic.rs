//! Formulas about real expressions: when a term has a value, when it is exactly 0, what guards say.
use super::poly::{Atom, Binder, Exponent, Index, Mentions, Poly};
use std::collections::BTreeSet;

#[derive(Clone, PartialEq, Debug)]
pub enum Formula {
    True,
    False,
    Not(Box<Formula>),
    And(Vec<Formula>),
    Or(Vec<Formula>),
    /// At every position of these domains.
    All(Vec<Binder>, Box<Formula>),
    /// At some position.
    Some(Vec<Binder>, Box<Formula>),
    /// A truth value at indices: a predicate, or a fact about the members of a multiset.
    Holds(Atom),
    Zero(Poly),
    Positive(Poly),
    /// A power that is a whole number.
    Whole(Exponent),
    PositivePower(Exponent),
    PowerIs(Exponent, i32),
    /// Two positions are one.
    Same(Index, Index),
    /// An index is a position of its domain.
    Inside(Binder),
}

use Formula::*;

impl Formula {
    pub fn and(self, other: Formula) -> Formula {
        all([self, other])
    }
    pub fn or(self, other: Formula) -> Formula {
        any([self, other])
    }
    pub fn implies(self, other: Formula) -> Formula {
        self.not().or(other)
    }
    #[expect(clippy::should_implement_trait, reason = "consumes, as the other connectives do")]
    pub fn not(self) -> Formula {
        match self {
            True => False,
            False => True,
            Not(inner) => *inner,
            other => Not(Box::new(other)),
        }
    }
    pub fn everywhere(self, binders: &[Binder]) -> Formula {
        match self {
            True => True,
            // `False` stays under the quantifier: over no positions it holds
            other if binders.is_empty() => other,
            other => All(binders.to_vec(), Box::new(other)),
        }
    }
    pub fn somewhere(self, binders: &[Binder]) -> Formula {
        match self {
            False => False,
            other if binders.is_empty() => other,
            other => Some(binders.to_vec(), Box::new(other)),
        }
    }
    pub fn iff(self, other: Formula) -> Formula {
        self.clone().implies(other.clone()).and(other.implies(self))
    }
}

pub fn all(formulas: impl IntoIterator<Item = Formula>) -> Formula {
    let mut flat = vec![];
    for f in formulas {
        match f {
            True => {}
            False => return False,
            And(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => True,
        1 => flat.remove(0),
        _ => And(flat),
    }
}

pub fn any(formulas: impl IntoIterator<Item = Formula>) -> Formula {
    let mut flat = vec![];
    for f in formulas {
        match f {
            False => {}
            True => return True,
            Or(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => False,
        1 => flat.remove(0),
        _ => Or(flat),
    }
}

/// 0, decided at once for numbers.
pub fn zero(p: &Poly) -> Formula {
    match p.as_number() {
        Option::Some(k) if k.is_zero() => True,
        Option::Some(_) => False,
        None => Zero(p.clone()),
    }
}

pub fn positive(p: &Poly) -> Formula {
    match p.as_number() {
        Option::Some(k) if !k.is_zero() && !k.is_negative() => True,
        Option::Some(_) => False,
        None => Positive(p.clone()),
    }
}

pub fn nonnegative(p: &Poly) -> Formula {
    zero(p).or(positive(p))
}

pub fn whole(e: &Exponent) -> Formula {
    match e.constant() {
        Option::Some(n) if n % 2 == 0 => True,
        Option::Some(_) => False,
        None => Whole(e.clone()),
    }
}

pub fn positive_power(e: &Exponent) -> Formula {
    match e.constant() {
        Option::Some(n) if n > 0 => True,
        Option::Some(_) => False,
        None => PositivePower(e.clone()),
    }
}

pub fn power_is(e: &Exponent, n: i32) -> Formula {
    match e.constant() {
        Option::Some(c) if c == n => True,
        Option::Some(_) => False,
        None => PowerIs(e.clone(), n),
    }
}

impl Mentions for Formula {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        match self {
            True | False => {}
            Not(f) => f.mentions(into),
            And(fs) | Or(fs) => fs.iter().for_each(|f| f.mentions(into)),
            All(binders, f) | Some(binders, f) => {
                f.mentions(into);
                into.extend(binders.iter().filter_map(|b| b.within));
                binders.iter().for_each(|b| {
                    into.remove(&b.index);
                })
            }
            Holds(a) => a.mentions(into),
            Zero(p) | Positive(p) => p.mentions(into),
            Whole(e) | PositivePower(e) | PowerIs(e, _) => e.mentions(into),
            Same(a, b) => into.extend([*a, *b]),
            Inside(b) => into.extend(std::iter::once(b.index).chain(b.within)),
        }
    }
    fn binds(&self, _: &mut BTreeSet<Index>) {}
}
