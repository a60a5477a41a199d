//! The normaliser against the evaluator: the normal form of a side, as a number, is the side's value.
use super::denote::{Claim, Space, claim};
use super::instance::{Instance, Number};
use super::poly::{Atom, Base, Binder, Exponent, Index, Monomial, Poly};
use super::tree::each;
use super::variables::{Variables, variables};
use crate::algebra::check::Random;
use crate::algebra::matcher::{Env, Value};
use crate::algebra::rules::TABLE;
use crate::axis::{AxisId, AxisSet};
use std::collections::BTreeMap;

type At = BTreeMap<Index, usize>;

/// Normal forms at one position of an instance.
struct Point<'a> {
    instance: &'a Instance,
    spaces: &'a [Space],
    variables: &'a Variables,
    outer: &'a [usize],
}

impl Point<'_> {
    fn member(&self, space: &Space, at: Option<usize>) -> Option<&Env> {
        let family = space.name.chars().next()?;
        match self.instance.env.get(family) {
            Some(Value::Family(all)) => all.get(at?),
            _ => None,
        }
    }
    /// The axes of a cell.
    fn axes(&self, space: &Space, member: Option<&Env>) -> AxisSet {
        let bound = |v: char| {
            let of = |e: &Env| if let Some(Value::Axes(a)) = e.get(v) { Some(*a) } else { None };
            member.and_then(of).or_else(|| of(&self.instance.env))
        };
        let mine = space.axes.iter().filter_map(|v| bound(*v)).fold(AxisSet(u64::MAX), |s, a| s.intersection(a));
        let others = self.spaces.iter().flat_map(|s| &s.axes).filter(|v| !space.axes.contains(v)).filter_map(|v| bound(*v));
        others.fold(mine, |s, a| s.difference(a))
    }
    fn binder_axes(&self, domain: u8, within: Option<Index>, at: &At) -> AxisSet {
        let space = &self.spaces[domain as usize];
        let member = space.within.and_then(|f| self.member(&self.spaces[f as usize], within.and_then(|w| self.position(w, at))));
        self.axes(space, member)
    }
    fn position(&self, i: Index, at: &At) -> Option<usize> {
        at.get(&i).copied()
    }
    fn size(&self, domain: u8, within: Option<Index>, at: &At) -> usize {
        let space = &self.spaces[domain as usize];
        if space.family {
            match self.instance.env.get(space.name.chars().next().unwrap()) {
                Some(Value::Family(all)) => all.len(),
                _ => 0,
            }
        } else {
            self.binder_axes(domain, within, at).iter().map(|a| self.instance.extents[a.0 as usize]).product()
        }
    }
    fn over(&self, binders: &[Binder], at: &At, visit: &mut dyn FnMut(&At)) {
        let mut ordered = binders.to_vec();
        ordered.sort_by_key(|b| b.within.is_some());
        match ordered.split_first() {
            None => visit(at),
            Some((b, rest)) => {
                for i in 0..self.size(b.index.domain, b.within, at) {
                    let mut at = at.clone();
                    at.insert(b.index, i);
                    self.over(rest, &at, visit)
                }
            }
        }
    }
    fn atom(&self, atom: &Atom, at: &At) -> f64 {
        let (name, suffix) = (atom.name.chars().next().unwrap(), &atom.name[1..]);
        let family = self.variables[&name].family;
        let is_family = |i: &&Index| self.spaces[i.domain as usize].family;
        let member = atom.arguments.iter().find(is_family).filter(|_| family.is_some());
        let env = match member {
            Some(i) => self.member(&self.spaces[i.domain as usize], self.position(*i, at)).unwrap(),
            None => &self.instance.env,
        };
        // positions of cells as positions of axes
        let mut index = self.outer.to_vec();
        for i in atom.arguments.iter().filter(|i| !is_family(i) && i.id != 0) {
            let axes: Vec<AxisId> = self.binder_axes(i.domain, member.copied(), at).iter().collect();
            let mut rest = self.position(*i, at).unwrap();
            for a in axes.iter().rev() {
                let n = self.instance.extents[a.0 as usize];
                index[a.0 as usize] = rest % n;
                rest /= n
            }
        }
        let leaf = |x: &egg::Id| self.instance.leaf(usize::from(*x), &index);
        match env.get(name).unwrap() {
            Value::Class(x) => leaf(x),
            Value::Addends(all, c) => all.iter().fold(c.to_f64(), |s, (k, x)| s + k.to_f64() * leaf(x)),
            Value::Power(e) => *e as f64,
            Value::Coefficient(k) => k.to_f64(),
            Value::Classes(all) => all.iter().all(|p| leaf(p) != 0.0) as u8 as f64,
            Value::Factors(all) => {
                let wanted = |e: i8| (e < 0) == (suffix == "/");
                all.iter().filter(|f| wanted(f.1)).map(|(x, e)| raised(leaf(x), e.abs() as f64)).product()
            }
            _ => unreachable!("{atom}"),
        }
    }
    fn exponent(&self, e: &Exponent, at: &At) -> f64 {
        e.symbols.iter().fold(e.halves as f64, |s, (a, n)| s + *n as f64 * self.atom(a, at))
    }
    fn monomial(&self, m: &Monomial, at: &At) -> f64 {
        m.0.iter().map(|(b, e)| raised(self.base(b, at), self.exponent(e, at))).product()
    }
    fn poly(&self, p: &Poly, at: &At) -> f64 {
        p.0.iter().map(|(m, k)| k.to_f64() * self.monomial(m, at)).sum()
    }
    fn base(&self, base: &Base, at: &At) -> f64 {
        match base {
            Base::Atom(a) => self.atom(a, at),
            Base::Size(d, within) => self.size(*d, *within, at) as f64,
            Base::Sum(binders, body) => {
                let mut sum = 0.0;
                self.over(binders, at, &mut |at| sum += self.monomial(body, at));
                sum
            }
            Base::Maximum(binders, predicates, body) => {
                let mut greatest = f64::NEG_INFINITY;
                self.over(binders, at, &mut |at| {
                    if predicates.iter().all(|p| self.atom(p, at) != 0.0) {
                        greatest = greatest.max(self.poly(body, at))
                    }
                });
                greatest
            }
            Base::Product(binder, inner, e) => {
                let mut product = 1.0;
                self.over(&[*binder], at, &mut |at| product *= raised(self.base(inner, at), self.exponent(e, at)));
                product
            }
            Base::Exp(p) => self.poly(p, at).exp(),
            Base::Log(p) => self.poly(p, at).abs().ln(),
            Base::Apply(f, p) => f.apply(self.poly(p, at)),
            Base::AtLeastZero(p) => (self.poly(p, at) >= 0.0) as u8 as f64,
            Base::Poly(p) => self.poly(p, at),
            Base::Greatest(all) => all.iter().map(|p| self.poly(p, at)).fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// x to so many halves, as the normaliser means it.
fn raised(x: f64, halves: f64) -> f64 {
    match () {
        () if x == 0.0 && halves != 0.0 => 0.0,
        () if halves % 2.0 == 0.0 => x.powi(halves as i32 / 2),
        () => x.abs().powf(halves / 2.0),
    }
}

#[test]
fn the_normal_form_of_a_side_is_its_value() {
    for row in TABLE {
        let (Claim { left, right, spaces, .. }, variables) = (claim(row).unwrap(), variables(row).unwrap());
        let mut compared = 0;
        for seed in 0..400 {
            let Some(instance) = Instance::draw(row, &variables, &mut Random(seed), false) else { continue };
            if !row.guards.iter().all(|g| instance.holds(g)) {
                continue;
            }
            let Some((l, r)) = instance.sides(row) else { continue };
            each(instance.free(&l).union(instance.free(&r)), &instance.extents, &mut vec![0; instance.extents.len()], &mut |outer| {
                let point = Point { instance: &instance, spaces: &spaces, variables: &variables, outer };
                let Number::Real(want) = instance.value(&l, outer) else { return };
                if want == 0.0 || !want.is_finite() {
                    return; // where a side is exactly 0 its form may be anything
                }
                compared += 1;
                for (form, side) in [(&left, "left"), (&right, "right")] {
                    let got = point.poly(&form.real, &At::new());
                    assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{row}\nseed {seed}, {side} side {}: {got} instead of {want}", form.real)
                }
            })
        }
        assert!(compared > 20, "{row}: {compared}")
    }
}
