//! Which sums are members of which frame, read off a graph with frames.
//!
//! In: a graph. Out: its towers (see [`crate::frame`]): a sum over a frame's axes, whose body has a power of exp(-g), or a power of key - g, that is the
//! same for all its terms. A body that mixes them has no tower, and neither has a sum under two frames: then the frames are not to be had.
use crate::axis::AxisSet;
use crate::graph::{Function, Graph, NodeId, Op};
use crate::rational::Rational;

/// Members that are transported together when their frame moves: a sum for each moment from 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Tower {
    pub frame: NodeId,
    pub halves: i8,
    /// `(sum, moment)`
    pub members: Vec<(NodeId, i8)>,
}

/// A sum's body is some factors times `(key - frame)^moment`.
struct Member {
    halves: i8,
    moment: i8,
    axes: AxisSet,
    moved: Option<NodeId>,
    weight: Vec<(NodeId, i8)>,
}

/// The towers of a graph, to which lower moments are added; `None` if a sum has none though its body depends on a frame that still moves.
pub fn towers(g: &mut Graph) -> Option<Vec<Tower>> {
    let live = g.cone(g.stores().map(|s| s.1.node));
    let frames: Vec<NodeId> = live.iter().copied().filter(|n| matches!(g.op(*n), Op::Frame(..))).collect();
    let mut found: Vec<(NodeId, Member)> = vec![];
    let mut sums: Vec<NodeId> = vec![];
    for frame in frames {
        let degrees = Degrees::new(g, frame);
        for &n in &live {
            let Op::Sum(axes) = degrees.graph.op(n) else { continue };
            let axes = *axes;
            let body = degrees.graph.operands(n)[0];
            let (false, true) = (degrees.later(body), axes.intersects(degrees.over)) else { continue };
            let Degree::Of(halves, moment) = degrees.of[body.index()] else { return None };
            if (halves, moment) == (0, 0) {
                continue;
            }
            if sums.contains(&n) {
                return None;
            }
            sums.push(n);
            let (moved, weight) = degrees.factors(body, moment)?;
            found.push((frame, Member { halves, moment, axes, moved, weight }))
        }
    }
    // members of one weight are one tower, as high as its highest
    let mut out: Vec<(NodeId, Member)> = vec![];
    for (frame, m) in found {
        let same = |t: &&mut (NodeId, Member)| t.0 == frame && (t.1.halves, t.1.axes) == (m.halves, m.axes) && t.1.weight == m.weight;
        match out.iter_mut().find(same) {
            Some(t) if t.1.moment >= m.moment => {}
            Some(t) => t.1 = m,
            None => out.push((frame, m)),
        }
    }
    let mut towers: Vec<Tower> = vec![];
    for (frame, m) in out {
        let mut members = vec![];
        for p in 0..=m.moment {
            let mut factors: Vec<(NodeId, i8)> = m.weight.iter().copied().chain(m.moved.filter(|_| p > 0).map(|x| (x, 2 * p))).collect();
            let body = g.product(&factors);
            let mut sum = g.sum(m.axes, body);
            let is_another_s = towers.iter().any(|t| t.frame != frame && t.members.iter().any(|n| n.0 == sum));
            if let Some(moved) = m.moved.filter(|_| is_another_s) {
                // a count is the same in every frame, but each frame's loop carries its own: (key - frame)^0
                factors.push((g.intern(Op::Linear(vec![Rational::ZERO], Rational::ONE), vec![moved]), 2));
                let body = g.product(&factors);
                sum = g.sum(m.axes, body)
            }
            members.push((sum, p))
        }
        towers.push(Tower { frame, halves: m.halves, members })
    }
    Some(towers)
}

/// What becomes of a value when a frame g moves: it has a factor exp(-halves/2 * g), and one that is a power of key - g.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Degree {
    Of(i8, i8),
    /// Neither.
    Other,
}

const FIXED: Degree = Degree::Of(0, 0);

/// The degree of every node in one frame.
struct Degrees {
    graph: Graph,
    frame: NodeId,
    over: AxisSet,
    of: Vec<Degree>,
    /// Whether a node needs the frame, and whether it needs what the frame's loop ends with: then the frame moves no more.
    depends: Vec<bool>,
    later: Vec<bool>,
}

