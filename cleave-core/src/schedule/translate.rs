//! Translations into the graph: moments of x become moments of x - c, with a frame c that is near the mean, so that a difference of
//! them does not cancel.
//!
//! In: an algorithm's graph without frames. Out: an equal one, where a sum of squares asks for it and c leaves no trace. Multiples of
//! powers of c travel with the values that hold them, as polynomials; a variance, a covariance, a centred projection lose them
//! by the normal form of linear forms alone. A mean keeps c, which is added back. Where its square would reach a store, or an
//! operation that is no polynomial, the graph stays as it is: the sum of squares of an RMSNorm has no translation.
use super::elaborate::Tower;
use crate::axis::AxisSet;
use crate::graph::{Access, FrameKind, Graph, InputId, NodeId, Op};
use crate::rational::Rational;
use std::collections::BTreeMap;

/// The highest power of c that is followed.
const DEGREE: usize = 4;

/// The coefficients of the powers of c.
type Polynomial = Vec<NodeId>;

/// The graph with a translation for every value of which it sums squares, as far as that is possible.
pub fn translate(source: &Graph) -> Graph {
    let mut graph = source.pruned();
    let mut tried: Vec<NodeId> = vec![];
    while let Some((x, over)) = squared(&graph).into_iter().find(|s| !tried.contains(&s.0)) {
        match translated(&graph, x, over) {
            Some(moved) => (graph, tried) = (moved, vec![]),
            None => tried.push(x),
        }
    }
    graph
}

/// Values whose squares are summed, and the axes that they are summed over; not those that are translated already.
fn squared(g: &Graph) -> Vec<(NodeId, AxisSet)> {
    let free = g.free();
    let mut found = vec![];
    for n in g.cone(g.stores().map(|s| s.1.node)) {
        let Op::Sum(axes) = g.op(n) else { continue };
        let body = g.operands(n)[0];
        let Op::Product(exponents) = g.op(body) else { continue };
        for (x, _) in g.operands(body).iter().zip(exponents).filter(|f| *f.1 == 4) {
            let over = axes.intersection(free[x.index()]);
            if !over.is_empty() && over == *axes && translation_of(g, *x).is_none() {
                found.push((*x, over))
            }
        }
    }
    found
}

/// The frame of `x - frame`.
fn translation_of(g: &Graph, x: NodeId) -> Option<NodeId> {
    let Op::Linear(..) = g.op(x) else { return None };
    g.operands(x).iter().copied().find(|o| matches!(g.op(*o), Op::Frame(FrameKind::Translation, _)))
}

/// The predicates under which every square of `x` is summed.
fn guards(g: &Graph, x: NodeId) -> Vec<NodeId> {
    let sums = g.nodes.iter().filter(|n| matches!(n.op, Op::Sum(_))).map(|n| n.operands[0]);
    let squares = sums.filter(|b| matches!(g.op(*b), Op::Product(e) if g.operands(*b).iter().zip(e).any(|(o, e)| *o == x && *e == 4)));
    let of = |b: NodeId| g.operands(b).iter().copied().filter(|o| matches!(g.op(*o), Op::Predicate(_))).collect::<Vec<_>>();
    squares.map(of).reduce(|a, b| a.into_iter().filter(|p| b.contains(p)).collect()).unwrap_or_default()
}

/// The graph in x - c; `None` if the squares of c do not cancel.
fn translated(source: &Graph, x: NodeId, over: AxisSet) -> Option<Graph> {
    let free = source.free();
    let guards = guards(source, x);
    let mut g = source.without_nodes();
    let mut map: Vec<Polynomial> = vec![];
    let frame_axes = free[x.index()].difference(over);
    // x - c as a leaf, so that linear forms do not take it apart before c has cancelled
    let moved = g.read(InputId(u32::MAX), Access::plain(free[x.index()].iter()));
    let centre = g.read(InputId(u32::MAX - 1), Access::plain(frame_axes.iter()));
    let mut key = vec![];
    for (i, n) in source.nodes.iter().enumerate() {
        let operands: Vec<&Polynomial> = n.operands.iter().map(|o| &map[o.index()]).collect();
        let value = match &n.op {
            Op::Linear(coefficients, constant) => linear(&mut g, &operands, coefficients, *constant),
            Op::Product(exponents) => product(&mut g, &operands, exponents, centre)?,
            Op::Sum(axes) if operands[0].len() > 1 && frame_axes.intersects(*axes) => return None,
            Op::Sum(axes) => operands[0].clone().into_iter().map(|k| sum(&mut g, *axes, k)).collect(),
            op => {
                let operands: Option<Vec<NodeId>> = operands.iter().map(|p| whole(&mut g, p, centre)).collect();
                vec![g.intern(op.clone(), operands?)]
            }
        };
        let value = trimmed(&g, value);
        map.push(if i == x.index() {
            let [x] = value[..] else { return None };
            key = vec![x];
            key.extend(guards.iter().map(|p| g.intern(source.op(*p).clone(), vec![])));
            vec![moved, g.number(Rational::ONE)]
        } else {
            value
        })
    }
    let stores: Option<Vec<NodeId>> = source.stores().map(|s| whole(&mut g, &map[s.1.node.index()], centre)).collect();
    g.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(stores?).for_each(|(s, n)| s.node = n);
    Some(restored(&g, moved, centre, &key, over))
}

