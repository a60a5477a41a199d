//! Runs the launches of a program: blocks over threads, pieces of a split merged in index order by the last to arrive.
use super::block::{Addressing, Block, Context, Line, Outcome, Scratch, TableData, Value, reserve};
use super::decode::{Loop, MAX_DIMS, Part, Step};
use super::{Argument, Decoded, ExecuteError, Tensors, frames, threads};
use cleave_core::domain::Span;
use cleave_core::dtype::DType;
use cleave_core::graph::{Access, InputId, NodeId, Op};
use cleave_core::plan::Tiles;
use cleave_core::predicate::Table;
use cleave_core::tile::DimId;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Below this many elementary operations (some 10 microseconds) a launch runs on the calling thread alone.
const SMALL: f64 = 40_000.0;

/// One part of a launch, on the tensors of a call.
struct Job<'a> {
    context: Context<'a>,
    shape: &'a Shape,
    items: usize,
    pieces: usize,
    /// States of piece `p` of item `i` at `(i * pieces + p) * state`.
    partials: Vec<Line>,
    arrived: Vec<AtomicU32>,
    loaded: &'a AtomicU64,
}

// The pointers in a job are the caller's tensors, which outlive the call; blocks write disjoint elements.
unsafe impl Sync for Job<'_> {}

/// A program at concrete extents: everything of a call but the tensors.
#[derive(Debug)]
pub struct Prepared {
    extents: Vec<i64>,
    pieces: usize,
    launches: Vec<Vec<Shape>>,
    /// Elements of each workspace.
    workspaces: Vec<usize>,
}

impl Prepared {
    /// Bytes that a run on so many threads takes for tiles, partial states of a split and workspaces.
    pub fn bytes(&self, threads: usize) -> usize {
        let launch = |shapes: &Vec<Shape>| {
            let states = |s: &Shape| if self.pieces > 1 { s.grid.iter().product::<usize>() * self.pieces * s.state } else { 0 };
            shapes.iter().map(states).sum::<usize>() + threads * shapes.iter().map(|s| s.memory).max().unwrap_or(0)
        };
        4 * (self.launches.iter().map(launch).max().unwrap_or(0) + self.workspaces.iter().sum::<usize>())
    }
}

/// The shape of a part at concrete extents: tile lengths and where buffers lie.
#[derive(Debug)]
struct Shape {
    tiles: Vec<i64>,
    /// Tiles of each grid dim, at least 1.
    grid: Vec<usize>,
    offsets: Vec<usize>,
    memory: usize,
    /// Elements of the split loop's states in one piece.
    state: usize,
    work: f64,
}

impl Shape {
    fn new(part: &Part, tiles: &[u32], extents: &[i64]) -> Self {
        let tiles: Vec<i64> = part.source.even_tiles(tiles, extents).into_iter().map(i64::from).collect();
        let length = |d: DimId| tiles[d.0 as usize] as usize;
        let size = |dims: &[DimId], whole: Option<DimId>| -> usize {
            dims.iter().map(|d| if Some(*d) == whole { part.source.extent(*d, extents) as usize } else { length(*d) }).product()
        };
        // greedy: each buffer at the lowest place that is free throughout its life
        let mut placed: Vec<(usize, usize, usize, usize)> = vec![]; // start, end, first, last
        let mut offsets = vec![0; part.buffers.len()];
        for (i, b) in part.buffers.iter().enumerate().filter(|b| b.1.instead_of.is_none()) {
            let n: usize = b.tiles.iter().map(|t| size(t, b.whole).next_multiple_of(16)).sum();
            let mut around: Vec<(usize, usize)> = placed.iter().filter(|p| p.2 <= b.last && b.first <= p.3).map(|p| (p.0, p.1)).collect();
            around.sort();
            let start = around.iter().fold(0, |at, (s, e)| if at + n <= *s { at } else { at.max(*e) });
            placed.push((start, start + n, b.first, b.last));
            offsets[i] = start
        }
        for (i, b) in part.buffers.iter().enumerate() {
            offsets[i] = offsets[b.instead_of.unwrap_or(i)]
        }
        // a store that lacks an empty dim must happen all the same
        let grid = part.source.grid.iter().map(|d| (part.source.extent(*d, extents) as usize).div_ceil(length(*d)).max(1)).collect();
        let of_loop = |l: &Loop| l.carried.iter().map(|(n, _)| size(&part.layout[n.index()], None).next_multiple_of(16)).sum();
        Shape {
            grid,
            memory: placed.iter().map(|p| p.1).max().unwrap_or(0),
            state: split_loop(part).map_or(0, of_loop),
            work: part.work.evaluate(&|a| extents[a.0 as usize] as f64),
            offsets,
            tiles,
        }
    }
}

