//! The table of frames. A frame g is a free parameter that is put into a term and cancels: exp(s - g) for exp(s), x - g for x. What a loop
//! carries in a frame are members: sums of
//!
//! ```text
//! weight * exp(halves/2 * (key - g)) * (key - g)^moment
//! ```
//!
//! so one formula moves every member to another frame: a power of exp(from - to) times the binomial sum over the lower moments of its
//! tower. A row says which g suits a tile, what the common one of two states is, and what no elements are. Executors and emitters
//! know rows only, never (m, l, O). A row holds functions for interpreters, the same ones over terms for the proofs (identity, merge, transport,
//! and that a state stands for the plain sum), and CUDA expressions for the emitters. An [`Op::Frame`] refers to its row, so a
//! frame outside the table, as a test has it, is a row and nothing else.
//!
//! [`Op::Frame`]: crate::graph::Op::Frame
mod term;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
pub use term::Term;

/// What the formulas of rows compute with: numbers, or terms about which something is proved.
pub trait Scalar: Clone {
    fn number(value: f64) -> Self;
    fn plus(&self, other: &Self) -> Self;
    fn minus(&self, other: &Self) -> Self;
    fn times(&self, other: &Self) -> Self;
    fn exp(&self) -> Self;
    fn greater(&self, other: &Self) -> Self;
    /// `then` if the two are equal, else `otherwise`.
    fn if_equal(&self, other: &Self, then: Self, otherwise: Self) -> Self;
    /// `then` if this is the frame of no elements, else `otherwise`.
    fn if_nothing(&self, nothing: &Self, then: Self, otherwise: Self) -> Self;
}

impl Scalar for f64 {
    fn number(value: f64) -> f64 {
        value
    }
    fn plus(&self, other: &f64) -> f64 {
        self + other
    }
    fn minus(&self, other: &f64) -> f64 {
        self - other
    }
    fn times(&self, other: &f64) -> f64 {
        self * other
    }
    fn exp(&self) -> f64 {
        f64::exp(*self)
    }
    fn greater(&self, other: &f64) -> f64 {
        self.max(*other)
    }
    fn if_equal(&self, other: &f64, then: f64, otherwise: f64) -> f64 {
        if self == other { then } else { otherwise }
    }
    fn if_nothing(&self, nothing: &f64, then: f64, otherwise: f64) -> f64 {
        if self == nothing || self.is_nan() && nothing.is_nan() { then } else { otherwise }
    }
}

/// The formulas of frames, over any scalar: executors run them, the proofs of the table are about them.
pub mod formula {
    use super::Scalar;

    /// exp(halves/2 * (from - to)): what the exponential of a member is multiplied with.
    pub fn rescaled<S: Scalar>(from: &S, to: &S, halves: &S, nothing: &S) -> S {
        let rescale = S::number(0.5).times(halves).times(&from.minus(to)).exp();
        from.if_equal(to, S::number(1.0), from.if_nothing(nothing, S::number(0.0), rescale))
    }
    /// A moment about another frame that is `difference` below the old one, from the moments 0 to its own about the old one.
    pub fn translated<S: Scalar>(difference: &S, old: &[S]) -> S {
        let Some((own, lower)) = old.split_last() else { return S::number(0.0) };
        let (mut sum, mut power) = (own.clone(), S::number(1.0));
        for (k, moment) in lower.iter().rev().enumerate() {
            power = power.times(difference);
            sum = sum.plus(&S::number(binomial(lower.len(), k + 1)).times(&power).times(moment))
        }
        sum
    }
    /// How often a power of degree `n - k` occurs in the n-th of a sum.
    pub fn binomial(n: usize, k: usize) -> f64 {
        (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64)
    }
    /// The greater frame.
    pub fn greater<S: Scalar>(a: &S, b: &S, _: &S) -> S {
        a.greater(b)
    }
    /// The first frame that is one.
    pub fn first<S: Scalar>(a: &S, b: &S, nothing: &S) -> S {
        a.if_nothing(nothing, b.clone(), a.clone())
    }
}

/// What a frame takes from the keys of a tile, for executors that reduce many at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    Greatest,
    Mean,
}

