//! Launching a chosen entry: what can be told from the extents is worked out once ([`Loaded::new`]); a call fills in
//! addresses and strides and starts the kernels. A launch allocates nothing and waits for nothing.
use super::{CudaDevice, address_of};
use crate::error::{Doing, Error, Result};
use crate::layout::row_major;
use cleave_core::graph::{Access, Factor};
use cleave_core::plan::{Entry, PlanFile, TensorRef, Word};
use cleave_core::tile::{Part, Program, Role};
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, result};
use std::ffi::c_void;
use std::sync::Arc;

/// Words that a kernel's argument may hold: 4 KiB are allowed.
const MAX_WORDS: usize = 512;
/// Scratch tensors start at multiples of this many bytes.
const ALIGNMENT: usize = 256;

/// What a call gives for an input or output.
pub(crate) enum Binding<'a> {
    Scalar(u64),
    Tensor { address: u64, strides: &'a [usize] },
}

/// A word of a launch's argument, as far as the extents tell it.
#[derive(Clone, Debug, PartialEq)]
enum Slot {
    Fixed(u64),
    Address(TensorRef),
    Scalar(usize),
    /// The stride of a dimension times the extents of its inner factors.
    Stride {
        tensor: TensorRef,
        dim: usize,
        inner: u64,
    },
    /// Bytes from the start of the scratch memory.
    Scratch(usize),
    /// Counters from the start of the counters.
    Counters(usize),
}

struct Start {
    function: CudaFunction,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    slots: Vec<Slot>,
}

/// An entry with its functions, ready for calls of the same extents.
pub(crate) struct Loaded {
    launches: Vec<Start>,
    needs: Needs,
}

/// Scratch memory of one entry at concrete extents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Needs {
    counters: usize,
    bytes: usize,
}

/// Memory with its address, read once: asking again could touch events, which a capture forbids.
struct Held<T> {
    slice: CudaSlice<T>,
    address: u64,
}

impl<T> Held<T> {
    fn new(slice: CudaSlice<T>) -> Self {
        Held { address: address_of(&slice), slice }
    }
}

/// Counters, which are 0 between launches, and bytes that hold anything. What was outgrown is kept: captured graphs may use it.
#[derive(Default)]
pub(crate) struct Scratch {
    counters: Vec<Held<u32>>,
    memory: Vec<Held<u8>>,
}

impl Scratch {
    /// Bytes in use, without what was outgrown.
    pub fn bytes(&self) -> usize {
        self.counters() * 4 + self.memory()
    }
    fn counters(&self) -> usize {
        self.counters.last().map_or(0, |c| c.slice.len())
    }
    fn memory(&self) -> usize {
        self.memory.last().map_or(0, |m| m.slice.len())
    }
    fn fits(&self, needs: Needs) -> bool {
        self.counters() >= needs.counters && self.memory() >= needs.bytes
    }
    /// Grows at least twofold, so that all that is ever held is less than twice what is needed.
    fn grow(&mut self, device: &CudaDevice, stream: &Arc<CudaStream>, needs: Needs) -> Result<()> {
        if self.counters() < needs.counters {
            let n = needs.counters.next_power_of_two();
            self.counters.push(Held::new(stream.alloc_zeros(n).map_err(|e| device.allocation_error(e, n * 4))?))
        }
        if self.memory() < needs.bytes {
            let n = needs.bytes.next_power_of_two();
            // SAFETY: kernels write it before they read it
            self.memory.push(Held::new(unsafe { stream.alloc(n) }.map_err(|e| device.allocation_error(e, n))?))
        }
        Ok(())
    }
}

/// Tiles of a dim of a part: 1 for a dim on chip.
fn tiles_of(part: &Part, dim: usize, tile: u32, extents: &[i64]) -> u64 {
    let extent = part.extent(cleave_core::tile::DimId(dim as u8), extents).max(0) as u64;
    if part.dims[dim].role == Role::Chip { 1 } else { extent.div_ceil(tile.max(1) as u64) }
}

/// Where the scratch tensors of a program lie, and the end of the last.
fn workspaces(program: &Program, extents: &[i64]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let starts = program
        .workspaces
        .iter()
        .map(|w| {
            let start = end;
            end += w.axes.iter().map(|a| extents[a.0 as usize].max(0) as usize).product::<usize>() * 4;
            end = end.next_multiple_of(ALIGNMENT);
            start
        })
        .collect();
    (starts, end)
}

