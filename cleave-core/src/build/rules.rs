//! The rules that a crate states itself. Comes in: the sources' `cleave::rule!`s and the crate's committed proofs. Goes out: the rows that
//! the search may use, and for each rule a file by which the macro knows its verdict. No rule enters the search unproved.
use super::cache::write_whole;
use super::settings::Settings;
use crate::algebra::schema::Row;
use crate::frontend::message::{self, Message};
use crate::frontend::rule::Rule;
use crate::prove::instance::trial;
use crate::prove::solver::{PATIENCE, Solver};
use crate::prove::{Refusal, cache, judge};
use std::fs;
use std::path::{Path, PathBuf};

/// The committed proofs, beside the manifest.
pub const PROOFS: &str = "cleave.proofs";

/// Instances tried where there is no solver.
const TRIES: u64 = 5000;

/// What became of a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    Proved,
    False(String),
    Unproved(String),
    /// No solver, and no committed proof.
    Open,
}

/// The file that tells the macro of a rule's verdict.
pub fn file(folder: &Path, row: &Row) -> PathBuf {
    folder.join(format!("{:016x}.rule", cache::key(row)))
}

impl Verdict {
    fn print(&self) -> String {
        match self {
            Verdict::Proved => "proved".into(),
            Verdict::False(reason) => format!("false\n{reason}"),
            Verdict::Unproved(reason) => format!("unproved\n{reason}"),
            Verdict::Open => "open".into(),
        }
    }
    /// Of a file's text.
    pub fn parse(text: &str) -> Option<Verdict> {
        let (word, reason) = text.split_once('\n').unwrap_or((text, ""));
        match word {
            "proved" => Some(Verdict::Proved),
            "false" => Some(Verdict::False(reason.into())),
            "unproved" => Some(Verdict::Unproved(reason.into())),
            "open" => Some(Verdict::Open),
            _ => None,
        }
    }
    /// What is wrong, if anything is.
    pub fn message(&self, name: &str) -> Option<Message> {
        match self {
            Verdict::Proved => None,
            Verdict::False(reason) => Some(message::rule_false(name, reason)),
            Verdict::Unproved(reason) => Some(message::rule_unproved(name, reason)),
            Verdict::Open => Some(message::rule_without_solver(name)),
        }
    }
}

/// A verdict on a rule; `solver`: none where no z3 was found.
pub fn verdict(row: &Row, solver: &mut Option<Solver>, committed: &str) -> Verdict {
    let refused = |refusal: Refusal| match refusal {
        Refusal::False(found) => Verdict::False(found.to_string()),
        Refusal::Unproved(what) => Verdict::Unproved(what),
        other => Verdict::Unproved(other.to_string()),
    };
    match solver {
        Some(solver) => judge(row, solver).map_or_else(refused, |_| Verdict::Proved),
        None if cache::parse(committed).contains_key(&cache::key(row)) => Verdict::Proved,
        // a counterexample needs no solver
        None => match trial(row, TRIES, false) {
            Ok(trial) => trial.counterexample.map_or(Verdict::Open, |found| Verdict::False(found.to_string())),
            Err(unclear) => refused(unclear.into()),
        },
    }
}

/// A package's rules after the judgement.
#[derive(Default)]
pub struct Settled {
    /// Those that may be used.
    pub rows: Vec<Row>,
    /// One lacks a solver or a committed proof: with either the script is to run again.
    pub open: bool,
}

/// Judges the rules of a package and writes their verdicts.
pub fn settle(settings: &Settings, rules: &[Rule], warnings: &mut Vec<String>) -> Settled {
    if rules.is_empty() {
        return Settled::default();
    }
    let mut solver = Solver::start(PATIENCE).ok();
    let committed = fs::read_to_string(settings.manifest.join(PROOFS)).unwrap_or_default();
    let (mut rows, mut open): (Vec<Row>, bool) = (vec![], false);
    for rule in rules {
        let verdict = verdict(&rule.row, &mut solver, &committed);
        if let Err(e) = write_whole(&file(&settings.out, &rule.row), verdict.print().as_bytes()) {
            warnings.push(format!("rule `{}`: {e}", rule.name))
        }
        open |= verdict == Verdict::Open;
        if verdict == Verdict::Proved && !rows.iter().any(|r| cache::key(r) == cache::key(&rule.row)) {
            rows.push(rule.row)
        }
    }
    if settings.proofs && solver.is_some() {
        let path = settings.manifest.join(PROOFS);
        if let Err(e) = write_whole(&path, cache::print(&rows).as_bytes()) {
            warnings.push(format!("{}: {e}", path.display()))
        }
    }
    Settled { rows, open }
}
