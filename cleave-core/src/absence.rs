//! What becomes of values where predicates hold nowhere: a sum under a mask is 0 there, its reciprocal and its logarithm are no numbers.
//!
//! In: a graph. Out: for each node whether it can be 0 for want of elements, and the predicates where which it has a value, is positive, is finite. In a
//! product an exact 0 wins over all that. A product of two operands knows nothing of this, so the scheduler must not part such factors; and back
//! ends ask which factors of a product are to be overruled.
use crate::graph::{Function, Graph, NodeId, Op, PredicateId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Predicates that must hold, at the position in question, for something to be true; `None`: it may be false wherever they hold.
pub type Where = Option<BTreeSet<PredicateId>>;

/// What is known of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Absence {
    /// It may be exactly 0 because predicates hold nowhere.
    pub vanishes: bool,
    /// Where it has a value, as far as predicates decide: a number that happens to be 0 is not asked for.
    pub valued: Where,
    /// It is nowhere negative, and positive there.
    pub positive: Where,
    /// It is not infinite there. Quotients are not asked: in them a 0 wins anyway.
    pub finite: Where,
}

impl Absence {
    fn number(positive: bool) -> Absence {
        Absence { vanishes: false, valued: everywhere(), positive: positive.then(BTreeSet::new), finite: everywhere() }
    }
}

fn everywhere() -> Where {
    Some(BTreeSet::new())
}

/// Where all of some things are true.
fn all(places: impl IntoIterator<Item = Where>) -> Where {
    places.into_iter().try_fold(BTreeSet::new(), |mut s, w| {
        s.extend(w?);
        Some(s)
    })
}

/// Where one of some things is true: that which asks for least.
fn any(places: impl IntoIterator<Item = Where>) -> Where {
    places.into_iter().flatten().min_by_key(|s| s.len())
}

fn predicates(g: &Graph, nodes: impl IntoIterator<Item = NodeId>) -> BTreeSet<PredicateId> {
    nodes.into_iter().filter_map(|n| if let Op::Predicate(p) = g.op(n) { Some(*p) } else { None }).collect()
}

/// The predicates among the factors of a product: where one of them is 0 it hides the rest.
pub fn selecting(g: &Graph, factors: impl IntoIterator<Item = (NodeId, i8)>) -> BTreeSet<PredicateId> {
    predicates(g, factors.into_iter().filter(|f| f.1 > 0).map(|f| f.0))
}

/// What is known of every node.
pub fn absences(g: &Graph) -> Vec<Absence> {
    let mut known: Vec<Absence> = Vec::with_capacity(g.nodes.len());
    for i in 0..g.nodes.len() {
        let a = absence(g, NodeId(i as u32), |o| &known[o.index()]);
        known.push(a)
    }
    known
}

/// What is known of a node, given what is of its operands.
pub fn absence<'a>(g: &Graph, node: NodeId, of: impl Fn(NodeId) -> &'a Absence) -> Absence {
    let operands: Vec<&Absence> = g.operands(node).iter().map(|o| of(*o)).collect();
    let valued = || all(operands.iter().map(|o| o.valued.clone()));
    let finite = || all(operands.iter().map(|o| o.finite.clone()));
    match g.op(node) {
        Op::Predicate(p) => Absence { vanishes: true, positive: Some([*p].into()), ..Absence::number(false) },
        Op::Size(_) => Absence::number(true),
        Op::Number(r) => Absence::number(!r.is_zero() && !r.is_negative()),
        Op::Input { input, .. } => match g.inputs.get(input.index()) {
            Some(i) => i.absence.clone().unwrap_or_else(|| Absence::number(i.positive)),
            None => Absence::number(false),
        },
        // a state gives a number where there is no frame
        Op::Index(_) | Op::Frame(..) => Absence::number(false),
        Op::Apply(Function::Exp) => Absence { vanishes: valued() != everywhere(), valued: valued(), positive: everywhere(), finite: finite() },
        Op::Apply(Function::Log) => Absence {
            vanishes: false,
            valued: all([valued(), unless_zero(operands[0])]),
            positive: None,
            finite: all([finite(), operands[0].positive.clone()]),
        },
        Op::Apply(Function::Sigmoid) => Absence { valued: valued(), ..Absence::number(true) },
        Op::Apply(Function::Tanh) => Absence { vanishes: operands[0].vanishes, valued: valued(), ..Absence::number(false) },
        Op::Apply(Function::Abs | Function::Round(_)) => Absence { vanishes: operands[0].vanishes, valued: valued(), positive: None, finite: finite() },
        Op::Product(exponents) => {
            let factors = || operands.iter().zip(exponents);
            let own = selecting(g, g.operands(node).iter().copied().zip(exponents.iter().copied()));
            let selected = |w: Where| if w.as_ref().is_some_and(|s| s.is_subset(&own)) { everywhere() } else { w };
            let below = factors().filter(|f| *f.1 < 0).map(|f| unless_zero(f.0));
            Absence {
                vanishes: factors().any(|(o, e)| *e > 0 && o.vanishes),
                valued: selected(all(below.chain([valued()]))),
                positive: all(operands.iter().map(|o| o.positive.clone())),
                finite: selected(all(factors().filter(|f| *f.1 > 0).map(|f| f.0.finite.clone()))),
            }
        }
        Op::Linear(coefficients, constant) => {
            let nonnegative = !constant.is_negative() && coefficients.iter().all(|k| !k.is_negative()) && operands.iter().all(|o| o.positive.is_some());
            let positive = if constant.is_zero() { any(operands.iter().map(|o| o.positive.clone())) } else { everywhere() };
            let vanishes = constant.is_zero() && operands.iter().all(|o| o.vanishes);
            Absence { vanishes, valued: valued(), positive: positive.filter(|_| nonnegative), finite: finite() }
        }
        Op::Greatest => {
            let positive = any(operands.iter().map(|o| o.positive.clone()));
            Absence { vanishes: operands.iter().any(|o| o.vanishes), valued: valued(), positive, finite: any(operands.iter().map(|o| o.finite.clone())) }
        }
        // one element is enough for the whole to have no value; where predicates hold that is one element of many
        Op::Sum(_) => {
            let whole = |w: &Where| w.clone().filter(|s| s.is_empty());
            let x = operands[0];
            Absence { vanishes: x.vanishes, valued: whole(&x.valued), positive: x.positive.clone(), finite: whole(&x.finite) }
        }
        Op::Maximum(_) => {
            let visible = predicates(g, g.operands(node)[1..].iter().copied());
            let x = operands[0];
            // the greatest of nothing is less than anything else
            let nested = matches!(g.op(g.operands(node)[0]), Op::Maximum(_));
            let within = |w: &Where| w.as_ref().filter(|s| nested || s.is_subset(&visible)).map(|s| s.union(&visible).copied().collect());
            Absence { vanishes: x.vanishes, valued: within(&x.valued), positive: x.positive.clone().filter(|_| visible.is_empty()), finite: within(&x.finite) }
        }
    }
}

