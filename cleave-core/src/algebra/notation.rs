//! Rules as text: `factor out: sum_{A} (c.. * x..) = c.. * sum_{A} (x..) where A and F(c) are disjoint`. `x..` is a multiset,
//! `each t (..)` stands for the members of the family `t`, F(x) for the free axes of x; powers are in halves.
use super::schema::{Addend, Axes, Coefficient, Factor, Guard, Place, Power, Row, Term};
use std::fmt::{Display, Formatter, Result};

impl Display for Row {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}: {} = ", self.name, self.left)?;
        match self.replaces {
            Some(v) => write!(f, "the same with {} for {v}", self.right)?,
            None => write!(f, "{}", self.right)?,
        }
        for (i, guard) in self.guards.iter().enumerate() {
            write!(f, "{} {guard}", if i == 0 { " where" } else { " and" })?
        }
        Ok(())
    }
}

fn joined<T: Display>(f: &mut Formatter, all: &[T], between: &str) -> Result {
    for (i, x) in all.iter().enumerate() {
        write!(f, "{}{x}", if i == 0 { "" } else { between })?
    }
    Ok(())
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Term::Any(v) => write!(f, "{v}"),
            Term::Named(v, inner) => write!(f, "({v} = {inner})"),
            Term::Product(factors) => joined(f, factors, " * "),
            Term::Linear(addends) => {
                write!(f, "(")?;
                joined(f, addends, " + ")?;
                write!(f, ")")
            }
            Term::Sum(axes, x) => write!(f, "sum_{{{axes}}} ({x})"),
            Term::Maximum(axes, x, None) => write!(f, "max_{{{axes}}} ({x})"),
            Term::Maximum(axes, x, Some(p)) => write!(f, "max_{{{axes}}} ({x} where {p}..)"),
            Term::Apply(function, x) => write!(f, "{}({x})", function.name()),
            Term::Greatest(all) => {
                write!(f, "greatest(")?;
                joined(f, all, ", ")?;
                write!(f, ")")
            }
            Term::AtLeastZero(x) => write!(f, "[{x} >= 0]"),
            Term::Size(v) => write!(f, "|{v}|"),
            Term::Number(n) => write!(f, "{n}"),
        }
    }
}

impl Display for Factor {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Factor::One(x, power) => write!(f, "{x}{power}"),
            Factor::Many(v) => write!(f, "{v}.."),
            Factor::Every(family, x, power) => write!(f, "each {family} ({x}{power})"),
        }
    }
}

impl Display for Power {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Power::Is(2) => Ok(()),
            Power::Is(e) if e % 2 == 0 => write!(f, "^{}", e / 2),
            Power::Is(e) => write!(f, "^({e}/2)"),
            Power::Any(v) => write!(f, "^({v}/2)"),
            Power::Even(v) => write!(f, "^({v}/2 whole)"),
            Power::Total(v, w) => write!(f, "^(({v} + {w})/2)"),
        }
    }
}

impl Display for Addend {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Addend::One(k, x) => write!(f, "{k}{x}"),
            Addend::Many(v) => write!(f, "{v}.."),
            Addend::Every(family, k, x) => write!(f, "each {family} ({k}{x})"),
            Addend::Groups(family, v) => write!(f, "each {family} ({v}..)"),
            Addend::Pairs(family, (v, w), k, x) => write!(f, "each pair {v}, {w} of {family} ({k} * {x})"),
        }
    }
}

impl Display for Coefficient {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Coefficient::One => Ok(()),
            Coefficient::Any(v) => write!(f, "{v} * "),
            Coefficient::Number(k) => write!(f, "{k} * "),
            Coefficient::Minus(v) => write!(f, "-{v} * "),
            Coefficient::MinusOne => write!(f, "-"),
            Coefficient::HalfOf(v) => write!(f, "{v}/2 * "),
        }
    }
}

impl Display for Axes {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Axes::Is(v) => write!(f, "{v}"),
            Axes::Both(v, w) => write!(f, "{v},{w}"),
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Place::Axes(v) => write!(f, "{v}"),
            Place::Free(v) => write!(f, "F({v})"),
        }
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Guard::Disjoint(a, b) => write!(f, "{a} and {b} are disjoint"),
            Guard::NonZero(v) => write!(f, "{v} is not 0"),
            Guard::NonNegative(v) => write!(f, "{v} >= 0"),
            Guard::Positive(v) => write!(f, "{v} > 0"),
            Guard::Negative(v) => write!(f, "{v} < 0"),
            Guard::NoPredicate(v) => write!(f, "{v} is no predicate"),
            Guard::RootOf(e, v) => write!(f, "{e} is even or {v} >= 0"),
            Guard::InverseOf(e, v) => write!(f, "{e} > 0 or {v} is no predicate"),
            Guard::DivisorOf(e, v) => write!(f, "{e} > 0 or {v} is not 0"),
            Guard::DividendOf(e, v) => write!(f, "{e} < 0 or {v} is not 0"),
            Guard::HasValue(v) => write!(f, "{v}.. has a value"),
            Guard::Boolean(v) => write!(f, "{v} is 0 or 1"),
            Guard::Single(v) => write!(f, "{v} has extent 1"),
        }
    }
}
