//! The placement for compute capability 9.0: a producer warp streams operands by TMA through rings of tiles in shared memory; consumer
//! warpgroups, 64 rows each, multiply them by wgmma and do the rest of a step in registers.
//!
//! From the statements of the one loop follow [`steps`]: its operations over values. [`pipeline`] gives their order, with all waits; [`text`]
//! writes both roles from it: the producer fills rings in the order of the consumers' waits, a slot is released at the wait that retires its
//! reader. Values in registers are those of [`super::fragment`], whose code for statements other than products is used as it is.
mod consumer;
pub mod maps;
mod memory;
mod operands;
pub mod pipeline;
mod producer;
mod results;
mod steps;
mod text;
mod unroll;
pub mod wgmma;

use super::fragment::{self, Writer};
use super::part::{Context, Refusal};
use crate::axis::AxisId;
use crate::dtype::DType;
use crate::plan::{Guard, TensorMap};
use crate::tile::{DimId, DimSet, Part, Program, Role, Statement};

use std::collections::BTreeSet;
use wgmma::Instruction;

/// Shared memory that a block may use, less what it takes to start a tile at a multiple of 1024 bytes.
const ROOM: u32 = 227 * 1024 - 1024;
/// Rows of a warpgroup.
const ROWS: u32 = 64;
/// More than two bring a step that products fill little; one that waits for memory has so many more bytes in flight.
const MOST_STAGES: u32 = 16;

/// What can be chosen about the placement of a part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    pub row: DimId,
    pub column: Option<DimId>,
    /// Consumer warpgroups.
    pub warpgroups: u32,
    /// Of these, such as have the same rows and each a part of the columns of `column`. What they compute of other columns each computes for itself.
    pub beside: u32,
    /// Stages of the rings, at most.
    pub stages: u32,
    /// Blocks claim one tile after the other.
    pub persistent: bool,
    /// The slot of a product that overlaps the next step is awaited before the wait for the product before it, which keeps the compiler from
    /// moving that wait up. Found better where loops have a mask.
    pub early: bool,
    /// Tiles of a resident operand: with two the next tile's is there before this one's results have left.
    pub residents: u32,
    /// Results go through shared memory to TMA.
    pub staged: bool,
    /// Steps that are laid out as one where left operands are made in registers: see [`unroll`].
    pub unroll: u32,
}

/// A choice of tiles for the parts of a program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knobs {
    pub warpgroups: u32,
    /// Warpgroups that share out the columns of results on chip: see [`Shape::beside`].
    pub beside: u32,
    /// Up to which extent dims are on chip, and those of them that results have.
    pub chip: u32,
    pub results: u32,
    /// Positions of the loop in a step.
    pub step: u32,
    /// Columns of a grid dim, over all accumulators.
    pub columns: u32,
    pub stages: u32,
    pub residents: u32,
    pub persistent: bool,
    /// `None`: where a loop has a mask.
    pub early: Option<bool>,
    pub staged: bool,
    pub unroll: u32,
    /// Blocks may share out the steps of a tile.
    pub split: bool,
}

impl Knobs {
    /// What was found best: loops that multiply into columns of the grid; else by the extent of what is on chip.
    pub const WIDE: Knobs = Knobs {
        warpgroups: 2,
        beside: 1,
        chip: 0,
        results: 0,
        step: 64,
        columns: 256,
        stages: MOST_STAGES,
        residents: 2,
        persistent: true,
        early: None,
        staged: true,
        unroll: 2,
        split: false,
    };
    /// Beside launches of other code: what one of several multiplies is small.
    pub const MIDDLE: Knobs = Knobs { columns: 128, ..Self::WIDE };
    /// For few rows, which wait for memory: as many blocks as can be had.
    pub const NARROW: Knobs = Knobs { columns: 64, ..Self::WIDE }.few();
    pub const CHIP_64: Knobs = Knobs { warpgroups: 3, chip: 64, results: 64, step: 128, columns: 0, ..Self::WIDE };
    pub const CHIP_128: Knobs = Knobs { warpgroups: 2, chip: 128, results: 128, step: 128, columns: 0, ..Self::WIDE };
    pub const CHIP_256: Knobs = Knobs { warpgroups: 2, chip: 256, results: 256, step: 80, columns: 0, ..Self::WIDE };
    /// Values narrower than keys, as where these hold a position beside.
    pub const CHIP_192: Knobs = Knobs { warpgroups: 2, chip: 192, results: 128, step: 128, columns: 0, ..Self::WIDE };
    /// More columns than a warpgroup has registers for.
    pub const CHIP_512: Knobs = Knobs { warpgroups: 2, beside: 2, chip: 512, results: 512, step: 64, columns: 0, ..Self::WIDE };

