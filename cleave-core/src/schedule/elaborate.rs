//! Frames into the graph: exp(x) under a sum becomes exp(x - g) with a frame g that runs along the summed axes, and moments become
//! moments of x - c (see [`mod@super::translate`]).
//!
//! In: an algorithm's graph. Out: an equal graph with [`Op::Frame`] nodes, and which sums are members of which frame (see [`mod@super::towers`]). Powers of
//! exp(g) travel with the values that hold them; they cancel in a quotient, become `+ g` under a logarithm, and are
//! multiplied back where neither happens. A source that subtracts its own maximum needs no frame.
use super::towers::{Tower, towers};
use super::translate::{about_keys, translate};
use crate::axis::AxisSet;
use crate::frame::{Frame, Gauge, Row};
use crate::graph::{Function, Graph, NodeId, Op};
use crate::rational::Rational;
use std::collections::HashMap;

/// A graph with frames.
#[derive(Clone, PartialEq, Debug)]
pub struct Framed {
    pub graph: Graph,
    pub towers: Vec<Tower>,
}

impl Framed {
    /// The nodes that the stores need, in ascending order. A member needs the rest of its tower: transport reads the lower moments.
    pub fn live(&self) -> Vec<NodeId> {
        let mut roots: Vec<NodeId> = self.graph.stores().map(|s| s.1.node).collect();
        loop {
            let live = self.graph.cone(roots.iter().copied());
            let missing: Vec<NodeId> = self
                .towers
                .iter()
                .filter(|t| t.members.iter().any(|m| live.binary_search(&m.0).is_ok()))
                .flat_map(|t| t.members.iter().map(|m| m.0).chain([t.frame]))
                .filter(|n| live.binary_search(n).is_err())
                .collect();
            if missing.is_empty() {
                return live;
            }
            roots.extend(missing)
        }
    }
    /// The tower of a member.
    pub fn tower_of(&self, member: NodeId) -> Option<&Tower> {
        self.towers.iter().find(|t| t.members.iter().any(|m| m.0 == member))
    }
    /// The graph rebuilt from its live nodes, each replaced by what `rewrite` makes of its operation and its new operands.
    pub fn rebuild(&self, mut rewrite: impl FnMut(&mut Graph, NodeId, &Op, Vec<NodeId>) -> NodeId) -> Framed {
        let mut graph = self.graph.without_nodes();
        let mut map: HashMap<NodeId, NodeId> = HashMap::new();
        for n in self.live() {
            let operands = self.graph.operands(n).iter().map(|o| map[o]).collect();
            let new = rewrite(&mut graph, n, self.graph.op(n), operands);
            map.insert(n, new);
        }
        graph.outputs.iter_mut().flat_map(|o| &mut o.stores).for_each(|s| s.node = map[&s.node]);
        let mut towers = vec![];
        for t in &self.towers {
            let Some(frame) = map.get(&t.frame).copied().filter(|f| matches!(graph.op(*f), Op::Frame(..))) else { continue };
            let members: Vec<_> = t.members.iter().filter_map(|m| Some((*map.get(&m.0)?, m.1))).filter(|m| matches!(graph.op(m.0), Op::Sum(_))).collect();
            if !members.is_empty() {
                towers.push(Tower { frame, halves: t.halves, members })
            }
        }
        Framed { graph, towers }
    }
}

/// A value times exp(sum of halves/2 * node).
#[derive(Clone, Debug)]
struct Scaled {
    node: NodeId,
    shift: Vec<(NodeId, i8)>,
}

fn half(halves: i8) -> Rational {
    Rational::new(halves as i128, 2).unwrap_or(Rational::ZERO)
}

