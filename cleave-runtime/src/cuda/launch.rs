//! Launching a chosen entry: what can be told from the extents is worked out once ([`Loaded::new`]); a call fills in
//! addresses and strides and starts the kernels. A launch allocates nothing and waits for nothing.
use super::maps::{Map, Maps, WORDS as MAP_WORDS};
use super::{CudaDevice, address_of};
use crate::error::{Doing, Error, Result};
use crate::layout::row_major;
use cleave_core::dtype::DType;
use cleave_core::graph::{Access, Factor, InputId};
use cleave_core::plan::{Entry, PlanFile, TensorMap, TensorRef, Word};
use cleave_core::tile::{DimId, Part, Program, Role};
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
    Scalar(InputId),
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
    maps: Maps,
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

/// Tiles of a dim of a part: 1 for a dim on chip, and for an empty one that some store lacks, which is written all the same.
fn tiles_of(part: &Part, dim: usize, tile: u32, extents: &[i64]) -> u64 {
    let id = DimId(dim as u8);
    let extent = part.extent(id, extents).max(0) as u64;
    let lacked = || part.graph.stores().any(|s| !part.dims_of(s.1.access.axes()).contains(id));
    match part.dims[dim].role {
        Role::Chip => 1,
        _ if extent == 0 => lacked() as u64,
        _ => extent.div_ceil(tile.max(1) as u64),
    }
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
    maps: Vec<Map>,
    blocks: u64,
    needs: Needs,
}

/// `None` for an entry that contradicts its program: the plan file is damaged.
fn layout(file: &PlanFile, types: &[DType], entry: &Entry, launch: usize, pieces: &[u32], extents: &[i64]) -> Option<Layout> {
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
    let claims = counters;
    counters += description.persistent as usize;
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
                Slot::Scalar(*i)
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
            Word::Blocks => Slot::Fixed(blocks),
            Word::Claims => Slot::Counters(claims),
            Word::FirstBlock(p) => Slot::Fixed(*first.get(*p as usize)?),
            Word::Tiles { part, dim } => Slot::Fixed(*tiles.get(*part as usize)?.get(dim.0 as usize)?),
            Word::Pieces(p) => Slot::Fixed(*pieces.get(*p as usize)? as u64),
            Word::Partials(p) => Slot::Scratch(*partials.get(*p as usize)?),
            Word::Counters(p) => Slot::Counters(*arrivals.get(*p as usize)?),
        })
    };
    let slots = description.words.iter().map(slot).collect::<Option<Vec<_>>>()?;
    let dtype = |tensor: &TensorRef| match tensor {
        TensorRef::Input(i) => file.kernel.graph.inputs.get(i.index()).map(|i| i.element.resolve(types)),
        TensorRef::Output(o) => file.kernel.graph.outputs.get(*o as usize).map(|o| o.element.resolve(types)),
        TensorRef::Workspace(_) => None,
    };
    let map = |m: &TensorMap| Map::new(m, &storage(&m.tensor)?, dtype(&m.tensor)?, extents);
    let maps = description.maps.iter().map(map).collect::<Option<Vec<_>>>()?;
    (slots.len() + MAP_WORDS * maps.len() <= MAX_WORDS).then_some(Layout { slots, maps, blocks, needs: Needs { counters, bytes } })
}

