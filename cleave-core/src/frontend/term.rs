//! The checked formula: a DAG of typed terms. Names are resolved, helpers and composites written out, every axis known.
//!
//! What it keeps: operands have smaller ids than their users; every term's type follows from its operands'; axes are numbered as
//! declared (constant factors too), which [`lower`](super::lower) renumbers by use.
use super::report::Place;
use super::syntax::Comparison;
use crate::axis::{AxisId, AxisSet};
use crate::graph::Function;
use crate::rational::Rational;
use proc_macro2::Ident;

/// A term of [`Formula::terms`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TermId(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A real value.
    Number,
    /// An affine form of indices, extents and integer inputs: what predicates compare. It serves as a number too.
    Integer,
    Truth,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    pub kind: Kind,
    /// The axes at which the value varies, those of the condition under which it is present included.
    pub axes: AxisSet,
    /// Absent where a condition is false; such a value cannot be stored.
    pub masked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    Sum,
    Max,
    Min,
    Mean,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// An argument, by its declared position.
    Read(usize),
    Number(Rational),
    Truth(bool),
    Size(AxisId),
    Index(AxisId),
    Add,
    Subtract,
    Multiply,
    /// Of an integer by a positive one, rounded down.
    Quotient(i64),
    /// An exponent in halves.
    Power(i8),
    Apply(Function),
    Max,
    Min,
    Reduce(Reduction, AxisSet),
    /// Operands: value, condition.
    Mask,
    /// Operands: condition, value if it holds, value if not.
    If,
    Compare(Comparison),
    And,
    Or,
    Not,
    /// One index of a constant factor.
    Part(AxisId, u32),
    /// Operands: one for each index of a constant factor.
    Stack(AxisId),
    /// A constant factor read backwards.
    Reverse(AxisId),
    /// The first axis replaced by the second.
    Rename(AxisId, AxisId),
}

#[derive(Clone, Debug)]
pub struct Term {
    pub op: Op,
    pub operands: Vec<TermId>,
    pub ty: Type,
    pub place: Place,
}

/// A declared axis or constant factor.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: String,
    /// At its first place.
    pub ident: Ident,
    /// The extent of a constant factor.
    pub constant: Option<u32>,
}

/// A checked kernel body: its terms, and the term of every result.
#[derive(Default, Debug)]
pub struct Formula {
    pub axes: Vec<Declared>,
    pub terms: Vec<Term>,
    /// Of the arguments that are written in place, then of the declared results.
    pub results: Vec<TermId>,
    pub assertions: Vec<Asserted>,
    pub assumptions: Vec<Assumed>,
}

/// A condition that must hold at a call.
#[derive(Clone, Debug)]
pub struct Asserted {
    pub condition: TermId,
    pub text: String,
    pub message: Option<String>,
}

/// Two values that are equal for every call.
#[derive(Clone, Debug)]
pub struct Assumed {
    pub sides: [TermId; 2],
    pub text: String,
    pub message: Option<String>,
    pub place: Place,
}

impl Formula {
    pub fn term(&self, id: TermId) -> &Term {
        &self.terms[id.0 as usize]
    }
    pub fn axis(&self, axis: AxisId) -> &Declared {
        &self.axes[axis.0 as usize]
    }
    pub fn number(&self, id: TermId) -> Option<Rational> {
        if let Op::Number(r) = self.term(id).op { Some(r) } else { None }
    }
    /// The constant factors among axes.
    pub fn constants(&self, axes: AxisSet) -> AxisSet {
        axes.iter().filter(|a| self.axis(*a).constant.is_some()).collect()
    }
    /// The first reduction below `root` over `axis`, if any.
    pub fn reduction_over(&self, root: TermId, axis: AxisId) -> Option<TermId> {
        let mut seen = vec![false; self.terms.len()];
        let mut todo = vec![root];
        while let Some(t) = todo.pop() {
            if std::mem::replace(&mut seen[t.0 as usize], true) {
                continue;
            }
            match self.term(t).op {
                Op::Reduce(_, axes) if axes.contains(axis) => return Some(t),
                _ => todo.extend(self.term(t).operands.iter().rev()),
            }
        }
        None
    }
}
