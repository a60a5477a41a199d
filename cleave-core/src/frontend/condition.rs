//! Conditions as predicates: unions of conjunctions of affine atoms. Negation goes down to the comparisons, so that every
//! comparison becomes its atoms once.
use super::lower::{Binding, Bindings, Lowering};
use super::message::{self, Message};
use super::syntax::Comparison;
use super::term::{Op, TermId};
use crate::axis::AxisId;
use crate::predicate::{Atom, Predicate, Table};
use std::collections::BTreeMap;

/// Conjunctions that a predicate may have.
const LARGEST: usize = 64;

/// `sum coefficient*leaf + constant`.
#[derive(Clone, Default)]
struct Affine {
    indices: BTreeMap<AxisId, i64>,
    tables: BTreeMap<Table, i64>,
    extents: BTreeMap<AxisId, i64>,
    constant: i64,
}

impl Affine {
    fn constant(constant: i64) -> Self {
        Affine { constant, ..Affine::default() }
    }
    fn scaled(&self, k: i64) -> Option<Self> {
        fn each<K: Ord + Clone>(map: &BTreeMap<K, i64>, k: i64) -> Option<BTreeMap<K, i64>> {
            map.iter().map(|(leaf, c)| Some((leaf.clone(), c.checked_mul(k)?))).collect()
        }
        Some(Affine {
            indices: each(&self.indices, k)?,
            tables: each(&self.tables, k)?,
            extents: each(&self.extents, k)?,
            constant: self.constant.checked_mul(k)?,
        })
    }
    fn plus(mut self, other: &Self) -> Option<Self> {
        fn join<K: Ord + Clone>(into: &mut BTreeMap<K, i64>, from: &BTreeMap<K, i64>) -> Option<()> {
            for (leaf, c) in from {
                let sum = into.entry(leaf.clone()).or_insert(0);
                *sum = sum.checked_add(*c)?
            }
            Some(())
        }
        join(&mut self.indices, &other.indices)?;
        join(&mut self.tables, &other.tables)?;
        join(&mut self.extents, &other.extents)?;
        self.constant = self.constant.checked_add(other.constant)?;
        Some(self)
    }
    fn atom(self) -> Atom {
        fn list<K>(map: BTreeMap<K, i64>) -> Vec<(K, i64)> {
            map.into_iter().filter(|(_, c)| *c != 0).collect()
        }
        Atom { indices: list(self.indices), tables: list(self.tables), extents: list(self.extents), constant: self.constant }
    }
}

