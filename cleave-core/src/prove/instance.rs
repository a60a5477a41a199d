//! Instances of a row at small extents, and both sides there.
//!
//! Comes in: a row. Goes out: random bindings of its variables to concrete terms with values ([`super::draw`]), and the values of both
//! sides ([`super::tree`]). The sides are built by the function that the search builds with, and evaluated element by element as written:
//! nothing is shared with the normaliser or the solver. An instance at which the sides differ refutes the row.
use super::denote::Unclear;
pub use super::tree::Number;
use super::tree::{Built, each};
use super::variables::variables;
use crate::algebra::check::Random;
use crate::algebra::matcher::{Env, Value};
use crate::algebra::schema::{Guard, Place, Row, Var};
use crate::axis::AxisSet;
use egg::Id;
use std::fmt;

/// An instance at which a row is wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Counterexample {
    /// The name and extent of every axis.
    pub extents: Vec<(String, usize)>,
    /// What the variables stand for.
    pub bindings: Vec<(Var, String)>,
    /// The position of every axis where the sides differ.
    pub position: Vec<usize>,
    pub left: Number,
    pub right: Number,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let extents: Vec<String> = self.extents.iter().map(|(a, n)| format!("{a} = {n}")).collect();
        let bindings: Vec<String> = self.bindings.iter().map(|(v, text)| format!("{v} = {text}")).collect();
        let extents = if extents.is_empty() { "without axes".into() } else { format!("with extents {}", extents.join(", ")) };
        write!(f, "{extents}: {}: the left side is {}, the right side {}", bindings.join("; "), self.left, self.right)?;
        let position: Vec<String> = self.extents.iter().zip(&self.position).map(|((a, _), i)| format!("{a} = {i}")).collect();
        if position.is_empty() { Ok(()) } else { write!(f, ", at {}", position.join(", ")) }
    }
}

/// Random instances of a row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trial {
    /// Instances that the guards admit and at which the left side has a value somewhere.
    pub admitted: usize,
    pub counterexample: Option<Counterexample>,
}

/// Tries so many instances, with axes of extent 0 too if `empty`.
///
/// # Errors
/// If the row's left side is none.
pub fn trial(row: &Row, tries: u64, empty: bool) -> Result<Trial, Unclear> {
    let variables = variables(row)?;
    let mut trial = Trial::default();
    for seed in 0..tries {
        let Some(instance) = Instance::draw(row, &variables, &mut Random(seed), empty) else { continue };
        if !row.guards.iter().all(|g| instance.holds(g)) {
            continue;
        }
        let Some((left, right)) = instance.sides(row) else { continue };
        let compared = instance.compare(left, right);
        trial.admitted += compared.some as usize;
        if compared.difference.is_some() {
            trial.counterexample = compared.difference;
            return Ok(trial);
        }
    }
    Ok(trial)
}

/// A variable's term: values over some axes, row-major in the order of the axes.
pub struct Leaf {
    pub axes: AxisSet,
    pub values: Vec<f64>,
    pub predicate: bool,
}

pub struct Instance {
    pub extents: Vec<usize>,
    pub leaves: Vec<Leaf>,
    pub env: Env,
}

const NAMES: [&str; 4] = ["I", "J", "K", "L"];

/// A comparison of two sides at all positions.
struct Compared {
    some: bool,
    difference: Option<Counterexample>,
}

