//! From a match of the form to instances: the row's split shares out open members, its guards and controls are checked.
use super::matcher::{Env, Match, Open, Snapshot, Value};
use super::schema::{Control, Guard, Key, Place, Row, Split, Var};
use super::term::{Data, directed};
use crate::axis::{AxisId, AxisSet};
use crate::rational::Rational;
use egg::Id;
use std::collections::BTreeMap;

/// The axes at which a value varies.
pub fn free(snapshot: &Snapshot, value: &Value) -> AxisSet {
    let of = |set: AxisSet, x: Id| set.union(snapshot.free(x));
    match value {
        Value::Class(x) => snapshot.free(*x),
        Value::Classes(all) => all.iter().fold(AxisSet::EMPTY, |s, x| of(s, *x)),
        Value::Factors(all) => all.iter().fold(AxisSet::EMPTY, |s, f| of(s, f.0)),
        Value::Addends(all, _) => all.iter().fold(AxisSet::EMPTY, |s, a| of(s, a.1)),
        _ => AxisSet::EMPTY,
    }
}

fn members(value: &Value) -> Vec<Id> {
    match value {
        Value::Class(x) => vec![*x],
        Value::Classes(all) => all.clone(),
        Value::Factors(all) => all.iter().map(|f| f.0).collect(),
        Value::Addends(all, _) => all.iter().map(|a| a.1).collect(),
        _ => vec![],
    }
}

// ---- guards and controls --------------------------------------------------------------------------------------------

fn variables(guard: &Guard) -> [Var; 2] {
    let of = |p: &Place| match p {
        Place::Axes(v) | Place::Free(v) => *v,
    };
    match guard {
        Guard::Disjoint(a, b) => [of(a), of(b)],
        Guard::NonZero(v)
        | Guard::NonNegative(v)
        | Guard::Positive(v)
        | Guard::Negative(v)
        | Guard::NoPredicate(v)
        | Guard::HasValue(v)
        | Guard::Boolean(v)
        | Guard::Single(v) => [*v, *v],
        Guard::RootOf(v, w) | Guard::InverseOf(v, w) | Guard::DivisorOf(v, w) | Guard::DividendOf(v, w) => [*v, *w],
    }
}

/// Does the guard hold in an environment that binds its variables (`outer` those of the row, `inner` those of a member)?
fn holds(snapshot: &Snapshot, guard: &Guard, outer: &Env, inner: &Env) -> bool {
    let get = |v: &Var| inner.get(*v).or_else(|| outer.get(*v));
    let all = |v: &Var, fact: &dyn Fn(&Data) -> bool| get(v).is_none_or(|x| members(x).iter().all(|m| fact(snapshot.class(*m).data)));
    let place = |p: &Place| match p {
        Place::Axes(v) => get(v).map_or(AxisSet::EMPTY, |x| if let Value::Axes(a) = x { *a } else { AxisSet::EMPTY }),
        Place::Free(v) => get(v).map_or(AxisSet::EMPTY, |x| free(snapshot, x)),
    };
    let power = |v: &Var| if let Some(Value::Power(e)) = get(v) { *e } else { 0 };
    match guard {
        Guard::Disjoint(a, b) => !place(a).intersects(place(b)),
        Guard::NonZero(v) => all(v, &|d| d.nonzero),
        Guard::NonNegative(v) => all(v, &|d| d.nonnegative),
        Guard::Positive(v) => match get(v) {
            Some(Value::Coefficient(k)) => !k.is_negative() && !k.is_zero(),
            _ => all(v, &|d| d.positive()),
        },
        Guard::Negative(v) => matches!(get(v), Some(Value::Coefficient(k)) if k.is_negative()),
        Guard::NoPredicate(v) => all(v, &|d| !d.predicate),
        Guard::RootOf(e, x) => power(e) % 2 == 0 || all(x, &|d| d.nonnegative),
        Guard::InverseOf(e, x) => power(e) > 0 || all(x, &|d| !d.predicate),
        Guard::DivisorOf(e, x) => power(e) > 0 || all(x, &|d| d.nonzero),
        Guard::DividendOf(e, x) => power(e) < 0 || all(x, &|d| d.nonzero),
        Guard::Boolean(v) => all(v, &|d| d.predicate),
        Guard::Single(_) => false,
        Guard::HasValue(v) => match get(v) {
            Some(Value::Factors(all)) => {
                let fine = |(x, e): &(Id, i8)| {
                    let data = snapshot.class(*x).data;
                    (*e > 0 || data.nonzero) && (e % 2 == 0 || data.nonnegative)
                };
                all.iter().all(fine)
            }
            _ => true,
        },
    }
}