/// The graph with the frames of a table: of each gauge the first row. A frame that leaves a sum without a tower is not put in.
pub fn elaborate(source: &Graph, table: &[&'static Row]) -> Framed {
    let row = |gauge| table.iter().find(|r| r.gauge == gauge).map(|r| Frame(r));
    let (exponentials, moments) = (row(Gauge::Exponential), row(Gauge::Moments));
    let attempts = [(exponentials, moments, true), (exponentials, None, true), (exponentials, None, false), (None, None, false)];
    let framed = attempts.into_iter().find_map(|(exponentials, moments, about)| {
        let mut graph = moments.map_or_else(|| source.pruned(), |row| translate(source, row));
        if let Some(row) = exponentials {
            graph = shift(&graph, row)
        }
        if about {
            graph = about_keys(&graph)
        }
        Some(Framed { towers: towers(&mut graph)?, graph })
    });
    let framed = framed.unwrap_or_else(|| Framed { graph: source.pruned(), towers: vec![] });
    framed.rebuild(|g, _, op, operands| g.intern(op.clone(), operands))
}

/// The graph with exponentials in a frame where they are summed.
fn shift(source: &Graph, row: Frame) -> Graph {
    let free = source.free();
    let mut g = source.without_nodes();
    let mut map: Vec<Scaled> = vec![];
    for (i, n) in source.nodes.iter().enumerate() {
        let operands: Vec<Scaled> = n.operands.iter().map(|o| map[o.index()].clone()).collect();
        let scaled = match &n.op {
            Op::Apply(Function::Exp) => exponential(source, row, &free, &mut g, &map, NodeId(i as u32)),
            Op::Apply(Function::Log) => {
                let log = g.apply(Function::Log, operands[0].node);
                let mut terms = vec![(Rational::ONE, log)];
                terms.extend(operands[0].shift.iter().map(|s| (half(s.1), s.0)));
                plain(g.linear(&terms, Rational::ZERO))
            }
            Op::Product(exponents) => product(&mut g, &operands, exponents),
            Op::Linear(coefficients, constant) => linear(&mut g, &operands, coefficients, *constant),
            Op::Sum(axes) => sum(&mut g, &operands[0], *axes),
            op => {
                let operands = operands.iter().map(|o| restore(&mut g, o)).collect();
                plain(g.intern(op.clone(), operands))
            }
        };
        map.push(scaled)
    }
    let stores: Vec<NodeId> = source.stores().map(|s| restore(&mut g, &map[s.1.node.index()])).collect();
    g.outputs.iter_mut().flat_map(|o| &mut o.stores).zip(stores).for_each(|(s, n)| s.node = n);
    g.pruned()
}

fn plain(node: NodeId) -> Scaled {
    Scaled { node, shift: vec![] }
}

/// The value without a shift: the power of exp multiplied back.
fn restore(g: &mut Graph, x: &Scaled) -> NodeId {
    if x.shift.is_empty() {
        return x.node;
    }
    let terms: Vec<_> = x.shift.iter().map(|s| (half(s.1), s.0)).collect();
    let exponent = g.linear(&terms, Rational::ZERO);
    let factor = g.apply(Function::Exp, exponent);
    g.mul(&[x.node, factor])
}

fn exponential(source: &Graph, row: Frame, free: &[AxisSet], g: &mut Graph, map: &[Scaled], node: NodeId) -> Scaled {
    let argument = source.operands(node)[0];
    let x = restore(g, &map[argument.index()]);
    let reduction = summed(source, node).filter(|_| !bounded(source, argument));
    let over = reduction.as_ref().map_or(AxisSet::EMPTY, |r| r.axes.intersection(free[argument.index()]));
    let Some(reduction) = reduction.filter(|_| !over.is_empty()) else { return plain(g.apply(Function::Exp, x)) };
    let mut operands = vec![x];
    // predicates are leaves, and may stand behind this node in the source's order
    operands.extend(reduction.predicates.iter().map(|p| g.intern(source.op(*p).clone(), vec![])));
    operands[1..].sort();
    let frame = g.intern(Op::Frame(row, over), operands);
    let moved = g.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, frame)], Rational::ZERO);
    Scaled { node: g.apply(Function::Exp, moved), shift: vec![(frame, 2)] }
}