fn split_loop(part: &Part) -> Option<&Loop> {
    part.body.iter().find_map(|s| if let Step::Loop(l) = s { l.is_split.then_some(l) } else { None })
}

/// See [`Decoded::prepare`].
pub fn prepare(decoded: &Decoded, tiles: &Tiles, pieces: usize, extents: &[i64]) -> Result<Prepared, ExecuteError> {
    if extents.len() < decoded.axes || extents.iter().any(|e| *e < 0) {
        return Err(ExecuteError::Extents);
    }
    let shapes = |(l, launch): (usize, &Vec<Part>)| {
        let shape = |(p, part): (usize, &Part)| Ok(Shape::new(part, tiles.get(l).and_then(|t| t.get(p)).ok_or(ExecuteError::Tiles)?, extents));
        launch.iter().enumerate().map(shape).collect::<Result<Vec<_>, _>>()
    };
    Ok(Prepared {
        launches: decoded.launches.iter().enumerate().map(shapes).collect::<Result<_, _>>()?,
        workspaces: decoded.workspaces.iter().map(|w| w.iter().map(|a| extents[a.0 as usize] as usize).product()).collect(),
        extents: extents.to_vec(),
        pieces,
    })
}

/// Runs a prepared program.
pub fn run(decoded: &Decoded, prepared: &Prepared, tensors: &Tensors) -> Result<(), ExecuteError> {
    decoded.check(tensors)?;
    let mut owned: Vec<Vec<Line>> = prepared.workspaces.iter().map(|_| vec![]).collect();
    let workspaces: Vec<*mut u8> = owned.iter_mut().zip(&prepared.workspaces).map(|(memory, n)| reserve(memory, *n).cast()).collect();
    for (launch, shapes) in decoded.launches.iter().zip(&prepared.launches) {
        let mut jobs: Vec<Job> = launch.iter().zip(shapes).map(|(part, shape)| Job::new(decoded, part, shape, prepared, tensors, &workspaces)).collect();
        for job in jobs.iter_mut().filter(|j| j.pieces > 1) {
            reserve(&mut job.partials, job.items * job.pieces * job.shape.state);
            job.arrived.resize_with(job.items, || AtomicU32::new(0))
        }
        let count: usize = jobs.iter().map(|j| j.items * j.pieces).sum();
        let work: f64 = shapes.iter().map(|s| s.work).sum();
        let threads = if work < SMALL { 1 } else { rayon::current_num_threads().min(count) };
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut scratch = decoded.scratch();
            loop {
                let mut i = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.iter().find(|j| {
                    let n = j.items * j.pieces;
                    let here = i < n;
                    if !here {
                        i -= n
                    }
                    here
                }) else {
                    break;
                };
                job.block(i / job.pieces, i % job.pieces, &mut scratch)
            }
            decoded.give_back(scratch)
        };
        threads::together(threads.saturating_sub(1), &worker)
    }
    Ok(())
}