impl Instance {
    fn members(&self, value: &Value) -> Vec<&Leaf> {
        let leaf = |x: &Id| &self.leaves[usize::from(*x)];
        match value {
            Value::Class(x) => vec![leaf(x)],
            Value::Classes(all) => all.iter().map(leaf).collect(),
            Value::Factors(all) => all.iter().map(|f| leaf(&f.0)).collect(),
            Value::Addends(all, _) => all.iter().map(|a| leaf(&a.1)).collect(),
            _ => vec![],
        }
    }
    /// Does a guard hold of the values, in the row's environment and in those of all members?
    pub fn holds(&self, guard: &Guard) -> bool {
        let families = self.env.0.iter().filter_map(|b| if let Value::Family(all) = &b.1 { Some(all) } else { None });
        let members: Vec<&Env> = families.flatten().collect();
        let none = Env::default();
        let mut places = vec![&none];
        places.extend(members);
        places.into_iter().all(|inner| self.holds_in(guard, inner))
    }
    fn holds_in(&self, guard: &Guard, inner: &Env) -> bool {
        let get = |v: &Var| inner.get(*v).or_else(|| self.env.get(*v));
        let every = |v: &Var, fact: &dyn Fn(f64) -> bool| match get(v) {
            Some(Value::Coefficient(k)) => fact(k.to_f64()),
            Some(x) => self.members(x).iter().all(|l| l.values.iter().all(|x| fact(*x))),
            None => true,
        };
        let place = |p: &Place| match p {
            Place::Axes(v) => get(v).map_or(AxisSet::EMPTY, |x| if let Value::Axes(a) = x { *a } else { AxisSet::EMPTY }),
            Place::Free(v) => get(v).map_or(AxisSet::EMPTY, |x| self.members(x).iter().fold(AxisSet::EMPTY, |s, l| s.union(l.axes))),
        };
        let power = |v: &Var| if let Some(Value::Power(e)) = get(v) { *e } else { 2 };
        let plain = |v: &Var| get(v).is_none_or(|x| self.members(x).iter().all(|l| !l.predicate));
        match guard {
            Guard::Disjoint(a, b) => !place(a).intersects(place(b)),
            Guard::NonZero(v) => every(v, &|x| x != 0.0),
            Guard::NonNegative(v) => every(v, &|x| x >= 0.0),
            Guard::Positive(v) => every(v, &|x| x > 0.0),
            Guard::Negative(v) => every(v, &|x| x < 0.0),
            Guard::NoPredicate(v) => plain(v),
            Guard::RootOf(e, v) => power(e) % 2 == 0 || every(v, &|x| x >= 0.0),
            Guard::InverseOf(e, v) => power(e) > 0 || plain(v),
            Guard::DivisorOf(e, v) => power(e) > 0 || every(v, &|x| x != 0.0),
            Guard::DividendOf(e, v) => power(e) < 0 || every(v, &|x| x != 0.0),
            Guard::Boolean(v) => every(v, &|x| x == 0.0 || x == 1.0),
            Guard::Single(v) => place(&Place::Axes(*v)).iter().all(|a| self.extents[a.0 as usize] == 1),
            Guard::HasValue(v) => match get(v) {
                Some(Value::Factors(all)) => {
                    let fine = |(x, e): &(Id, i8)| self.leaves[usize::from(*x)].values.iter().all(|x| (*e > 0 || *x != 0.0) && (e % 2 == 0 || *x >= 0.0));
                    all.iter().all(fine)
                }
                _ => true,
            },
        }
    }
    /// Both sides as trees of a fresh copy; `None` where the search would build nothing either.
    pub(super) fn sides(&self, row: &Row) -> Option<(Built, Built)> {
        Some((Built::new(row.replaced(), &self.env, self.leaves.len())?, Built::new(&row.right, &self.env, self.leaves.len())?))
    }
    fn compare(&self, left: Built, right: Built) -> Compared {
        let free = self.free(&left).union(self.free(&right));
        let mut compared = Compared { some: false, difference: None };
        let mut index = vec![0; self.extents.len()];
        each(free, &self.extents, &mut index, &mut |index| {
            if compared.difference.is_some() {
                return;
            }
            let (l, r) = (self.value(&left, index), self.value(&right, index));
            let alike = match (l, r) {
                (Number::None, _) => true,
                // too large to tell
                (Number::Real(x), Number::Real(y)) => !x.is_finite() || !y.is_finite() || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1.0),
                (Number::MinusInfinity, Number::MinusInfinity) => true,
                _ => false,
            };
            compared.some |= l != Number::None;
            if !alike {
                let extents = self.extents.iter().enumerate().map(|(i, n)| (NAMES[i].to_string(), *n)).collect();
                compared.difference = Some(Counterexample { extents, bindings: self.bindings(&self.env), position: index.to_vec(), left: l, right: r })
            }
        });
        compared
    }
    fn bindings(&self, env: &Env) -> Vec<(Var, String)> {
        let name = |s: AxisSet| s.iter().map(|a| NAMES[a.0 as usize]).collect::<Vec<_>>().join(",");
        let leaf = |x: &Id| {
            let l = &self.leaves[usize::from(*x)];
            if l.axes.is_empty() { format!("{}", l.values[0]) } else { format!("{:?} over {}", l.values, name(l.axes)) }
        };
        let describe = |value: &Value| match value {
            Value::Class(x) => leaf(x),
            Value::Classes(all) => format!("[{}]", all.iter().map(leaf).collect::<Vec<_>>().join(", ")),
            Value::Factors(all) => {
                let factor = |(x, e): &(Id, i8)| if *e == 2 { leaf(x) } else { format!("({})^({e}/2)", leaf(x)) };
                if all.is_empty() { "1".into() } else { all.iter().map(factor).collect::<Vec<_>>().join(" * ") }
            }
            Value::Addends(all, c) => all.iter().map(|(k, x)| format!("{k} * {}", leaf(x))).chain([c.to_string()]).collect::<Vec<_>>().join(" + "),
            Value::Axes(a) => format!("{{{}}}", name(*a)),
            Value::Power(e) => e.to_string(),
            Value::Coefficient(k) => k.to_string(),
            Value::Family(all) => {
                let member = |m: &Env| self.bindings(m).iter().map(|(v, text)| format!("{v} = {text}")).collect::<Vec<_>>().join(", ");
                format!("{{{}}}", all.iter().map(member).collect::<Vec<_>>().join("; "))
            }
        };
        env.0.iter().map(|(v, value)| (*v, describe(value))).collect()
    }
}
