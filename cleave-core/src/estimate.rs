//! The time of an entry, estimated. In: an entry of a plan file, its pieces, extents, a device's numbers. Out: seconds, by a roofline over what
//! [`traffic`](crate::traffic) counts, with what the grid leaves idle, loop steps, and merges; vector bodies, which run many to a multiprocessor, have a
//! roofline of their own.
use crate::device::{DeviceModel, Target};
use crate::dtype::DType;
use crate::graph::{NodeId, Op};
use crate::plan::{Body, Entry, PlanFile};
use crate::tile::{DimId, Part, Statement};
use crate::traffic::{Case, Traffic, traffic};

/// The seconds that an entry takes, and whether its tiles fit on chip. Compiled code says itself what it needs of the chip.
pub fn seconds(file: &PlanFile, entry: &Entry, types: &[DType], pieces: &[Vec<u32>], extents: &[i64], device: &DeviceModel) -> Option<(f64, bool)> {
    let program = file.programs.get(entry.program as usize)?;
    let (mut total, mut fits) = (0.0, true);
    for (l, parts) in program.launches.iter().enumerate() {
        total += device.launch_seconds;
        for (p, part) in parts.iter().enumerate() {
            let tiles = tiles_at(part, &entry.tiles[l][p], entry.target, extents);
            let case = Case { extents, tiles: &tiles, pieces: pieces[l][p], padded: entry.target != Target::Cpu, types, table: &|_| None };
            let traffic = traffic(part, &case);
            // the executor reads what is streamed where it lies
            let streamed = if entry.target == Target::Cpu { 0.0 } else { 2.0 * traffic.streamed };
            let on_chip = traffic.resident + streamed + traffic.carried + traffic.temporary;
            fits &= !entry.launches.is_empty() || on_chip <= device.chip_bytes as f64;
            let launch = entry.launches.get(l);
            let vector = launch.and_then(|l| match l.body {
                Body::Vector { resident } => Some(Vector::new(l.threads, resident, part, &tiles, types, extents)),
                Body::Shared | Body::TensorCores => None,
            });
            let pace = Pace::of(entry.target, device.target);
            let slowed = if launch.is_some_and(|l| l.body == Body::Shared) { THROUGH_SHARED_MEMORY } else { 1.0 };
            let mixed = launch.is_some_and(|l| l.body == Body::TensorCores) && is_mixed(part, types);
            let chained = is_chained(part);
            let framed = part.statements().iter().any(|(_, s)| matches!(s, Statement::Rebase { .. }));
            let unique = unique_bytes(part, types, extents);
            let ring = launch.filter(|l| l.body == Body::TensorCores).map(|l| l.shared_bytes as f64);
            let work = Work { vector, pace, chained, framed, made: is_made(part), ring, unique, slowed, mixed, traffic };
            total += work.seconds(pieces[l][p] as f64, device)
        }
    }
    Some((total, fits))
}

/// Compiled code has the entry's tiles, and lays out memory for the bound of a dim on chip.
fn tiles_at(part: &Part, tiles: &[u32], target: Target, extents: &[i64]) -> Vec<u32> {
    if target == Target::Cpu { part.even_tiles(tiles, extents) } else { tiles.to_vec() }
}

/// Bytes of the tensors that a part reads, each once.
fn unique_bytes(part: &Part, types: &[DType], extents: &[i64]) -> f64 {
    let mut seen: Vec<&Op> = vec![];
    let mut total = 0.0;
    for (_, s) in part.statements() {
        if let Statement::Load { node, view_of: None } = s
            && let op @ Op::Input { input, access } = part.graph.op(*node)
            && !seen.contains(&op)
        {
            seen.push(op);
            let elements: f64 = access.axes().iter().map(|a| extents[a.0 as usize] as f64).product();
            total += elements * part.graph.input(*input).element.resolve(types).bytes() as f64
        }
    }
    total
}

/// Whether a product has an operand of 16 bits and one in f32.
fn is_mixed(part: &Part, types: &[DType]) -> bool {
    let bytes = |n: NodeId| match part.graph.op(n) {
        Op::Input { input, .. } => Some(part.graph.input(*input).element.resolve(types).bytes()),
        _ => None,
    };
    part.statements().iter().any(|(_, s)| match s {
        Statement::Reduce { node, .. } | Statement::Fold { node, .. } => {
            part.contraction(*node).is_some_and(|(x, y)| bytes(x).zip(bytes(y)).is_some_and(|(x, y)| x != y))
        }
        _ => false,
    })
}