/// The value of a polynomial, if no square of c is in it.
fn whole(g: &mut Graph, p: &[NodeId], centre: NodeId) -> Option<NodeId> {
    match *p {
        [only] => Some(only),
        [rest, slope] => {
            let multiple = quotient(g, &[(slope, 2), (centre, 2)]);
            Some(g.linear(&[(Rational::ONE, rest), (Rational::ONE, multiple)], Rational::ZERO))
        }
        _ => None,
    }
}

/// The graph with `key - frame of key` for one leaf, and the frame for another.
fn restored(graph: &Graph, leaf: NodeId, centre: NodeId, key: &[NodeId], over: AxisSet) -> Graph {
    let mut g = graph.without_nodes();
    let mut map: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let roots = graph.stores().map(|s| s.1.node).chain(key.iter().copied());
    // the key does not depend on the leaves
    let below = graph.cone(key.iter().copied());
    let above: Vec<NodeId> = graph.cone(roots).into_iter().filter(|n| !below.contains(n)).collect();
    for n in below.into_iter().chain(above) {
        let operands: Vec<NodeId> = graph.operands(n).iter().map(|o| map[o]).collect();
        let new = match graph.op(n) {
            _ if n == leaf || n == centre => {
                let mut operands: Vec<NodeId> = key.iter().map(|k| map[k]).collect();
                operands[1..].sort();
                let x = operands[0];
                let frame = g.intern(Op::Frame(FrameKind::Translation, over), operands);
                if n == centre { frame } else { g.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, frame)], Rational::ZERO) }
            }
            Op::Linear(k, c) => g.linear(&k.iter().copied().zip(operands).collect::<Vec<_>>(), *c),
            Op::Product(e) => g.product(&operands.into_iter().zip(e.iter().copied()).collect::<Vec<_>>()),
            op => g.intern(op.clone(), operands),
        };
        map.insert(n, new);
    }
    g.outputs.iter_mut().flat_map(|o| &mut o.stores).for_each(|s| s.node = map[&s.node]);
    g.pruned()
}

fn is_zero(g: &Graph, n: NodeId) -> bool {
    matches!(g.op(n), Op::Number(r) if r.is_zero())
}

/// Without powers that have cancelled.
fn trimmed(g: &Graph, mut p: Polynomial) -> Polynomial {
    while p.len() > 1 && p.last().is_some_and(|k| is_zero(g, *k)) {
        p.pop();
    }
    p
}

fn linear(g: &mut Graph, operands: &[&Polynomial], coefficients: &[Rational], constant: Rational) -> Polynomial {
    let degree = operands.iter().map(|p| p.len()).max().unwrap_or(1).max(1);
    let of_power = |d: usize| {
        let terms: Vec<(Rational, NodeId)> = operands.iter().zip(coefficients).filter_map(|(p, k)| Some((*k, *p.get(d)?))).collect();
        g.linear(&terms, if d == 0 { constant } else { Rational::ZERO })
    };
    (0..degree).map(of_power).collect()
}

fn product(g: &mut Graph, operands: &[&Polynomial], exponents: &[i8], centre: NodeId) -> Option<Polynomial> {
    let mut fixed: Vec<(NodeId, i8)> = vec![];
    let mut total: Polynomial = vec![];
    for (p, &e) in operands.iter().zip(exponents) {
        if let [only] = p[..] {
            fixed.push((only, e));
            continue;
        }
        if e < 0 || e % 2 != 0 {
            fixed.push((whole(g, p, centre)?, e));
            continue;
        }
        for _ in 0..e / 2 {
            total = if total.is_empty() { p.to_vec() } else { times(g, &total, p)? }
        }
    }
    if total.is_empty() {
        return Some(vec![quotient(g, &fixed)]);
    }
    let all = total.into_iter().map(|k| quotient(g, &[&[(k, 2)], &fixed[..]].concat()));
    Some(all.collect())
}

