//! Instances of a row at small extents, and both sides there.
//!
//! Comes in: a row. Goes out: random bindings of its variables to concrete terms with values, and the values of both sides. The
//! sides are built by the function that the search builds with, and evaluated element by element as written: nothing is shared with
//! the normaliser or the solver. An instance at which the sides differ refutes the row.
use super::denote::Unclear;
use super::variables::{Kind, Variables, apart, variables, whole_powers};
use crate::algebra::build::{Scope, Target, build};
use crate::algebra::check::Random;
use crate::algebra::matcher::{Env, Value};
use crate::algebra::schema::{Guard, Place, Row, Split, Term, Var};
use crate::axis::{AxisId, AxisSet};
use crate::graph::Function;
use crate::rational::Rational;
use egg::Id;
use std::fmt;

/// What a term is somewhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Real(f64),
    MinusInfinity,
    /// 1/0, the root or the logarithm of a negative number, or what contains such a thing.
    None,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Number::Real(x) => write!(f, "{x}"),
            Number::MinusInfinity => write!(f, "-inf"),
            Number::None => write!(f, "no value"),
        }
    }
}

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
        write!(f, "with extents {}: {}: the left side is {}, the right side {}", extents.join(", "), bindings.join("; "), self.left, self.right)?;
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

/// Terms as built, without any normal form.
#[derive(Clone, Debug)]
pub enum Tree {
    Leaf(usize),
    Number(f64),
    Size(AxisId),
    Apply(Function, usize),
    Product(Vec<(usize, i8)>),
    Linear(Vec<(Rational, usize)>, Rational),
    Sum(AxisSet, usize),
    Maximum(AxisSet, usize, Vec<usize>),
    Greatest(Vec<usize>),
    AtLeastZero(usize),
}

pub struct Instance {
    pub extents: Vec<usize>,
    pub leaves: Vec<Leaf>,
    pub env: Env,
    pub trees: Vec<Tree>,
}

const NAMES: [&str; 4] = ["I", "J", "K", "L"];
/// Values with exact halves, zeros and both signs.
const VALUES: [f64; 7] = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0];
const POWERS: [i8; 8] = [2, 2, 2, 4, -2, -2, 1, -1];

struct Draw<'a> {
    row: &'a Row,
    variables: &'a Variables,
    random: &'a mut Random,
    instance: Instance,
    pool: AxisSet,
}

