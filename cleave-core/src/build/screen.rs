//! Algorithms that are less accurate than their source.
use crate::kernel::Kernel;
use crate::tile::Program;

/// For each algorithm whether it is kept; the source, which is first, always is.
pub fn admissible(_kernel: &Kernel, scheduled: &[Vec<Program>]) -> Vec<bool> {
    vec![true; scheduled.len()]
}
