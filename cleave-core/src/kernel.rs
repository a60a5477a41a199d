//! A kernel as checked by the front end, and the algorithms that the algebra finds for it.
use crate::axis::AxisId;
use crate::cost::Cost;
use crate::dtype::DType;
use crate::graph::Graph;
use crate::predicate::Predicate;
use serde::{Deserialize, Serialize};

/// What the front end makes of an annotated function. It can be built without tokens too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    pub name: String,
    pub graph: Graph,
    /// Generic element types and the types that each may be: `dtypes(T = f16, bf16)`.
    pub params: Vec<Param>,
    /// `bound(D <= 256)`: the menu serves no larger extent of these axes.
    pub bounds: Vec<(AxisId, usize)>,
    /// What must hold of extents and integer scalars at a call.
    pub assertions: Vec<Assertion>,
}

/// `assert!(extent::<D>() % 8 == 0, "whole vectors")` in a kernel's body.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Assertion {
    /// It varies along no axis.
    pub predicate: Predicate,
    /// The condition as the user wrote it.
    pub condition: String,
    pub message: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    pub name: String,
    pub types: Vec<DType>,
}

impl Kernel {
    /// Every choice of types for the generic parameters.
    pub fn instances(&self) -> Vec<Vec<DType>> {
        self.params.iter().fold(vec![vec![]], |all, p| all.iter().flat_map(|i| p.types.iter().map(move |t| [i.as_slice(), &[*t]].concat())).collect())
    }
}

/// A graph equal to the kernel's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Algorithm {
    /// `source`, or what distinguishes it: `one pass over N`, ...
    pub name: String,
    pub graph: Graph,
    pub cost: Cost,
    /// The rule applications that lead from the source to it.
    pub derivation: Vec<Step>,
}

/// One application of a rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub rule: String,
    /// What the rule replaced, and by what, in the notation of the graph.
    pub before: String,
    pub after: String,
}