impl Draw<'_> {
    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }
    fn axes(&mut self) -> AxisSet {
        let bits = self.random.bits();
        self.pool.iter().filter(|a| bits >> a.0 & 1 == 1).collect()
    }
    /// A term; not varying along some axes if a guard is likely to ask for that.
    fn leaf(&mut self, without: AxisSet, predicate: bool) -> Id {
        let without = if self.chance(6) { AxisSet::EMPTY } else { without };
        let axes = self.axes().difference(without);
        let count = axes.iter().map(|a| self.instance.extents[a.0 as usize]).product();
        let kind = if predicate { 3 } else { self.random.below(7) };
        let values = (0..count).map(|_| match kind {
            0 | 1 => self.pick(&VALUES[4..]),
            2 => self.pick(&VALUES[3..]),
            3 => self.pick(&[0.0, 1.0]),
            _ => self.pick(&VALUES),
        });
        let values = values.collect();
        self.instance.leaves.push(Leaf { axes, values, predicate: kind == 3 });
        Id::from(self.instance.leaves.len() - 1)
    }
    /// Axes along which the row's guards say that a variable does not vary, as far as they are bound.
    fn without(&self, v: Var, envs: &[&Env]) -> AxisSet {
        let bound = |a: Var| envs.iter().find_map(|e| if let Some(Value::Axes(s)) = e.get(a) { Some(*s) } else { None }).unwrap_or(AxisSet::EMPTY);
        self.row.guards.iter().fold(AxisSet::EMPTY, |s, g| match g {
            Guard::Disjoint(Place::Axes(a), Place::Free(x)) | Guard::Disjoint(Place::Free(x), Place::Axes(a)) if *x == v => s.union(bound(*a)),
            _ => s,
        })
    }
    fn bind(&mut self, family: Option<Var>, outer: &Env) -> Env {
        let mut env = Env::default();
        let mine: Vec<(Var, Kind)> = self.variables.iter().filter(|v| v.1.family == family).map(|v| (*v.0, v.1.kind)).collect();
        let disjoint = apart(self.row, false);
        for (v, _) in mine.iter().filter(|v| v.1 == Kind::Axes) {
            let mut axes = self.axes();
            for (w, other) in env.0.iter().chain(&outer.0) {
                if let Value::Axes(other) = other
                    && disjoint.contains(&(*v, *w))
                {
                    axes = axes.difference(*other)
                }
            }
            env.bind(*v, Value::Axes(axes))
        }
        let whole = whole_powers(self.row);
        for (v, kind) in mine {
            let without = self.without(v, &[&env, outer]);
            let value = match kind {
                Kind::Axes | Kind::Named(_) => continue,
                Kind::Term => Value::Class(self.leaf(without, self.row.guards.contains(&Guard::Boolean(v)))),
                Kind::Factors => {
                    let n = self.random.below(3);
                    Value::Factors((0..n).map(|_| (self.leaf(without, false), self.pick(&POWERS))).collect())
                }
                Kind::Addends => {
                    let n = self.random.below(3);
                    let constant = if self.chance(2) { Rational::ZERO } else { self.coefficient() };
                    Value::Addends((0..n).map(|_| (self.coefficient(), self.leaf(without, false))).collect(), constant)
                }
                Kind::Power if whole.contains(&v) => Value::Power(self.pick(&[2, 4, -2, -4])),
                Kind::Power => Value::Power(self.pick(&[2, 4, -2, -4, 1, -1, 3, 6])),
                Kind::Coefficient => Value::Coefficient(self.coefficient()),
                Kind::Predicates => {
                    let n = self.random.below(2);
                    Value::Classes((0..n).map(|_| self.leaf(without, true)).collect())
                }
                Kind::Family => {
                    let n = self.pick(&[0, 1, 2, 2, 2, 3]);
                    let scope = Env([env.0.clone(), outer.0.clone()].concat());
                    Value::Family((0..n).map(|_| self.bind(Some(v), &scope)).collect())
                }
            };
            env.bind(v, value)
        }
        env
    }
    fn coefficient(&mut self) -> Rational {
        let (n, d) = self.pick(&[(1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (-1, 2)]);
        Rational::new(n, d).unwrap_or(Rational::ONE)
    }
}

/// A comparison of two sides at all positions.
struct Compared {
    some: bool,
    difference: Option<Counterexample>,
}

