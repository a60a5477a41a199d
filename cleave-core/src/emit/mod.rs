//! The emitter: from tile programs to CUDA text and the menu of entries.
//!
//! In: a kernel, a choice of types, its programs. Out: entries (program, tiles, launches, guards) and one self-contained
//! translation unit for each, deterministic byte for byte. A program that a placement cannot take yields no entry of it, with
//! the reason; [`shared`] takes every program whose tiles fit.
pub mod bounds;
pub mod code;
pub mod cpu;
pub mod element;
mod entry;
pub mod fragment;
pub mod frames;
pub mod hopper;
pub mod menu;
pub mod part;
pub mod shared;
pub mod vector;

pub use menu::{Emission, Placement, emission, instance, variants};

/// The tile primitives that every translation unit starts with: what needs PTX, and what is plain C++ over it.
pub const PTX: &str = include_str!("cuda/ptx.cuh");
pub const TILE: &str = include_str!("cuda/tile.cuh");
/// What [`vector`] adds.
pub const VECTOR: &str = include_str!("cuda/vector.cuh");
/// What of them is for compute capability 9.0 alone.
pub const PTX_90: &str = include_str!("cuda/ptx90.cuh");
pub const TILE_90: &str = include_str!("cuda/hopper.cuh");