impl Lowering<'_> {
    /// The predicate of a condition, or (`positive` false) of its negation.
    pub fn condition(&mut self, id: TermId, bindings: &Bindings, positive: bool) -> Predicate {
        let formula = self.formula;
        let term = formula.term(id);
        let operands = &term.operands;
        let predicate = match &term.op {
            Op::Truth(value) => constant(*value == positive),
            Op::Not => self.condition(operands[0], bindings, !positive),
            Op::And | Op::Or => {
                let (p, q) = (self.condition(operands[0], bindings, positive), self.condition(operands[1], bindings, positive));
                if matches!(term.op, Op::And) == positive { p.and(&q) } else { p.or(&q) }
            }
            Op::If => {
                let [c, not] = [true, false].map(|holds| self.condition(operands[0], bindings, holds));
                let (x, y) = (self.condition(operands[1], bindings, positive), self.condition(operands[2], bindings, positive));
                self.limited(c.and(&x), id).or(&not.and(&y))
            }
            Op::Compare(comparison) => {
                let difference = self.affine(operands[0], bindings).and_then(|a| {
                    let b = self.affine(operands[1], bindings)?;
                    let minus = b.scaled(-1).ok_or_else(message::condition_range)?;
                    a.plus(&minus).ok_or_else(message::condition_range)
                });
                match difference.and_then(|d| compare(*comparison, positive, d)) {
                    Ok(p) => p,
                    Err(message) => {
                        self.errors.push(term.place, message);
                        constant(true)
                    }
                }
            }
            _ => constant(true), // no condition: the checker has reported it
        };
        self.limited(predicate, id)
    }

    /// Simplified, and refused if it has too many alternatives.
    pub fn limited(&mut self, predicate: Predicate, id: TermId) -> Predicate {
        let p = simplified(predicate);
        if p.clauses.len() <= LARGEST && p.clauses.iter().all(|c| c.len() <= LARGEST) {
            return p;
        }
        self.errors.push(self.formula.term(id).place, message::large_condition());
        constant(true)
    }

    fn affine(&mut self, id: TermId, bindings: &Bindings) -> Result<Affine, Message> {
        let formula = self.formula;
        let term = formula.term(id);
        let fits = |x: Option<Affine>| x.ok_or_else(message::condition_range);
        match &term.op {
            Op::Number(r) if r.denominator() == 1 => Ok(Affine::constant(r.numerator())),
            Op::Index(axis) => match bindings.get(axis) {
                Some(Binding::Part(i)) => Ok(Affine::constant(*i as i64)),
                Some(Binding::Axis(other)) => Ok(Affine { indices: [(self.axis(*other), 1)].into(), ..Affine::default() }),
                None => Ok(Affine { indices: [(self.axis(*axis), 1)].into(), ..Affine::default() }),
            },
            Op::Size(axis) => match formula.axis(*axis).constant {
                Some(n) => Ok(Affine::constant(n as i64)),
                None => Ok(Affine { extents: [(self.axis(*axis), 1)].into(), ..Affine::default() }),
            },
            Op::Read(argument) => {
                let source = self.source;
                let input = self.input(*argument);
                let access = self.access(&source.signature.arguments[*argument].tensor, bindings);
                Ok(Affine { tables: [(Table { input, access }, 1)].into(), ..Affine::default() })
            }
            Op::Add | Op::Subtract => {
                let x = self.affine(term.operands[0], bindings)?;
                let y = self.affine(term.operands[1], bindings)?;
                let y = if matches!(term.op, Op::Add) { y } else { fits(y.scaled(-1))? };
                fits(x.plus(&y))
            }
            Op::Multiply => {
                let [x, y] = [term.operands[0], term.operands[1]];
                let (factor, other) = if formula.number(x).is_some() { (x, y) } else { (y, x) };
                let factor = formula.number(factor).filter(|r| r.denominator() == 1).ok_or_else(message::fractional_condition)?;
                let other = self.affine(other, bindings)?;
                fits(other.scaled(factor.numerator()))
            }
            Op::Part(..) | Op::Reverse(_) | Op::Rename(..) => {
                let inner = self.rebound(&term.op, bindings);
                self.affine(term.operands[0], &inner)
            }
            _ => Err(message::fractional_condition()),
        }
    }
}

/// `difference <comparison> 0`, or its negation, as atoms.
fn compare(comparison: Comparison, positive: bool, difference: Affine) -> Result<Predicate, Message> {
    let negative = || difference.scaled(-1).ok_or_else(message::condition_range);
    let below = |x: Affine| x.plus(&Affine::constant(-1)).ok_or_else(message::condition_range);
    let at_least = |x: Affine| Ok(Predicate::atom(x.atom()));
    match (comparison, positive) {
        (Comparison::GreaterEqual, true) | (Comparison::Less, false) => at_least(difference),
        (Comparison::LessEqual, true) | (Comparison::Greater, false) => at_least(negative()?),
        (Comparison::Greater, true) | (Comparison::LessEqual, false) => at_least(below(difference)?),
        (Comparison::Less, true) | (Comparison::GreaterEqual, false) => at_least(below(negative()?)?),
        (Comparison::Equal, true) | (Comparison::NotEqual, false) => Ok(at_least(difference.clone())?.and(&at_least(negative()?)?)),
        (Comparison::NotEqual, true) | (Comparison::Equal, false) => Ok(at_least(below(difference.clone())?)?.or(&at_least(below(negative()?)?)?)),
    }
}

/// Always or never.
fn constant(holds: bool) -> Predicate {
    Predicate { clauses: if holds { vec![vec![]] } else { vec![] } }
}

/// Atoms without variables are decided; a clause that another one implies by having fewer atoms is dropped.
fn simplified(mut predicate: Predicate) -> Predicate {
    let fixed = |a: &Atom| a.indices.is_empty() && a.tables.is_empty() && a.extents.is_empty();
    predicate.clauses.retain(|c| !c.iter().any(|a| fixed(a) && a.constant < 0));
    predicate.clauses.iter_mut().for_each(|c| c.retain(|a| !fixed(a)));
    let all = predicate.clauses.clone();
    let implied = |i: usize, c: &[Atom]| all.iter().enumerate().any(|(j, d)| i != j && d.iter().all(|a| c.contains(a)) && (d.len() < c.len() || j < i));
    let mut i = 0;
    predicate.clauses.retain(|c| {
        i += 1;
        !implied(i - 1, c)
    });
    predicate
}
