//! Real expressions over index domains of symbolic extent, as data in normal form.
//!
//! A polynomial is a sum of monomials with rational coefficients; a monomial is a product of powers of bases; a base is an atom (a
//! variable at indices), or an operation over polynomials. Bound indices have small ids given by [`super::normal`], so that equal
//! forms are equal values. Everything here is total: 1/0 is 0, the root of x that of |x|, log 0 is 0. Where that is not what the
//! language means, the module of denotations says so, and the solver is asked.
use crate::graph::Function;
use crate::rational::Rational;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An index domain: a group of axes of any rank, or the members of a family.
pub type Domain = u8;

/// A position in a domain. Id 0 is the position at which both sides are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Index {
    pub domain: Domain,
    pub id: u32,
}

/// Ids of bound indices are below this, those of indices under work from here on.
pub const OPEN: u32 = 1 << 20;

impl Index {
    pub fn free(domain: Domain) -> Self {
        Index { domain, id: 0 }
    }
    pub fn is_bound(self) -> bool {
        self.id > 0 && self.id < OPEN
    }
}

/// An index that a reduction binds. A domain may depend on a member of a family: the axes of one addend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Binder {
    pub index: Index,
    pub within: Option<Index>,
}

/// A variable at indices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Atom {
    pub name: String,
    pub arguments: Vec<Index>,
}

/// In halves: a number, and whole multiples of the powers that the variables of a row stand for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Exponent {
    pub halves: i32,
    pub symbols: BTreeMap<Atom, i32>,
}