impl<'a> Job<'a> {
    fn new(decoded: &'a Decoded, part: &'a Part, shape: &'a Shape, prepared: &'a Prepared, tensors: &Tensors, workspaces: &[*mut u8]) -> Self {
        let extents = prepared.extents.as_slice();
        let graph = part.graph();
        let workspace = |w: usize, access: &Access| {
            let strides = strides(decoded.workspaces[w].iter().map(|a| extents[a.0 as usize]));
            Addressing::new(part, access, workspaces[w], DType::F32, &strides, extents)
        };
        let load = |(node, input): &(NodeId, InputId)| {
            let Op::Input { access, .. } = graph.op(*node) else { return None };
            if let Some(w) = input.index().checked_sub(decoded.inputs) {
                return Some(workspace(w, access));
            }
            let (pointer, dtype, strides) = match &tensors.inputs[input.index()] {
                Argument::Tensor(t) => (t.address, t.dtype, t.strides),
                Argument::Float(x) => (std::ptr::from_ref(x).cast_mut().cast(), DType::F32, &[][..]),
                Argument::Integer(x) => (std::ptr::from_ref(x).cast_mut().cast(), DType::I32, &[][..]),
            };
            Some(Addressing::new(part, access, pointer, dtype, strides, extents))
        };
        let loads = part.loads.iter().map(load).collect();
        let stores = graph.outputs.iter().enumerate().map(|(o, output)| {
            let stores = output.stores.iter().map(|s| match o.checked_sub(decoded.outputs) {
                Some(w) => workspace(w, &s.access),
                None => {
                    let t = &tensors.outputs[o];
                    Addressing::new(part, &s.access, t.address, t.dtype, t.strides, extents)
                }
            });
            stores.collect()
        });
        let stores = stores.collect();
        let mut tables = vec![TableData::Absent; graph.inputs.len()];
        let leaves = graph.predicates.iter().flat_map(|p| p.clauses.iter().flatten().flat_map(|a| a.all_tables()));
        for Table { input, .. } in leaves {
            tables[input.index()] = match &tensors.inputs[input.index()] {
                Argument::Integer(x) => TableData::Scalar(*x as i64),
                Argument::Float(x) => TableData::Scalar(*x as i64),
                Argument::Tensor(t) => TableData::Tensor { pointer: t.address.cast(), strides: t.strides.to_vec() },
            }
        }
        let context = Context { part, extents, tiles: &shape.tiles, loads, stores, tables, offsets: &shape.offsets };
        let pieces = if split_loop(part).is_some() { prepared.pieces.max(1) } else { 1 };
        Job { context, items: shape.grid.iter().product(), pieces, shape, partials: vec![], arrived: vec![], loaded: &decoded.loaded }
    }

    fn block(&self, item: usize, piece: usize, scratch: &mut Scratch) {
        let part = self.context.part;
        let Scratch { memory, registers, values, held } = scratch;
        let memory = reserve(memory, self.shape.memory);
        values.resize(part.graph().nodes.len(), Value::NONE);
        // none is read before it is made: no pointer tells
        values.iter_mut().for_each(|v| v.pointer = std::ptr::null_mut());
        held.clear();
        held.resize(part.graph().nodes.len(), false);
        let mut at = [Span::new(0, 1); MAX_DIMS];
        for (d, span) in at.iter_mut().enumerate().take(part.source.dims.len()) {
            *span = Span::new(0, part.source.extent(DimId(d as u8), self.context.extents))
        }
        let mut rest = item;
        for (d, tiles) in part.source.grid.iter().zip(&self.shape.grid).rev() {
            let (i, tile) = ((rest % tiles) as i64, self.context.tiles[d.0 as usize]);
            rest /= tiles;
            let extent = part.source.extent(*d, self.context.extents);
            at[d.0 as usize] = Span::new(i * tile, ((i + 1) * tile).min(extent))
        }
        let mut block = Block { context: &self.context, memory, registers, values, held, at, piece: (piece, self.pieces), loaded: 0 };
        self.run(&mut block, item, piece);
        self.loaded.fetch_add(block.loaded, Ordering::Relaxed);
    }
    /// Runs a piece, and if it is the last of its item to arrive, what follows the split loop.
    fn run(&self, block: &mut Block<'a, '_>, item: usize, piece: usize) {
        let part = self.context.part;
        if let Outcome::Done = block.run(&part.body, false) {
            return;
        }
        let Some(l) = split_loop(part) else { return };
        let size = frames::size(block, l);
        let own = block.buffer(l.buffer);
        unsafe { std::ptr::copy_nonoverlapping(own, self.partial(item, piece), size) };
        if self.arrived[item].fetch_add(1, Ordering::AcqRel) as usize + 1 < self.pieces {
            return;
        }
        // the last: in index order, so that bits do not depend on who arrives when
        unsafe { std::ptr::copy_nonoverlapping(self.partial(item, 0), own, size) };
        for p in 1..self.pieces {
            frames::merge(block, l, self.partial(item, p))
        }
        block.piece = (0, 1);
        frames::publish(block, l);
        block.run(&part.body, true);
    }
    fn partial(&self, item: usize, piece: usize) -> *mut f32 {
        unsafe { self.partials.as_ptr().cast::<f32>().cast_mut().add((item * self.pieces + piece) * self.shape.state) }
    }
}

/// Row-major strides of a shape.
fn strides(shape: impl Iterator<Item = i64>) -> SmallVec<[i64; 8]> {
    let shape: SmallVec<[i64; 8]> = shape.collect();
    (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect()
}
