//! Results that leave through shared memory: a fragment is staged as a tile of 64 rows for each warpgroup, and TMA stores it, which leaves out what
//! lies outside the tensor.
use super::maps::{self, Boxes};
use super::steps::{Operand, Steps};
use super::text::{FIRST_BARRIER, Text};
use super::{ROWS, multiplies};
use crate::emit::fragment::{Class, Writer};
use crate::graph::{Factor, NodeId};
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
    /// The statement, by position in the part's body; of the parts of one output, the last.
    pub at: usize,
    /// The statements of the other parts.
    pub others: Vec<usize>,
    /// What each part stores; they lie side by side.
    pub parts: Vec<NodeId>,
    pub boxes: Boxes,
    pub map: usize,
    pub column: DimId,
    /// Of a warpgroup's tile in memory, each part by itself.
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
        if all.iter().any(|r| r.at == at || r.others.contains(&at)) {
            continue;
        }
        let (node, access, dims) = cx.store_dims(*output, *store);
        let (places, parts): (Vec<usize>, Vec<NodeId>) = side_by_side(w, at).unwrap_or(vec![(at, node)]).into_iter().unzip();
        let tensor = cx.output_ref(*output);
        let wide = dims.iter().filter(|d| cx.tile(*d) > 1).collect();
        let Ok(Class::Fragment(column)) = w.class_of(wide) else { continue };
        let count = parts.len() as u32;
        let columns = w.local(column) * count;
        // a copy has 64 columns: of narrower tiles side by side one would write over the next
        let whole = columns.is_multiple_of(if Some(column) == w.shape.column { maps::COLUMNS } else { 16 });
        // of warpgroups side by side each has columns of its own
        let own = steps.shape.beside == 1 || Some(column) == w.shape.column && count == 1;
        if !own || !first.is_empty() || !multiplies(cx.dtype(tensor)) || !whole || parts.iter().any(|p| cx.wide(*p) != wide) {
            continue;
        }
        let Ok(boxes) = maps::boxes(cx, tensor, &access, Some((w.shape.row, ROWS)), column, count) else { continue };
        // the left operand's tile of a warpgroup has the shape of its results
        let fits = |o: &Operand| count == 1 && !o.streamed && o.is_left && !o.mn && o.columns >= columns;
        let resident = steps.operands.iter().position(fits).filter(|o| !all.iter().any(|r| r.stage == Stage::Resident(*o)));
        all.push(Result {
            at: places.iter().copied().max().unwrap_or(at),
            others: places.iter().copied().filter(|p| places.iter().any(|q| q > p)).collect(),
            parts,
            boxes,
            map: first_map + steps.operands.len() + all.len(),
            column,
            columns,
            column_at: match (count, columns < cx.tile(column)) {
                (1, false) => cx.start(column),
                (1, true) => format!("{} + {} * {columns}", cx.start(column), steps.shape.column_group()),
                _ => format!("{} * {count}", cx.start(column)),
            },
            row_at: cx.start(w.shape.row),
            stage: resident.map_or(Stage::Blocks, Stage::Resident),
            dtype: crate::emit::part::c_type(cx.dtype(tensor)),
        })
    }
    all
}

/// The stores of both parts of an output's columns, if the one at `at` is of one of them: statements, and what they store.
fn side_by_side(w: &Writer, at: usize) -> Option<Vec<(usize, NodeId)>> {
    let (cx, body) = (w.cx, &w.cx.part.body);
    let of = |at: usize| match &body[at] {
        Statement::Store { output, store, first } => Some((*output, *first, cx.store_dims(*output, *store))),
        _ => None,
    };
    let (output, first, (_, access, _)) = of(at)?;
    let Some(Factor::Part { of: 2, .. }) = access.dims.last()?.last() else { return None };
    let part = |index: u32| {
        let mut wanted = access.clone();
        *wanted.dims.last_mut()?.last_mut()? = Factor::Part { index, of: 2 };
        (0..body.len()).find_map(|i| of(i).filter(|o| (o.0, o.1, &o.2.1) == (output, first, &wanted)).map(|o| (i, o.2.0)))
    };
    Some(vec![part(0)?, part(1)?])
}

impl Text<'_, '_> {
    /// A result through shared memory.
    pub(super) fn store(&self, w: &mut Writer, r: &Result) {
        // TMA leaves out what lies outside
        w.clipped = true;
        let values: Vec<String> = r.parts.iter().map(|node| w.element(Class::Fragment(r.column), *node)).collect();
        w.clipped = false;
        let value = match &values[..] {
            [first, second] => format!("[&](int i, int j, int c, int part) {{ (void)i; return part == 0 ? {first} : {second}; }}"),
            all => format!("[&](int i, int j, int c) {{ (void)i; return {}; }}", all.concat()),
        };
        let stage = if r.parts.len() > 1 { "stage_pairs" } else { "stage" };
        let c = &mut w.code;
        let sync = format!("cleave::barrier_of({FIRST_BARRIER} + warpgroup, 128);");
        let blocks = r.columns.div_ceil(maps::COLUMNS);
        let store = |block: u32, from: String| {
            let column = if block == 0 { r.column_at.clone() } else { format!("{} + {}", r.column_at, block * maps::COLUMNS) };
            let rest: String = r.boxes.rest.iter().map(|x| format!(", {x}")).collect();
            format!("cleave::store_box(p.maps[{}], {from}, {column}, {} + {} * 64{rest});", r.map, r.row_at, self.shape.row_group())
        };
        match r.stage {
            Stage::Resident(o) => {
                let o = &self.steps.operands[o];
                let (between, rows) = (o.rows * 128, self.shape.row_group());
                let mut own = format!("{} + {rows} * {BLOCK_BYTES}", self.resident_tile(o));
                let mut read = sync.clone();
                if self.shape.beside > 1 {
                    own += &format!(" + {} * {}", self.shape.column_group(), blocks * between);
                    read = format!("cleave::barrier_of({} + {rows}, {});", FIRST_BARRIER + self.shape.warpgroups, 128 * self.shape.beside)
                }
                c.line(read); // all warps are past their last read of it
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
                    c.line(format!("cleave::{stage}<{first}, {count}>(block_at, 0, {}(), {value});", r.dtype));
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
