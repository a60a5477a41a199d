//! Conditions as predicates: unions of conjunctions of affine atoms. Negation goes down to the comparisons, so that every
//! comparison becomes its atoms once.
use super::lower::{Binding, Bindings, Lowering};
use super::message::{self, Message};
use super::syntax::Comparison;
use super::term::{Op, TermId};
use crate::predicate::{Atom, Predicate, Quotient, Table};

/// Conjunctions that a predicate may have.
const LARGEST: usize = 64;

fn constant_atom(constant: i64) -> Atom {
    Atom { constant, ..Atom::default() }
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

    fn affine(&mut self, id: TermId, bindings: &Bindings) -> Result<Atom, Message> {
        let formula = self.formula;
        let term = formula.term(id);
        let fits = |x: Option<Atom>| x.ok_or_else(message::condition_range);
        match &term.op {
            Op::Number(r) if r.denominator() == 1 => Ok(constant_atom(r.numerator())),
            Op::Index(axis) => match bindings.get(axis) {
                Some(Binding::Part(i)) => Ok(constant_atom(*i as i64)),
                Some(Binding::Axis(other)) => Ok(Atom { indices: vec![(self.axis(*other), 1)], ..Atom::default() }),
                None => Ok(Atom { indices: vec![(self.axis(*axis), 1)], ..Atom::default() }),
            },
            Op::Size(axis) => match formula.axis(*axis).constant {
                Some(n) => Ok(constant_atom(n as i64)),
                None => Ok(Atom { extents: vec![(self.axis(*axis), 1)], ..Atom::default() }),
            },
            Op::Read(argument) => {
                let source = self.source;
                let input = self.input(*argument);
                let access = self.access(&source.signature.arguments[*argument].tensor, bindings);
                Ok(Atom { tables: vec![(Table { input, access }, 1)], ..Atom::default() })
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
                let factor = formula.number(factor).filter(|r| r.denominator() == 1).ok_or_else(message::compared_values)?;
                let other = self.affine(other, bindings)?;
                fits(other.scaled(factor.numerator()))
            }
            Op::Quotient(by) => {
                let of = self.affine(term.operands[0], bindings)?;
                let varies = of != constant_atom(of.constant);
                match varies {
                    true => Ok(Atom { quotients: vec![(Quotient { of, by: *by }, 1)], ..Atom::default() }),
                    false => Ok(constant_atom(of.constant.div_euclid(*by))),
                }
            }
            Op::Part(..) | Op::Reverse(_) | Op::Rename(..) => {
                let inner = self.rebound(&term.op, bindings);
                self.affine(term.operands[0], &inner)
            }
            _ => Err(message::compared_values()),
        }
    }
}

/// `difference <comparison> 0`, or its negation, as atoms.
fn compare(comparison: Comparison, positive: bool, difference: Atom) -> Result<Predicate, Message> {
    let negative = || difference.scaled(-1).ok_or_else(message::condition_range);
    let below = |x: Atom| x.plus(&constant_atom(-1)).ok_or_else(message::condition_range);
    let at_least = |x: Atom| Ok(Predicate::atom(x.simplified()));
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

/// `x - d * floor(x / d) >= 0`, which is a remainder, always holds.
fn is_remainder(a: &Atom) -> bool {
    let [(q, k)] = &a.quotients[..] else { return false };
    *k == -q.by && Atom { quotients: vec![], ..a.clone() } == q.of
}

/// Atoms that always hold are left out, those without variables are decided; a clause that another one implies by having fewer atoms is dropped.
fn simplified(mut predicate: Predicate) -> Predicate {
    let fixed = |a: &Atom| *a == constant_atom(a.constant);
    predicate.clauses.retain(|c| !c.iter().any(|a| fixed(a) && a.constant < 0));
    predicate.clauses.iter_mut().for_each(|c| c.retain(|a| !fixed(a) && !is_remainder(a)));
    let all = predicate.clauses.clone();
    let implied = |i: usize, c: &[Atom]| all.iter().enumerate().any(|(j, d)| i != j && d.iter().all(|a| c.contains(a)) && (d.len() < c.len() || j < i));
    let mut i = 0;
    predicate.clauses.retain(|c| {
        i += 1;
        !implied(i - 1, c)
    });
    predicate
}
