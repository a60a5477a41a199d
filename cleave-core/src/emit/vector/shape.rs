//! The shapes that a part can take: which dim lies along the threads, how many threads share a row, where rows live.
use crate::axis::AxisId;
use crate::dtype::DType;
use crate::emit::part::Refusal;
use crate::graph::{Access, Factor, Op};
use crate::plan::Guard;
use crate::tile::{DimId, Part, Role, Statement};

/// Where a row lives that several loops read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Home {
    /// A tile holds the row, each loop runs once.
    Registers,
    /// At most this many tiles.
    Shared(u32),
    /// In memory: it is read again.
    Stream,
}

/// How caches are told of streams.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hints {
    /// What is read once leaves the second cache first, up to a size.
    pub evict_first: bool,
    /// What is written is not read soon.
    pub stores: bool,
}

/// How a part lies on the threads of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Neighbouring threads hold neighbouring chunks of this dim.
    pub lane: DimId,
    /// The grid dim whose positions the groups of a block share out.
    pub row: Option<DimId>,
    /// Threads of a group: a multiple of 32, a power of two.
    pub group: u32,
    pub groups: u32,
    /// The loop dim whose positions the groups of a block share out instead, where the lane dim is one of the grid.
    pub share: Option<DimId>,
    /// Positions of the row dim, or of the shared one, of a group.
    pub rows: u32,
    /// Elements of a chunk: 1, or as many as fill 16 bytes in the narrowest type.
    pub width: u32,
    /// Chunks of a thread in a tile.
    pub chunks: u32,
    pub home: Home,
    pub hints: Hints,
}

/// What a menu asks for; [`Plan::shape`] fits it to a part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    pub threads: u32,
    pub group: u32,
    pub rows: u32,
    /// Positions of the next grid dim, which a thread unrolls: the few rows that a product's weights meet at once.
    pub few: u32,
    /// Chunks are single elements: for any strides and extents.
    pub single: bool,
    pub chunks: u32,
    pub home: Home,
    pub hints: Hints,
}

impl Shape {
    pub fn threads(&self) -> u32 {
        self.group * self.groups
    }
    /// What the states of a block may take of shared memory before rows that live there.
    pub fn room(&self) -> u32 {
        4096
    }
    /// Tiles of the lane dim.
    pub fn tile(&self) -> u32 {
        self.group * self.width * self.chunks
    }
    /// The conditions on extents.
    pub fn guards(&self, part: &Part) -> Result<Vec<Guard>, Refusal> {
        let axes = &part.dim(self.lane).axes;
        let mut guards = vec![];
        let one = |what: &str| match axes[..] {
            [axis] => Ok(axis),
            _ => Err(format!("{what} of packed axes")),
        };
        if self.width > 1 {
            guards.push(Guard::Multiple(one("chunks")?, self.width as i64))
        }
        match self.home {
            Home::Registers => guards.push(Guard::AtMost(one("a whole tile")?, self.tile() as i64)),
            Home::Shared(tiles) => guards.push(Guard::AtMost(one("tiles on chip")?, (tiles * self.tile()) as i64)),
            Home::Stream => {}
        }
        Ok(guards)
    }
}

