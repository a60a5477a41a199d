//! The table of frames. A frame is a gauge: a free parameter put into a term, exp(s - g) or x - c, that cancels. A carried
//! state in a frame consists of the frame's value and of members, each with a degree; executors and emitters know these rows
//! only, never (m, l, O). Rows are given twice: as functions for interpreters and as CUDA expressions for the emitter. The
//! functions are proved: identity, merge, transport, and that a state stands for the plain sum.
use crate::graph::FrameKind;

/// A member of a state: its value and its degree (for a shift: how many halves of exp(-g) it carries; for a translation: which
/// moment it is).
pub type Weighted = (f64, i8);

/// What the rows compute with: numbers, or terms about which something is proved.
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

/// The formulas of the rows, over any scalar: executors run them, the proofs of the table are about them.
pub mod formula {
    use super::Scalar;

    /// What a member of a state of exponentials is multiplied with, `halves` being its degree.
    pub fn shift_weight<S: Scalar>(from: &S, to: &S, halves: &S, nothing: &S) -> S {
        let rescale = S::number(0.5).times(halves).times(&from.minus(to)).exp();
        from.if_equal(to, S::number(1.0), from.if_nothing(nothing, S::number(0.0), rescale))
    }
    pub fn shift_merge<S: Scalar>(a: &S, b: &S) -> S {
        a.greater(b)
    }
    /// A moment of degree 0, 1 or 2 under another centre, from those under the old one.
    pub fn translated<S: Scalar>(from: &S, to: &S, degree: i8, old: [&S; 3]) -> S {
        let d = from.minus(to);
        let [zeroth, first, second] = old;
        match degree {
            0 => zeroth.clone(),
            1 => first.plus(&d.times(zeroth)),
            _ => second.plus(&S::number(2.0).times(&d).times(first)).plus(&d.times(&d).times(zeroth)),
        }
    }
    pub fn translation_merge<S: Scalar>(a: &S, b: &S, nothing: &S) -> S {
        a.if_nothing(nothing, b.clone(), a.clone())
    }
}

/// What a frame takes from the keys of a tile, for executors that reduce many at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    Greatest,
    Mean,
}

pub struct Row {
    pub kind: FrameKind,
    pub name: &'static str,
    /// What [`Row::of_tile`] computes.
    pub statistic: Statistic,
    /// The frame of no elements.
    pub identity: f64,
    /// The frame that suits the keys of a tile.
    pub of_tile: fn(&mut dyn Iterator<Item = f64>) -> f64,
    /// The common frame of two partial states.
    pub merge: fn(f64, f64) -> f64,
    /// Moves the members of one tower (degrees 0.. of one weight) from a frame to another.
    pub transport: fn(from: f64, to: f64, tower: &mut [Weighted]),
    /// The value that the body may use while no element has been seen.
    pub usable: fn(f64) -> f64,
}

/// exp(s) as exp(s - g), g the running maximum: Milakov and Gimelshein, Online normalizer calculation for softmax, section 3.
const SHIFT: Row = Row {
    kind: FrameKind::Shift,
    name: "shift",
    statistic: Statistic::Greatest,
    identity: f64::NEG_INFINITY,
    of_tile: |keys| keys.fold(f64::NEG_INFINITY, f64::max),
    merge: |a, b| formula::shift_merge(&a, &b),
    transport: |from, to, tower| {
        for (value, degree) in tower {
            if from != to {
                *value *= formula::shift_weight(&from, &to, &(*degree as f64), &f64::NEG_INFINITY)
            }
        }
    },
    usable: |g| if g == f64::NEG_INFINITY { 0.0 } else { g },
};

/// Moments of x - c: S_p(to) = sum_q C(p, q) (from - to)^(p - q) S_q(from), p up to 2. The first tile's mean stays the frame.
const TRANSLATION: Row = Row {
    kind: FrameKind::Translation,
    name: "translation",
    statistic: Statistic::Mean,
    identity: f64::NAN,
    of_tile: |keys| {
        let (sum, count) = keys.fold((0.0, 0.0), |(s, n), x| (s + x, n + 1.0));
        sum / count
    },
    merge: |a, b| formula::translation_merge(&a, &b, &f64::NAN),
    transport: |from, to, tower| {
        if from == to || from.is_nan() || to.is_nan() {
            return;
        }
        let old = tower.to_vec();
        let moment = |q: i8| old.iter().find(|m| m.1 == q).map_or(0.0, |m| m.0);
        let moments = [moment(0), moment(1), moment(2)];
        for (value, degree) in tower {
            *value = formula::translated(&from, &to, *degree, [&moments[0], &moments[1], &moments[2]])
        }
    },
    usable: |c| if c.is_nan() { 0.0 } else { c },
};

pub const TABLE: [Row; 2] = [SHIFT, TRANSLATION];

/// The row of a kind.
pub fn row(kind: FrameKind) -> &'static Row {
    match kind {
        FrameKind::Shift => &TABLE[0],
        FrameKind::Translation => &TABLE[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        for r in &TABLE {
            assert_eq!(row(r.kind).kind, r.kind)
        }
    }

    #[test]
    fn the_statistic_of_a_row_is_what_its_function_computes() {
        let keys = [3.0, -1.0, 7.0];
        for r in &TABLE {
            let want = match r.statistic {
                Statistic::Greatest => 7.0,
                Statistic::Mean => 3.0,
            };
            assert_eq!((r.of_tile)(&mut keys.into_iter()), want, "{}", r.name)
        }
    }

    #[test]
    fn transport_there_and_back_is_the_identity() {
        for r in &TABLE {
            let mut tower = [(3.0, 0), (0.5, 1), (7.0, 2)];
            (r.transport)(1.5, 2.0, &mut tower);
            (r.transport)(2.0, 1.5, &mut tower);
            for (got, want) in tower.iter().zip([3.0, 0.5, 7.0]) {
                assert!((got.0 - want).abs() < 1e-12, "{}", r.name)
            }
        }
    }
}
