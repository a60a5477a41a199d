//! Storage types. Sums and transcendental functions are f32 whatever the storage type is.
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum DType {
    F32,
    F16,
    BF16,
    /// Only in predicates and biases, never stored by a kernel.
    I32,
}

impl DType {
    /// The name in a kernel's source: `f32`, `f16`, `bf16`, `i32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
        }
    }
    pub fn parse(name: &str) -> Option<Self> {
        [DType::F32, DType::F16, DType::BF16, DType::I32].into_iter().find(|d| d.name() == name)
    }
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
        }
    }
    /// Half the distance from 1 to the next larger value: the unit of a rounding error.
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F32 => 2f64.powi(-24),
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            DType::I32 => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The storage type of a tensor as declared: a type, or one of the kernel's generic parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Element {
    Type(DType),
    Param(u8),
}

impl Element {
    /// The type under an instance: `types[i]` is the type of parameter `i`.
    pub fn resolve(self, types: &[DType]) -> DType {
        match self {
            Element::Type(t) => t,
            Element::Param(i) => types[i as usize],
        }
    }
}
