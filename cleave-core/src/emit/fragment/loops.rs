//! A loop: a ring of streamed tiles that copies fill ahead, a body for whole tiles and one that masks.
use super::*;

impl Writer<'_> {
    pub(in crate::emit) fn reset(&mut self, l: &Loop, declare: bool) -> Result<(), Refusal> {
        for s in &l.states {
            let frame = s.frame.map(|f| (f, self.row(f).code.nothing));
            let all: Vec<_> = frame.into_iter().chain(s.members.iter().map(|m| (m.node, self.identity(m.node)))).collect();
            for (node, identity) in all {
                let class = self.class(node)?;
                if declare {
                    self.declare(node, class);
                    self.registers.insert(node);
                }
                let name = self.cx.value_name(node);
                self.code.line(format!("cleave::fill({name}, {identity});"))
            }
        }
        Ok(())
    }
    /// A loop, and the merge of its states over warps and pieces. Bytes of state of a piece.
    pub(in crate::emit) fn enter(&mut self, l: &Loop, split: bool, limit: u32) -> Result<u64, Refusal> {
        let tile = self.cx.tile(l.dim);
        self.reset(l, true)?;
        let streamed: Vec<NodeId> = l
            .body
            .iter()
            .filter_map(|s| match s {
                Statement::Load { node, .. } if !self.cx.wide(*node).is_empty() => Some(*node),
                _ => None,
            })
            .collect();
        let ring = self.shared;
        let mut stage_bytes = 0;
        for n in &streamed {
            let t = self.new_tile(*n, ring + stage_bytes, true)?;
            stage_bytes += self.tile_bytes(&t);
            self.tiles.insert(*n, t);
        }
        let room = limit.saturating_sub(ring);
        let stages = self.shape.stages.min(room.checked_div(stage_bytes).unwrap_or(2));
        if stages < 2 {
            return Err(format!("two stages of {stage_bytes} bytes do not fit in shared memory"));
        }
        self.shared = ring + stages * stage_bytes;

        self.code.open("{");
        let bounds = self.cx.loop_bounds(&mut self.code, l, true);
        let (low, high, full_low, full_high, left) = (bounds.low.clone(), bounds.high.clone(), bounds.full_low.clone(), bounds.full_high.clone(), bounds.left);
        self.code.line(format!("int first = {low} / {tile}, last = {low} < {high} ? ({high} + {}) / {tile} : first;", tile - 1));
        if split {
            self.code.line("const int tiles = last - first;");
            self.code.line("last = first + (int)((cleave::i64)tiles * (piece + 1) / pieces);");
            self.code.line("first = first + (int)((cleave::i64)tiles * piece / pieces);")
        }
        let start = self.cx.start(l.dim);
        // the copies of one tile
        self.code.open("auto fetch = [&](int tile, int stage) {");
        self.code.line(format!("const int {start} = tile * {tile};"));
        for n in &streamed {
            let t = self.tiles[n].clone();
            let (kind, name) = (self.tile_type(&t), self.tile_name(*n));
            self.code.line(format!("const {kind} {name} = {{{} + (cleave::u32)stage * {stage_bytes}}};", t.at));
            let mut code = Code::at(self.code.depth());
            self.fill_tile(&mut code, *n, &name, Some((l.dim, &bounds)));
            self.code.append(&code)
        }
        self.code.close("};");
        // the work on one tile
        self.loops.push((l.dim, bounds, true));
        let depth = self.code.depth();
        let outer = std::mem::replace(&mut self.code, Code::at(depth + 1));
        for s in &l.body {
            if let Statement::Load { node, .. } = s
                && self.tiles.contains_key(node)
            {
                let t = self.tiles[node].clone();
                let (kind, name) = (self.tile_type(&t), self.tile_name(*node));
                self.code.line(format!("const {kind} {name} = {{{} + (cleave::u32)stage * {stage_bytes}}};", t.at))
            }
            self.statement(s)?
        }
        let body = std::mem::replace(&mut self.code, outer);
        self.loops.pop();
        self.packed.clear();
        self.code.open("auto step = [&](int tile, int stage, auto masked) {");
        self.code.line("constexpr bool partial = decltype(masked)::value;");
        self.code.line("(void)partial, (void)tile, (void)stage;");
        let limits = std::mem::take(&mut *self.limits.borrow_mut());
        if body.text().contains(&start) || body.text().contains(&self.column_name(l.dim)) {
            self.code.line(format!("const int {start} = tile * {tile};"))
        }
        if body.text().contains(&self.column_name(l.dim)) {
            let line = self.column_line(l.dim);
            self.code.line(line)
        }
        limits.into_iter().for_each(|l| self.code.line(l));
        self.code.append(&body);
        self.code.close("};");
        self.code.line(format!("for (int s = 0; s < {}; s++) {{ if (first + s < last) fetch(first + s, s); cleave::copy_commit(); }}", stages - 1));
        self.code.line("int stage = 0;");
        let masks = body.text().contains("partial");
        if masks {
            if left {
                self.code.line(format!("const int whole = ({full_low} + {}) / {tile};", tile - 1))
            }
            self.code.line(format!("const int cut = {full_high} / {tile};"))
        } else {
            self.code.line(format!("(void){full_high};"))
        }
        self.code.line("CLEAVE_ONCE");
        self.code.open("for (int tile = first; tile < last; tile++) {");
        self.code.line(format!("cleave::copy_wait<{}>();", stages - 2));
        self.code.line("cleave::barrier();");
        self.code.line(format!("if (tile + {0} < last) fetch(tile + {0}, stage == 0 ? {0} : stage - 1);", stages - 1));
        self.code.line("cleave::copy_commit();");
        if masks {
            let from = if left { "tile >= whole && " } else { "" };
            self.code.line(format!("if ({from}tile < cut) step(tile, stage, cleave::no()); else step(tile, stage, cleave::yes());"))
        } else {
            self.code.line("step(tile, stage, cleave::no());")
        }
        self.code.line(format!("stage = stage + 1 == {stages} ? 0 : stage + 1;"));
        self.code.close("}");
        self.code.line("cleave::copy_wait<0>();");
        self.code.line("cleave::barrier();");
        self.code.close("}");
        self.pending = false;
        // streamed tiles and what the body computed are gone, their memory is free again
        for s in &l.body {
            if let Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } = s {
                self.registers.remove(node);
                if streamed.contains(node) {
                    self.tiles.remove(node);
                }
            }
        }
        for n in std::mem::take(&mut self.open_folds) {
            let (name, op) = (self.cx.value_name(n), self.join(n));
            self.code.line(format!("cleave::join_lanes({name}, {op});"))
        }
        let used = self.shared;
        self.shared = ring;
        let bytes = self.merge(l, split, ring)?;
        self.shared = self.shared.max(used);
        if self.shared > limit {
            return Err(format!("{} bytes of shared memory are too many", self.shared));
        }
        Ok(bytes)
    }
}