impl Exponent {
    pub const fn number(halves: i32) -> Self {
        Exponent { halves, symbols: BTreeMap::new() }
    }
    pub fn symbol(atom: Atom) -> Self {
        Exponent { halves: 0, symbols: BTreeMap::from([(atom, 1)]) }
    }
    pub fn constant(&self) -> Option<i32> {
        self.symbols.is_empty().then_some(self.halves)
    }
    pub fn add(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.halves += other.halves;
        for (s, n) in &other.symbols {
            *sum.symbols.entry(s.clone()).or_insert(0) += n
        }
        sum.symbols.retain(|_, n| *n != 0);
        sum
    }
    pub fn times(&self, n: i32) -> Self {
        let symbols = self.symbols.iter().map(|(s, k)| (s.clone(), k * n)).filter(|s| s.1 != 0).collect();
        Exponent { halves: self.halves * n, symbols }
    }
    pub fn is_zero(&self) -> bool {
        self.halves == 0 && self.symbols.is_empty()
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Base {
    Atom(Atom),
    /// The number of positions of a domain.
    Size(Domain, Option<Index>),
    /// Over indices that the factors of the monomial connect: what they do not is a product of sums.
    Sum(Vec<Binder>, Monomial),
    /// The greatest of those positions at which all predicates hold.
    Maximum(Vec<Binder>, Vec<Atom>, Poly),
    /// The product over a family of a base to a power.
    Product(Binder, Box<Base>, Exponent),
    Exp(Poly),
    Log(Poly),
    Apply(Function, Poly),
    /// The greatest of a few.
    Greatest(Vec<Poly>),
    /// 1 if at least 0, else 0.
    AtLeastZero(Poly),
    /// A polynomial under a power that does not expand.
    Poly(Poly),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Monomial(pub BTreeMap<Base, Exponent>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Poly(pub BTreeMap<Monomial, Rational>);

impl Monomial {
    pub fn of(base: Base, power: Exponent) -> Self {
        if power.is_zero() { Monomial::default() } else { Monomial(BTreeMap::from([(base, power)])) }
    }
}

impl Poly {
    pub fn zero() -> Self {
        Poly::default()
    }
    pub fn number(value: Rational) -> Self {
        Poly(BTreeMap::from([(Monomial::default(), value)])).without_zeros()
    }
    pub fn one() -> Self {
        Self::number(Rational::ONE)
    }
    pub fn base(base: Base) -> Self {
        Poly(BTreeMap::from([(Monomial::of(base, Exponent::number(2)), Rational::ONE)]))
    }
    pub fn atom(atom: Atom) -> Self {
        Self::base(Base::Atom(atom))
    }
    pub fn without_zeros(mut self) -> Self {
        self.0.retain(|_, k| !k.is_zero());
        self
    }
    /// The one monomial, if it is one.
    pub fn monomial(&self) -> Option<(&Monomial, Rational)> {
        let mut all = self.0.iter();
        let (m, k) = all.next()?;
        all.next().is_none().then_some((m, *k))
    }
    pub fn as_number(&self) -> Option<Rational> {
        match self.monomial() {
            None => self.0.is_empty().then_some(Rational::ZERO),
            Some((m, k)) => m.0.is_empty().then_some(k),
        }
    }
    /// The base that the polynomial is.
    pub fn as_base(&self) -> Option<&Base> {
        let (m, k) = self.monomial()?;
        let mut factors = m.0.iter();
        let (base, power) = factors.next()?;
        (k.is_one() && power.constant() == Some(2) && factors.next().is_none()).then_some(base)
    }
}

// ---- indices --------------------------------------------------------------------------------------------------------

/// Every index that is mentioned, bound ones too.
pub trait Mentions {
    fn mentions(&self, into: &mut BTreeSet<Index>);
    /// Those that a form itself binds.
    fn binds(&self, into: &mut BTreeSet<Index>);
    /// Those that a form mentions and does not bind: the indices at which it varies.
    fn outer(&self) -> BTreeSet<Index> {
        let (mut all, mut bound) = (BTreeSet::new(), BTreeSet::new());
        self.mentions(&mut all);
        self.binds(&mut bound);
        &all - &bound
    }
    fn indices(&self) -> BTreeSet<Index> {
        let mut all = BTreeSet::new();
        self.mentions(&mut all);
        all
    }
    fn greatest_bound(&self) -> u32 {
        self.indices().iter().filter(|i| i.is_bound()).map(|i| i.id).max().unwrap_or(0)
    }
}

impl Mentions for Atom {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        into.extend(self.arguments.iter().copied())
    }
    fn binds(&self, _: &mut BTreeSet<Index>) {}
}

impl Mentions for Exponent {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        self.symbols.keys().for_each(|s| s.mentions(into))
    }
    fn binds(&self, _: &mut BTreeSet<Index>) {}
}

fn of_binders(binders: &[Binder], into: &mut BTreeSet<Index>) {
    into.extend(binders.iter().map(|b| b.index));
    into.extend(binders.iter().filter_map(|b| b.within))
}

impl Mentions for Base {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        match self {
            Base::Atom(a) => a.mentions(into),
            Base::Size(_, within) => into.extend(*within),
            Base::Sum(binders, body) => {
                of_binders(binders, into);
                body.mentions(into)
            }
            Base::Maximum(binders, predicates, body) => {
                of_binders(binders, into);
                predicates.iter().for_each(|p| p.mentions(into));
                body.mentions(into)
            }
            Base::Product(binder, base, power) => {
                of_binders(&[*binder], into);
                base.mentions(into);
                power.mentions(into)
            }
            Base::Exp(p) | Base::Log(p) | Base::Apply(_, p) | Base::AtLeastZero(p) | Base::Poly(p) => p.mentions(into),
            Base::Greatest(all) => all.iter().for_each(|p| p.mentions(into)),
        }
    }
    fn binds(&self, into: &mut BTreeSet<Index>) {
        match self {
            Base::Atom(_) | Base::Size(..) => {}
            Base::Sum(binders, body) => {
                into.extend(binders.iter().map(|b| b.index));
                body.binds(into)
            }
            Base::Maximum(binders, _, body) => {
                into.extend(binders.iter().map(|b| b.index));
                body.binds(into)
            }
            Base::Product(binder, base, _) => {
                into.insert(binder.index);
                base.binds(into)
            }
            Base::Exp(p) | Base::Log(p) | Base::Apply(_, p) | Base::AtLeastZero(p) | Base::Poly(p) => p.binds(into),
            Base::Greatest(all) => all.iter().for_each(|p| p.binds(into)),
        }
    }
}

impl Mentions for Monomial {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        for (base, power) in &self.0 {
            base.mentions(into);
            power.mentions(into)
        }
    }
    fn binds(&self, into: &mut BTreeSet<Index>) {
        self.0.keys().for_each(|b| b.binds(into))
    }
}