/// Where what divides, or has its logarithm taken, is not 0 for want of elements.
pub fn unless_zero(x: &Absence) -> Where {
    if x.vanishes { x.positive.clone() } else { everywhere() }
}

/// Which factors of a product may be infinite where another one is exactly 0, which then wins: none that its predicates hide.
pub fn overruled(g: &Graph, known: &[Absence], factors: &[(NodeId, i8)]) -> Vec<bool> {
    let own = selecting(g, factors.iter().copied());
    factors.iter().map(|(x, e)| *e > 0 && !known[x.index()].finite.as_ref().is_some_and(|s| s.is_subset(&own))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisSet;
    use crate::dtype::{DType, Element};
    use crate::graph::Access;
    use crate::predicate::{Atom, Predicate};
    use crate::rational::Rational;

    /// x[M, N], a predicate on N and M, and the sum of exp x under it.
    fn total() -> (Graph, NodeId, NodeId, NodeId) {
        let mut g = Graph::default();
        let (m, n) = (g.add_axis("M"), g.add_axis("N"));
        let x = g.add_input("x", Element::Type(DType::F32), Access::plain([m, n]));
        let x = g.read(x, Access::plain([m, n]));
        let p = g.holds(Predicate::atom(Atom { indices: vec![(m, 1), (n, -1)], constant: -1, ..Atom::default() }));
        let e = g.apply(Function::Exp, x);
        let e = g.mul(&[p, e]);
        let z = g.sum(AxisSet::of(n), e);
        (g, x, p, z)
    }

    #[test]
    fn a_quotient_under_a_mask_has_a_value_beside_its_predicate_alone() {
        let (mut g, x, p, z) = total();
        let (open, hidden) = (g.product(&[(x, 2), (z, -2)]), g.product(&[(p, 2), (x, 2), (z, -2)]));
        let known = absences(&g);
        let only = Some(selecting(&g, [(p, 2)]));
        assert_eq!((&known[open.index()].valued, &known[hidden.index()].valued), (&only, &everywhere()));
        assert!(known[z.index()].vanishes && known[hidden.index()].vanishes && !known[open.index()].vanishes);
        assert_eq!(known[z.index()].positive, only)
    }

    #[test]
    fn a_logarithm_under_a_mask_is_overruled_where_no_predicate_hides_it() {
        let (mut g, x, p, z) = total();
        let log = g.apply(Function::Log, z);
        let shifted = g.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, log)], Rational::ZERO);
        let known = absences(&g);
        assert_eq!(overruled(&g, &known, &[(shifted, 2), (x, 2)]), [true, false]);
        assert_eq!(overruled(&g, &known, &[(shifted, 2), (p, 2)]), [false, false]);
        // of a sum of what is positive the logarithm is finite
        let plain = g.apply(Function::Exp, x);
        let plain = g.sum(AxisSet::of(crate::axis::AxisId(1)), plain);
        let log = g.apply(Function::Log, plain);
        assert_eq!(overruled(&g, &absences(&g), &[(log, 2), (x, 2)]), [false, false])
    }
}