impl Plan {
    pub fn name(&self) -> String {
        let home = match self.home {
            Home::Registers => ", rows in registers".into(),
            Home::Shared(tiles) => format!(", {tiles} tiles of a row in shared memory"),
            Home::Stream => String::new(),
        };
        let each = if self.single { "elements" } else { "chunks" };
        let rows = if self.rows > 1 { format!(" {} rows", self.rows) } else { " a row".into() };
        let few = if self.few > 1 { format!(" by {}", self.few) } else { String::new() };
        let hints = match (self.hints.evict_first, self.hints.stores) {
            (true, false) => "",
            (false, false) => ", no hints",
            (true, true) => ", streaming stores",
            (false, true) => ", streaming stores only",
        };
        format!("vector, {} of {} threads{rows}{few}, {} {each}{home}{hints}", self.group, self.threads, self.chunks)
    }
    /// The tiles and the shape of a part.
    pub fn shape(&self, part: &Part, types: &[DType]) -> Result<(Vec<u32>, Shape), Refusal> {
        let lane = lane(part)?;
        let along_grid = part.grid.contains(&lane);
        let loops = part.statements().into_iter().filter_map(|(depth, s)| if let Statement::Loop(l) = s { Some((depth, l.dim)) } else { None });
        let mut loops: Vec<(usize, DimId)> = loops.collect();
        loops.dedup();
        let share = match loops[..] {
            [(0, d)] if along_grid => Some(d),
            _ => None,
        };
        if along_grid && !loops.is_empty() && self.home != Home::Stream {
            return Err("no loop along the threads' dim, so no row to hold".into());
        }
        let width = if self.single { 1 } else { width(part, types) };
        // a loop's dim is what rows are held along; without one there is nothing to hold
        let home = if along_grid { Home::Stream } else { self.home };
        let row = part.grid.iter().rev().copied().find(|d| *d != lane && !part.dim(*d).batch && share.is_none());
        let (group, groups, rows, chunks) = match row {
            // a warp's columns, as wide as one reading of them; warps take turns along the loop
            None if share.is_some() => (32, self.threads / 32, 4, if self.single { self.chunks } else { 1 }),
            Some(_) => (self.group, self.threads / self.group, if along_grid { 1 } else { self.rows }, self.chunks),
            None => (self.threads, 1, 1, self.chunks),
        };
        let shape = Shape { lane, row, group, groups, share, rows, width, chunks, home, hints: self.hints };
        let few = part.grid.iter().rev().copied().find(|d| *d != lane && Some(*d) != row && !part.dim(*d).batch);
        let tile = |d: DimId| match d {
            _ if d == lane => shape.tile(),
            _ if Some(d) == row || Some(d) == share => groups * rows,
            _ if Some(d) == few => self.few,
            _ => 1,
        };
        Ok(((0..part.dims.len() as u8).map(|d| tile(DimId(d))).collect(), shape))
    }
}

/// The axis that an access runs along contiguously, if its storage is dense.
fn innermost(access: &Access) -> Option<AxisId> {
    access.dims.last()?.last().and_then(|f| if let Factor::Axis(a) = f { Some(*a) } else { None })
}

/// The dim to lay along the threads: of those that loops run along, or else of the grid, the one along which most of what is read in the
/// innermost place, or else written, is contiguous.
pub fn lane(part: &Part) -> Result<DimId, Refusal> {
    let mut score = vec![0u32; part.dims.len()];
    let looped = part.split_loop().is_some();
    for (depth, s) in part.statements() {
        match s {
            Statement::Load { node, .. } => {
                if let Op::Input { access, .. } = part.graph.op(*node)
                    && let Some(d) = innermost(access).and_then(|a| part.dim_of(a))
                {
                    // what varies along the innermost dim of the grid is the weights, or the rows: the most
                    let most = part.grid.last().is_none_or(|g| part.of(*node).contains(*g));
                    score[d.0 as usize] += part.of(*node).len() as u32 * if looped && depth == 0 { 1 } else { 4 } * (1 + most as u32)
                }
            }
            Statement::Store { output, store, .. } => {
                let access = &part.graph.outputs[*output as usize].stores[*store as usize].access;
                if let Some(d) = innermost(access).and_then(|a| part.dim_of(a)) {
                    score[d.0 as usize] += 1
                }
            }
            // of equals a loop's dim: its reductions are shared out
            Statement::Loop(l) => score[l.dim.0 as usize] += 2,
            _ => {}
        }
    }
    let best = (0..part.dims.len()).filter(|d| !part.dims[*d].batch || part.dims[*d].role == Role::Loop).max_by_key(|d| (score[*d], std::cmp::Reverse(*d)));
    best.map(|d| DimId(d as u8)).ok_or_else(|| "no dim to lay along threads".into())
}

/// The elements of the narrowest type that fill 16 bytes, over all tensors that vary along dims.
fn width(part: &Part, types: &[DType]) -> u32 {
    let inputs = part.statements().into_iter().filter_map(|(_, s)| match s {
        Statement::Load { node, .. } => match part.graph.op(*node) {
            Op::Input { input, access } if !access.dims.is_empty() => Some(part.graph.input(*input).element.resolve(types).bytes()),
            _ => None,
        },
        Statement::Store { output, .. } => Some(part.graph.outputs[*output as usize].element.resolve(types).bytes()),
        _ => None,
    });
    16 / inputs.min().unwrap_or(4) as u32
}
