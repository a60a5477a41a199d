//! Translations into the graph: moments of x become moments of x - c, with a frame c that is near the mean, so that a difference of
//! them does not cancel.
//!
//! In: an algorithm's graph without frames. Out: an equal one, where a sum of squares asks for it and c leaves no trace. Multiples of
//! powers of c travel with the values that hold them, as polynomials; a variance, a covariance, a centred projection lose them
//! by the normal form of linear forms alone. A mean keeps c, which is added back. Where its square would reach a store, or an
//! operation that is no polynomial, the graph stays as it is: the sum of squares of an RMSNorm has no translation.
use crate::axis::AxisSet;
use crate::frame::{Frame, Gauge};
use crate::graph::{Access, Function, Graph, InputId, NodeId, Op};
use crate::rational::Rational;
use std::collections::BTreeMap;

/// The highest power of c that is followed.
const DEGREE: usize = 4;

/// The coefficients of the powers of c.
type Polynomial = Vec<NodeId>;

/// The graph with a translation for every value of which it sums squares, as far as that is possible.
pub fn translate(source: &Graph, row: Frame) -> Graph {
    let mut graph = source.pruned();
    let mut tried: Vec<NodeId> = vec![];
    while let Some((x, over)) = squared(&graph).into_iter().find(|s| !tried.contains(&s.0)) {
        let centre = Centre { op: Op::Frame(row, over), x, scale: Rational::ONE, guards: guards(&graph, x), present: None };
        match translated(&graph, &centre) {
            Some(moved) => (graph, tried) = (moved, vec![]),
            None => tried.push(x),
        }
    }
    graph
}

/// The graph in which sums of s * exp(s - g) are sums of (s - g) * exp(s - g), g being the frame of s: an entropy far from 0 is a
/// difference of such sums.
pub fn about_keys(source: &Graph) -> Graph {
    let mut graph = source.pruned();
    let mut tried: Vec<NodeId> = vec![];
    while let Some(centre) = weighted(&graph).into_iter().find(|c| c.present.is_some_and(|f| !tried.contains(&f))) {
        match translated(&graph, &centre) {
            // the frame's place may have changed
            Some(moved) => (graph, tried) = (moved, vec![]),
            None => tried.extend(centre.present),
        }
    }
    graph
}

/// What a value x is to be taken about: scale * x is the key of a frame.
struct Centre {
    op: Op,
    x: NodeId,
    scale: Rational,
    guards: Vec<NodeId>,
    /// The frame's node, if the graph has it.
    present: Option<NodeId>,
}

/// Frames whose keys multiply their exponentials under a sum.
fn weighted(g: &Graph) -> Vec<Centre> {
    let mut found = vec![];
    for (i, n) in g.nodes.iter().enumerate() {
        let Op::Frame(row, over) = &n.op else { continue };
        if row.gauge != Gauge::Exponential {
            continue;
        }
        let frame = NodeId(i as u32);
        let (scale, x) = match g.op(n.operands[0]) {
            Op::Linear(k, c) if k.len() == 1 && c.is_zero() => (k[0], g.operands(n.operands[0])[0]),
            _ => (Rational::ONE, n.operands[0]),
        };
        let is_exponential = |y: NodeId| matches!(g.op(y), Op::Apply(Function::Exp)) && g.cone([y]).contains(&frame);
        let is_weighted = g.nodes.iter().filter(|s| matches!(&s.op, Op::Sum(axes) if axes.intersects(*over))).any(|s| {
            let body = g.operands(s.operands[0]);
            matches!(g.op(s.operands[0]), Op::Product(e) if taken(g, x, body, e).0 > 0 && body.iter().any(|o| is_exponential(*o)))
        });
        if is_weighted {
            found.push(Centre { op: n.op.clone(), x, scale, guards: n.operands[1..].to_vec(), present: Some(frame) })
        }
    }
    found
}

/// How often a value is a factor of a product, as a whole, and the other factors. One that is itself a product has dissolved in it.
fn taken(g: &Graph, x: NodeId, operands: &[NodeId], exponents: &[i8]) -> (i8, Vec<(NodeId, i8)>) {
    let mut rest: Vec<(NodeId, i8)> = operands.iter().copied().zip(exponents.iter().copied()).collect();
    let own: Vec<(NodeId, i8)> = match g.op(x) {
        Op::Product(e) => g.operands(x).iter().copied().zip(e.iter().copied()).collect(),
        _ => vec![(x, 2)],
    };
    let times = own.iter().map(|(y, e)| {
        let most = rest.iter().find(|f| f.0 == *y && (f.1 > 0) == (*e > 0) && f.1 % e == 0);
        most.map_or(0, |f| f.1 / e)
    });
    let times = times.min().unwrap_or(0);
    for (y, e) in own {
        if let Some(f) = rest.iter_mut().find(|f| f.0 == y && (f.1 > 0) == (e > 0)) {
            f.1 -= times * e
        }
    }
    rest.retain(|f| f.1 != 0);
    (times, rest)
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
    g.operands(x).iter().copied().find(|o| matches!(g.op(*o), Op::Frame(row, _) if row.gauge == Gauge::Moments))
}