fn times(g: &mut Graph, a: &[NodeId], b: &[NodeId]) -> Option<Polynomial> {
    let degree = a.len() + b.len() - 2;
    if degree > DEGREE {
        return None;
    }
    let of_power = |d: usize| {
        let pairs = (0..a.len()).filter(|i| d >= *i && d - i < b.len());
        let terms: Vec<(Rational, NodeId)> = pairs.map(|i| (Rational::ONE, quotient(g, &[(a[i], 2), (b[d - i], 2)]))).collect();
        g.linear(&terms, Rational::ZERO)
    };
    Some((0..=degree).map(of_power).collect())
}

/// A product in which extents cancel: they are not zero.
fn quotient(g: &mut Graph, factors: &[(NodeId, i8)]) -> NodeId {
    let whole = g.product(factors);
    let (coefficient, body) = match g.op(whole) {
        Op::Linear(k, c) if k.len() == 1 && c.is_zero() => (k[0], g.operands(whole)[0]),
        _ => (Rational::ONE, whole),
    };
    let Op::Product(exponents) = g.op(body) else { return whole };
    let mut sizes: BTreeMap<NodeId, i8> = BTreeMap::new();
    let mut rest: Vec<(NodeId, i8)> = vec![];
    for (x, e) in g.operands(body).iter().zip(exponents) {
        match g.op(*x) {
            Op::Size(_) => *sizes.entry(*x).or_default() += e,
            _ => rest.push((*x, *e)),
        }
    }
    rest.extend(sizes);
    let body = g.product(&rest);
    g.linear(&[(coefficient, body)], Rational::ZERO)
}

/// A sum; along an axis at which the value does not vary it is a multiple.
fn sum(g: &mut Graph, axes: AxisSet, x: NodeId) -> NodeId {
    let free = g.free()[x.index()];
    let (coefficient, body) = match g.op(x) {
        Op::Linear(k, c) if k.len() == 1 && c.is_zero() => (k[0], g.operands(x)[0]),
        _ => (Rational::ONE, x),
    };
    let mut factors = vec![(g.sum(axes.intersection(free), body), 2)];
    factors.extend(axes.difference(free).iter().map(|a| (g.size(a), 2)).collect::<Vec<_>>());
    let product = quotient(g, &factors);
    g.linear(&[(coefficient, product)], Rational::ZERO)
}

/// A frame, the axes of its sums, and the other factors of what they sum.
type Weight = (NodeId, AxisSet, Vec<(NodeId, i8)>);

/// The towers of the translations in a graph: the moments of each weight, with the lower ones that their transport reads.
pub fn towers(g: &mut Graph) -> Vec<Tower> {
    let mut towers: BTreeMap<Weight, (NodeId, i8)> = BTreeMap::new();
    for n in g.cone(g.stores().map(|s| s.1.node)) {
        let Op::Sum(axes) = g.op(n) else { continue };
        let body = g.operands(n)[0];
        let factors: Vec<(NodeId, i8)> = match g.op(body) {
            Op::Product(e) => g.operands(body).iter().copied().zip(e.iter().copied()).collect(),
            _ => vec![(body, 2)],
        };
        let Some((moved, e)) = factors.iter().copied().find(|f| f.1 > 0 && translation_of(g, f.0).is_some()) else { continue };
        let Some(frame) = translation_of(g, moved).filter(|f| matches!(g.op(*f), Op::Frame(_, over) if over.intersects(*axes))) else { continue };
        let weight = factors.into_iter().filter(|f| f.0 != moved).collect();
        let highest = towers.entry((frame, *axes, weight)).or_insert((moved, 0));
        highest.1 = highest.1.max(e / 2)
    }
    let mut out = vec![];
    for ((frame, axes, weight), (moved, degree)) in towers {
        let members = (0..=degree).map(|d| {
            let factors: Vec<(NodeId, i8)> = weight.iter().copied().chain((d > 0).then_some((moved, 2 * d))).collect();
            let body = g.product(&factors);
            (g.sum(axes, body), d)
        });
        out.push(Tower { frame, members: members.collect() })
    }
    out
}