impl Mentions for Poly {
    fn mentions(&self, into: &mut BTreeSet<Index>) {
        self.0.keys().for_each(|m| m.mentions(into))
    }
    fn binds(&self, into: &mut BTreeSet<Index>) {
        self.0.keys().for_each(|m| m.binds(into))
    }
}

// ---- text -----------------------------------------------------------------------------------------------------------

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let letter = (b'a' + self.domain % 26) as char;
        if self.id == 0 { write!(f, "{letter}") } else { write!(f, "{letter}{}", self.id) }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter, all: impl IntoIterator<Item = T>, between: &str) -> fmt::Result {
    for (i, x) in all.into_iter().enumerate() {
        write!(f, "{}{x}", if i == 0 { "" } else { between })?
    }
    Ok(())
}

impl fmt::Display for Binder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.index)?;
        self.within.map_or(Ok(()), |w| write!(f, " of {w}"))
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if self.arguments.is_empty() {
            return Ok(());
        }
        write!(f, "[")?;
        list(f, &self.arguments, ",")?;
        write!(f, "]")
    }
}

impl fmt::Display for Exponent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.constant() {
            Some(n) if n % 2 == 0 => write!(f, "{}", n / 2),
            Some(n) => write!(f, "({n}/2)"),
            None => {
                write!(f, "(({}", self.halves)?;
                self.symbols.iter().try_for_each(|(s, n)| write!(f, " + {n} {s}"))?;
                write!(f, ")/2)")
            }
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Base::Atom(a) => write!(f, "{a}"),
            Base::Size(domain, None) => write!(f, "|{}|", Index::free(*domain)),
            Base::Size(domain, Some(within)) => write!(f, "|{} of {within}|", Index::free(*domain)),
            Base::Sum(binders, body) => {
                write!(f, "sum{{")?;
                list(f, binders, ",")?;
                write!(f, "}}({body})")
            }
            Base::Maximum(binders, predicates, body) => {
                write!(f, "max{{")?;
                list(f, binders, ",")?;
                if !predicates.is_empty() {
                    write!(f, " where ")?;
                    list(f, predicates, ",")?
                }
                write!(f, "}}({body})")
            }
            Base::Product(binder, base, power) => write!(f, "product{{{binder}}}({base}^{power})"),
            Base::Exp(p) => write!(f, "exp({p})"),
            Base::Log(p) => write!(f, "log({p})"),
            Base::Apply(function, p) => write!(f, "{}({p})", function.name()),
            Base::Greatest(all) => {
                write!(f, "greatest(")?;
                list(f, all, ", ")?;
                write!(f, ")")
            }
            Base::AtLeastZero(p) => write!(f, "[{p} >= 0]"),
            Base::Poly(p) => write!(f, "({p})"),
        }
    }
}

impl fmt::Display for Monomial {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "1");
        }
        for (i, (base, power)) in self.0.iter().enumerate() {
            write!(f, "{}{base}", if i == 0 { "" } else { "*" })?;
            if power.constant() != Some(2) {
                write!(f, "^{power}")?
            }
        }
        Ok(())
    }
}

impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "0");
        }
        for (i, (m, k)) in self.0.iter().enumerate() {
            write!(f, "{}", if i == 0 { "" } else { " + " })?;
            if k.is_one() { write!(f, "{m}")? } else { write!(f, "{k}*{m}")? }
        }
        Ok(())
    }
}
