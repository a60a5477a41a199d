//! The language in which the rules are stated. A [`Row`] is a value without code: the matcher interprets it for the search,
//! and a prover can read the same value.
//!
//! Lower-case variables stand for terms, or for multisets of factors or addends; upper-case ones for sets of axes; both sides
//! use the same forms. Soundness rests on the two sides and the guards alone; [`Split`] and [`Control`] only say which of the
//! sound instances the search tries.
use crate::graph::Function;
use crate::rational::Rational;

pub type Var = char;

/// A term. As a left side it is matched, as a right side built.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Term {
    /// Any term. On the right also a multiset: the product of its factors, or the sum of its addends.
    Any(Var),
    /// Left only: a term of this form, bound as a whole.
    Named(Var, &'static Term),
    Product(&'static [Factor]),
    Linear(&'static [Addend]),
    Sum(Axes, &'static Term),
    /// With a variable for its predicates; without, the domain is whole.
    Maximum(Axes, &'static Term, Option<Var>),
    Apply(Function, &'static Term),
    /// The greatest of a few. Not searched for.
    Greatest(&'static [Term]),
    /// 1 where the term is at least 0, else 0. Not searched for.
    AtLeastZero(&'static Term),
    /// Right only: the product of the extents of a set of axes.
    Size(Var),
    /// Right only.
    Number(i64),
}

impl Term {
    /// The terms directly below.
    pub fn parts(&self) -> Vec<&Term> {
        match self {
            Term::Any(_) | Term::Size(_) | Term::Number(_) => vec![],
            Term::Named(_, x) | Term::Sum(_, x) | Term::Maximum(_, x, _) | Term::Apply(_, x) | Term::AtLeastZero(x) => vec![x],
            Term::Greatest(all) => all.iter().collect(),
            Term::Product(factors) => {
                let mut parts = vec![];
                for f in *factors {
                    match f {
                        Factor::One(t, _) => parts.push(t),
                        Factor::Every(_, t, _) => parts.push(*t),
                        Factor::Many(_) => {}
                    }
                }
                parts
            }
            Term::Linear(addends) => {
                let mut parts = vec![];
                for a in *addends {
                    match a {
                        Addend::One(_, t) => parts.push(t),
                        Addend::Every(_, _, t) | Addend::Pairs(_, _, _, t) => parts.push(*t),
                        Addend::Many(_) | Addend::Groups(..) => {}
                    }
                }
                parts
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Factor {
    One(Term, Power),
    /// The other factors; two of them share those by the row's [`Split`].
    Many(Var),
    /// Every factor of this form, as a family. On the right: one factor for each member.
    Every(Var, &'static Term, Power),
}

/// An exponent in halves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Power {
    Is(i8),
    Any(Var),
    Even(Var),
    /// Right only.
    Total(Var, Var),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Addend {
    One(Coefficient, Term),
    /// The other addends and the constant; two of them share those by the row's [`Split`].
    Many(Var),
    /// Every addend is of this form and there is no constant. On the right: one addend for each member.
    Every(Var, Coefficient, &'static Term),
    /// Left only: all addends and the constant, cut into a family of groups; the second variable is a group.
    Groups(Var, Var),
    /// Right only: one addend for each unordered pair of a family. The first variable within the family is bound as the second
    /// one for the other of the pair.
    Pairs(Var, (Var, Var), i64, &'static Term),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Coefficient {
    One,
    Any(Var),
    /// Right only.
    Minus(Var),
    MinusOne,
    Number(Rational),
    /// Right only: half the number that a power holds.
    HalfOf(Var),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Axes {
    Is(Var),
    /// A disjoint union. On the left the row's [`Split`] says which axes are whose.
    Both(Var, Var),
}

/// A set of axes in a guard.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    Axes(Var),
    Free(Var),
}

/// A condition of soundness. One about a multiset holds for each member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Guard {
    Disjoint(Place, Place),
    NonZero(Var),
    NonNegative(Var),
    /// A term, or a coefficient.
    Positive(Var),
    /// A coefficient.
    Negative(Var),
    /// Not a 0/1 term.
    NoPredicate(Var),
    /// The power (of the first variable) is an integer, or the term is not negative.
    RootOf(Var, Var),
    /// The power is positive, or no term of the multiset is a predicate.
    InverseOf(Var, Var),
    /// The power is positive, or the term is not zero.
    DivisorOf(Var, Var),
    /// The power is negative, or the term is not zero.
    DividendOf(Var, Var),
    /// Members of negative power are not zero, those under a root not negative: no 0 beside the multiset hides that it has no value.
    HasValue(Var),
    /// 0 or 1. Of no term that the search knows.
    Boolean(Var),
    /// The axes have extent 1. Of no axes that the search knows.
    Single(Var),
}

/// Which partitions of a multiset the search tries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Split {
    None,
    /// The variable takes every member that the guards allow it, the other the rest; neither multiset is empty, nor are the axes
    /// of the variable.
    Maximal(Var),
    /// Axes that occur in the same factors stand together: `axes` is one such group, `touched` its factors.
    Incidence {
        axes: Var,
        touched: Var,
    },
    /// Addends with an equal key stand together; at least two groups.
    Groups(Key),
    /// The largest multiset (or a set of axes) that all members of the family have in common.
    Shared(Var),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Key {
    /// The free axes.
    Free,
    /// The free axes among these; an addend with a factor that can leave a reduction over them stands alone.
    Reduced(Var),
    /// The free axes together with those of a multiset.
    Beside(Var),
}

/// When an instance is worth its nodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Control {
    /// A node of this form is left to this kind of row alone: it has a simpler equal.
    Simplify,
    /// The variable is not the class that the row rewrites.
    Other(Var),
    /// Of two classes defined through each other only the older is replaced by its form.
    Directed(Var, Var),
    /// The multisets have together at most this many members.
    AtMost(usize, &'static [Var]),
    /// The family has at least this many members.
    AtLeast(usize, Var),
    /// Members of the family vary along these axes.
    Varies(Var, Var),
    /// The first instance only.
    First,
    /// Subtracts what a reduction has lost the low bits of; a second search does without.
    Cancels,
}

/// A rule: where the left side occurs, the right side is equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    pub name: &'static str,
    pub left: Term,
    /// The part of the left side that the right side replaces: a variable bound by [`Term::Named`], or all of it.
    pub replaces: Option<Var>,
    pub right: Term,
    pub guards: &'static [Guard],
    pub split: Split,
    pub control: &'static [Control],
}

impl Row {
    /// The part of the left side that the right side replaces.
    pub fn replaced(&self) -> &Term {
        fn named(term: &Term, v: Var) -> Option<&Term> {
            match term {
                Term::Named(w, inner) if *w == v => Some(inner),
                _ => term.parts().into_iter().find_map(|t| named(t, v)),
            }
        }
        self.replaces.and_then(|v| named(&self.left, v)).unwrap_or(&self.left)
    }
}
