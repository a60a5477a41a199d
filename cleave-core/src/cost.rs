//! Symbolic costs of an algorithm: what the algebra ranks by, and what `explain` prints. The cost of a tile program, which
//! depends on tiles and splits, is in [`crate::tile`].
use crate::axis::{AxisId, AxisSet};
use serde::{Deserialize, Serialize};

/// A sum of `coefficient * product of the extents of the axes`, sorted by axes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Polynomial {
    pub terms: Vec<(AxisSet, f64)>,
}

impl Polynomial {
    pub fn add(&mut self, axes: AxisSet, coefficient: f64) {
        match self.terms.binary_search_by_key(&axes, |t| t.0) {
            Ok(i) => self.terms[i].1 += coefficient,
            Err(i) => self.terms.insert(i, (axes, coefficient)),
        }
    }
    pub fn evaluate(&self, extent: &dyn Fn(AxisId) -> f64) -> f64 {
        self.terms.iter().map(|(axes, c)| c * axes.iter().map(extent).product::<f64>()).sum()
    }
    /// The degree-descending sum, as `2 M·N·D + M·N`.
    pub fn show(&self, name: &dyn Fn(AxisId) -> String) -> String {
        let mut terms: Vec<_> = self.terms.iter().filter(|t| t.1 != 0.0).collect();
        terms.sort_by_key(|t| (std::cmp::Reverse(t.0.len()), t.0));
        let show = |(axes, c): &&(AxisSet, f64)| {
            let names = axes.iter().map(name).collect::<Vec<_>>().join("·");
            match (*c, names.is_empty()) {
                (c, true) => format!("{c}"),
                (1.0, false) => names,
                (c, false) => format!("{c} {names}"),
            }
        };
        if terms.is_empty() { "0".into() } else { terms.iter().map(show).collect::<Vec<_>>().join(" + ") }
    }
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Operations; a transcendental function counts 8.
    pub flops: Polynomial,
    /// For each reduced axis the longest chain of dependent reductions over it (one more if the result has that axis).
    pub passes: Vec<(AxisId, u8)>,
    /// Elements of reduction results that must be kept between passes over one of their own axes.
    pub spills: Polynomial,
    /// Elements read and written once.
    pub compulsory: Polynomial,
}