impl Degrees {
    fn new(g: &Graph, frame: NodeId) -> Degrees {
        let over = g.op(frame).reduced();
        let mut d = Degrees { graph: g.clone(), frame, over, of: vec![], depends: vec![], later: vec![] };
        for i in 0..g.nodes.len() {
            let n = NodeId(i as u32);
            let below = |bits: &[bool]| g.operands(n).iter().any(|o| bits[o.index()]);
            let (depends, later) = (below(&d.depends), below(&d.later));
            let ends = depends && g.op(n).reduced().intersects(over);
            d.depends.push(depends || n == frame);
            d.later.push(later || ends);
            let degree = d.degree(n);
            d.of.push(degree)
        }
        d
    }
    fn later(&self, node: NodeId) -> bool {
        self.later[node.index()]
    }
    fn degree(&mut self, n: NodeId) -> Degree {
        if n == self.frame {
            return Degree::Other;
        }
        let operands = self.graph.operands(n).to_vec();
        if operands.iter().all(|o| self.of[o.index()] == FIXED) {
            return FIXED;
        }
        match self.graph.op(n).clone() {
            Op::Product(exponents) => self.product(&operands, &exponents),
            Op::Linear(..) if self.is_moved(n) => Degree::Of(0, 1),
            Op::Linear(_, constant) => match self.of[operands[0].index()] {
                first if constant.is_zero() && operands.iter().all(|o| self.of[o.index()] == first) => first,
                _ => Degree::Other,
            },
            Op::Apply(Function::Exp) => self.exponential(operands[0]),
            Op::Sum(_) => self.of[operands[0].index()],
            _ => Degree::Other,
        }
    }
    fn product(&self, operands: &[NodeId], exponents: &[i8]) -> Degree {
        let (mut halves, mut moment) = (0i32, 0i32);
        for (o, &e) in operands.iter().zip(exponents) {
            let Degree::Of(h, p) = self.of[o.index()] else { return Degree::Other };
            let (h, p, e) = (h as i32, p as i32, e as i32);
            if h * e % 2 != 0 || p != 0 && (e < 0 || e % 2 != 0) {
                return Degree::Other;
            }
            halves += h * e / 2;
            moment += p * e / 2
        }
        match (i8::try_from(halves), i8::try_from(moment)) {
            (Ok(h), Ok(p)) => Degree::Of(h, p),
            _ => Degree::Other,
        }
    }
    /// exp(rest - halves/2 * frame)
    fn exponential(&self, x: NodeId) -> Degree {
        let (terms, _) = terms(&self.graph, x);
        let mut halves = 0;
        for (k, y) in terms {
            if y == self.frame {
                let Some(h) = k.mul(Rational::integer(-2)).filter(|h| h.denominator() == 1).and_then(|h| i8::try_from(h.numerator()).ok()) else {
                    return Degree::Other;
                };
                halves = h
            } else if self.of[y.index()] != FIXED {
                return Degree::Other;
            }
        }
        Degree::Of(halves, 0)
    }
    /// Whether `n` is the frame's key less the frame.
    fn is_moved(&self, n: NodeId) -> bool {
        let key = self.graph.operands(self.frame)[0];
        let (mut rest, constant) = terms(&self.graph, n);
        let Some(at) = rest.iter().position(|t| t.1 == self.frame && t.0 == Rational::MINUS_ONE) else { return false };
        rest.remove(at);
        (rest, constant) == terms(&self.graph, key)
    }
    /// The factors of a body apart from the power of key - frame.
    fn factors(&self, body: NodeId, moment: i8) -> Option<(Option<NodeId>, Factors)> {
        let mut factors: Factors = match self.graph.op(body) {
            Op::Product(e) => self.graph.operands(body).iter().copied().zip(e.iter().copied()).collect(),
            _ => vec![(body, 2)],
        };
        if moment == 0 {
            return Some((None, factors));
        }
        let at = factors.iter().position(|f| f.1 == 2 * moment && self.of[f.0.index()] == Degree::Of(0, 1) && self.is_moved(f.0))?;
        Some((Some(factors.remove(at).0), factors))
    }
}

/// Values and their exponents, in halves.
type Factors = Vec<(NodeId, i8)>;

/// A value as a linear form.
fn terms(g: &Graph, x: NodeId) -> (Vec<(Rational, NodeId)>, Rational) {
    match g.op(x) {
        Op::Linear(k, c) => (k.iter().copied().zip(g.operands(x).iter().copied()).collect(), *c),
        _ => (vec![(Rational::ONE, x)], Rational::ZERO),
    }
}
