//! The move of a member from a frame to another as CUDA expressions. What differs between frames is in the rows of [`crate::frame`].
use super::code::literal;
use crate::frame::Row;
use crate::frame::formula::binomial;
use crate::tile::Member;

/// A quantity of two frames that moves members: computed once for each element of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// What the exponential of members with these halves is multiplied with.
    Weight(i8),
    /// How far the new frame is below the old one.
    Difference,
}

impl Step {
    /// The steps that a member needs; a count moves by none.
    pub fn of(m: &Member) -> Vec<Step> {
        let weight = (m.halves != 0).then_some(Step::Weight(m.halves));
        weight.into_iter().chain((m.moment != 0).then_some(Step::Difference)).collect()
    }
    /// The steps that some members need, each once.
    pub fn of_all(members: &[Member]) -> Vec<Step> {
        let mut steps: Vec<Step> = vec![];
        for s in members.iter().flat_map(Step::of) {
            if !steps.contains(&s) {
                steps.push(s)
            }
        }
        steps
    }
    pub fn expression(self, row: &Row, from: &str, to: &str) -> String {
        match self {
            Step::Weight(halves) => (row.code.weight)(from, to, &literal(halves as f64 / 2.0)),
            Step::Difference => (row.code.difference)(from, to),
        }
    }
    /// A name for the step from the frame of this name.
    pub fn name(self, from: &str) -> String {
        match self {
            Step::Weight(halves) if halves < 0 => format!("{from}_step_m{}", -(halves as i32)),
            Step::Weight(halves) => format!("{from}_step{halves}"),
            Step::Difference => format!("{from}_step"),
        }
    }
}

/// A member after its move: its value, the steps, and the lower moments of its tower given. [`formula::translated`], times the weight.
///
/// [`formula::translated`]: crate::frame::formula::translated
pub fn moved(m: &Member, value: &str, step: &dyn Fn(Step) -> String, lower: &dyn Fn(i8) -> String) -> String {
    let mut sum = value.to_string();
    for k in 1..=m.moment {
        let times = binomial(m.moment as usize, k as usize);
        let mut factors: Vec<String> = if times == 1.0 { vec![] } else { vec![literal(times)] };
        factors.extend((0..k).map(|_| step(Step::Difference)));
        factors.push(lower(m.moment - k));
        sum += &format!(" + {}", factors.join(" * "))
    }
    match (m.halves, m.moment) {
        (0, _) => sum,
        (_, 0) => format!("{sum} * {}", step(Step::Weight(m.halves))),
        _ => format!("({sum}) * {}", step(Step::Weight(m.halves))),
    }
}