impl Loaded {
    /// Loads the entry's modules, at most once each for a context.
    pub fn new(device: &CudaDevice, file: &PlanFile, record: usize, instance: usize, entry: &Entry, pieces: &[Vec<u32>], extents: &[i64]) -> Result<Loaded> {
        let kernel = &file.kernel.name;
        let damaged = || Error::Plan { kernel: kernel.clone() };
        let mut needs = Needs::default();
        let mut launches = vec![];
        for (l, description) in entry.launches.iter().enumerate() {
            let layout = layout(file, &file.instances[instance].types, entry, l, pieces.get(l).ok_or_else(damaged)?, extents).ok_or_else(damaged)?;
            needs = Needs { counters: needs.counters.max(layout.needs.counters), bytes: needs.bytes.max(layout.needs.bytes) };
            let blocks = i32::try_from(layout.blocks).map_err(|_| Error::NoEntry {
                kernel: kernel.clone(),
                extents: "these extents".into(),
                reason: format!("they make {} blocks, a launch may have {}", layout.blocks, i32::MAX),
            })?;
            let module = device.module(kernel, record, (instance, &file.instances[instance]), description.module)?;
            let function = device.function(kernel, &module, &description.symbol, description.shared_bytes)?;
            let blocks = if description.persistent { (blocks as u32).min(device.model().units) } else { blocks as u32 };
            launches.push(Start {
                function,
                blocks,
                threads: description.threads,
                shared_bytes: description.shared_bytes,
                maps: Maps::new(layout.maps),
                slots: layout.slots,
            })
        }
        Ok(Loaded { launches, needs })
    }
    /// Whether a launch needs no scratch memory.
    pub fn needs_nothing(&self) -> bool {
        self.needs == Needs::default()
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
    /// The bindings are the kernel's, with the extents that the entry was loaded for, and stay valid until the stream has run it. The thread is in the stream's context.
    pub unsafe fn launch<'a>(&self, stream: &CudaStream, binding: &dyn Fn(TensorRef) -> Option<Binding<'a>>, scratch: &Scratch) -> Result<()> {
        let memory = scratch.memory.last().map_or(0, |m| m.address);
        let counters = scratch.counters.last().map_or(0, |c| c.address);
        let place = |t: TensorRef| match binding(t) {
            Some(Binding::Tensor { address, strides }) => (address, strides),
            _ => (0, &[][..]),
        };
        let mut words: Vec<u64> = Vec::with_capacity(64);
        for start in self.launches.iter().filter(|s| s.blocks > 0) {
            words.clear();
            start.maps.write(place, &mut words)?;
            words.extend(start.slots.iter().map(|slot| match slot {
                Slot::Fixed(w) => *w,
                Slot::Scratch(offset) => memory + *offset as u64,
                Slot::Counters(offset) => counters + *offset as u64 * 4,
                Slot::Scalar(i) => {
                    if let Some(Binding::Scalar(w)) = binding(TensorRef::Input(*i)) {
                        w
                    } else {
                        0
                    }
                }
                Slot::Address(t) => place(*t).0,
                Slot::Stride { tensor, dim, inner } => place(*tensor).1.get(*dim).map_or(0, |s| *s as u64 * inner),
            }));
            if !start.maps.is_empty() {
                // the struct is aligned to 64 bytes, and as long as a multiple of them
                words.resize(words.len().next_multiple_of(8), 0)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use cleave_core::axis::AxisId;
    use cleave_core::device::Target;
    use cleave_core::dtype::Element;
    use cleave_core::graph::Graph;
    use cleave_core::kernel::Kernel;
    use cleave_core::plan::{Body, Launch, VERSION};
    use cleave_core::tile::{Dim, Workspace};

    /// `x[(K, G), N]`, a workspace over `[K, N]`, one launch of two parts: a grid over K and G, a grid over N.
    fn file(words: Vec<Word>) -> (PlanFile, Entry) {
        let mut graph = Graph::default();
        let [k, g, n] = ["K", "G", "N"].map(|a| graph.add_axis(a));
        let storage = Access { dims: vec![vec![Factor::Axis(k), Factor::Axis(g)], vec![Factor::Axis(n)]] };
        graph.add_input("x", Element::Type(DType::F32), storage.clone());
        graph.add_output("y", Element::Type(DType::F32), storage, vec![]);
        let dim = |a: AxisId, role| Dim { axes: vec![a], role, batch: false };
        let part = |dims: Vec<Dim>| {
            let grid = (0..dims.len() as u8).map(DimId).filter(|d| dims[d.0 as usize].role == Role::Grid).collect();
            Part { graph: graph.clone(), dims, node_dims: vec![], grid, body: vec![], split: true }
        };
        let parts = vec![part(vec![dim(k, Role::Grid), dim(g, Role::Grid), dim(n, Role::Chip)]), part(vec![dim(n, Role::Grid)])];
        let program = Program { launches: vec![parts], workspaces: vec![Workspace { axes: vec![k, n] }], ..Default::default() };
        let launch = Launch {
            module: 0,
            symbol: "f".into(),
            threads: 128,
            shared_bytes: 0,
            body: Body::TensorCores,
            maps: vec![],
            words,
            persistent: false,
            partial_bytes: vec![100, 8],
        };
        let entry = Entry { program: 0, target: Target::Portable, tiles: vec![vec![vec![1, 4, 256], vec![64]]], launches: vec![launch], guards: vec![] };
        let kernel = Kernel { name: "f".into(), graph, params: vec![], bounds: vec![], assertions: vec![], assumptions: vec![] };
        (PlanFile { version: VERSION, key: 0, kernel, algorithms: vec![], programs: vec![program], instances: vec![] }, entry)
    }

    const EXTENTS: [i64; 3] = [3, 10, 130];

    #[test]
    fn words_follow_from_extents_tiles_and_pieces() {
        let x = TensorRef::Input(InputId(0));
        let stride = |tensor, dim, factor| Word::Stride { tensor, dim, factor };
        let words = vec![
            Word::Address(x),
            Word::Extent(AxisId(2)),
            stride(x, 0, 0),
            stride(x, 0, 1),
            stride(TensorRef::Workspace(0), 0, 0),
            Word::FirstBlock(1),
            Word::Tiles { part: 0, dim: DimId(1) },
            Word::Pieces(0),
            Word::Address(TensorRef::Workspace(0)),
            Word::Partials(0),
            Word::Partials(1),
            Word::Counters(0),
            Word::Counters(1),
        ];
        let (file, entry) = file(words);
        let layout = layout(&file, &[], &entry, 0, &[2, 5], &EXTENTS).unwrap();
        // part 0 has 3 * ceil(10 / 4) = 9 items in 2 pieces, part 1 has ceil(130 / 64) = 3 items in 5
        assert_eq!(layout.blocks, 18 + 15);
        let workspace = (3 * 130 * 4usize).next_multiple_of(256);
        let second = workspace + (18 * 100usize).next_multiple_of(256);
        assert_eq!(
            layout.slots,
            [
                Slot::Address(x),
                Slot::Fixed(130),
                Slot::Stride { tensor: x, dim: 0, inner: 10 },
                Slot::Stride { tensor: x, dim: 0, inner: 1 },
                Slot::Fixed(130),
                Slot::Fixed(18),
                Slot::Fixed(3),
                Slot::Fixed(2),
                Slot::Scratch(0),
                Slot::Scratch(workspace),
                Slot::Scratch(second),
                Slot::Counters(0),
                Slot::Counters(9),
            ]
        );
        assert_eq!(layout.needs, Needs { counters: 12, bytes: second + 256 });
    }

    #[test]
    fn a_persistent_launch_has_a_counter_beside_those_of_its_splits() {
        let (file, mut entry) = file(vec![Word::Blocks, Word::Claims, Word::Counters(1)]);
        entry.launches[0].persistent = true;
        let layout = layout(&file, &[], &entry, 0, &[1, 2], &EXTENTS).unwrap();
        // nine items in one piece, three in two
        assert_eq!(layout.slots, [Slot::Fixed(15), Slot::Counters(3), Slot::Counters(0)]);
        assert_eq!((layout.blocks, layout.needs.counters), (15, 4))
    }

    #[test]
    fn a_part_that_is_not_split_needs_no_states() {
        let (file, entry) = file(vec![]);
        let layout = layout(&file, &[], &entry, 0, &[1, 1], &EXTENTS).unwrap();
        assert_eq!((layout.blocks, layout.needs), (12, Needs { counters: 0, bytes: (3 * 130 * 4usize).next_multiple_of(256) }))
    }

    #[test]
    fn an_empty_axis_makes_no_blocks() {
        let (file, entry) = file(vec![]);
        assert_eq!(layout(&file, &[], &entry, 0, &[1, 1], &[0, 10, 0]).unwrap().blocks, 0)
    }

    #[test]
    fn references_beyond_the_program_are_a_damaged_plan() {
        let words = [
            Word::FirstBlock(2),
            Word::Extent(AxisId(3)),
            Word::Scalar(InputId(1)),
            Word::Address(TensorRef::Workspace(1)),
            Word::Tiles { part: 0, dim: DimId(3) },
        ];
        for word in words {
            let (file, entry) = file(vec![word.clone()]);
            assert!(layout(&file, &[], &entry, 0, &[1, 1], &EXTENTS).is_none(), "{word:?}")
        }
    }
}