/// The predicates under which every square of `x` is summed.
fn guards(g: &Graph, x: NodeId) -> Vec<NodeId> {
    let sums = g.nodes.iter().filter(|n| matches!(n.op, Op::Sum(_))).map(|n| n.operands[0]);
    let squares = sums.filter(|b| matches!(g.op(*b), Op::Product(e) if g.operands(*b).iter().zip(e).any(|(o, e)| *o == x && *e == 4)));
    let of = |b: NodeId| g.operands(b).iter().copied().filter(|o| matches!(g.op(*o), Op::Predicate(_))).collect::<Vec<_>>();
    squares.map(of).reduce(|a, b| a.into_iter().filter(|p| b.contains(p)).collect()).unwrap_or_default()
}

/// Inputs that stand for values until c has cancelled, so that linear forms do not take them apart: key - c, c, and x as it was.
struct Leaves {
    moved: NodeId,
    centre: NodeId,
    plain: NodeId,
    /// x as a polynomial in c.
    x: Polynomial,
}

/// The graph in x - c; `None` if the squares of c do not cancel.
fn translated(source: &Graph, about: &Centre) -> Option<Graph> {
    let free = source.free();
    let mut g = source.without_nodes();
    let mut map: Vec<Polynomial> = vec![];
    let frame_axes = free[about.x.index()].difference(about.op.reduced());
    let leaf = |g: &mut Graph, i: u32, axes: AxisSet| g.read(InputId(u32::MAX - i), Access::plain(axes.iter()));
    let (moved, centre, plain) = (leaf(&mut g, 0, free[about.x.index()]), leaf(&mut g, 1, frame_axes), leaf(&mut g, 2, free[about.x.index()]));
    let inverse = about.scale.pow(-1)?;
    let (zero, one, slope) = (g.number(Rational::ZERO), g.number(Rational::ONE), g.number(inverse));
    let x = vec![g.linear(&[(inverse, moved)], Rational::ZERO), slope];
    let leaves = Leaves { moved, centre, plain, x };
    let mut key = vec![];
    for (i, n) in source.nodes.iter().enumerate() {
        if about.present == Some(NodeId(i as u32)) {
            map.push(vec![zero, one]);
            continue;
        }
        let operands: Vec<&Polynomial> = n.operands.iter().map(|o| &map[o.index()]).collect();
        let value = match &n.op {
            Op::Linear(coefficients, constant) => linear(&mut g, &operands, coefficients, *constant),
            Op::Product(exponents) if i != about.x.index() && about.present.is_some() => {
                let (times, rest) = taken(source, about.x, &n.operands, exponents);
                let factors = rest.iter().map(|f| (&map[f.0.index()], f.1)).chain((times > 0).then_some((&leaves.x, 2 * times)));
                let (operands, exponents): (Vec<&Polynomial>, Vec<i8>) = factors.unzip();
                product(&mut g, &operands, &exponents, &leaves)?
            }
            Op::Product(exponents) => product(&mut g, &operands, exponents, &leaves)?,
            Op::Sum(axes) if operands[0].len() > 1 && frame_axes.intersects(*axes) => return None,
            Op::Sum(axes) => operands[0].clone().into_iter().map(|k| sum(&mut g, *axes, k)).collect(),
            op => {
                let operands: Option<Vec<NodeId>> = operands.iter().map(|p| whole(&mut g, p, &leaves)).collect();
                vec![g.intern(op.clone(), operands?)]
            }
        };
        let value = trimmed(&g, value);
        map.push(if i == about.x.index() {
            let [x] = value[..] else { return None };
            key = vec![x, g.linear(&[(about.scale, x)], Rational::ZERO)];
            key.extend(about.guards.iter().map(|p| g.intern(source.op(*p).clone(), vec![])));
            leaves.x.clone()
        } else {
            value
        })
    }
    let stores: Option<Vec<NodeId>> = source.stores().map(|s| whole(&mut g, &map[s.1.node.index()], &leaves)).collect();
    g.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(stores?).for_each(|(s, n)| s.node = n);
    Some(restored(&g, &leaves, &about.op, &key))
}

/// The value of a polynomial, if no square of c is in it.
fn whole(g: &mut Graph, p: &[NodeId], leaves: &Leaves) -> Option<NodeId> {
    match *p {
        [only] => Some(only),
        _ if p == leaves.x => Some(leaves.plain),
        [rest, slope] => {
            let multiple = quotient(g, &[(slope, 2), (leaves.centre, 2)]);
            Some(g.linear(&[(Rational::ONE, rest), (Rational::ONE, multiple)], Rational::ZERO))
        }
        _ => None,
    }
}

