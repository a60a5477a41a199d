//! Bound indices of normal forms: opening a reduction with fresh names, closing it under the numbering that makes the form the least one,
//! and renaming. Comes in and goes out: forms in normal form.
use super::normal::{Condition, Normal};
use super::poly::{Atom, Base, Binder, Exponent, Index, Mentions, Monomial, Poly};
use crate::rational::Rational;
use std::collections::BTreeMap;

/// New names for indices; others stay.
pub(super) type Names = BTreeMap<Index, Index>;

impl Normal {
    pub(super) fn open_binder(&mut self, binder: Binder) -> (Names, Binder) {
        let index = self.fresh(binder);
        (Names::from([(binder.index, index)]), Binder { index, ..binder })
    }
    pub(super) fn open(&mut self, binders: &[Binder]) -> (Names, Vec<Binder>) {
        let names: Names = binders.iter().map(|b| (b.index, self.fresh(*b))).collect();
        let opened = binders.iter().map(|b| rename_binder(b, &names)).collect();
        (names, opened)
    }
    pub(super) fn close_sum(&mut self, binders: &[Binder], body: &Monomial) -> (Vec<Binder>, Monomial) {
        let above = body.greatest_bound();
        let mut best: Option<(Vec<Binder>, Monomial)> = None;
        for names in numberings(binders, above) {
            let Poly(renamed) = self.rename_monomial(body, &names);
            let Some((renamed, _)) = renamed.into_iter().next() else { continue };
            let mut binders: Vec<Binder> = binders.iter().map(|b| rename_binder(b, &names)).collect();
            binders.sort();
            let this = (binders, renamed);
            if best.as_ref().is_none_or(|b| this < *b) {
                best = Some(this)
            }
        }
        best.unwrap_or_default()
    }
    pub(super) fn close_maximum(&mut self, binders: &[Binder], predicates: &[Atom], body: &Poly) -> (Vec<Binder>, Vec<Atom>, Poly) {
        let above = body.greatest_bound();
        let mut best: Option<(Vec<Binder>, Vec<Atom>, Poly)> = None;
        for names in numberings(binders, above) {
            let renamed = self.rename(body, &names);
            let mut binders: Vec<Binder> = binders.iter().map(|b| rename_binder(b, &names)).collect();
            binders.sort();
            let mut predicates: Vec<Atom> = predicates.iter().map(|p| rename_atom(p, &names)).collect();
            predicates.sort();
            predicates.dedup();
            let this = (binders, predicates, renamed);
            if best.as_ref().is_none_or(|b| this < *b) {
                best = Some(this)
            }
        }
        best.unwrap_or_default()
    }
    /// The same form under other names of indices.
    pub fn rename(&mut self, p: &Poly, names: &Names) -> Poly {
        let mut total = Poly::zero();
        for (m, k) in &p.0 {
            let m = self.rename_monomial(m, names);
            let m = self.scale(&m, *k);
            total = self.add(&total, &m)
        }
        total
    }
    pub(super) fn rename_monomial(&mut self, m: &Monomial, names: &Names) -> Poly {
        let mut merged: BTreeMap<Base, Exponent> = BTreeMap::new();
        for (base, power) in &m.0 {
            let power = self.rename_exponent(power, names);
            let renamed = self.rename_base(base, names);
            match renamed.as_base().cloned() {
                Some(base) => self.insert(&mut merged, base, power),
                None => self.need(Condition::Never),
            }
        }
        Poly(BTreeMap::from([(Monomial(merged), Rational::ONE)]))
    }
    pub(super) fn rename_exponent(&mut self, power: &Exponent, names: &Names) -> Exponent {
        let mut renamed = Exponent::number(power.halves);
        for (s, n) in &power.symbols {
            renamed = renamed.add(&Exponent::symbol(rename_atom(s, names)).times(*n))
        }
        renamed
    }
    pub(super) fn rename_base(&mut self, base: &Base, names: &Names) -> Poly {
        let name = |i: Index| names.get(&i).copied().unwrap_or(i);
        Poly::base(match base {
            Base::Atom(a) => Base::Atom(rename_atom(a, names)),
            Base::Size(d, within) => Base::Size(*d, within.map(name)),
            Base::Sum(binders, body) => {
                let Poly(renamed) = self.rename_monomial(body, names);
                let renamed = renamed.into_keys().next().unwrap_or_default();
                let binders: Vec<Binder> = binders.iter().map(|b| Binder { within: b.within.map(name), ..*b }).collect();
                let (binders, body) = self.close_again(&binders, &renamed);
                Base::Sum(binders, body)
            }
            Base::Maximum(binders, predicates, body) => {
                let body = self.rename(body, names);
                let predicates: Vec<Atom> = predicates.iter().map(|p| rename_atom(p, names)).collect();
                let binders: Vec<Binder> = binders.iter().map(|b| Binder { within: b.within.map(name), ..*b }).collect();
                // opened first, so that the numbers that come are not taken
                let (open, opened) = self.open(&binders);
                let body = self.rename(&body, &open);
                let predicates: Vec<Atom> = predicates.iter().map(|p| rename_atom(p, &open)).collect();
                let (binders, predicates, body) = self.close_maximum(&opened, &predicates, &body);
                Base::Maximum(binders, predicates, body)
            }
            Base::Product(binder, inner, power) => {
                let inner = self.rename_base(inner, names);
                let power = self.rename_exponent(power, names);
                match inner.as_base() {
                    Some(inner) => Base::Product(*binder, Box::new(inner.clone()), power),
                    None => return Poly::zero(),
                }
            }
            Base::Exp(p) => Base::Exp(self.rename(p, names)),
            Base::Log(p) => Base::Log(self.rename(p, names)),
            Base::Apply(f, p) => Base::Apply(*f, self.rename(p, names)),
            Base::AtLeastZero(p) => Base::AtLeastZero(self.rename(p, names)),
            Base::Poly(p) => Base::Poly(self.rename(p, names)),
            Base::Greatest(all) => {
                let mut all: Vec<Poly> = all.iter().map(|p| self.rename(p, names)).collect();
                all.sort();
                Base::Greatest(all)
            }
        })
    }
    pub(super) fn close_again(&mut self, binders: &[Binder], body: &Monomial) -> (Vec<Binder>, Monomial) {
        let (open, opened) = self.open(binders);
        let Poly(body) = self.rename_monomial(body, &open);
        let body = body.into_keys().next().unwrap_or_default();
        self.close_sum(&opened, &body)
    }
}