impl Instance {
    pub fn draw(row: &Row, variables: &Variables, random: &mut Random, empty: bool) -> Option<Instance> {
        let rank = random.below(4) as usize;
        let sizes: &[usize] = if empty { &[0, 1, 1, 2] } else { &[1, 1, 2, 2, 3] };
        let extents = (0..rank).map(|_| sizes[random.below(sizes.len() as u64) as usize]).collect();
        let pool = (0..rank as u8).map(AxisId).collect();
        let instance = Instance { extents, leaves: vec![], env: Env::default(), trees: vec![] };
        let mut draw = Draw { row, variables, random, instance, pool };
        let env = draw.bind(None, &Env::default());
        let mut instance = draw.instance;
        instance.env = env;
        // a family that shares something has members
        let empty_family = |v: &Value| matches!(v, Value::Family(all) if all.is_empty());
        let shares = matches!(row.split, Split::Shared(_));
        (!(shares && instance.env.0.iter().any(|b| empty_family(&b.1)))).then_some(instance)
    }
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
        let side = |term: &Term| {
            let mut target = Plain { leaves: self.leaves.len(), trees: vec![] };
            let root = build(&mut target, term, &Scope::new(&self.env))?;
            Some(Built { trees: target.trees, root })
        };
        Some((side(row.replaced())?, side(&row.right)?))
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
    pub(super) fn free(&self, side: &Built) -> AxisSet {
        fn of(instance: &Instance, side: &Built, x: usize) -> AxisSet {
            let union = |all: &mut dyn Iterator<Item = usize>| all.fold(AxisSet::EMPTY, |s, x| s.union(of(instance, side, x)));
            match &side.trees[x] {
                Tree::Leaf(l) => instance.leaves[*l].axes,
                Tree::Number(_) | Tree::Size(_) => AxisSet::EMPTY,
                Tree::Apply(_, x) | Tree::AtLeastZero(x) => of(instance, side, *x),
                Tree::Greatest(all) => union(&mut all.iter().copied()),
                Tree::Product(f) => union(&mut f.iter().map(|f| f.0)),
                Tree::Linear(a, _) => union(&mut a.iter().map(|a| a.1)),
                Tree::Sum(axes, x) => of(instance, side, *x).difference(*axes),
                Tree::Maximum(axes, x, p) => union(&mut p.iter().copied().chain([*x])).difference(*axes),
            }
        }
        of(self, side, side.root)
    }
    pub fn leaf(&self, leaf: usize, index: &[usize]) -> f64 {
        let leaf = &self.leaves[leaf];
        leaf.values[leaf.axes.iter().fold(0, |at, a| at * self.extents[a.0 as usize] + index[a.0 as usize])]
    }
    /// What a side is at a position.
    pub(super) fn value(&self, side: &Built, index: &[usize]) -> Number {
        self.value_of(side, side.root, index)
    }
    fn value_of(&self, side: &Built, x: usize, index: &[usize]) -> Number {
        use Number::*;
        match &side.trees[x] {
            Tree::Leaf(l) => Real(self.leaf(*l, index)),
            Tree::Number(n) => Real(*n),
            Tree::Size(a) => Real(self.extents[a.0 as usize] as f64),
            Tree::Apply(f, x) => match (f, self.value_of(side, *x, index)) {
                (_, None) => None,
                (Function::Exp, MinusInfinity) => Real(0.0),
                (Function::Log, Real(0.0)) => MinusInfinity,
                (Function::Log, Real(x)) if x < 0.0 => None,
                (_, MinusInfinity) => None,
                (f, Real(x)) => Real(f.apply(x)),
            },
            Tree::Product(factors) => {
                let values: Vec<(Number, i8)> = factors.iter().map(|(x, e)| (self.value_of(side, *x, index), *e)).collect();
                if values.iter().any(|(x, e)| *e > 0 && *x == Real(0.0)) {
                    return Real(0.0);
                }
                let power = |(x, e): &(Number, i8)| match x {
                    Real(x) if *x < 0.0 && e % 2 != 0 => None,
                    Real(0.0) => None,
                    Real(x) if e % 2 == 0 => Real(x.powi(*e as i32 / 2)),
                    Real(x) => Real(x.powf(*e as f64 / 2.0)),
                    MinusInfinity if *e == 2 => MinusInfinity,
                    _ => None,
                };
                let times = |p: Number, x: Number| match (p, x) {
                    (Real(p), Real(x)) => Real(p * x),
                    (MinusInfinity, Real(x)) | (Real(x), MinusInfinity) if x > 0.0 => MinusInfinity,
                    _ => None,
                };
                values.iter().map(power).fold(Real(1.0), times)
            }
            Tree::Linear(addends, constant) => addends.iter().fold(Real(constant.to_f64()), |sum, (k, x)| {
                let k = k.to_f64();
                plus(
                    sum,
                    match self.value_of(side, *x, index) {
                        Real(x) => Real(k * x),
                        MinusInfinity if k > 0.0 => MinusInfinity,
                        _ => None,
                    },
                )
            }),
            Tree::Sum(axes, x) => {
                let mut sum = Real(0.0);
                each(*axes, &self.extents, &mut index.to_vec(), &mut |at| sum = plus(sum, self.value_of(side, *x, at)));
                sum
            }
            Tree::Greatest(all) => all.iter().map(|x| self.value_of(side, *x, index)).fold(MinusInfinity, greater),
            Tree::AtLeastZero(x) => match self.value_of(side, *x, index) {
                Real(x) => Real((x >= 0.0) as u8 as f64),
                _ => None,
            },
            Tree::Maximum(axes, x, predicates) => {
                let mut greatest = MinusInfinity;
                each(*axes, &self.extents, &mut index.to_vec(), &mut |at| {
                    if predicates.iter().all(|p| self.value_of(side, *p, at) != Real(0.0)) {
                        greatest = greater(greatest, self.value_of(side, *x, at))
                    }
                });
                greatest
            }
        }
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

fn plus(a: Number, b: Number) -> Number {
    use Number::*;
    match (a, b) {
        (Real(a), Real(b)) => Real(a + b),
        (None, _) | (_, None) => None,
        _ => MinusInfinity,
    }
}

fn greater(a: Number, b: Number) -> Number {
    use Number::*;
    match (a, b) {
        (None, _) | (_, None) => None,
        (MinusInfinity, x) | (x, MinusInfinity) => x,
        (Real(a), Real(b)) => Real(a.max(b)),
    }
}

/// Calls `visit` at every position over `axes`; the other indices stay as they are.
pub(super) fn each(axes: AxisSet, extents: &[usize], index: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    fn walk(axes: &[usize], extents: &[usize], index: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
        match axes.split_first() {
            None => visit(index),
            Some((a, rest)) => (0..extents[*a]).for_each(|i| {
                index[*a] = i;
                walk(rest, extents, index, visit)
            }),
        }
    }
    let axes: Vec<usize> = axes.iter().map(|a| a.0 as usize).collect();
    walk(&axes, extents, index, visit)
}

pub(super) struct Built {
    trees: Vec<Tree>,
    root: usize,
}

/// Builds terms as the schema writes them.
struct Plain {
    leaves: usize,
    trees: Vec<Tree>,
}

impl Plain {
    fn push(&mut self, tree: Tree) -> usize {
        self.trees.push(tree);
        self.trees.len() - 1
    }
}

impl Target for Plain {
    type Id = usize;
    fn class(&mut self, class: Id) -> usize {
        debug_assert!(usize::from(class) < self.leaves);
        self.push(Tree::Leaf(class.into()))
    }
    fn number(&mut self, value: Rational) -> usize {
        self.push(Tree::Number(value.to_f64()))
    }
    fn size(&mut self, axis: AxisId) -> usize {
        self.push(Tree::Size(axis))
    }
    fn apply(&mut self, function: Function, x: usize) -> usize {
        self.push(Tree::Apply(function, x))
    }
    fn product(&mut self, factors: &[(usize, i8)]) -> Option<usize> {
        // a power of 0 is no factor: constructors leave it out
        Some(self.push(Tree::Product(factors.iter().copied().filter(|f| f.1 != 0).collect())))
    }
    fn linear(&mut self, addends: &[(Rational, usize)], constant: Rational) -> Option<usize> {
        Some(self.push(Tree::Linear(addends.to_vec(), constant)))
    }
    fn sum(&mut self, axes: AxisSet, x: usize) -> usize {
        self.push(Tree::Sum(axes, x))
    }
    fn maximum(&mut self, axes: AxisSet, x: usize, predicates: &[usize]) -> usize {
        self.push(Tree::Maximum(axes, x, predicates.to_vec()))
    }
    fn greatest(&mut self, all: &[usize]) -> Option<usize> {
        Some(self.push(Tree::Greatest(all.to_vec())))
    }
    fn at_least_zero(&mut self, x: usize) -> Option<usize> {
        Some(self.push(Tree::AtLeastZero(x)))
    }
}
