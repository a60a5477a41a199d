//! Results that leave through shared memory: a fragment is staged as a tile of 64 rows for each warpgroup, and TMA stores it, which leaves out what
//! lies outside the tensor.
use super::maps::{self, Boxes};
use super::steps::{Operand, Steps};
use super::{ROWS, multiplies};
use crate::emit::fragment::{Class, Writer};
use crate::graph::NodeId;
use crate::tile::{DimId, Statement};

/// Bytes of a block of 64 columns of a warpgroup.
pub const BLOCK_BYTES: u32 = ROWS * 128;

/// Where a result is staged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stage {
    /// In the tile of a resident operand, which nothing reads any more: its index.
    Resident(usize),
    /// In two blocks of each warpgroup, in turns.
    Blocks,
}

pub struct Result {
    /// The statement, by position in the part's body.
    pub at: usize,
    pub node: NodeId,
    pub boxes: Boxes,
    pub map: usize,
    pub column: DimId,
    pub columns: u32,
    pub column_at: String,
    pub row_at: String,
    pub stage: Stage,
    pub dtype: &'static str,
}

/// The stores after the loop that can be staged.
pub fn of(w: &Writer, steps: &Steps, first_map: usize) -> Vec<Result> {
    let cx = w.cx;
    let mut all: Vec<Result> = vec![];
    for (at, s) in cx.part.body.iter().enumerate().skip(steps.at + 1) {
        let Statement::Store { output, store, first } = s else { continue };
        let (node, access, dims) = cx.store_dims(*output, *store);
        let tensor = cx.output_ref(*output);
        let wide = dims.iter().filter(|d| cx.tile(*d) > 1).collect();
        let Ok(Class::Fragment(column)) = w.class_of(wide) else { continue };
        let columns = cx.tile(column);
        if !first.is_empty() || !multiplies(cx.dtype(tensor)) || !columns.is_multiple_of(16) || cx.wide(node) != wide {
            continue;
        }
        let Ok(boxes) = maps::boxes(cx, tensor, &access, w.shape.row, column, ROWS) else { continue };
        // the left operand's tile of a warpgroup has the shape of its results
        let fits = |o: &Operand| !o.streamed && o.is_left && !o.mn && o.columns >= columns;
        let resident = steps.operands.iter().position(fits).filter(|o| !all.iter().any(|r| r.stage == Stage::Resident(*o)));
        all.push(Result {
            at,
            node,
            boxes,
            map: first_map + steps.operands.len() + all.len(),
            column,
            columns,
            column_at: cx.start(column),
            row_at: cx.start(w.shape.row),
            stage: resident.map_or(Stage::Blocks, Stage::Resident),
            dtype: crate::emit::part::c_type(cx.dtype(tensor)),
        })
    }
    all
}