/// Every guard, about the variables of the row and about those of each member of a family.
fn guarded(snapshot: &Snapshot, row: &Row, env: &Env) -> bool {
    let none = Env::default();
    row.guards.iter().all(|guard| {
        let variables = variables(guard);
        if variables.iter().all(|v| env.get(*v).is_some()) {
            return holds(snapshot, guard, env, &none);
        }
        env.0.iter().all(|(_, value)| match value {
            Value::Family(all) => all.iter().all(|member| holds(snapshot, guard, env, member)),
            _ => true,
        })
    })
}

fn size(env: &Env, v: Var) -> usize {
    match env.get(v) {
        Some(Value::Family(all)) => all.len(),
        Some(value) => members(value).len(),
        None => 0,
    }
}

/// Do the guards hold, and do the controls let the instance pass?
pub fn admits(snapshot: &Snapshot, row: &Row, class: Id, env: &Env) -> bool {
    let control = row.control.iter().all(|control| match control {
        Control::Other(v) => matches!(env.get(*v), Some(Value::Class(x)) if *x != class),
        Control::Directed(v, form) => match (env.get(*v), env.get(*form)) {
            (Some(Value::Class(x)), Some(Value::Factors(factors))) => directed(snapshot.terms, *x, factors),
            _ => false,
        },
        Control::AtMost(n, all) => all.iter().map(|v| size(env, *v)).sum::<usize>() <= *n,
        Control::AtLeast(n, v) => size(env, *v) >= *n,
        Control::Simplify | Control::Varies(..) | Control::First | Control::Cancels => true,
    });
    control && guarded(snapshot, row, env)
}

// ---- splits ---------------------------------------------------------------------------------------------------------

/// May one member belong to the variable? Asked of every guard that mentions it, with the member alone in its place.
fn allowed(snapshot: &Snapshot, row: &Row, env: &Env, v: Var, member: Value) -> bool {
    let mut alone = Env::default();
    alone.bind(v, member);
    row.guards.iter().filter(|g| variables(g).contains(&v)).all(|g| holds(snapshot, g, env, &alone))
}

/// The instances of a match of the form; guards on what is not shared out here are still to be checked.
pub fn resolve(snapshot: &Snapshot, row: &Row, mut m: Match) -> Vec<Env> {
    match row.split {
        Split::None => {
            if m.open.is_empty() {
                vec![m.env]
            } else {
                vec![]
            }
        }
        Split::Maximal(v) => {
            let Some(open) = m.open.pop() else { return vec![] };
            maximal(snapshot, row, &m.env, v, &open).map(|shares| with(&m.env, shares)).into_iter().collect()
        }
        Split::Incidence { axes, touched } => incidence(snapshot, &m, axes, touched),
        Split::Groups(key) => {
            let Some(Open::Groups(family, v, addends, constant)) = m.open.pop() else { return vec![] };
            let groups = groups(snapshot, &m.env, key, &addends, constant);
            let member = |(addends, constant)| with(&Env::default(), [(v, Value::Addends(addends, constant))]);
            if groups.len() < 2 { vec![] } else { vec![with(&m.env, [(family, Value::Family(groups.into_iter().map(member).collect()))])] }
        }
        Split::Shared(v) => {
            let Some(Open::Members(family, alternatives)) = m.open.pop() else { return vec![] };
            let found = match alternatives.first().and_then(|a| a.first()).and_then(|m| m.open.first()) {
                Some(Open::Factors(..)) => shared_factors(v, &alternatives),
                Some(Open::Axes(..)) => shared_axes(v, &alternatives),
                _ => vec![],
            };
            found.into_iter().map(|(shared, members)| with(&m.env, [(v, shared), (family, Value::Family(members))])).collect()
        }
    }
}

