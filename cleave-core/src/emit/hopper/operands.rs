//! The tiles that a step reads from shared memory: operands of products, and what comes to registers from there.
use super::maps::{self, Boxes};
use super::memory::Operand;
use super::multiplies;
use super::pipeline::{Kind, Operation};
use super::steps::{Builder, Work, base};
use crate::dtype::DType;
use crate::emit::fragment::Class;
use crate::emit::part::{Refusal, c_type};
use crate::graph::{NodeId, Op};
use crate::tile::DimId;
use std::collections::BTreeSet;

impl Builder<'_, '_> {
    /// An operand tile of a load.
    pub(super) fn operand(&mut self, node: NodeId, streamed: bool) -> Result<(), Refusal> {
        let cx = self.w.cx;
        let Op::Input { input, access } = cx.part.graph.op(node) else { return Err("an operand that is loaded but no input".into()) };
        let tensor = cx.input_ref(*input);
        let name = format!("{}_tile", cx.tensor_name(tensor));
        let name = base(cx, &cx.name(&format!("operand {}", node.0), &name));
        if !multiplies(cx.dtype(tensor)) {
            return Err(format!("`{}` is no 16-bit type", cx.part.graph.input(*input).name));
        }
        if self.w.mapped.contains(&node) {
            return Err(format!("`{}` is an operand and read elsewhere too", cx.part.graph.input(*input).name));
        }
        let (Some(outer), inner) = self.w.tile_dims(node, access)? else { return Err("an operand of one dim".into()) };
        // the dim that products contract: the one that the result lacks
        let mut contracted = None;
        for (product, over, x, y) in cx.contractions().into_iter().filter(|c| c.2 == node || c.3 == node) {
            let wide = cx.wide_of(over);
            let [k] = wide[..] else { return Err("a product over other than one dim".into()) };
            let left = if cx.part.of(x).contains(self.shape.row) { x } else { y } == node;
            // a right operand may be contracted along both of its dims, by two products: keys that are values, too
            let otherwise = |(by_rows, is_left): (bool, bool)| is_left != left || (left && by_rows != (k == outer));
            if contracted.is_some_and(otherwise) || (k != inner && k != outer) {
                return Err(format!("t{} contracts an operand otherwise", product.0));
            }
            contracted = Some((contracted.is_some_and(|c| c.0) || k == outer, left))
        }
        let Some((by_rows, left)) = contracted else { return Err("an operand of no product".into()) };
        let boxes = maps::boxes(cx, tensor, access, Some((outer, cx.tile(outer))), inner, 1)?;
        let cleared = !left && outer == self.l.dim && !self.l.domain.is_empty();
        if !left && inner == self.l.dim && !by_rows && !self.l.domain.is_empty() {
            return Err("a masked loop over columns of an operand".into());
        }
        let tile = Tile { node, name, boxes, rows: Some(outer), columns: inner, dtype: cx.dtype(tensor) };
        let at = self.tile(tile, streamed);
        let o = &mut self.operands[at];
        (o.mn, o.is_left, o.multiplied, o.cleared) = (by_rows, left, true, cleared && by_rows);
        Ok(())
    }
    /// A streamed tile whose values come to registers: rows by columns of the loop, or columns alone.
    pub(super) fn read(&mut self, node: NodeId) -> Result<(), Refusal> {
        let cx = self.w.cx;
        let Op::Input { input, access } = cx.part.graph.op(node) else { return Err("a tile that is loaded but no input".into()) };
        let (tensor, class) = (cx.input_ref(*input), self.w.class(node)?);
        let (outer, inner) = self.w.tile_dims(node, access)?;
        let lies = match class {
            Class::Fragment(c) => c == inner && outer == Some(self.shape.row),
            Class::Columns(c) => c == inner,
            _ => false,
        };
        if !multiplies(cx.dtype(tensor)) || !lies || cx.tile(inner) != maps::COLUMNS {
            return Err(format!("a tile of `{}` cannot be read to registers", cx.part.graph.input(*input).name));
        }
        let boxes = maps::boxes(cx, tensor, access, outer.map(|row| (row, cx.tile(row))), inner, 1)?;
        let name = cx.name(&format!("operand {}", node.0), &format!("{}_shared", cx.tensor_name(tensor)));
        let operand = self.tile(Tile { node, name, boxes, rows: outer, columns: inner, dtype: cx.dtype(tensor) }, true);
        let (tile, name) = (self.operands[operand].value, cx.value_name(node));
        let declaration = format!("{} {name};", self.w.type_of(class));
        let register = self.value(&name);
        self.fragments.insert(name.clone());
        self.w.registers.insert(node);
        if self.l.domain.is_empty() {
            self.w.filled.insert(node);
        }
        self.operations.push(Operation { kind: Kind::Work, label: format!("read {name}"), reads: BTreeSet::from([tile]), writes: BTreeSet::from([register]) });
        self.work.push(Work::Read { operand, declaration, name });
        Ok(())
    }
    /// Adds a tile that comes to registers, unless told otherwise: its index.
    fn tile(&mut self, t: Tile, streamed: bool) -> usize {
        let cx = self.w.cx;
        t.boxes.guards.iter().for_each(|g| self.guard(g.clone()));
        let value = self.value(&format!("operand {}", t.name));
        self.operands.push(Operand {
            node: t.node,
            name: t.name,
            rows: t.rows.map_or(1, |d| cx.tile(d)),
            columns: cx.tile(t.columns).next_multiple_of(maps::COLUMNS),
            mn: false,
            is_left: true,
            multiplied: false,
            streamed,
            column_at: cx.start(t.columns),
            row_at: t.rows.map_or("0".into(), |d| cx.start(d)),
            dtype: c_type(t.dtype),
            boxes: t.boxes,
            value,
            cleared: false,
        });
        self.operands.len() - 1
    }
}

/// A tile of a load: its dims in shared memory.
struct Tile {
    node: NodeId,
    name: String,
    boxes: Boxes,
    rows: Option<DimId>,
    columns: DimId,
    dtype: DType,
}
