//! The table of frames. A frame is a gauge: a free parameter put into a term, exp(s - g) or x - c, that cancels. A carried
//! state in a frame consists of the frame's value and of members, each with a degree; executors and emitters know these rows
//! only, never (m, l, O). Rows are given twice: as functions for interpreters and as CUDA expressions for the emitter.
use crate::graph::FrameKind;

/// A member of a state: its value and its degree (for a shift: how many halves of exp(-g) it carries; for a translation: which
/// moment it is).
pub type Weighted = (f64, i8);

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
    merge: f64::max,
    transport: |from, to, tower| {
        for (value, degree) in tower {
            if from != to {
                *value *= if from == f64::NEG_INFINITY { 0.0 } else { (*degree as f64 / 2.0 * (from - to)).exp() }
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
    merge: |a, b| if a.is_nan() { b } else { a },
    transport: |from, to, tower| {
        if from == to || from.is_nan() || to.is_nan() {
            return;
        }
        let d = from - to;
        let old = tower.to_vec();
        let moment = |q: i8| old.iter().find(|m| m.1 == q).map_or(0.0, |m| m.0);
        for (value, degree) in tower {
            match degree {
                0 => {}
                1 => *value += d * moment(0),
                _ => *value += 2.0 * d * moment(1) + d * d * moment(0),
            }
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
