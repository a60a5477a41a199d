//! Proofs of the rules: every row of a table, for all ranks, extents and sizes.
//!
//! Comes in: a [`Row`], the value that the matcher interprets. Goes out: a [`Proof`], or why there is none, with a counterexample
//! where one was found. The files in order: [`denote`] (with [`value`] for terms and [`given`] for guards) says what a row claims about
//! real numbers, in forms of [`poly`] kept normal by [`normal`]; [`logic`] is the language of the obligations, [`solver`] asks z3.
//! Counterexamples are found by [`instance`]s.
pub mod cache;
pub mod chain;
pub mod denote;
mod draw;
pub mod facts;
pub mod frames;
mod given;
pub mod instance;
pub mod lemmas;
pub mod logic;
mod names;
pub mod normal;
#[cfg(test)]
mod numeric;
pub mod page;
pub mod poly;
pub mod replay;
pub mod report;
pub mod solver;
pub mod statement;
mod tree;
mod value;
mod variables;
pub mod xla;

use crate::algebra::schema::Row;
use denote::{Claim, Unclear};
use instance::{Counterexample, Trial, trial};
use logic::{Formula, all};
use normal::Condition;
use poly::{Binder, Domain, Index, Mentions};
use solver::{Answer, Failure, Script, Solver};
use std::time::{Duration, Instant};

/// A row that holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Proof {
    /// What was shown, one by one.
    pub obligations: Vec<String>,
    /// It holds for axes of extent 0 too; else every axis that it reduces must have a position.
    pub empty: bool,
    pub time: Duration,
}

/// Why a row counts as false.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Unclear(#[from] Unclear),
    /// This could not be shown, and no counterexample was found.
    #[error("not proved: {0}")]
    Unproved(String),
    #[error("{0}")]
    False(Box<Counterexample>),
    #[error("{0}")]
    Solver(#[from] Failure),
}

/// Instances that are tried for a counterexample, and to see that the guards can hold.
const TRIES: u64 = 20_000;
const WITNESSES: u64 = 200;

/// Proves a row, or says at which extents and values it is wrong.
///
/// # Errors
/// If it is not proved, for whatever reason: there is no third outcome.
pub fn judge(row: &Row, solver: &mut Solver) -> Result<Proof, Refusal> {
    match prove(row, solver) {
        Err(refusal @ (Refusal::Unproved(_) | Refusal::Solver(Failure::Unknown))) => match trial(row, TRIES, false)?.counterexample {
            Some(found) => Err(Refusal::False(Box::new(found))),
            None => Err(refusal),
        },
        Ok(proof) => match trial(row, WITNESSES, false)? {
            Trial { counterexample: Some(found), .. } => Err(Refusal::False(Box::new(found))),
            Trial { admitted: 0, .. } => Err(Refusal::Unproved("the guards can hold together".into())),
            _ => Ok(proof),
        },
        refused => refused,
    }
}

/// Proves a row.
///
/// # Errors
/// If one of its obligations was not shown.
pub fn prove(row: &Row, solver: &mut Solver) -> Result<Proof, Refusal> {
    let start = Instant::now();
    if *row.replaced() == row.right {
        return Err(Unclear::Nothing.into());
    }
    let claim = denote::claim(row)?;
    let (mut obligations, mut empty) = (vec![], true);
    for (name, formulas) in questions(&claim) {
        let mut ask = |nonempty: bool| solver.ask(&Script::new(&claim.spaces, &claim.powers, nonempty).lines(&formulas));
        let holds = match ask(false) {
            Ok(Answer::Impossible) => true,
            Err(broken @ Failure::Broken(_)) => return Err(broken.into()),
            Ok(Answer::Possible) | Err(_) => {
                let holds = ask(true)? == Answer::Impossible;
                empty &= !holds;
                holds
            }
        };
        if !holds {
            return Err(Refusal::Unproved(name));
        }
        obligations.push(name)
    }
    Ok(Proof { obligations, empty, time: start.elapsed() })
}

/// Each obligation with what would have to hold together if it were wrong.
fn questions(claim: &Claim) -> Vec<(String, Vec<Formula>)> {
    let (left, right) = (&claim.left, &claim.right);
    let improper = left.improper.clone().or(right.improper.clone());
    let ordinary = all([left.none.clone().not(), improper.clone().not()]);
    let number = ordinary.clone().and(left.infinite.clone().not());
    let mut questions: Vec<(String, Formula)> = vec![];
    if left.real != right.real {
        let mut difference = normal::Normal::default();
        let negative = difference.scale(&right.real, crate::rational::Rational::MINUS_ONE);
        let difference = difference.add(&left.real, &negative);
        questions.push((format!("{} = {}", left.real, right.real), number.clone().and(logic::zero(&difference).not())))
    } else {
        questions.push((format!("both sides are {}", left.real), Formula::False))
    }
    // where the left side is exactly 0 a step of the normaliser may not hold, but then the right one is to be 0 too
    let other = number.clone().and(left.zero.clone().not());
    for c in &claim.conditions {
        questions.push((describe(c), other.clone().and(everywhere(claim, Script::condition(c)).not())))
    }
    if !claim.conditions.is_empty() {
        questions.push(("the right side is 0 where the left one is".into(), all([number, left.zero.clone(), right.zero.clone().not()])))
    }
    questions.push(("the right side has a value where the left one has".into(), ordinary.clone().and(right.none.clone())));
    questions.push(("both are -inf at the same places".into(), ordinary.and(left.infinite.clone().iff(right.infinite.clone()).not())));
    if improper != Formula::False {
        questions.push(("exp(-inf) is 0 on both sides".into(), improper.and(left.zero.clone().and(right.zero.clone()).not())))
    }
    questions.into_iter().map(|(name, wrong)| (name, [claim.given.clone(), vec![wrong]].concat())).collect()
}

fn describe(condition: &Condition) -> String {
    match condition {
        Condition::NonZero(p) | Condition::InLogarithm(p) => format!("{p} is not 0"),
        Condition::Positive(p) => format!("{p} > 0"),
        Condition::NonNegative(p) => format!("{p} >= 0"),
        Condition::Nonempty(b) => format!("{b} ranges over something"),
        Condition::Never => "a form that is not understood".into(),
        Condition::Merge(base, a, b) => format!("{base}^{a} * {base}^{b} = {base}^{}", a.add(b)),
    }
}

/// At all positions of the indices that are neither free nor bound.
fn everywhere(claim: &Claim, f: Formula) -> Formula {
    let open: Vec<Index> = f.indices().into_iter().filter(|i| i.id != 0 && !i.is_bound()).collect();
    let within = |i: &Index| {
        let family = claim.spaces[i.domain as usize].within?;
        open.iter().copied().find(|o| o.domain == family).or(Some(Index::free(family as Domain)))
    };
    let binders: Vec<Binder> = open.iter().map(|i| Binder { index: *i, within: within(i) }).collect();
    f.everywhere(&binders)
}