/// Whether steps of a loop make a product that they use themselves.
fn is_chained(part: &Part) -> bool {
    part.statements().iter().any(|(depth, s)| *depth > 0 && matches!(s, Statement::Reduce { node, .. } if part.contraction(*node).is_some()))
}

/// Whether steps of a loop compute an operand of their products that is no product itself.
fn is_made(part: &Part) -> bool {
    let streamed = |n: NodeId| matches!(part.graph.op(n), Op::Input { .. } | Op::Sum(_));
    part.statements().iter().any(|(depth, s)| match s {
        Statement::Fold { node, .. } if *depth > 0 && !is_chained(part) => part.contraction(*node).is_some_and(|(x, y)| !streamed(x) || !streamed(y)),
        _ => false,
    })
}

/// The share of the lesser of computing and moving that the greater does not hide.
const UNHIDDEN: f64 = 0.1;
/// How much faster than memory the caches bring what another block has read before: to the rings of large tiles, and to vector bodies.
const CACHED: f64 = 2.4;
const CACHED_VECTORS: f64 = 3.0;

/// How much slower operations are whose operands and results all lie in shared memory: a product of 4096^3 took 155 ms on an H200.
const THROUGH_SHARED_MEMORY: f64 = 64.0;

/// And products of a 16-bit operand and one in f32, a workspace, which fragments read by elements.
const MIXED: f64 = 1.8;

/// On the executor: how much slower an operation outside of products is than one inside, and the operations that an element takes to be copied to
/// where a product reads it.
const INTERPRETED: f64 = 4.0;
const COPIED: f64 = 48.0;

/// How long a byte of a block's ring takes from its order to its use, in a loop that waits for memory.
const RING_SECONDS: f64 = 1.3e-6;

/// Threads of vector bodies that a multiprocessor holds: what their registers leave room for.
const VECTOR_THREADS: f64 = 1024.0;
/// What a turn of a vector body's loop waits where too few others run beside it: for memory, or for the merge of a group's states alone.
const ROUND_TRIP: f64 = 800e-9;
const JOIN: f64 = 300e-9;
/// The share of what a block reads again, in a later loop, that caches have lost by then: a softmax over 4,096 rows of 64 KiB took 183 us on an
/// H200 where 125 us move each byte once.
const LOST: f64 = 0.5;
/// What a thread of a block adds to the block's begin and end, and a split to a vector body.
const STARTED: f64 = 1.5e-9;
const VECTOR_MERGE: f64 = 6.2e-6;
/// Instructions of a vector body for a multiply-add of a product: both operands are widened first.
const WIDENED: f64 = 2.0;
/// What blocks of a product, whose weights nobody has read before, take more, those that run at a time together.
const VECTOR_PRODUCT: f64 = 4.2e-6;

/// What code of a target reaches, and what it costs beside its work, in seconds: as 8,016 launches of some 1,000 calls tell on an H200 (see `calibrate`).
struct Pace {
    /// Of the device's rate of matrix products.
    share: f64,
    /// The same where a step's product is made of another one's: the rest of the step is told apart then.
    chained_share: f64,
    /// An iteration of a loop: barriers, branches, the filling of pipelines.
    step: f64,
    /// More of it where a step's product is made of another one's: what a warp does after the other.
    chained: f64,
    /// And where a frame moves between the two.
    framed: f64,
    /// What a step takes to make a left operand in registers, which products may hide.
    made: f64,
    /// A tile beside its steps, and the first of a block's tiles beside that: the operands for which everything waits.
    tile: f64,
    start: f64,
    /// Blocks of a multiprocessor that run side by side.
    abreast: f64,
    /// The share of the lesser of these waits and the work that the greater does not hide.
    unhidden: f64,
    /// Bytes of state that the last block to arrive merges in a second.
    merged: f64,
}