    /// With the rows of one warpgroup.
    pub const fn few(self) -> Knobs {
        Knobs { warpgroups: 1, split: true, ..self }
    }
    /// Choices that together serve all extents: of each list the first that can be placed. With fewer rows or columns there are more tiles, for extents
    /// of which larger ones would leave much of a device idle.
    pub fn menu(program: &Program) -> Vec<Vec<Knobs>> {
        let parts = || program.launches.iter().flatten();
        let on_chip: Vec<_> = parts().flat_map(|p| p.dims.iter().filter(|d| d.role == Role::Chip)).flat_map(|d| d.axes.clone()).collect();
        if on_chip.is_empty() {
            let narrower = [192, 128, 64].map(|columns| Knobs { columns, ..Self::WIDE }).into_iter().chain([Self::NARROW]);
            // several products share out the columns of a tile, which then are few
            let single = parts().all(|p| products(p) < 2 && roles(p).is_ok_and(|r| r.1.is_some()));
            return std::iter::once(Self::WIDE).chain(narrower.filter(|_| single)).map(|k| vec![k]).collect();
        }
        let bound = |axis: &AxisId| program.bounds.iter().find(|b| b.0 == *axis).map_or(u32::MAX, |b| b.1 as u32);
        let most = on_chip.iter().map(bound).max().unwrap_or(u32::MAX);
        let steps = |knobs: Knobs, steps: &[u32]| steps.iter().map(|step| Knobs { step: *step, ..knobs }).collect::<Vec<_>>();
        let low = |knobs: Knobs, all: &[u32]| [steps(knobs.few(), all), steps(Knobs { split: false, ..knobs.few() }, all)].concat();
        let lower = Knobs { warpgroups: 2, ..Self::CHIP_64 };
        let lists = [
            (0, [steps(Self::CHIP_64, &[128]), steps(lower, &[128, 64])].concat()),
            (0, steps(lower, &[128, 64])),
            (0, low(Self::CHIP_64, &[128, 64])),
            (64, steps(Self::CHIP_128, &[128, 96, 64])),
            (64, low(Self::CHIP_128, &[128, 96, 64])),
            (128, steps(Self::CHIP_256, &[128, 80, 64])),
            (256, steps(Self::CHIP_512, &[64, 32])),
        ];
        // a wider tile where no extent is wider would be the same code once more
        let mut lists: Vec<_> = lists.into_iter().filter(|(narrower, _)| most > *narrower).map(|l| l.1).collect();
        let inner = |p: &Part| (0..p.dims.len() as u8).map(DimId).any(|d| p.dim(d).role == Role::Chip && !in_results(p, d));
        if most > Self::CHIP_192.chip && parts().any(inner) {
            lists.push(vec![Self::CHIP_192, Knobs { residents: 1, ..Self::CHIP_192 }])
        }
        lists
    }
    pub fn name(self) -> String {
        let Knobs { warpgroups, beside, chip, results, step, columns, stages, residents, persistent, early, staged, unroll, split } = self;
        let chip = match (chip, chip == results) {
            (0, _) => format!(", {columns} columns"),
            (_, true) => format!(", on chip up to {chip}"),
            (_, false) => format!(", on chip up to {chip} and {results}"),
        };
        let order = if persistent { "persistent" } else { "a block a tile" };
        let early = early.map_or("", |e| if e { ", early" } else { ", late" });
        let staged = if staged { ", staged" } else { "" };
        let unroll = if unroll == Self::WIDE.unroll { String::new() } else { format!(", operands {unroll} ahead") };
        let split = if split { ", split" } else { "" };
        let groups = match (warpgroups, beside) {
            (1, _) => "warpgroup",
            (_, 1) => "warpgroups",
            _ => "warpgroups side by side",
        };
        format!("sm_90a, {warpgroups} {groups}{chip}, steps of {step}, up to {stages} stages, {residents} resident, {order}{early}{staged}{unroll}{split}")
    }
    /// Tiles of a part, and how it is placed.
    pub fn shape(self, part: &Part, bound: &dyn Fn(DimId) -> Option<u32>) -> Result<(Vec<u32>, Shape), Refusal> {
        let (row, mut column) = roles(part)?;
        if self.beside > 1 {
            let wide: Vec<DimId> = (0..part.dims.len() as u8).map(DimId).filter(|d| part.dim(*d).role == Role::Chip && in_results(part, *d)).collect();
            let (None, [shared]) = (column, &wide[..]) else { return Err("not one dim on chip whose columns warpgroups could share out".into()) };
            column = Some(*shared)
        }
        let tile = |(d, dim): (usize, &crate::tile::Dim)| -> u32 {
            let d = DimId(d as u8);
            match dim.role {
                _ if dim.batch => 1,
                _ if d == row => ROWS * self.warpgroups / self.beside,
                Role::Grid if Some(d) == column => self.columns / products(part).max(1),
                Role::Grid => 1,
                Role::Loop => self.step,
                Role::Chip if in_results(part, d) => self.results.min(bound(d).unwrap_or(self.results).next_multiple_of(16)),
                Role::Chip => self.chip.min(bound(d).unwrap_or(self.chip).next_multiple_of(16)),
            }
        };
        if part.dims.iter().any(|d| d.role == Role::Chip && d.axes.len() > 1) {
            return Err("packed dims on chip".into());
        }
        let tiles: Vec<u32> = part.dims.iter().enumerate().map(tile).collect();
        let Knobs { warpgroups, beside, stages, persistent, staged, unroll, .. } = self;
        let early = self.early.unwrap_or_else(|| part.statements().iter().any(|(_, s)| matches!(s, Statement::Loop(l) if !l.domain.is_empty())));
        // a block that has one tile has no next one
        let residents = if persistent { self.residents } else { 1 };
        Ok((tiles, Shape { row, column, warpgroups, beside, stages, persistent, early, residents, staged, unroll }))
    }
}