/// The argument and grid of one launch.
struct Layout {
    slots: Vec<Slot>,
    blocks: u64,
    needs: Needs,
}

/// `None` for an entry that contradicts its program: the plan file is damaged.
fn layout(file: &PlanFile, entry: &Entry, launch: usize, pieces: &[u32], extents: &[i64]) -> Option<Layout> {
    let program = file.programs.get(entry.program as usize)?;
    let parts = program.launches.get(launch)?;
    let description = entry.launches.get(launch)?;
    let (workspace_starts, mut bytes) = workspaces(program, extents);
    let (mut counters, mut blocks) = (0, 0);
    let (mut first, mut partials, mut arrivals, mut tiles) = (vec![], vec![], vec![], vec![]);
    for (p, part) in parts.iter().enumerate() {
        let lengths = entry.tiles.get(launch)?.get(p)?;
        if lengths.len() != part.dims.len() {
            return None;
        }
        let counts: Vec<u64> = lengths.iter().enumerate().map(|(d, t)| tiles_of(part, d, *t, extents)).collect();
        let items: u64 = part.grid.iter().map(|d| counts[d.0 as usize]).product();
        let split = *pieces.get(p)?;
        first.push(blocks);
        partials.push(bytes);
        arrivals.push(counters);
        blocks += items * split as u64;
        if split > 1 {
            bytes += (items * split as u64 * description.partial_bytes.get(p)?) as usize;
            bytes = bytes.next_multiple_of(ALIGNMENT);
            counters += items as usize
        }
        tiles.push(counts)
    }
    let size = |f: &Factor| match f {
        Factor::Axis(a) => extents[a.0 as usize].max(0) as u64,
        Factor::Part { of, .. } => *of as u64,
    };
    let storage = |tensor: &TensorRef| -> Option<Access> {
        match tensor {
            TensorRef::Input(i) => file.kernel.graph.inputs.get(i.index()).map(|i| i.storage.clone()),
            TensorRef::Output(o) => file.kernel.graph.outputs.get(*o as usize).map(|o| o.storage.clone()),
            TensorRef::Workspace(w) => program.workspaces.get(*w as usize).map(|w| Access::plain(w.axes.iter().copied())),
        }
    };
    let slot = |word: &Word| -> Option<Slot> {
        Some(match word {
            Word::Address(TensorRef::Workspace(w)) => Slot::Scratch(*workspace_starts.get(*w as usize)?),
            Word::Address(t) => {
                storage(t)?;
                Slot::Address(*t)
            }
            Word::Scalar(i) => {
                file.kernel.graph.inputs.get(i.index())?;
                Slot::Scalar(i.index())
            }
            Word::Extent(a) => Slot::Fixed(*extents.get(a.0 as usize)? as u64),
            Word::Stride { tensor, dim, factor } => {
                let access = storage(tensor)?;
                let factors = access.dims.get(*dim as usize)?;
                let inner: u64 = factors.get(*factor as usize + 1..)?.iter().map(size).product();
                match tensor {
                    TensorRef::Workspace(_) => {
                        let shape: Vec<usize> = access.dims.iter().map(|d| d.iter().map(size).product::<u64>() as usize).collect();
                        Slot::Fixed(row_major(&shape)[*dim as usize] as u64 * inner)
                    }
                    _ => Slot::Stride { tensor: *tensor, dim: *dim as usize, inner },
                }
            }
            Word::FirstBlock(p) => Slot::Fixed(*first.get(*p as usize)?),
            Word::Tiles { part, dim } => Slot::Fixed(*tiles.get(*part as usize)?.get(dim.0 as usize)?),
            Word::Pieces(p) => Slot::Fixed(*pieces.get(*p as usize)? as u64),
            Word::Partials(p) => Slot::Scratch(*partials.get(*p as usize)?),
            Word::Counters(p) => Slot::Counters(*arrivals.get(*p as usize)?),
        })
    };
    let slots = description.words.iter().map(slot).collect::<Option<Vec<_>>>()?;
    (slots.len() <= MAX_WORDS).then_some(Layout { slots, blocks, needs: Needs { counters, bytes } })
}