/// The executor.
const EXECUTOR: Pace = Pace {
    share: 1.0,
    chained_share: 1.0,
    step: 100e-9,
    chained: 0.0,
    framed: 0.0,
    made: 0.0,
    tile: 0.0,
    start: 0.0,
    abreast: 1.0,
    unhidden: 1.0,
    merged: 84e9,
};
/// mma.sync and asynchronous copies.
const PORTABLE: Pace = Pace {
    share: 0.66,
    chained_share: 0.66,
    step: 320e-9,
    chained: 200e-9,
    framed: 560e-9,
    made: 0.0,
    tile: 3.1e-6,
    start: 2e-6,
    abreast: 2.0,
    unhidden: 0.3,
    merged: 75e9,
};
/// The same feeds the tensor cores of compute capability 9.0 at half of what wgmma does (attention and products: 310 to 350 Tflop/s against 640 to 700, of 1,070).
const OUTPACED: Pace = Pace { share: 0.33, chained_share: 0.33, ..PORTABLE };
/// wgmma and a producer that runs ahead. Steps of 128 positions by 64 channels took 0.75, 1.10, 1.41 us with one, two, three warpgroups in attention, where a
/// frame moves between the products, and 0.43, 0.61, 0.89 us without one.
const AHEAD: Pace = Pace {
    share: 0.66,
    chained_share: 0.9,
    step: 50e-9,
    chained: 84e-9,
    framed: 276e-9,
    made: 250e-9,
    tile: 1e-6,
    start: 4.1e-6,
    abreast: 1.0,
    unhidden: 1.0,
    merged: 55e9,
};

impl Pace {
    fn of(entry: Target, device: Target) -> &'static Pace {
        match (entry, device) {
            (Target::Cpu, _) => &EXECUTOR,
            (Target::Portable, Target::Hopper) => &OUTPACED,
            (Target::Portable, _) => &PORTABLE,
            (Target::Hopper, _) => &AHEAD,
        }
    }
}

/// What a part does, as its time is estimated from it.
struct Work {
    /// Of a vector body, which has a model of its own.
    vector: Option<Vector>,
    pace: &'static Pace,
    /// Steps of a loop make a product that they use themselves; a frame moves in them.
    chained: bool,
    framed: bool,
    /// The left operand of a product is computed in the loop.
    made: bool,
    /// Of compiled code on tensor cores: bytes that a block has in flight.
    ring: Option<f64>,
    /// How much slower than the device's f32 rate its operations are.
    slowed: f64,
    /// See [`MIXED`].
    mixed: bool,
    traffic: Traffic,
    unique: f64,
}

impl Work {
    /// A roofline over matrix products, other operations and memory, each stretched by what the grid leaves idle. A split adds the
    /// states that its pieces write and read, and the wait for the last piece.
    fn seconds(&self, pieces: f64, device: &DeviceModel) -> f64 {
        let t = &self.traffic;
        let blocks = t.items * pieces;
        if blocks == 0.0 {
            return 0.0;
        }
        if let Some(vector) = &self.vector {
            return self.vector_seconds(vector, blocks, pieces, device);
        }
        let waves = blocks / device.units as f64;
        let used = waves / waves.ceil();
        // the last block to arrive reads all states, alone
        let merged = if self.ring.is_some() { pieces * t.carried / self.pace.merged } else { 0.0 };
        let (states, merge) = match pieces > 1.0 {
            true => (2.0 * t.carried * blocks, device.merge_seconds * (1.0 + 0.1 * pieces) + merged),
            false => (0.0, 0.0),
        };
        // elements of two bytes on average: a product of 16-bit types
        let single = device.single_flops / self.slowed;
        let rate = match t.load_bytes < 3.0 * t.loads && self.slowed == 1.0 {
            _ if self.mixed => single / MIXED,
            true if self.chained => self.pace.chained_share * device.half_flops,
            true => self.pace.share * device.half_flops,
            false => single,
        };
        let again = (t.load_bytes - self.unique).max(0.0);
        let elementwise = if device.target == Target::Cpu { INTERPRETED * t.elementwise + COPIED * t.loads } else { t.elementwise };
        let bytes = t.load_bytes - again + again / CACHED + t.store_bytes + states;
        // blocks that a multiprocessor has room for
        let room = self.ring.map_or(1.0, |ring| (device.chip_bytes as f64 / ring).floor().max(1.0));
        let memory = match self.ring {
            Some(ring) => bytes / device.bandwidth.min(blocks.min(device.units as f64 * room) * ring / RING_SECONDS),
            None => bytes / device.bandwidth / used.max((2.0 * waves).min(1.0)),
        };
        let pace = self.pace;
        let abreast = room.min(pace.abreast);
        let rounds = (waves / abreast).ceil();
        let step = pace.step + if self.chained { pace.chained + if self.framed { pace.framed } else { 0.0 } } else { 0.0 };
        let waits = rounds * t.steps / pieces * step;
        let made = if self.made { rounds * t.steps / pieces * pace.made } else { 0.0 };
        let work = together(&[t.contracted / rate / used, elementwise / single / used, memory, made], UNHIDDEN);
        together(&[work, waits], pace.unhidden) + rounds * pace.tile + pace.start + merge
    }
    /// Small blocks, many to a multiprocessor, which hide each other's waits: the greatest of memory, caches, operations, and the waits of
    /// one block after the other.
    fn vector_seconds(&self, vector: &Vector, blocks: f64, pieces: f64, device: &DeviceModel) -> f64 {
        let t = &self.traffic;
        let waves = blocks * vector.threads / (VECTOR_THREADS * device.units as f64);
        let (states, merge) = if pieces > 1.0 { (2.0 * t.carried * blocks, VECTOR_MERGE) } else { (0.0, 0.0) };
        // a quarter of the threads keeps memory busy
        let again = if vector.resident { 0.0 } else { t.again_bytes };
        let memory = (self.unique + vector.late + LOST * again + t.store_bytes + states) / device.bandwidth / (4.0 * waves).min(1.0);
        let caches = (t.load_bytes - t.again_bytes + again) / (CACHED_VECTORS * device.bandwidth) / waves.min(1.0);
        let operations = (WIDENED * t.contracted + t.elementwise) / device.single_flops / waves.min(1.0);
        let product = if t.contracted > 0.0 { VECTOR_PRODUCT } else { 0.0 };
        let waits = waves.ceil() * (vector.waits + product) / pieces;
        let loads = [memory, caches, operations, waits];
        // threads that start, and meet at the end
        together(&loads, UNHIDDEN) + vector.threads * STARTED + merge
    }
}