/// The graph with values for the leaves. `key`: x, the frame's key, and its predicates.
fn restored(graph: &Graph, leaves: &Leaves, frame: &Op, key: &[NodeId]) -> Graph {
    let mut g = graph.without_nodes();
    let mut map: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let roots = graph.stores().map(|s| s.1.node).chain(key.iter().copied());
    // the key does not depend on the leaves
    let below = graph.cone(key.iter().copied());
    let above: Vec<NodeId> = graph.cone(roots).into_iter().filter(|n| !below.contains(n)).collect();
    for n in below.into_iter().chain(above) {
        let operands: Vec<NodeId> = graph.operands(n).iter().map(|o| map[o]).collect();
        let new = match graph.op(n) {
            _ if n == leaves.plain => map[&key[0]],
            _ if n == leaves.moved || n == leaves.centre => {
                let mut operands: Vec<NodeId> = key[1..].iter().map(|k| map[k]).collect();
                operands[1..].sort();
                let x = operands[0];
                let frame = g.intern(frame.clone(), operands);
                if n == leaves.centre { frame } else { g.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, frame)], Rational::ZERO) }
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

fn product(g: &mut Graph, operands: &[&Polynomial], exponents: &[i8], leaves: &Leaves) -> Option<Polynomial> {
    let mut fixed: Vec<(NodeId, i8)> = vec![];
    let mut total: Polynomial = vec![];
    for (p, &e) in operands.iter().zip(exponents) {
        if let [only] = p[..] {
            fixed.push((only, e));
            continue;
        }
        if e < 0 || e % 2 != 0 {
            fixed.push((whole(g, p, leaves)?, e));
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

/// A product in which powers cancel. What is never 0 cancels, as an extent. What is 0 over an empty domain, as a count under a mask, cancels down to one
/// power above and one below the line, and where another factor is 0 with it (so is the product) altogether.
fn quotient(g: &mut Graph, factors: &[(NodeId, i8)]) -> NodeId {
    let whole = g.product(factors);
    let (coefficient, body) = match g.op(whole) {
        Op::Linear(k, c) if k.len() == 1 && c.is_zero() => (k[0], g.operands(whole)[0]),
        _ => (Rational::ONE, whole),
    };
    let Op::Product(exponents) = g.op(body) else { return whole };
    let factors: Vec<(NodeId, i8)> = g.operands(body).iter().copied().zip(exponents.iter().copied()).collect();
    let mut rest: Vec<(NodeId, i8)> = vec![];
    for &(x, e) in &factors {
        let Some(&(_, below)) = factors.iter().find(|f| f.0 == x && f.1 < 0 && e > 0) else {
            if e > 0 || factors.iter().all(|f| f.0 != x || f.1 < 0) {
                rest.push((x, e))
            }
            continue;
        };
        let net = e + below;
        let vanishes = |f: &(NodeId, i8)| f.1 > 0 && f.0 != x && is_zero_with(g, f.0, x);
        if e % 2 != 0 || below % 2 != 0 {
            rest.extend([(x, e), (x, below)])
        } else if net > 0 || is_positive(g, x) || is_total(g, x).is_some() && factors.iter().any(vanishes) {
            rest.extend((net != 0).then_some((x, net)))
        } else {
            rest.extend([(x, 2), (x, net - 2)])
        }
    }
    let body = g.product(&rest);
    g.linear(&[(coefficient, body)], Rational::ZERO)
}

/// Whether a value is greater than 0 at every point: extents are at least 1.
fn is_positive(g: &Graph, x: NodeId) -> bool {
    match g.op(x) {
        Op::Size(_) | Op::Apply(Function::Exp) => true,
        Op::Number(r) => !r.is_zero() && !r.is_negative(),
        Op::Input { input, .. } => g.inputs.get(input.index()).is_some_and(|i| i.positive),
        Op::Product(_) => g.operands(x).iter().all(|o| is_positive(g, *o)),
        Op::Sum(_) => is_positive(g, g.operands(x)[0]),
        _ => false,
    }
}

/// The axes and the predicates of a sum of what is positive where they hold: it is 0 only if they hold nowhere.
fn is_total(g: &Graph, x: NodeId) -> Option<(AxisSet, Vec<NodeId>)> {
    let Op::Sum(axes) = g.op(x) else { return None };
    let (predicates, rest): (Vec<NodeId>, Vec<NodeId>) = factors_of(g, g.operands(x)[0]).into_iter().partition(|f| matches!(g.op(*f), Op::Predicate(_)));
    rest.iter().all(|f| is_positive(g, *f)).then_some((*axes, predicates))
}

/// Whether `y` is 0 wherever the total `x` is: a sum over the same axes under the same predicates.
fn is_zero_with(g: &Graph, y: NodeId, x: NodeId) -> bool {
    let (Some((axes, predicates)), Op::Sum(own)) = (is_total(g, x), g.op(y)) else { return false };
    let factors = factors_of(g, g.operands(y)[0]);
    *own == axes && predicates.iter().all(|p| factors.contains(p))
}

/// The factors to positive powers of a product.
fn factors_of(g: &Graph, x: NodeId) -> Vec<NodeId> {
    match g.op(x) {
        Op::Product(e) => g.operands(x).iter().zip(e).filter(|f| *f.1 > 0).map(|f| *f.0).collect(),
        _ => vec![x],
    }
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