fn with(env: &Env, more: impl IntoIterator<Item = (Var, Value)>) -> Env {
    let mut env = env.clone();
    env.0.extend(more);
    env
}

fn maximal(snapshot: &Snapshot, row: &Row, env: &Env, v: Var, open: &Open) -> Option<[(Var, Value); 2]> {
    match open {
        Open::Factors(a, b, pool) => {
            let (taken, rest): (Vec<_>, Vec<_>) = pool.iter().partition(|f| allowed(snapshot, row, env, v, Value::Factors(vec![**f])));
            let other = if v == *a { *b } else { *a };
            (!taken.is_empty() && !rest.is_empty()).then_some([(v, Value::Factors(taken)), (other, Value::Factors(rest))])
        }
        Open::Addends(a, b, pool, constant) => {
            let (taken, rest): (Vec<_>, Vec<_>) = pool.iter().partition(|x| allowed(snapshot, row, env, v, Value::Addends(vec![**x], Rational::ZERO)));
            let other = if v == *a { *b } else { *a };
            let some = !taken.is_empty() || !constant.is_zero();
            (some && !rest.is_empty()).then_some([(v, Value::Addends(taken, *constant)), (other, Value::Addends(rest, Rational::ZERO))])
        }
        Open::Axes(a, b, pool) => {
            let taken: AxisSet = pool.iter().filter(|x| allowed(snapshot, row, env, v, Value::Axes(AxisSet::of(*x)))).collect();
            let other = if v == *a { *b } else { *a };
            (!taken.is_empty()).then(|| [(v, Value::Axes(taken)), (other, Value::Axes(pool.difference(taken)))])
        }
        _ => None,
    }
}

/// One instance for each group of axes that occur in the same factors, if some axes and some factors remain.
fn incidence(snapshot: &Snapshot, m: &Match, axes: Var, touched: Var) -> Vec<Env> {
    let (mut pool, mut factors) = (None, None);
    for open in &m.open {
        match open {
            Open::Axes(a, b, set) => pool = Some((if *a == axes { *b } else { *a }, *set)),
            Open::Factors(a, b, all) => factors = Some((if *a == touched { *b } else { *a }, all)),
            _ => {}
        }
    }
    let (Some((other_axes, pool)), Some((other, factors))) = (pool, factors) else { return vec![] };
    let mut groups: BTreeMap<u64, AxisSet> = BTreeMap::new();
    let touches = |a: AxisId| factors.iter().enumerate().fold(0u64, |s, (i, f)| s | (snapshot.free(f.0).contains(a) as u64) << i);
    for a in pool.iter() {
        groups.entry(touches(a)).or_default().insert(a)
    }
    let whole = (1u64 << factors.len()) - 1;
    let instance = |(mask, group): (u64, AxisSet)| {
        if group == pool || mask == whole || mask == 0 {
            return None;
        }
        let mine = |i: usize| mask >> i & 1 == 1;
        let take = |wanted: bool| Value::Factors(factors.iter().enumerate().filter(|(i, _)| mine(*i) == wanted).map(|(_, f)| *f).collect());
        Some(with(&m.env, [(axes, Value::Axes(group)), (other_axes, Value::Axes(pool.difference(group))), (touched, take(true)), (other, take(false))]))
    };
    groups.into_iter().filter_map(instance).collect()
}

type Addends = (Vec<(Rational, Id)>, Rational);

