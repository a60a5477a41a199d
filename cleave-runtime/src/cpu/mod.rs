//! The CPU executor: runs tile programs on the machine's cores. The embedded default back end.
//!
//! In: a [`Program`], tile lengths, the number of pieces of a split, the extent of every axis, and the tensors as strided memory. Out:
//! the outputs. [`Decoded`] is made once for a program and its types and run any number of times. Files in the order of the flow: [`decode`]
//! turns statements to steps ([`expression`]: fused elementwise code; [`lifetime`]: buffers), [`execute`] spreads blocks over threads,
//! [`block`] runs one of them with [`group`], [`mask`], [`contraction`], [`skinny`] and [`frames`] on the loops of [`vector`] and [`functions`].
//!
//! Memory: for each thread the buffers of one block, whose sizes are products of tile lengths (and the extents of dims on chip or kept);
//! for a split the states of every piece; the workspaces of the program.
mod block;
mod contraction;
mod decode;
mod execute;
mod expression;
mod frames;
mod functions;
mod group;
mod lifetime;
mod mask;
mod panel;
mod product;
mod reduce;
mod skinny;
mod stored;
mod threads;
mod vector;

use block::Scratch;
use cleave_core::axis::AxisId;
use cleave_core::dtype::DType;
use cleave_core::plan::Tiles;
use cleave_core::tile::Program;
pub use execute::Prepared;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a program cannot be run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExecuteError {
    #[error("the program has no launch")]
    Empty,
    #[error("a part has {found} dims, at most {} are supported", decode::MAX_DIMS)]
    Dims { found: usize },
    #[error("the tile lengths do not fit the program")]
    Tiles,
    #[error("an axis has no extent, or a negative one")]
    Extents,
    #[error("the kernel has {expected} {what}, {found} are given")]
    Count { what: &'static str, expected: usize, found: usize },
    #[error("`{tensor}` is {found}, the program reads {expected}")]
    Type { tensor: String, expected: DType, found: DType },
    #[error("`{tensor}` has {found} strides for {expected} dimensions")]
    Rank { tensor: String, expected: usize, found: usize },
    #[error("`{tensor}` is a {expected}")]
    Kind { tensor: String, expected: &'static str },
}

/// Strided memory: of an output, writable. The caller keeps it alive and unaliased during the call.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'a> {
    /// The first element.
    pub address: *mut u8,
    pub dtype: DType,
    /// In elements, one for each stored dimension.
    pub strides: &'a [i64],
}

/// An input of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    Tensor(Storage<'a>),
    Float(f32),
    Integer(i32),
}

/// The tensors of a call, in the order in which the kernel declares them.
#[derive(Clone, Copy, Debug)]
pub struct Tensors<'a> {
    pub inputs: &'a [Argument<'a>],
    pub outputs: &'a [Storage<'a>],
}

/// A program in the form that runs; cache it.
#[derive(Debug)]
pub struct Decoded {
    launches: Vec<Vec<decode::Part>>,
    workspaces: Vec<Vec<AxisId>>,
    axes: usize,
    /// The kernel's own inputs and outputs; workspaces follow in the graphs of parts.
    inputs: usize,
    outputs: usize,
    signature: Signature,
    /// See [`loaded`](Decoded::loaded).
    loaded: AtomicU64,
    /// Memory of threads, kept from call to call.
    idle: Mutex<Vec<Scratch>>,
}

/// What the tensors of a call must be.
#[derive(Debug)]
struct Signature {
    inputs: Vec<(String, DType, usize)>,
    outputs: Vec<(String, DType, usize)>,
}

impl Decoded {
    /// `types`: those of the kernel's generic parameters.
    pub fn new(program: &Program, types: &[DType]) -> Result<Self, ExecuteError> {
        let graph = program.launches.last().and_then(|l| l.first()).map(|p| &p.graph).ok_or(ExecuteError::Empty)?;
        let launches: Result<Vec<Vec<_>>, _> = program.launches.iter().map(|l| l.iter().map(|p| decode::Part::new(p, types)).collect()).collect();
        let (inputs, outputs) = (graph.inputs.len() - program.workspaces.len(), graph.outputs.len() - program.workspaces.len());
        let signature = Signature {
            inputs: graph.inputs[..inputs].iter().map(|i| (i.name.clone(), i.element.resolve(types), i.storage.dims.len())).collect(),
            outputs: graph.outputs[..outputs].iter().map(|o| (o.name.clone(), o.element.resolve(types), o.storage.dims.len())).collect(),
        };
        Ok(Decoded {
            launches: launches?,
            workspaces: program.workspaces.iter().map(|w| w.axes.clone()).collect(),
            axes: graph.axes.len(),
            inputs,
            outputs,
            signature,
            loaded: AtomicU64::new(0),
            idle: Mutex::default(),
        })
    }
    /// Runs the program. `tiles[launch][part][dim]`; `pieces`: in how many the loop of a part that may be split is cut (1: not).
    /// Extents may be 0. Stride gaps and what lies beyond the reach of a loop's predicates are not read.
    pub fn run(&self, tiles: &Tiles, pieces: usize, extents: &[i64], tensors: &Tensors) -> Result<(), ExecuteError> {
        self.run_prepared(&self.prepare(tiles, pieces, extents)?, tensors)
    }
    /// What [`run`](Decoded::run) makes of tiles, pieces and extents, for any number of calls.
    pub fn prepare(&self, tiles: &Tiles, pieces: usize, extents: &[i64]) -> Result<Prepared, ExecuteError> {
        execute::prepare(self, tiles, pieces, extents)
    }
    pub fn run_prepared(&self, prepared: &Prepared, tensors: &Tensors) -> Result<(), ExecuteError> {
        execute::run(self, prepared, tensors)
    }

    /// Elements that load statements have read in all runs so far: what the cost model counts as `loads`.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }

    fn check(&self, tensors: &Tensors) -> Result<(), ExecuteError> {
        let count = |what, expected, found| if expected == found { Ok(()) } else { Err(ExecuteError::Count { what, expected, found }) };
        count("inputs", self.inputs, tensors.inputs.len())?;
        count("outputs", self.outputs, tensors.outputs.len())?;
        let fits = |(name, dtype, rank): &(String, DType, usize), s: &Storage| {
            let tensor = || name.clone();
            if s.dtype != *dtype {
                return Err(ExecuteError::Type { tensor: tensor(), expected: *dtype, found: s.dtype });
            }
            if s.strides.len() != *rank {
                return Err(ExecuteError::Rank { tensor: tensor(), expected: *rank, found: s.strides.len() });
            }
            Ok(())
        };
        for (wanted, argument) in self.signature.inputs.iter().zip(tensors.inputs) {
            match argument {
                Argument::Tensor(s) => fits(wanted, s)?,
                _ if wanted.2 > 0 => return Err(ExecuteError::Kind { tensor: wanted.0.clone(), expected: "tensor" }),
                _ => {}
            }
        }
        self.signature.outputs.iter().zip(tensors.outputs).try_for_each(|(wanted, s)| fits(wanted, s))
    }
    fn scratch(&self) -> Scratch {
        self.idle.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default()
    }
    fn give_back(&self, scratch: Scratch) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(scratch)
        }
    }
}

/// Decodes and runs a program once; see [`Decoded`].
pub fn execute(program: &Program, tiles: &Tiles, pieces: usize, types: &[DType], extents: &[i64], tensors: &Tensors) -> Result<(), ExecuteError> {
    Decoded::new(program, types)?.run(tiles, pieces, extents, tensors)
}
