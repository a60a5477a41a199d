//! The sides of an instance as trees, without any normal form, and what they are at a position: evaluated element by element, as written.
use super::instance::Instance;
use crate::algebra::build::{Scope, Target, build};
use crate::algebra::matcher::Env;
use crate::algebra::schema::Term;
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

impl Instance {
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

/// A side.
pub(super) struct Built {
    trees: Vec<Tree>,
    root: usize,
}

impl Built {
    /// As the search builds it; `None` where it would build nothing. The environment's classes are `leaves`.
    pub fn new(term: &Term, env: &Env, leaves: usize) -> Option<Built> {
        let mut target = Plain { leaves, trees: vec![] };
        let root = build(&mut target, term, &Scope::new(env))?;
        Some(Built { trees: target.trees, root })
    }
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
