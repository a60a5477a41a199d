//! The rows of [`crate::frame`]'s table as CUDA expressions. Statements know these fields only.
use super::code::literal;
use crate::graph::FrameKind;

/// What a frame does with the keys of a tile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OfTile {
    Greatest,
    Mean,
}

pub struct FrameCode {
    pub identity: &'static str,
    pub of_tile: OfTile,
    /// The common frame of two states.
    pub merge: fn(&str, &str) -> String,
    /// What the body reads.
    pub usable: fn(&str) -> String,
    /// A quantity of one row that moves members of a degree from a frame to another.
    pub step: fn(from: &str, to: &str, degree: i8) -> String,
    /// Whether the step depends on the degree.
    pub step_by_degree: bool,
    /// A member of a degree after the move, given its value, the step and the members of lower degree of its tower.
    pub moved: fn(degree: i8, value: &str, step: &str, lower: &dyn Fn(i8) -> String) -> String,
}

pub fn code(kind: FrameKind) -> &'static FrameCode {
    match kind {
        FrameKind::Shift => &FrameCode {
            identity: "-cleave::infinity()",
            of_tile: OfTile::Greatest,
            merge: |a, b| format!("cleave::greater({a}, {b})"),
            usable: |g| format!("cleave::usable_shift({g})"),
            step: |from, to, degree| format!("cleave::shift({from}, {to}, {})", literal(degree as f64 / 2.0)),
            step_by_degree: true,
            moved: |_, value, step, _| format!("{value} * {step}"),
        },
        FrameKind::Translation => &FrameCode {
            identity: "cleave::not_a_number()",
            of_tile: OfTile::Mean,
            merge: |a, b| format!("({a} == {a} ? {a} : {b})"),
            usable: |c| format!("({c} == {c} ? {c} : 0.0f)"),
            step: |from, to, _| format!("cleave::translation({from}, {to})"),
            step_by_degree: false,
            moved: |degree, value, step, lower| match degree {
                0 => value.into(),
                1 => format!("{value} + {step} * {}", lower(0)),
                _ => format!("{value} + 2.0f * {step} * {} + {step} * {step} * {}", lower(1), lower(0)),
            },
        },
    }
}
