//! Loops: one that runs once over a tile that holds the whole dim, or one that streams tiles.
use super::*;
use crate::tile::Loop;

impl Writer<'_> {
    pub(super) fn count_readings(&mut self) {
        for (_, s) in self.cx.part.statements() {
            if let Statement::Loop(l) = s {
                for s in &l.body {
                    if let Statement::Load { node, .. } = s {
                        *self.readings.entry(*node).or_default() += 1
                    }
                }
            }
        }
    }
    /// Room in shared memory for the readings that more than one loop along the lane dim asks for.
    pub(super) fn reserve_slots(&mut self) {
        let Home::Shared(tiles) = self.shape.home else { return };
        let of_row = |n: &NodeId| self.varies(*n) && self.shape.row.is_none_or(|r| self.cx.part.of(*n).contains(r));
        let mut again: Vec<NodeId> = self.readings.iter().filter(|r| *r.1 > 1 && of_row(r.0)).map(|r| *r.0).collect();
        again.sort();
        let room = self.shape.room();
        for n in again {
            let Op::Input { input, access } = self.cx.part.graph.op(n) else { continue };
            let tensor = self.cx.input_ref(*input);
            if self.contiguous(tensor, access).is_some() && self.unrolled(self.cx.part.of(n)).is_empty() {
                let bytes = tiles * self.shape.threads() * self.shape.chunks * self.shape.width * self.cx.dtype(tensor).bytes() as u32;
                let at = self.shared.next_multiple_of(room);
                self.slots.insert(n, (at, false));
                self.shared = at + bytes
            }
        }
    }
    /// A loop, and the merge of its states. Bytes of state of a piece.
    pub(super) fn enter(&mut self, l: &Loop, split: bool) -> Result<u64, Refusal> {
        let along = l.dim == self.shape.lane;
        for n in l.states.iter().flat_map(|s| s.frame.into_iter().chain(s.members.iter().map(|m| m.node))) {
            if !self.held.contains_key(&n) {
                self.declare(n, Form::Floats)
            }
        }
        self.reset(l);
        self.inline(&l.body);
        match along && self.shape.home == Home::Registers {
            true => self.run_once(l)?,
            false => self.stream(l, split)?,
        }
        let shared = Some(l.dim) == self.shape.share;
        if !along && !shared {
            return Ok(0); // every thread has gone the same way, or has elements of its own
        }
        self.join(l)?;
        if split && self.shape.home == Home::Stream { self.merge_pieces(l) } else { Ok(0) }
    }
    pub(super) fn reset(&mut self, l: &Loop) {
        for s in &l.states {
            if let Some(f) = s.frame {
                let identity = self.row(f).code.nothing;
                self.fill(f, identity)
            }
            for m in &s.members {
                let identity = self.identity(m.node);
                self.fill(m.node, identity)
            }
        }
    }
    /// Readings first, so that all are in flight before one is waited for.
    fn body(&mut self, l: &Loop) -> Result<(), Refusal> {
        let (loads, rest): (Vec<&Statement>, Vec<&Statement>) = l.body.iter().partition(|s| matches!(s, Statement::Load { .. }));
        loads.into_iter().chain(rest).try_for_each(|s| self.statement(s))
    }
    /// The tile is the whole dim: what is read and what is kept stays.
    fn run_once(&mut self, l: &Loop) -> Result<(), Refusal> {
        let mut unwritten = Code::at(0);
        let first = self.bounded.insert(l.dim);
        let bounds = self.cx.loop_bounds(if first { &mut self.code } else { &mut unwritten }, l, false);
        if first {
            self.code.line(format!("(void){};", bounds.low))
        }
        self.loops.push((l.dim, bounds, !l.domain.is_empty()));
        for s in &l.body {
            if let Statement::Load { node, .. } = s {
                self.load(*node)?
            }
        }
        for n in &l.keep {
            if !self.held.contains_key(n) {
                self.inlined.remove(n);
                self.declare(*n, Form::Floats)
            }
        }
        let held = self.held.clone();
        self.code.open("{");
        self.body(l)?;
        self.code.close("}");
        self.held = held;
        self.loops.pop();
        Ok(())
    }
    fn stream(&mut self, l: &Loop, split: bool) -> Result<(), Refusal> {
        let tile = self.cx.tile(l.dim);
        let dim = self.cx.dim_name(l.dim);
        self.code.open("{");
        let bounds = self.cx.loop_bounds(&mut self.code, l, false);
        let (low, high) = (bounds.low.clone(), bounds.high.clone());
        self.code.line(format!("int first = {low} / {tile}, last = {low} < {high} ? ({high} + {}) / {tile} : first;", tile - 1));
        let pieces = l.dim == self.shape.lane || Some(l.dim) == self.shape.share;
        if split && self.shape.home == Home::Stream && pieces {
            self.code.line("const int tiles = last - first;");
            self.code.line("last = first + (int)((cleave::i64)tiles * (piece + 1) / pieces);");
            self.code.line("first = first + (int)((cleave::i64)tiles * piece / pieces);")
        }
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int tile = first; tile < last; tile++) {{  // over {dim}"));
        self.code.line(format!("const int {} = tile * {tile};", self.cx.start(l.dim)));
        if l.dim == self.shape.lane {
            let line = self.lane_line();
            self.code.line(line)
        } else if Some(l.dim) == self.shape.share {
            let line = self.row_line(l.dim);
            self.code.line(line)
        }
        self.loops.push((l.dim, bounds, !l.domain.is_empty()));
        let held = self.held.clone();
        self.body(l)?;
        self.held = held;
        self.loops.pop();
        self.code.close("}");
        self.code.close("}");
        for s in &l.body {
            if let Statement::Load { node, .. } = s
                && let Some(slot) = self.slots.get_mut(node)
            {
                slot.1 = true
            }
        }
        Ok(())
    }
}
