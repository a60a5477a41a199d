//! A kernel as checked by the front end, and the algorithms that the algebra finds for it.
use crate::assumption::Assumption;
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
    /// What the search may take for true of the inputs.
    pub assumptions: Vec<Assumption>,
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

/// A graph equal to the kernel's, wherever what it assumes holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Algorithm {
    /// `source`, or what distinguishes it: `one pass over N`, ...
    pub name: String,
    pub graph: Graph,
    pub cost: Cost,
    /// The rule applications that lead from the source to it.
    pub derivation: Vec<Step>,
    /// Those of the kernel's assumptions that it rests on. Their steps come first in the derivation.
    pub assumptions: Vec<u32>,
}

impl Algorithm {
    /// Names the chain of applications: the same for the same rules, substitutions and terms.
    pub fn chain(&self) -> u64 {
        let texts =
            self.derivation.iter().flat_map(|s| [&s.rule, &s.before, &s.after].into_iter().chain(s.bindings.iter().flat_map(|(v, x)| [v, x])).chain(&s.guards));
        // FNV-1a, with a mark between texts
        texts.flat_map(|t| t.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
    }
}

/// One application of a rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its name; the kernel's own text if the step is an assumption.
    pub rule: String,
    pub assumed: bool,
    /// What each variable of the rule stands for; an assumption has none.
    pub bindings: Vec<(String, String)>,
    /// The conditions of the rule, which hold of them.
    pub guards: Vec<String>,
    /// What the rule replaced, and by what, in the notation of the graph.
    pub before: String,
    pub after: String,
}
