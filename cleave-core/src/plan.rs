//! The plan file that a build writes for each kernel, its menu of compiled entries, and the choice that the first call makes.
use crate::assumption::Assumption;
use crate::axis::AxisId;
use crate::device::Target;
use crate::dtype::DType;
use crate::graph::InputId;
use crate::kernel::{Algorithm, Kernel};
use crate::tile::{DimId, Program};
use serde::{Deserialize, Serialize};

/// Written first in every plan file; a reader refuses any other.
pub const VERSION: u32 = 6;

/// Everything that a program needs to run a kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanFile {
    pub version: u32,
    /// [`Kernel`]'s canonical print, hashed: the macro finds the file by it.
    pub key: u64,
    pub kernel: Kernel,
    /// The source first.
    pub algorithms: Vec<Algorithm>,
    pub programs: Vec<Program>,
    /// The compiled menu, by instance (a choice of types for the generic parameters), in the order of [`Kernel::instances`].
    pub instances: Vec<Instance>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Instance {
    pub types: Vec<DType>,
    pub entries: Vec<Entry>,
    pub modules: Vec<Module>,
}

/// One translation unit, with what it was compiled to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Module {
    pub target: Target,
    pub source: String,
    /// Empty without nvcc: the run time then compiles `source` by NVRTC.
    pub images: Vec<Image>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Image {
    pub kind: ImageKind,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ImageKind {
    /// Machine code of one compute capability (80 is 8.0); `exact`: runs on that one only (sm_90a), else on later minor versions too.
    Cubin { capability: u32, exact: bool },
    /// For any device of at least this capability.
    Ptx { capability: u32 },
}

/// The tile length of each dim of each part of each launch: `tiles[launch][part][dim]`. For a dim on chip it is the bound.
pub type Tiles = Vec<Vec<Vec<u32>>>;

/// A compiled choice: program, tiles, target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub program: u32,
    pub target: Target,
    pub tiles: Tiles,
    /// How each launch is started; empty for [`Target::Cpu`].
    pub launches: Vec<Launch>,
    /// All must hold for the extents and tensors at hand.
    pub guards: Vec<Guard>,
}

/// A launch predicate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Guard {
    /// The extent of an axis is at most this.
    AtMost(AxisId, i64),
    /// The extent of an axis is a multiple of this.
    Multiple(AxisId, i64),
    /// The stride of stored dimension `dim` is 1.
    Contiguous(TensorRef, u32),
    /// The base address, and every stride but a unit one in bytes, are multiples of this many bytes.
    Aligned(TensorRef, u32),
    /// A scalar is no negative number.
    NotNegative(InputId),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TensorRef {
    Input(InputId),
    Output(u32),
    /// Row-major, f32: see [`crate::tile::Workspace`].
    Workspace(u32),
}

/// A `__global__` function and how it is called: with one struct by value, of its tensor maps and then of 64-bit words, aligned to 64 bytes if it
/// has maps; a grid of `sum over parts of items * pieces` blocks in x, `threads` threads in x.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// Index into [`Instance::modules`].
    pub module: u32,
    pub symbol: String,
    pub threads: u32,
    pub shared_bytes: u32,
    pub body: Body,
    /// How TMA reads tensors, 128 bytes each.
    pub maps: Vec<TensorMap>,
    pub words: Vec<Word>,
    /// At most as many blocks as the device has multiprocessors are started; they share out the others.
    pub persistent: bool,
    /// For each part the bytes of partial state that one item of one piece stores when the part is split (0: never split).
    pub partial_bytes: Vec<u64>,
}

/// Where a launch has its values, and what multiplies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// Every value goes through shared memory.
    Shared,
    /// Values stay in registers, products run on tensor cores.
    TensorCores,
    /// Values stay in registers, products run on the f32 units: for what memory bounds. `resident`: so do rows that several loops read, or they
    /// stay in shared memory; else they are read again.
    Vector { resident: bool },
}

/// A tensor as TMA reads and writes it: boxes of up to five dims, the innermost of which is contiguous, in 128-byte swizzle; outside the
/// extents it reads 0 and writes nothing. No extent may be 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TensorMap {
    pub tensor: TensorRef,
    /// The first element lies at the sum of `index * stride` of these constant factors: `(dim, factor, index)`.
    pub first: Vec<(u32, u32, u32)>,
    /// Innermost first.
    pub dims: Vec<MapDim>,
}

/// A dim of a [`TensorMap`]: axes that follow each other in one stored dimension.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MapDim {
    /// The product of their extents and of `parts` is the dim's.
    pub axes: Vec<AxisId>,
    /// The constant factor that follows them and is taken whole; 1: none.
    pub parts: u32,
    /// The last of all is `factors[dim][factor]` of the tensor's storage, whose stride is the dim's: see [`Word::Stride`].
    pub dim: u32,
    pub factor: u32,
    /// Elements of a box along it.
    pub length: u32,
}

/// One 64-bit word of a launch's argument.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Word {
    /// The device address of a tensor's first element.
    Address(TensorRef),
    /// A scalar input: f32 bits, or an i32, zero-extended.
    Scalar(InputId),
    Extent(AxisId),
    /// In elements: the stride of the factor at `factors[dim][factor]` of a tensor's storage (the stride of the dimension times the
    /// extents of the factors inside it).
    Stride {
        tensor: TensorRef,
        dim: u32,
        factor: u32,
    },
    /// Blocks before those of a part.
    FirstBlock(u32),
    /// Blocks of all parts together.
    Blocks,
    /// Address of one u32, 0 before the launch and left at 0 by it, by which the blocks of a persistent launch claim more.
    Claims,
    /// Tiles of a grid dim of a part.
    Tiles {
        part: u32,
        dim: DimId,
    },
    /// Pieces in which a part is split (1: not split).
    Pieces(u32),
    /// Address of a part's partial states: `items * pieces * partial_bytes`, uninitialised.
    Partials(u32),
    /// Address of a part's arrival counters: one u32 for each item, 0 before the launch, left at 0 by it.
    Counters(u32),
}

impl PlanFile {
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plan files hold plain data")
    }
    /// What the algorithm of an entry rests on.
    pub fn assumed(&self, entry: &Entry) -> impl Iterator<Item = &Assumption> {
        let algorithm = self.programs.get(entry.program as usize).and_then(|p| self.algorithms.get(p.algorithm as usize));
        let all = algorithm.map_or(&[][..], |a| &a.assumptions);
        all.iter().filter_map(|i| self.kernel.assumptions.get(*i as usize))
    }
    /// The algorithms of a file, without what follows them. `None` as of [`PlanFile::from_bytes`].
    pub fn algorithms(bytes: &[u8]) -> Option<Vec<Algorithm>> {
        let (version, rest) = postcard::take_from_bytes::<u32>(bytes).ok()?;
        if version != VERSION {
            return None;
        }
        let ((_, _, algorithms), _) = postcard::take_from_bytes::<(u64, Kernel, Vec<Algorithm>)>(rest).ok()?;
        Some(algorithms)
    }
    /// `None` for a foreign or damaged file, or one of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, _) = postcard::take_from_bytes::<u32>(bytes).ok()?;
        if version != VERSION {
            return None;
        }
        postcard::from_bytes(bytes).ok()
    }
}