impl Loaded {
    /// Loads the entry's modules, at most once each for a context.
    pub fn new(device: &CudaDevice, file: &PlanFile, record: usize, instance: usize, entry: &Entry, pieces: &[Vec<u32>], extents: &[i64]) -> Result<Loaded> {
        let kernel = &file.kernel.name;
        let damaged = || Error::Plan { kernel: kernel.clone() };
        let mut needs = Needs::default();
        let mut launches = vec![];
        for (l, description) in entry.launches.iter().enumerate() {
            let layout = layout(file, entry, l, pieces.get(l).ok_or_else(damaged)?, extents).ok_or_else(damaged)?;
            needs = Needs { counters: needs.counters.max(layout.needs.counters), bytes: needs.bytes.max(layout.needs.bytes) };
            let blocks = i32::try_from(layout.blocks).map_err(|_| Error::NoEntry {
                kernel: kernel.clone(),
                extents: "these extents".into(),
                reason: format!("they make {} blocks, a launch may have {}", layout.blocks, i32::MAX),
            })?;
            let module = device.module(kernel, record, (instance, &file.instances[instance]), description.module)?;
            let function = device.function(kernel, &module, &description.symbol, description.shared_bytes)?;
            launches.push(Start { function, blocks: blocks as u32, threads: description.threads, shared_bytes: description.shared_bytes, slots: layout.slots })
        }
        Ok(Loaded { launches, needs })
    }
    /// Gives `scratch` what a launch needs; while the stream captures it must have it already.
    pub fn reserve(&self, kernel: &str, device: &CudaDevice, stream: &Arc<CudaStream>, scratch: &mut Scratch, capturing: bool) -> Result<()> {
        match scratch.fits(self.needs) {
            true => Ok(()),
            false if capturing => Err(Error::Capture { kernel: kernel.into() }),
            false => scratch.grow(device, stream, self.needs),
        }
    }
    /// Starts the kernels on `stream`.
    ///
    /// # Safety
    /// The bindings are the kernel's, with the extents that the entry was loaded for, and stay valid until the stream has run it.
    pub unsafe fn launch(&self, stream: &CudaStream, inputs: &[Binding], outputs: &[Binding], scratch: &Scratch) -> Result<()> {
        stream.context().bind_to_thread().doing(|| "entering the context".into())?;
        let memory = scratch.memory.last().map_or(0, |m| m.address);
        let counters = scratch.counters.last().map_or(0, |c| c.address);
        let tensor = |t: &TensorRef| match t {
            TensorRef::Input(i) => inputs.get(i.index()),
            TensorRef::Output(o) => outputs.get(*o as usize),
            TensorRef::Workspace(_) => None,
        };
        let mut words: Vec<u64> = Vec::with_capacity(64);
        for start in self.launches.iter().filter(|s| s.blocks > 0) {
            words.clear();
            words.extend(start.slots.iter().map(|slot| match slot {
                Slot::Fixed(w) => *w,
                Slot::Scratch(offset) => memory + *offset as u64,
                Slot::Counters(offset) => counters + *offset as u64 * 4,
                Slot::Scalar(i) => inputs.get(*i).map_or(0, |b| if let Binding::Scalar(w) = b { *w } else { 0 }),
                Slot::Address(t) => tensor(t).map_or(0, |b| if let Binding::Tensor { address, .. } = b { *address } else { 0 }),
                Slot::Stride { tensor: t, dim, inner } => {
                    tensor(t).map_or(0, |b| if let Binding::Tensor { strides, .. } = b { strides.get(*dim).map_or(0, |s| *s as u64 * inner) } else { 0 })
                }
            }));
            let mut parameters = [words.as_mut_ptr().cast::<c_void>()];
            // SAFETY: the function takes one struct of these words by value; the rest is the caller's promise
            unsafe {
                result::launch_kernel(
                    start.function.cu_function(),
                    (start.blocks, 1, 1),
                    (start.threads, 1, 1),
                    start.shared_bytes,
                    stream.cu_stream(),
                    &mut parameters,
                )
            }
            .doing(|| "launching".into())?
        }
        Ok(())
    }
}