impl Statistic {
    /// The statistic of keys one at a time.
    pub fn of(self, keys: impl Iterator<Item = f64>) -> f64 {
        match self {
            Statistic::Greatest => keys.fold(f64::NEG_INFINITY, f64::max),
            Statistic::Mean => {
                let (sum, count) = keys.fold((0.0, 0.0), |(s, n), x| (s + x, n + 1.0));
                sum / count
            }
        }
    }
}

/// What a frame is put into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gauge {
    /// exp(s) under a sum: the frame must be near the greatest s, or above it.
    Exponential,
    /// Sums of powers of x: the frame must be near the mean.
    Moments,
}

/// A function over numbers, and the same one over terms.
#[derive(Clone, Copy)]
pub struct Over<N, T> {
    pub number: N,
    pub term: T,
}

type Of2<S> = fn(&S, &S, &S) -> S;
type Of3<S> = fn(&S, &S, &S, &S) -> S;

/// Both instances of a generic function.
#[macro_export]
macro_rules! over_scalars {
    ($($f:ident)::+) => {
        $crate::frame::Over { number: $($f)::+::<f64>, term: $($f)::+::<$crate::frame::Term> }
    };
}

pub struct Row {
    pub name: &'static str,
    pub gauge: Gauge,
    pub statistic: Statistic,
    /// The frame of no elements.
    pub nothing: f64,
    /// What stands for it where formulas compute with frames. Of a shift, a finite one below all others: what stands beside an empty sum decides
    /// their common frame, whatever its exponent.
    pub vacant: f64,
    /// The frame that suits a tile whose keys have this statistic.
    pub suited: fn(f64) -> f64,
    /// The common frame of two states, `nothing` being the third argument.
    pub merge: Over<Of2<f64>, Of2<Term>>,
    /// What exp(halves/2 * key) of a member is multiplied with: from, to, halves, nothing.
    pub weight: Over<Of3<f64>, Of3<Term>>,
    pub code: Code,
}

/// The row in CUDA: expressions of expressions.
pub struct Code {
    pub nothing: &'static str,
    pub suited: fn(&str) -> String,
    pub merge: fn(&str, &str) -> String,
    pub usable: fn(&str) -> String,
    /// The weight, halves/2 being given as a literal.
    pub weight: fn(from: &str, to: &str, exponent: &str) -> String,
    /// from - to, or 0 where one of them is no frame.
    pub difference: fn(from: &str, to: &str) -> String,
}

impl Row {
    pub fn merge(&self, a: f64, b: f64) -> f64 {
        (self.merge.number)(&a, &b, &self.nothing)
    }
    fn is_nothing(&self, g: f64) -> bool {
        g.if_nothing(&self.nothing, 1.0, 0.0) == 1.0
    }
    /// The value that formulas may use, whether an element has been seen or not.
    pub fn usable(&self, g: f64) -> f64 {
        if self.is_nothing(g) { self.vacant } else { g }
    }
    /// What a member of moment 0 is multiplied with.
    pub fn weight(&self, from: f64, to: f64, halves: i8) -> f64 {
        if halves == 0 || from == to { 1.0 } else { (self.weight.number)(&from, &to, &(halves as f64), &self.nothing) }
    }
    /// Moves the members of one tower, of moments 0, 1, and so on, from a frame to another.
    pub fn transport(&self, from: f64, to: f64, halves: i8, tower: &mut [f64]) {
        if from == to || self.is_nothing(from) && self.is_nothing(to) {
            return;
        }
        // what has been counted before the first frame stays as it is
        let difference = if self.is_nothing(from) { 0.0 } else { from - self.usable(to) };
        let weight = self.weight(from, to, halves);
        for moment in (0..tower.len()).rev() {
            tower[moment] = weight * formula::translated(&difference, &tower[..=moment])
        }
    }
}

/// exp(s) as exp(s - g), g the running maximum: Milakov and Gimelshein, Online normalizer calculation for softmax, section 3.
pub static SHIFT: Row = Row {
    name: "shift",
    gauge: Gauge::Exponential,
    statistic: Statistic::Greatest,
    nothing: f64::NEG_INFINITY,
    vacant: -1e30,
    suited: |greatest| greatest,
    merge: over_scalars!(formula::greater),
    weight: over_scalars!(formula::rescaled),
    code: Code {
        nothing: "-cleave::infinity()",
        suited: |greatest| greatest.into(),
        merge: |a, b| format!("cleave::greater({a}, {b})"),
        usable: |g| format!("cleave::usable_shift({g})"),
        weight: |from, to, exponent| format!("cleave::shift({from}, {to}, {exponent})"),
        difference: |from, to| format!("({from} == -cleave::infinity() ? 0.0f : {from} - cleave::usable_shift({to}))"),
    },
};