fn product(g: &mut Graph, operands: &[Scaled], exponents: &[i8]) -> Scaled {
    let mut shift: Vec<(NodeId, i8)> = vec![];
    let mut factors = vec![];
    for (x, &e) in operands.iter().zip(exponents) {
        let powers: Option<Vec<_>> =
            x.shift.iter().map(|s| Some((s.0, i8::try_from(s.1 as i32 * e as i32 / 2).ok().filter(|_| s.1 as i32 * e as i32 % 2 == 0)?))).collect();
        let Some(powers) = powers else {
            factors.push((restore(g, x), e)); // a quarter of a shift has no name
            continue;
        };
        factors.push((x.node, e));
        for (s, p) in powers {
            match shift.iter_mut().find(|t| t.0 == s) {
                Some(t) => t.1 += p,
                None => shift.push((s, p)),
            }
        }
    }
    shift.retain(|s| s.1 != 0);
    shift.sort();
    Scaled { node: g.product(&factors), shift }
}

/// Terms of one shift keep it. Others are brought to the greatest of their shifts: exp(sink) + sum exp(s) stays finite.
fn linear(g: &mut Graph, operands: &[Scaled], coefficients: &[Rational], constant: Rational) -> Scaled {
    let zip = |nodes: Vec<NodeId>| coefficients.iter().copied().zip(nodes).collect::<Vec<_>>();
    let first = operands.first().map_or(&[][..], |x| &x.shift);
    if operands.iter().all(|x| x.shift == first) && (constant.is_zero() || first.is_empty()) {
        return Scaled { node: g.linear(&zip(operands.iter().map(|x| x.node).collect()), constant), shift: first.to_vec() };
    }
    // every term as a value and the exponent of its power of exp
    let mut parts: Vec<(Rational, Option<NodeId>, NodeId)> = vec![];
    for (x, k) in operands.iter().zip(coefficients) {
        let mut terms: Vec<_> = x.shift.iter().map(|s| (half(s.1), s.0)).collect();
        let (value, exponents) = power(g, x.node);
        terms.extend(exponents);
        parts.push((*k, value, g.linear(&terms, Rational::ZERO)))
    }
    if !constant.is_zero() {
        let zero = g.number(Rational::ZERO);
        parts.push((constant, None, zero))
    }
    let common = g.greatest(&parts.iter().map(|p| p.2).collect::<Vec<_>>());
    let mut terms = vec![];
    for (k, value, exponent) in parts {
        let moved = g.linear(&[(Rational::ONE, exponent), (Rational::MINUS_ONE, common)], Rational::ZERO);
        let factor = g.apply(Function::Exp, moved);
        terms.push((k, value.map_or(factor, |v| g.mul(&[v, factor]))))
    }
    Scaled { node: g.linear(&terms, Rational::ZERO), shift: vec![(common, 2)] }
}

/// A value that is no power of exp, `None` for 1, and the terms of the exponent of one: exp(x) is the power of its argument, and so are the factors exp(x) of a product. Where a
/// predicate selects, what it leaves out must not decide a shift: there nothing is taken out.
fn power(g: &mut Graph, x: NodeId) -> (Option<NodeId>, Vec<(Rational, NodeId)>) {
    let factors: Vec<(NodeId, i8)> = match g.op(x) {
        Op::Product(exponents) => g.operands(x).iter().copied().zip(exponents.iter().copied()).collect(),
        _ => vec![(x, 2)],
    };
    if factors.iter().any(|f| matches!(g.op(f.0), Op::Predicate(_))) {
        return (Some(x), vec![]);
    }
    let (powers, rest): (Vec<_>, Vec<_>) = factors.into_iter().partition(|f| matches!(g.op(f.0), Op::Apply(Function::Exp)));
    let exponents = powers.iter().map(|(n, e)| (half(*e), g.operands(*n)[0])).collect();
    ((!rest.is_empty()).then(|| g.product(&rest)), exponents)
}

