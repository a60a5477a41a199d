//! Random instances of a row: extents, and concrete values for its variables.
use super::instance::{Instance, Leaf};
use super::variables::{Kind, Variables, apart, whole_powers};
use crate::algebra::check::Random;
use crate::algebra::matcher::{Env, Value};
use crate::algebra::schema::{Guard, Place, Row, Split, Var};
use crate::axis::{AxisId, AxisSet};
use crate::rational::Rational;
use egg::Id;

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

impl Instance {
    pub fn draw(row: &Row, variables: &Variables, random: &mut Random, empty: bool) -> Option<Instance> {
        let rank = random.below(4) as usize;
        let sizes: &[usize] = if empty { &[0, 1, 1, 2] } else { &[1, 1, 2, 2, 3] };
        let extents = (0..rank).map(|_| sizes[random.below(sizes.len() as u64) as usize]).collect();
        let pool = (0..rank as u8).map(AxisId).collect();
        let instance = Instance { extents, leaves: vec![], env: Env::default() };
        let mut draw = Draw { row, variables, random, instance, pool };
        let env = draw.bind(None, &Env::default());
        let mut instance = draw.instance;
        instance.env = env;
        // a family that shares something has members
        let empty_family = |v: &Value| matches!(v, Value::Family(all) if all.is_empty());
        let shares = matches!(row.split, Split::Shared(_));
        (!(shares && instance.env.0.iter().any(|b| empty_family(&b.1)))).then_some(instance)
    }
}