/// Does a form mention one of these indices?
pub(super) trait Touches {
    fn touches(&self, binders: &[Binder]) -> bool;
}

impl<T: Mentions> Touches for T {
    fn touches(&self, binders: &[Binder]) -> bool {
        let all = self.indices();
        binders.iter().any(|b| all.contains(&b.index))
    }
}

pub(super) fn rename_atom(a: &Atom, names: &Names) -> Atom {
    Atom { name: a.name.clone(), arguments: a.arguments.iter().map(|i| names.get(i).copied().unwrap_or(*i)).collect() }
}

fn rename_binder(b: &Binder, names: &Names) -> Binder {
    let name = |i: Index| names.get(&i).copied().unwrap_or(i);
    Binder { index: name(b.index), within: b.within.map(name) }
}

/// Every way to number binders from `above + 1` on.
fn numberings(binders: &[Binder], above: u32) -> Vec<Names> {
    fn permute(rest: &[Binder], next: u32, names: &Names, all: &mut Vec<Names>) {
        if rest.is_empty() {
            all.push(names.clone());
            return;
        }
        // the numbers go out in order of domains, so only binders of one domain change places
        let least = rest.iter().map(|b| b.index.domain).min();
        for (i, b) in rest.iter().enumerate().filter(|(_, b)| Some(b.index.domain) == least) {
            let mut names = names.clone();
            names.insert(b.index, Index { domain: b.index.domain, id: next });
            let others = [&rest[..i], &rest[i + 1..]].concat();
            permute(&others, next + 1, &names, all)
        }
    }
    let mut all = vec![];
    permute(binders, above + 1, &Names::new(), &mut all);
    all
}
