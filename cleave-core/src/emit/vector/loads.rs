//! Readings of inputs: chunks of 16 bytes or more where memory allows it, else elements.
use super::*;
use crate::graph::{Access, Factor};

impl Writer<'_> {
    /// The stored dimension in which an access runs contiguously along the lane dim, if chunks of it can be read at once: then the guards
    /// that this asks for.
    pub(super) fn contiguous(&self, tensor: TensorRef, access: &Access) -> Option<Vec<Guard>> {
        if self.shape.width == 1 {
            return None;
        }
        let [axis] = self.cx.part.dim(self.shape.lane).axes[..] else { return None };
        let d = access.dims.iter().position(|f| f.last() == Some(&Factor::Axis(axis)))?;
        let once = access.dims.iter().flatten().filter(|f| **f == Factor::Axis(axis)).count() == 1;
        // factors outside the axis are strides of its extent, which the shape's guards make a whole number of chunks
        once.then(|| vec![Guard::Contiguous(tensor, d as u32), Guard::Aligned(tensor, 16)])
    }
    /// The offset of chunk `v`, all other dims at their positions.
    pub(super) fn chunk_offset(&self, tensor: TensorRef, access: &Access) -> String {
        let lane = self.shape.lane;
        let rest = self.cx.offset(tensor, access, &|d| self.position(d), &|d| d != Some(lane));
        if rest == "0" { self.chunk_position() } else { format!("{rest} + {}", self.chunk_position()) }
    }
    /// Whether an input is read once: it varies along every dim that tells items apart.
    fn read_once(&self, node: NodeId) -> bool {
        let dims = self.cx.part.of(node);
        self.shape.row.is_none_or(|r| dims.contains(r)) && self.varies(node)
    }
    pub(super) fn load(&mut self, node: NodeId) -> Result<(), Refusal> {
        let Op::Input { input, access } = self.cx.part.graph.op(node) else { return Err(format!("t{} is loaded but no input", node.0)) };
        if access.dims.is_empty() || self.held.contains_key(&node) {
            return Ok(()); // a scalar, or what a loop that ran once has left in registers
        }
        let tensor = self.cx.input_ref(*input);
        // another loop will find in a cache what this one reads, unless it is told to let it go
        let left = self.readings.get_mut(&node).map_or(0, |left| {
            *left = left.saturating_sub(1);
            *left
        });
        let last = left == 0 || self.shape.home != Home::Stream;
        let pointer = self.cx.pointer(tensor, false);
        let name = self.cx.value_name(node);
        let dims = self.cx.part.of(node);
        let at = format!("{name}{}", self.indices(dims));
        let mut inside = self.rows_inside(dims);
        if !self.varies(node) {
            self.declare(node, Form::Floats);
            let n = self.open_unrolled(dims);
            let x = self.cx.direct(&Element(self), *input, access);
            self.code.line(format!("{at} = {x};"));
            self.close(n);
            return Ok(());
        }
        if let Some((slot, true)) = self.slots.get(&node).copied() {
            self.declare(node, Form::Chunks);
            let n = self.open_chunks();
            self.code.line(format!("{at}[chunk].template recall<{}>({slot}, tile * {} + chunk);", self.shape.threads(), self.shape.chunks));
            self.close(n);
        } else if let Some(guards) = self.contiguous(tensor, access) {
            self.guard(guards);
            self.declare(node, Form::Chunks);
            inside.push(match self.loops.iter().rfind(|l| l.0 == self.shape.lane) {
                // chunks that a predicate cuts are read whole: what does not count is never used
                Some((_, b, true)) => format!("{0} + {1} > {2} && {0} < {3}", self.chunk_position(), self.shape.width, b.low, b.high),
                _ => self.counts(),
            });
            let once = last && self.read_once(node) && self.shape.hints.evict_first;
            let policy = if once { ", policy" } else { "" };
            if once {
                let mut streams = self.streams.borrow_mut();
                let sizes: Vec<String> = dims.iter().map(|d| self.cx.size(d)).collect();
                let bytes = format!("(cleave::i64){} * {}", sizes.join(" * "), self.cx.dtype(tensor).bytes());
                if !streams.contains(&bytes) {
                    streams.push(bytes)
                }
            }
            let offset = self.chunk_offset(tensor, access);
            let n = self.open_unrolled(dims) + self.open_chunks();
            self.code.line(format!("{at}[chunk].clear();"));
            self.code.line(format!("if ({}) {at}[chunk].load({pointer} + ({offset}){policy});", inside.join(" && ")));
            self.close(n);
            if let Some((slot, false)) = self.slots.get(&node).copied() {
                let n = self.open_chunks();
                self.code.line(format!("{at}[chunk].template keep<{}>({slot}, tile * {} + chunk);", self.shape.threads(), self.shape.chunks));
                self.close(n)
            }
        } else {
            self.declare(node, Form::Floats);
            inside.push(self.counts());
            let n = self.open_unrolled(dims) + self.open_chunks() + self.open_elements();
            let offset = self.cx.offset(tensor, access, &|d| Element(self).position(d), &|_| true);
            self.code.line(format!("{at}[chunk][e] = {} ? cleave::to_float({pointer}[{offset}]) : 0.0f;", inside.join(" && ")));
            self.close(n);
        }
        Ok(())
    }
    /// Whether a value is 0 wherever a dim is beyond its bounds: it is read there as 0, or a product of such values.
    pub(super) fn vanishes(&self, node: NodeId, dim: DimId) -> bool {
        let g = &self.cx.part.graph;
        if self.loops.iter().any(|l| l.0 == dim && l.2) {
            return false;
        }
        match g.op(node) {
            Op::Input { .. } => self.cx.part.of(node).contains(dim),
            Op::Product(exponents) => exponents.iter().all(|e| *e > 0) && g.operands(node).iter().all(|x| self.vanishes(*x, dim)),
            _ => false,
        }
    }
}