/// The time of loads of which the greatest hides all but a share of the others.
fn together(loads: &[f64], unhidden: f64) -> f64 {
    let greatest = loads.iter().copied().fold(0.0, f64::max);
    greatest + unhidden * (loads.iter().sum::<f64>() - greatest)
}

/// What the model asks of a vector body.
struct Vector {
    threads: f64,
    /// See [`Body::Vector`].
    resident: bool,
    /// The waits of an unsplit block, in seconds.
    waits: f64,
    /// Bytes that another block reads again after so many others that no cache has them still.
    late: f64,
}

impl Vector {
    fn new(threads: u32, resident: bool, part: &Part, tiles: &[u32], types: &[DType], extents: &[i64]) -> Vector {
        let trips = |d: DimId| (part.extent(d, extents) as f64 / tiles[d.0 as usize].max(1) as f64).ceil();
        // what an earlier loop has read and left on chip is there at once
        fn walk(body: &[Statement], outer: f64, trips: &dyn Fn(DimId) -> f64, left: &mut Option<Vec<NodeId>>) -> f64 {
            let mut of = |s: &Statement| match s {
                Statement::Loop(l) => {
                    let mut reads = false;
                    for s in &l.body {
                        if let Statement::Load { node, .. } = s {
                            reads |= !left.as_ref().is_some_and(|left| left.contains(node));
                            left.iter_mut().for_each(|left| left.push(*node))
                        }
                    }
                    let n = outer * trips(l.dim);
                    JOIN * outer + if reads { ROUND_TRIP * n } else { 0.0 } + walk(&l.body, n, trips, left)
                }
                _ => 0.0,
            };
            body.iter().map(&mut of).sum()
        }
        // neighbours in the order of items differ in the innermost dim of the grid: what lacks another one is read again late
        let mut late = 0.0;
        for (depth, s) in part.statements() {
            if let Statement::Load { node, view_of: None } = s
                && let Op::Input { input, access } = part.graph.op(*node)
                && depth > 0
                && part.grid.last().is_some_and(|d| part.of(*node).contains(*d))
            {
                let elements: f64 = access.axes().iter().map(|a| extents[a.0 as usize] as f64).product();
                let times: f64 = part.grid.iter().filter(|d| !part.of(*node).contains(**d)).map(|d| trips(*d)).product();
                late += (times - 1.0).max(0.0) * elements * part.graph.input(*input).element.resolve(types).bytes() as f64
            }
        }
        let waits = walk(&part.body, 1.0, &trips, &mut resident.then(Vec::new));
        Vector { threads: threads as f64, resident, waits: waits.max(ROUND_TRIP), late }
    }
}
