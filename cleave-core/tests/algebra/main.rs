//! The algebra on kernels whose algorithms are known, asserted on structure and on the printed algorithms.
#![cfg(feature = "compiler")]
mod corpus;
mod formula;
mod known;
mod random;
mod rows;
mod workloads;