/// Moments about g. The first tile's mean stays the frame.
pub static TRANSLATION: Row = Row {
    name: "translation",
    gauge: Gauge::Moments,
    statistic: Statistic::Mean,
    nothing: f64::NAN,
    vacant: 0.0,
    suited: |mean| mean,
    merge: over_scalars!(formula::first),
    weight: over_scalars!(formula::rescaled),
    code: Code {
        nothing: "cleave::not_a_number()",
        suited: |mean| mean.into(),
        merge: |a, b| format!("({a} == {a} ? {a} : {b})"),
        usable: |c| format!("({c} == {c} ? {c} : 0.0f)"),
        weight: |from, to, exponent| format!("cleave::shift({from}, {to}, {exponent})"),
        difference: |from, to| format!("cleave::translation({from}, {to})"),
    },
};

/// The rows that the scheduler uses: the first one of a gauge.
pub static TABLE: [&Row; 2] = [&SHIFT, &TRANSLATION];

/// A frame: a row by reference. Rows are told apart by name; a plan file holds the names.
#[derive(Clone, Copy)]
pub struct Frame(pub &'static Row);

impl std::ops::Deref for Frame {
    type Target = Row;
    fn deref(&self) -> &Row {
        self.0
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.name == other.name
    }
}
impl Eq for Frame {}
impl PartialOrd for Frame {
    fn partial_cmp(&self, other: &Frame) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Frame {
    fn cmp(&self, other: &Frame) -> Ordering {
        self.name.cmp(other.name)
    }
}
impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state)
    }
}
impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Frame, D::Error> {
        let name = String::deserialize(deserializer)?;
        let row = TABLE.into_iter().find(|r| r.name == name);
        row.map(Frame).ok_or_else(|| serde::de::Error::custom(format!("the table has no frame `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_there_and_back_is_the_identity() {
        for r in TABLE {
            for halves in [0, 1, 2] {
                let mut tower = [3.0, 0.5, 7.0, -2.0];
                r.transport(1.5, 2.0, halves, &mut tower);
                r.transport(2.0, 1.5, halves, &mut tower);
                for (got, want) in tower.iter().zip([3.0, 0.5, 7.0, -2.0]) {
                    assert!((got - want).abs() < 1e-12, "{}", r.name)
                }
            }
        }
    }

    #[test]
    fn a_state_in_any_frame_stands_for_the_same_sums() {
        let keys = [0.3, -1.2, 2.5, 0.7];
        let about = |g: f64, halves: i8, moment: i32| keys.iter().map(|x| (halves as f64 / 2.0 * (x - g)).exp() * (x - g).powi(moment)).sum::<f64>();
        for r in TABLE {
            for halves in [0, 1, 2, 4] {
                let mut tower = [0, 1, 2, 3, 4].map(|p| about(0.25, halves, p));
                r.transport(0.25, 1.75, halves, &mut tower);
                for (p, got) in tower.iter().enumerate() {
                    let want = about(1.75, halves, p as i32);
                    assert!((got - want).abs() < 1e-12 * want.abs().max(1.0), "{}, moment {p}: {got} instead of {want}", r.name)
                }
            }
        }
    }

    #[test]
    fn what_is_counted_before_the_first_frame_stays_what_it_is() {
        let mut tower = [4.0, 0.0, 0.0];
        TRANSLATION.transport(f64::NAN, 1e4, 0, &mut tower);
        assert_eq!(tower, [4.0, 0.0, 0.0])
    }

    #[test]
    fn no_elements_move_to_any_frame_as_zeros() {
        for r in TABLE {
            let mut tower = [0.0, 0.0, 0.0];
            r.transport(r.nothing, 1e4, 2, &mut tower);
            assert_eq!(tower, [0.0; 3], "{}", r.name)
        }
    }
}