fn sum(g: &mut Graph, x: &Scaled, axes: AxisSet) -> Scaled {
    let free = g.free();
    if x.shift.iter().any(|s| free[s.0.index()].intersects(axes)) {
        let body = restore(g, x);
        return plain(g.sum(axes, body));
    }
    // a coefficient leaves, so that a product is seen as one
    let (coefficient, body) = match g.op(x.node) {
        Op::Linear(k, c) if k.len() == 1 && c.is_zero() => (k[0], g.operands(x.node)[0]),
        _ => (Rational::ONE, x.node),
    };
    let node = g.sum(axes, body);
    Scaled { node: g.linear(&[(coefficient, node)], Rational::ZERO), shift: x.shift.clone() }
}

/// Whether `x` is a value minus its own maximum, up to a constant: exp of it cannot overflow.
fn bounded(g: &Graph, x: NodeId) -> bool {
    let Op::Linear(coefficients, _) = g.op(x) else { return false };
    let terms: Vec<(NodeId, Rational)> = g.operands(x).iter().copied().zip(coefficients.iter().copied()).collect();
    terms.iter().any(|&(m, k)| {
        let Op::Maximum(_) = g.op(m) else { return false };
        let Some(scale) = k.neg().filter(|s| !s.is_negative()) else { return false };
        let key = g.operands(m)[0];
        let scaled: Option<Vec<(NodeId, Rational)>> = match g.op(key) {
            Op::Linear(inner, _) => g.operands(key).iter().zip(inner).map(|(y, c)| Some((*y, c.mul(scale)?))).collect(),
            _ => Some(vec![(key, scale)]),
        };
        let rest: Vec<_> = terms.iter().copied().filter(|t| t.0 != m).collect();
        scaled == Some(rest)
    })
}

/// The reduction under which a value ends.
#[derive(Clone, PartialEq)]
struct Reduction {
    axes: AxisSet,
    /// The predicates that select it there.
    predicates: Vec<NodeId>,
}

/// The axes over which `x` is summed next, through products and linear forms, and the predicates that guard it there: what all such
/// sums have in common. `None` if it is not summed.
fn summed(g: &Graph, x: NodeId) -> Option<Reduction> {
    let mut found: Option<Reduction> = None;
    for (i, n) in g.nodes.iter().enumerate().filter(|(_, n)| n.operands.contains(&x)) {
        let here = NodeId(i as u32);
        let reduction = match &n.op {
            Op::Sum(axes) => Some(Reduction { axes: *axes, predicates: vec![] }),
            Op::Product(exponents) if n.operands.iter().zip(exponents).all(|(o, e)| *o != x || *e > 0) => summed(g, here).map(|mut r| {
                let guards = n.operands.iter().zip(exponents).filter(|(o, e)| **e > 0 && matches!(g.op(**o), Op::Predicate(_)));
                r.predicates.extend(guards.map(|g| *g.0));
                r.predicates.sort();
                r.predicates.dedup();
                r
            }),
            // a sum of terms of which only some hold x has no common shift inside a loop
            Op::Linear(_, constant) if constant.is_zero() && n.operands.iter().all(|o| *o == x || factor_of(g, *o, x)) => summed(g, here),
            _ => None,
        };
        if let Some(r) = reduction {
            found = Some(match found {
                None => r,
                Some(f) => Reduction { axes: f.axes.intersection(r.axes), predicates: f.predicates.into_iter().filter(|p| r.predicates.contains(p)).collect() },
            })
        }
    }
    found
}

/// Whether `product` has `x` as a factor to the power 1.
fn factor_of(g: &Graph, product: NodeId, x: NodeId) -> bool {
    matches!(g.op(product), Op::Product(e) if g.operands(product).iter().zip(e).any(|(o, e)| *o == x && *e == 2))
}
