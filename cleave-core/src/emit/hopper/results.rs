//! Results that leave through shared memory: a fragment is staged as a tile of 64 rows for each warpgroup, and TMA stores it, which leaves out what
//! lies outside the tensor.
use super::maps::{self, Boxes};
use super::steps::{Operand, Steps};
use super::text::{FIRST_BARRIER, Text};
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

impl Text<'_, '_> {
    /// A result through shared memory.
    pub(super) fn store(&self, w: &mut Writer, r: &Result) {
        let x = w.element(Class::Fragment(r.column), r.node);
        let value = format!("[&](int i, int j, int c) {{ (void)i; return {x}; }}");
        let c = &mut w.code;
        let sync = format!("cleave::barrier_of({FIRST_BARRIER} + warpgroup, 128);");
        let blocks = r.columns.div_ceil(maps::COLUMNS);
        let store = |block: u32, from: String| {
            let column = if block == 0 { r.column_at.clone() } else { format!("{} + {}", r.column_at, block * maps::COLUMNS) };
            let rest: String = r.boxes.rest.iter().map(|x| format!(", {x}")).collect();
            format!("cleave::store_box(p.maps[{}], {from}, {column}, {} + warpgroup * 64{rest});", r.map, r.row_at)
        };
        match r.stage {
            Stage::Resident(o) => {
                let o = &self.steps.operands[o];
                let (between, own) = (o.rows * 128, format!("{} + warpgroup * {}", self.resident_tile(o), BLOCK_BYTES));
                c.line(&sync); // all warps are past their last read of it
                c.line(format!("cleave::stage<0, {}>({own}, {between}, {}(), {value});", r.columns, r.dtype));
                c.line("cleave::publish_shared();");
                c.line(&sync);
                c.open("if ((cleave::thread() & 127) == 0) {");
                (0..blocks).for_each(|b| c.line(store(b, if b == 0 { own.clone() } else { format!("{own} + {}", b * between) })));
                c.line("cleave::stores_commit();");
                if self.shape.persistent {
                    c.line("cleave::stores_read<0>();");
                    c.line(format!("cleave::barrier_arrive({});", self.resident_barrier(o, "empty")))
                }
                c.close("}");
                if self.shape.persistent {
                    self.advance_resident(c, o)
                }
            }
            Stage::Blocks => {
                for b in 0..blocks {
                    let (first, count) = (b * maps::COLUMNS, (r.columns - b * maps::COLUMNS).min(maps::COLUMNS));
                    c.open("{");
                    c.line(format!("const cleave::u32 block_at = shared + (cleave::u32)(warpgroup * 2 + staged) * {};", BLOCK_BYTES));
                    c.line("if ((cleave::thread() & 127) == 0) cleave::stores_read<1>();");
                    c.line(&sync);
                    c.line(format!("cleave::stage<{first}, {count}>(block_at, 0, {}(), {value});", r.dtype));
                    c.line("cleave::publish_shared();");
                    c.line(&sync);
                    c.line(format!("if ((cleave::thread() & 127) == 0) {{ {} cleave::stores_commit(); }}", store(b, "block_at".into())));
                    c.line("staged ^= 1;");
                    c.close("}")
                }
            }
        }
    }
}
