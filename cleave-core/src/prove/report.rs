//! All proofs of the project, one line each.
//!
//! Comes in: tables. Goes out: what was shown for every row, lemma and frame, in how much time, and whether all of it holds.
use super::solver::{Answer, Failure, Solver};
use super::{Proof, Refusal, frames, judge, lemmas, xla};
use crate::algebra::schema::Row;
use crate::frame;
use std::fmt;
use std::time::{Duration, Instant};

/// One proved or refused statement.
pub struct Line {
    pub name: String,
    pub obligations: usize,
    pub time: Duration,
    /// `proved`, what it needs beyond, or why it is refused.
    pub verdict: Result<&'static str, String>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let milliseconds = self.time.as_secs_f64() * 1e3;
        let verdict = match &self.verdict {
            Ok(text) => text,
            Err(text) => text.as_str(),
        };
        write!(f, "{:80} {:>3} {milliseconds:>8.1}  {verdict}", self.name, self.obligations)
    }
}

/// Proves everything: the lemmas, the frames, the rows, and the list of XLA's rules.
///
/// # Errors
/// If there is no solver. What is not proved is a line.
pub fn prove_all(rows: &[Row], patience: u32, mut each: impl FnMut(&Line)) -> Result<bool, Failure> {
    let mut solver = Solver::start(patience)?;
    let mut all = true;
    let mut say = |line: Line| {
        all &= line.verdict.is_ok();
        each(&line)
    };
    for lemma in lemmas::LEMMAS.iter().chain(lemmas::BIJECTIONS) {
        say(asked(format!("lemma: {}", lemma.name), lemma.obligations.iter().map(|o| (lemma.statement.to_string(), o.lines())), &mut solver))
    }
    for row in frame::TABLE {
        let duties = frames::duties(row).into_iter().flat_map(|d| d.cases.into_iter().map(move |lines| (d.name.to_string(), lines)));
        say(asked(format!("frame: {}", row.name), duties, &mut solver))
    }
    for row in rows {
        let start = Instant::now();
        let judged = judge(row, &mut solver);
        say(line(format!("rule: {}", row.name), start.elapsed(), judged))
    }
    match xla::rows() {
        Ok(rows) => {
            for (category, text, row) in rows {
                let start = Instant::now();
                let judged = judge(&row, &mut solver);
                say(line(format!("{category}: {text}"), start.elapsed(), judged))
            }
        }
        Err(e) => say(Line { name: "XLA's rules".into(), obligations: 0, time: Duration::ZERO, verdict: Err(e) }),
    }
    Ok(all)
}

fn line(name: String, time: Duration, judged: Result<Proof, Refusal>) -> Line {
    match judged {
        Ok(proof) => {
            let verdict = if proof.empty { "proved" } else { "proved for reductions over at least one position" };
            Line { name, obligations: proof.obligations.len(), time, verdict: Ok(verdict) }
        }
        Err(refusal) => Line { name, obligations: 0, time, verdict: Err(format!("FALSE: {refusal}")) },
    }
}

fn asked(name: String, questions: impl Iterator<Item = (String, Vec<String>)>, solver: &mut Solver) -> Line {
    let start = Instant::now();
    let (mut obligations, mut verdict) = (0, Ok("proved"));
    for (statement, lines) in questions {
        obligations += 1;
        match solver.ask(&lines) {
            Ok(Answer::Impossible) => {}
            Ok(Answer::Possible) => verdict = Err(format!("FALSE: {statement}")),
            Err(e) => verdict = Err(format!("not proved: {statement}: {e}")),
        }
    }
    Line { name, obligations, time: start.elapsed(), verdict }
}
