//! What the compiler and the run time of Cleave share, and (feature `compiler`) the compiler itself.
//!
//! The data, in the order in which a kernel meets it: a [`Kernel`](kernel::Kernel) states a formula as a
//! [`Graph`](graph::Graph) over named [axes](axis); an [`Algorithm`](kernel::Algorithm) is an equal graph with symbolic
//! [costs](cost); a [`Program`](tile::Program) gives roles to its axes; a [`Plan`](plan) is an entry of the menu and
//! a split for concrete extents.
pub mod absence;
pub mod assumption;
pub mod axis;
pub mod choose;
pub mod cost;
pub mod device;
pub mod domain;
pub mod dtype;
mod estimate;
pub mod extent;
pub mod frame;
pub mod graph;
pub mod kernel;
pub mod magnitude;
pub mod oracle;
pub mod plan;
pub mod predicate;
pub mod rational;
pub mod show;
pub mod tile;
pub mod traffic;

#[cfg(feature = "compiler")]
pub mod algebra;
#[cfg(feature = "compiler")]
pub mod build;
#[cfg(feature = "compiler")]
pub mod emit;
#[cfg(feature = "compiler")]
pub mod frontend;
#[cfg(feature = "compiler")]
pub mod prove;
#[cfg(feature = "compiler")]
pub mod schedule;
