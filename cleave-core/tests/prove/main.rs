//! The proofs of the rules, and the checks that they can fail.
#![cfg(feature = "compiler")]
mod mutants;
mod replay;
mod rows;
mod traps;
mod xla;