/// Cuts addends into groups with equal keys; the constant goes with the empty key.
fn groups(snapshot: &Snapshot, env: &Env, key: Key, addends: &[(Rational, Id)], constant: Rational) -> Vec<Addends> {
    let key_of = |axes: AxisSet| match key {
        Key::Free => axes,
        Key::Reduced(v) => axes.intersection(env.axes(v)),
        Key::Beside(v) => axes.union(env.get(v).map_or(AxisSet::EMPTY, |r| free(snapshot, r))),
    };
    let mut groups: BTreeMap<(AxisSet, usize), Addends> = BTreeMap::new();
    let none = || (vec![], Rational::ZERO);
    for &(k, x) in addends {
        let alone = if let Key::Reduced(v) = key { hoistable(snapshot, x, env.axes(v)) } else { false };
        let place = (key_of(snapshot.free(x)), if alone { usize::from(x) } else { usize::MAX });
        groups.entry(place).or_insert_with(none).0.push((k, x))
    }
    if !constant.is_zero() {
        groups.entry((key_of(AxisSet::EMPTY), usize::MAX)).or_insert_with(none).1 = constant
    }
    groups.into_values().collect()
}

/// Has `x` a product form with a factor that can leave a reduction over these axes?
fn hoistable(snapshot: &Snapshot, x: Id, axes: AxisSet) -> bool {
    let free = |x: Id| snapshot.free(x);
    let splits = |n: &super::term::Node| n.factors().is_some_and(|f| f.iter().any(|f| !free(f.0).intersects(axes)));
    free(x).intersects(axes) && snapshot.nodes(x).any(splits)
}

type Shared = (Value, Vec<Env>);

/// The factors that every member has, for each form of the first member and that form of each other one which shares most with it.
fn shared_factors(v: Var, alternatives: &[Vec<Match>]) -> Vec<Shared> {
    fn pool(m: &Match) -> (Var, Var, &[(Id, i8)]) {
        if let Some(Open::Factors(a, b, pool)) = m.open.first() { (*a, *b, pool) } else { ('_', '_', &[]) }
    }
    let alike = |x: &(Id, i8), y: &(Id, i8)| x.0 == y.0 && x.1.signum() == y.1.signum();
    let mut found: Vec<Shared> = vec![];
    for first in &alternatives[0] {
        let (a, b, base) = pool(first);
        let rest = if v == a { b } else { a };
        let score = |m: &&Match| {
            let p = pool(m).2;
            (base.iter().filter(|x| p.iter().any(|y| alike(x, y))).count(), std::cmp::Reverse(p.len()))
        };
        let picks: Vec<&Match> = alternatives.iter().filter_map(|forms| forms.iter().max_by_key(score)).collect();
        let least = |x: &(Id, i8)| {
            let powers: Option<Vec<i8>> = picks.iter().map(|m| pool(m).2.iter().find(|y| alike(x, y)).map(|y| y.1)).collect();
            Some((x.0, powers?.into_iter().min_by_key(|e| e.abs())?))
        };
        let shared: Vec<(Id, i8)> = base.iter().filter_map(least).collect();
        if shared.is_empty() || found.iter().any(|f| f.0 == Value::Factors(shared.clone())) {
            continue;
        }
        let remainder = |m: &&Match| {
            let left = |y: &(Id, i8)| (y.0, y.1 - shared.iter().find(|s| alike(s, y)).map_or(0, |s| s.1));
            let left: Vec<(Id, i8)> = pool(m).2.iter().map(left).filter(|y| y.1 != 0).collect();
            with(&m.env, [(rest, Value::Factors(left))])
        };
        let members = picks.iter().map(remainder).collect();
        found.push((Value::Factors(shared), members))
    }
    found
}

/// The axes of a reduction that every member has, for each form of the first member.
fn shared_axes(v: Var, alternatives: &[Vec<Match>]) -> Vec<Shared> {
    fn pool(m: &Match) -> (Var, Var, AxisSet) {
        if let Some(Open::Axes(a, b, axes)) = m.open.first() { (*a, *b, *axes) } else { ('_', '_', AxisSet::EMPTY) }
    }
    let mut found = vec![];
    for first in &alternatives[0] {
        let (a, b, shared) = pool(first);
        let rest = if v == a { b } else { a };
        let member = |forms: &Vec<Match>| {
            let m = forms.iter().find(|m| shared.is_subset(pool(m).2))?;
            Some(with(&m.env, [(rest, Value::Axes(pool(m).2.difference(shared)))]))
        };
        if let Some(members) = alternatives.iter().map(member).collect() {
            found.push((Value::Axes(shared), members))
        }
    }
    found
}