/// How many products the steps of a part's loops add to.
fn products(part: &Part) -> u32 {
    part.statements().iter().filter(|(_, s)| matches!(s, Statement::Fold { node, .. } if part.contraction(*node).is_some())).count() as u32
}

/// Whether a store has the dim.
fn in_results(part: &Part, dim: DimId) -> bool {
    part.graph.stores().any(|s| part.dims_of(s.1.access.axes()).contains(dim))
}

impl Shape {
    pub fn threads(self) -> u32 {
        128 * (self.warpgroups + 1)
    }
    /// A warpgroup's rows, as a number of 64, and its part of shared columns.
    fn row_group(self) -> String {
        match self.beside {
            1 => "warpgroup".into(),
            n if n == self.warpgroups => "0".into(),
            n => format!("(warpgroup % {})", self.warpgroups / n),
        }
    }
    fn column_group(self) -> String {
        match self.warpgroups / self.beside {
            1 => "warpgroup".into(),
            rows => format!("(warpgroup / {rows})"),
        }
    }
    /// Registers of a thread: of a consumer, of the producer. 64 K are all that there are; what a block of two warpgroups starts with is as many as a
    /// thread can name.
    fn registers(self) -> (u32, Option<u32>) {
        match self.warpgroups {
            1 => (240, None),
            2 => (240, Some(24)),
            _ => (160, Some(32)),
        }
    }
}

/// The text of a part, and what its launch needs.
pub struct Placed {
    pub body: String,
    pub shared_bytes: u32,
    /// See [`crate::plan::Launch::partial_bytes`].
    pub partial_bytes: u64,
    pub maps: Vec<TensorMap>,
    pub guards: Vec<Guard>,
    pub instructions: BTreeSet<Instruction>,
    /// The schedule, for the reader of the text.
    pub schedule: String,
}

/// The row dim of a part, and the grid dim of columns: of the dims that every product has on the row's side, the innermost.
pub fn roles(part: &Part) -> Result<(DimId, Option<DimId>), Refusal> {
    let (outermost, _) = fragment::roles(part)?;
    let sides = |d: DimId| -> Vec<(bool, bool)> {
        let products = part.statements();
        let of = |s: &Statement| match s {
            Statement::Reduce { node, .. } | Statement::Fold { node, .. } => {
                part.contraction(*node).map(|(x, y)| (part.of(x).contains(d), part.of(y).contains(d)))
            }
            _ => None,
        };
        products.iter().filter_map(|(_, s)| of(s)).collect()
    };
    let rows: DimSet = part.grid.iter().copied().filter(|d| !part.dim(*d).batch && sides(*d) == sides(outermost)).collect();
    let row = part.grid.iter().rev().copied().find(|d| rows.contains(*d)).unwrap_or(outermost);
    let in_products = |d: DimId| sides(d).iter().any(|s| s.0 || s.1);
    let column = part.grid.iter().rev().copied().find(|d| !rows.contains(*d) && !part.dim(*d).batch && in_products(*d));
    Ok((row, column))
}

/// Places a part; the launch has `first_map` tensor maps before those of this part.
pub fn place(cx: &Context, shape: Shape, first_map: usize) -> Result<Placed, Refusal> {
    if shape.row != roles(cx.part)?.0 {
        return Err("another dim has the rows".into());
    }
    let lying = fragment::Shape {
        row: shape.row,
        column: shape.column,
        blocks: 1,
        warp_rows: 4 * shape.warpgroups / shape.beside,
        warp_columns: shape.beside,
        warp_loop: 1,
        stages: shape.stages,
        aligned: true,
    };
    let mut writer = Writer::new(cx, lying);
    writer.check()?;
    let steps = steps::of(&mut writer, shape)?;
    let schedule = pipeline::schedule(&steps.operations)?;
    let rings = steps.rings(&schedule)?;
    steps.check_registers(shape)?;
    // results are staged where that leaves room for two stages of the rings
    let results = if shape.staged { results::of(&writer, &steps, first_map) } else { vec![] };
    let (memory, results) = match steps.memory(&rings, &results, shape) {
        Err(_) if !results.is_empty() => (steps.memory(&rings, &[], shape)?, vec![]),
        memory => (memory?, results),
    };
    text::Text { cx, shape, steps: &steps, schedule: &schedule, rings: &rings, results: &results, memory: &memory, first_map }.part(&mut writer)
}

/// A type that the instruction multiplies.
fn multiplies(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}
