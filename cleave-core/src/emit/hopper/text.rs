//! The text of a part: barriers, the producer warp, the consumer warpgroups. Both roles are written from one schedule.
use super::pipeline::{Event, Instance, Schedule};
use super::results::{self, Stage};
use super::steps::{Left, Memory, Operand, Product, Ring, Steps, Work};
use super::{Placed, Shape, maps};
use crate::emit::code::Code;
use crate::emit::fragment::{Class, Writer};
use crate::emit::part::{Context, Refusal};
use crate::plan::Word;
use crate::tile::Statement;

/// The first of the hardware's barriers that warpgroups use: an id that is known only at run time reserves all.
const FIRST_BARRIER: u32 = 5;

/// Rows of tiles in a group of items.
const GROUP: u32 = 16;

pub struct Text<'t, 'a> {
    pub cx: &'t Context<'a>,
    pub shape: Shape,
    pub steps: &'t Steps<'a>,
    pub schedule: &'t Schedule,
    pub rings: &'t [Ring],
    pub results: &'t [results::Result],
    pub memory: &'t Memory,
    /// Maps of the launch before those of this part.
    pub first_map: usize,
}

/// Where events stand.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Prologue,
    Body,
    Tail,
}

impl Text<'_, '_> {
    pub fn part(&self, w: &mut Writer) -> Result<Placed, Refusal> {
        let consumer = self.consumer(w)?;
        let producer = self.producer();
        let coordinates = w.coordinates();
        // neighbours in the order of items share rows or columns of tiles, so that caches serve them
        if let (Some(column), [.., row, last]) = (self.shape.column, &self.cx.part.grid[..])
            && *last == column
            && *row == self.shape.row
        {
            self.cx.group_rows(GROUP)
        }
        let mut position = self.cx.grid_lines();
        let (late, early): (Vec<String>, Vec<String>) = self.cx.take_hoisted().into_iter().partition(|h| h.contains(" ? "));
        position.extend(late);

        let mut c = Code::at(1);
        early.into_iter().for_each(|l| c.line(l));
        self.addresses(&mut c);
        c.line("const int warpgroup = cleave::uniform(cleave::thread() >> 7);");
        c.open("if (cleave::thread() == 0) {");
        self.barriers(&mut c);
        c.close("}");
        c.line("cleave::barrier();");
        let (raised, lowered) = self.shape.registers();
        c.open(format!("if (warpgroup == {}) {{  // the producer: a whole warp runs the loop, one lane issues", self.shape.warpgroups));
        c.line(format!("cleave::lower_registers<{lowered}>();"));
        c.line("if (cleave::uniform((cleave::thread() >> 5) & 3) != 0) return;");
        c.line("const bool one = cleave::lane() == 0;");
        for r in self.rings {
            c.line(format!("int {0}_slot = 0, {0}_phase = 1;", r.name))
        }
        self.turns(&mut c, 1);
        self.tiles(&mut c, |c| {
            if self.shape.persistent {
                self.claim(c)
            }
            position.iter().for_each(|l| c.line(l));
            c.append(&producer);
            if self.shape.persistent {
                self.tell(c)
            }
        });
        c.line("return;");
        c.close("}");
        c.line(format!("cleave::raise_registers<{raised}>();"));
        for r in self.rings {
            let freed = if self.lags(r) { format!(", {}_freed = 0", r.name) } else { String::new() };
            c.line(format!("int {0}_slot = 0, {0}_phase = 0{freed};", r.name))
        }
        self.turns(&mut c, 0);
        if self.in_blocks() {
            c.line("int staged = 0;")
        }
        self.tiles(&mut c, |c| {
            position.iter().for_each(|l| c.line(l));
            coordinates.iter().for_each(|l| c.line(l));
            c.append(&consumer);
            if self.shape.persistent {
                self.follow(c)
            }
        });
        if !self.results.is_empty() {
            c.line("if ((cleave::thread() & 127) == 0) cleave::stores_read<0>();")
        }
        let steps = self.steps;
        let maps = steps.operands.iter().map(|o| o.boxes.map.clone()).chain(self.results.iter().map(|r| r.boxes.map.clone())).collect();
        let mut guards = steps.guards.clone();
        for g in self.results.iter().flat_map(|r| &r.boxes.guards) {
            if !guards.contains(g) {
                guards.push(g.clone())
            }
        }
        Ok(Placed {
            body: c.text().into(),
            shared_bytes: self.memory.total,
            maps,
            guards,
            instructions: steps.instructions.clone(),
            schedule: self.schedule.to_string(),
        })
    }

    fn in_blocks(&self) -> bool {
        self.results.iter().any(|r| r.stage == Stage::Blocks)
    }
    /// Whether a resident tile is where a result is staged.
    fn stages(&self, o: &Operand) -> bool {
        self.results.iter().any(|r| matches!(r.stage, Stage::Resident(i) if self.steps.operands[i].node == o.node))
    }

    // ---- shared memory, barriers, tiles ---------------------------------------------------------------------------
    fn resident(&self) -> impl Iterator<Item = (&Operand, u32)> {
        self.memory.resident.iter().map(|(o, at)| (&self.steps.operands[*o], *at))
    }
    fn addresses(&self, c: &mut Code) {
        let stages = self.memory.stages;
        c.line("const cleave::u32 shared = (cleave::shared_start() + 1023) & ~1023u;");
        let mut at = self.memory.barriers;
        let mut pair = |name: &str, count: u32| {
            let line = format!("const cleave::u32 {name}_full = shared + {at}, {name}_empty = shared + {};", at + 8 * count);
            at += 16 * count;
            line
        };
        for (o, start) in self.resident() {
            c.line(format!("const cleave::u32 {} = shared + {start};", o.name));
            c.line(pair(&o.name, self.memory.residents))
        }
        for (r, start) in self.rings.iter().zip(&self.memory.rings) {
            c.line(format!("const cleave::u32 {}_ring = shared + {start};", r.name));
            c.line(pair(&r.name, stages))
        }
        if self.shape.persistent {
            c.line(pair("next", 2));
            c.line(format!("const cleave::u32 next = shared + {at};"))
        }
    }
    fn barriers(&self, c: &mut Code) {
        let consumers = 4 * self.shape.warpgroups;
        for o in &self.steps.operands {
            c.line(format!("cleave::prefetch_map({});", self.map(o)))
        }
        for (o, _) in self.resident() {
            let frees = if self.stages(o) { self.shape.warpgroups } else { consumers };
            c.line(format!(
                "for (int s = 0; s < {residents}; s++) cleave::barrier_init({0}_full + 8 * s, 1), cleave::barrier_init({0}_empty + 8 * s, {frees});",
                o.name,
                residents = self.memory.residents
            ))
        }
        for r in self.rings {
            c.line(format!(
                "for (int s = 0; s < {stages}; s++) cleave::barrier_init({0}_full + 8 * s, 1), cleave::barrier_init({0}_empty + 8 * s, {consumers});",
                r.name,
                stages = self.memory.stages
            ))
        }
        if self.shape.persistent {
            c.line(format!("for (int s = 0; s < 2; s++) cleave::barrier_init(next_full + 8 * s, 1), cleave::barrier_init(next_empty + 8 * s, {consumers});"))
        }
        c.line("cleave::barriers_ready();")
    }
    fn map(&self, o: &Operand) -> String {
        let at = self.steps.operands.iter().position(|x| x.node == o.node).unwrap_or(0);
        format!("p.maps[{}]", self.first_map + at)
    }
    fn turns(&self, c: &mut Code, phase: u32) {
        for (o, _) in self.resident() {
            c.line(match self.memory.residents {
                1 => format!("int {}_phase = {phase};", o.name),
                _ => format!("int {0}_slot = 0, {0}_phase = {phase};", o.name),
            })
        }
        if self.shape.persistent {
            c.line("int turn = 0;")
        }
    }
    /// The tiles of a block.
    fn tiles(&self, c: &mut Code, one: impl FnOnce(&mut Code)) {
        if self.shape.persistent {
            let blocks = self.cx.word(Word::Blocks, "blocks");
            c.open(format!("while (block < {blocks}) {{"))
        } else {
            c.open("{")
        }
        one(c);
        c.close("}")
    }
    /// The producer claims the next tile before it loads this one, and tells the consumers afterwards: memory takes its time.
    fn claim(&self, c: &mut Code) {
        let (blocks, claims) = (self.cx.word(Word::Blocks, "blocks"), self.cx.name("claims", "claims"));
        self.cx.words.constant(Word::Claims, |w| format!("cleave::u32* const {claims} = (cleave::u32*){w};"));
        c.line("// back at 0 after as many claims as there are blocks");
        c.line(format!("const int claimed = one ? cleave::grid() + cleave::claim({claims}, {blocks} - 1) : 0;"))
    }
    fn tell(&self, c: &mut Code) {
        c.line("block = cleave::uniform(claimed);");
        c.line("cleave::barrier_wait(next_empty + 8 * (turn & 1), ((turn >> 1) & 1) ^ 1);");
        c.line("if (one) cleave::write_shared(next + 4 * (turn & 1), block), cleave::barrier_arrive(next_full + 8 * (turn & 1));");
        c.line("turn++;")
    }
    fn follow(&self, c: &mut Code) {
        c.line("cleave::barrier_wait(next_full + 8 * (turn & 1), (turn >> 1) & 1);");
        c.line("block = cleave::uniform(cleave::read_shared(next + 4 * (turn & 1)));");
        c.line("if (cleave::lane() == 0) cleave::barrier_arrive(next_empty + 8 * (turn & 1));");
        c.line("turn++;")
    }
    /// Lines for the tiles that the loop visits: `steps` of them, the last first.
    fn extent(&self, c: &mut Code) {
        let (b, tile) = (&self.steps.bounds, self.cx.tile(self.steps.l.dim));
        c.append(&self.steps.bounds_code);
        c.line(format!("const int last = ({} + {}) / {tile}, steps = {} < {} ? last - {} / {tile} : 0;", b.high, tile - 1, b.low, b.high, b.low));
        c.line(format!("(void){}, (void){};", b.full_low, b.full_high))
    }

    // ---- the producer --------------------------------------------------------------------------------------------------
    fn producer(&self) -> Code {
        let mut c = Code::at(3);
        self.extent(&mut c);
        for r in self.rings {
            c.open(format!("auto load_{} = [&](int step) {{", r.name));
            self.load(&mut c, r);
            c.close("};")
        }
        c.open("if (steps > 0) {");
        self.loads(&mut c, &self.schedule.prologue, true, &|_| "0".into());
        c.open("for (int j = 1; j < steps; j++) {");
        self.loads(&mut c, &self.schedule.body, false, &|o| if o == 0 { "j".into() } else { format!("j - {}", -o) });
        c.close("}");
        self.loads(&mut c, &self.schedule.tail, false, &|o| format!("steps - {}", -o));
        c.close("}");
        if self.resident().any(|(o, _)| self.stages(o)) {
            // a tile without steps stages its results, too
            c.open("else {");
            self.load_resident(&mut c);
            c.close("}")
        }
        c
    }
    fn load_resident(&self, c: &mut Code) {
        for (o, _) in self.resident() {
            let full = self.resident_barrier(o, "full");
            c.line(format!("cleave::barrier_wait({}, {}_phase);", self.resident_barrier(o, "empty"), o.name));
            c.open("if (one) {");
            c.line(format!("cleave::barrier_expect({full}, {});", o.bytes()));
            self.boxes(c, o, &self.resident_tile(o), 0, &full);
            c.close("}");
            self.advance_resident(c, o)
        }
    }
    fn await_resident(&self, c: &mut Code) {
        self.resident().for_each(|(o, _)| c.line(format!("cleave::barrier_wait({}, {}_phase);", self.resident_barrier(o, "full"), o.name)))
    }
    fn resident_barrier(&self, o: &Operand, which: &str) -> String {
        if self.memory.residents == 1 { format!("{}_{which}", o.name) } else { format!("{0}_{which} + 8 * {0}_slot", o.name) }
    }
    fn resident_tile(&self, o: &Operand) -> String {
        if self.memory.residents == 1 { o.name.clone() } else { format!("{0} + {0}_slot * {1}", o.name, o.bytes()) }
    }
    fn advance_resident(&self, c: &mut Code, o: &Operand) {
        c.line(match self.memory.residents {
            1 => format!("{}_phase ^= 1;", o.name),
            n => format!("if (++{0}_slot == {n}) {0}_slot = 0, {0}_phase ^= 1;", o.name),
        })
    }
    fn load(&self, c: &mut Code, r: &Ring) {
        let (n, l) = (&r.name, self.steps.l);
        c.line(format!("const int {} = (last - 1 - step) * {};", self.cx.start(l.dim), self.cx.tile(l.dim)));
        c.line(format!("cleave::barrier_wait({n}_empty + 8 * {n}_slot, {n}_phase);"));
        c.open("if (one) {");
        c.line(format!("cleave::barrier_expect({n}_full + 8 * {n}_slot, {});", r.bytes));
        let mut offset = 0;
        for o in r.operands.iter().map(|o| &self.steps.operands[*o]) {
            self.boxes(c, o, &format!("{n}_ring + {n}_slot * {}", r.bytes), offset, &format!("{n}_full + 8 * {n}_slot"));
            offset += o.bytes()
        }
        c.close("}");
        self.advance(c, n)
    }
    fn boxes(&self, c: &mut Code, o: &Operand, to: &str, offset: u32, barrier: &str) {
        for block in 0..o.blocks() {
            let plus = |text: &str, n: u32| if n == 0 { text.to_string() } else { format!("{text} + {n}") };
            let to = plus(to, offset + block * o.rows * 128);
            let mut coordinates = vec![plus(&o.column_at, block * maps::COLUMNS), o.row_at.clone()];
            coordinates.extend(o.boxes.rest.iter().cloned());
            c.line(format!("cleave::copy_box({to}, {}, {barrier}, {});", self.map(o), coordinates.join(", ")))
        }
    }
    fn advance(&self, c: &mut Code, ring: &str) {
        c.line(format!("if (++{ring}_slot == {}) {ring}_slot = 0, {ring}_phase ^= 1;", self.memory.stages))
    }
    /// Loads in the order in which the consumers wait for them.
    fn loads(&self, c: &mut Code, events: &[Event], first: bool, step: &dyn Fn(i32) -> String) {
        let mut resident = first;
        for e in events {
            let (Event::Issue(i) | Event::Work(i)) = e else { continue };
            for r in self.rings.iter().filter(|r| r.reader == i.unit) {
                c.line(format!("load_{}({});", r.name, step(i.offset)))
            }
            if std::mem::take(&mut resident) {
                self.load_resident(c)
            }
        }
    }

    // ---- the consumers -------------------------------------------------------------------------------------------------
    /// Everything that a consumer does for a tile, left in the writer's code.
    fn consumer(&self, w: &mut Writer) -> Result<Code, Refusal> {
        let l = self.steps.l;
        let mut c = std::mem::replace(&mut w.code, Code::at(3));
        self.extent(&mut c);
        let limits = std::mem::take(&mut *w.limits.borrow_mut());
        limits.into_iter().for_each(|line| c.line(line));
        self.steps.packed.iter().for_each(|line| c.line(line));
        let masks = self.steps.work.iter().any(|x| matches!(x, Work::Text(t) if t.text().contains("partial")));
        c.open("if (steps > 0) {");
        self.place(&mut c, w, Place::Prologue, masks)?;
        c.line("int j = 1;");
        if masks && !l.domain.is_empty() {
            c.line(format!("const int cut = {} / {};  // tiles below need no mask", self.steps.bounds.full_high, self.cx.tile(l.dim)));
            c.line("CLEAVE_ONCE");
            c.open("for (; j < steps && last - 1 - j >= cut; j++) {");
            self.place(&mut c, w, Place::Body, true)?;
            c.close("}")
        }
        let left = masks && self.steps.bounds.left;
        if left {
            let tile = self.cx.tile(l.dim);
            c.line(format!("const int whole = ({} + {}) / {tile};  // and those from here on", self.steps.bounds.full_low, tile - 1))
        }
        c.line("CLEAVE_ONCE");
        c.open(if left { "for (; j < steps && last - 1 - j >= whole; j++) {" } else { "for (; j < steps; j++) {" });
        self.place(&mut c, w, Place::Body, false)?;
        c.close("}");
        if left {
            c.line("CLEAVE_ONCE");
            c.open("for (; j < steps; j++) {");
            self.place(&mut c, w, Place::Body, true)?;
            c.close("}")
        }
        self.place(&mut c, w, Place::Tail, masks)?;
        c.close("}");
        if self.resident().any(|(o, _)| self.stages(o)) {
            c.open("else {");
            self.await_resident(&mut c);
            c.close("}")
        }
        w.code = c;
        // what the body computed is gone
        for s in &l.body {
            if let Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } = s {
                w.registers.remove(node);
            }
        }
        for n in std::mem::take(&mut w.open_folds) {
            let (name, op) = (self.cx.value_name(n), w.join(n));
            w.code.line(format!("cleave::join_lanes({name}, {op});"))
        }
        for (at, s) in self.cx.part.body.iter().enumerate().skip(self.steps.at + 1) {
            match (self.results.iter().find(|r| r.at == at), s) {
                (Some(r), _) => self.store(w, r),
                // registers are full of accumulators: other fragments are made where they are stored
                (None, Statement::Load { node, .. } | Statement::Map { node }) if matches!(w.class(*node), Ok(Class::Fragment(_))) => {}
                (None, Statement::Store { output, store, .. }) => {
                    let (node, _, _) = self.cx.store_dims(*output, *store);
                    if let Class::Fragment(column) = w.class(node)? {
                        // where each column lies takes divisions: a minute of ptxas
                        if self.cx.part.dim(column).axes.len() > 1 {
                            return Err("a result over packed columns".into());
                        }
                        if !w.registers.contains(&node) {
                            w.define(node, |w, class| w.element(class, node))?
                        }
                    }
                    w.statement(s)?
                }
                (None, s) => w.statement(s)?,
            }
        }
        let mut c = Code::at(3);
        c.append(&w.code);
        Ok(c)
    }
    /// One copy of a stretch of the schedule.
    fn place(&self, c: &mut Code, w: &Writer, place: Place, masked: bool) -> Result<(), Refusal> {
        let l = self.steps.l;
        let events = match place {
            Place::Prologue => &self.schedule.prologue,
            Place::Body => &self.schedule.body,
            Place::Tail => &self.schedule.tail,
        };
        let mut inner = Code::at(c.depth() + (place != Place::Body) as usize);
        self.events(&mut inner, events, place)?;
        let (start, column) = (self.cx.start(l.dim), w.column_name(l.dim));
        let text = inner.text();
        let (needs_column, needs_start) = (text.contains(&column), text.contains(&start) || text.contains(&column));
        if place != Place::Body {
            c.open("{")
        }
        if text.contains("partial") {
            c.line(format!("constexpr bool partial = {masked};"))
        }
        if needs_start {
            let step = if place == Place::Body { " - j" } else { "" };
            c.line(format!("const int {start} = (last - 1{step}) * {};", self.cx.tile(l.dim)))
        }
        if needs_column {
            c.line(w.column_line(l.dim))
        }
        if place == Place::Tail && self.steps.bounds.left {
            self.clear(c, false)?
        }
        c.append(&inner);
        match place {
            Place::Prologue => self.clear(c, true)?,
            Place::Tail if self.shape.persistent => {
                for (o, _) in self.resident().filter(|(o, _)| !self.stages(o)) {
                    c.line(format!("if (cleave::lane() == 0) cleave::barrier_arrive({});", self.resident_barrier(o, "empty")));
                    self.advance_resident(c, o)
                }
            }
            _ => {}
        }
        if place != Place::Body {
            c.close("}")
        }
        Ok(())
    }
    /// The rows of the first tile that lie above what the loop may read, and those of the last one below it, are zeroed where a product would read
    /// them.
    fn clear(&self, c: &mut Code, above: bool) -> Result<(), Refusal> {
        for r in self.rings {
            let operands: Vec<&Operand> = r.operands.iter().map(|o| &self.steps.operands[*o]).filter(|o| o.cleared).collect();
            if operands.is_empty() {
                continue;
            }
            if self.schedule.prologue.iter().any(|e| matches!(e, Event::Issue(i) if i.unit == r.reader)) {
                return Err("an operand that may be read beyond its end at once".into());
            }
            let (n, tile, bounds) = (&r.name, self.cx.tile(self.steps.l.dim), &self.steps.bounds);
            let (first, end) = match above {
                true => (format!("{n}_rows"), tile.to_string()),
                false => ("0".into(), format!("{n}_rows")),
            };
            c.line(match above {
                true => format!("const int {n}_rows = {} - (last - 1) * {tile};", bounds.high),
                false => format!("const int {n}_rows = {} - (last - steps) * {tile};", bounds.low),
            });
            c.open(format!("if ({first} < {end}) {{  // memory there may hold anything"));
            c.line(format!("cleave::barrier_wait({n}_full + 8 * {n}_slot, {n}_phase);"));
            for o in operands {
                c.line(format!("cleave::clear_rows<{}, {}>({}, {first}, {end});", o.rows, o.columns, self.slot(r, o)))
            }
            c.line("cleave::publish_shared();");
            c.line(format!("cleave::barrier_of({FIRST_BARRIER} + warpgroup, 128);"));
            c.close("}")
        }
        Ok(())
    }
    /// A result through shared memory.
    fn store(&self, w: &mut Writer, r: &results::Result) {
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
                let (between, own) = (o.rows * 128, format!("{} + warpgroup * {}", self.resident_tile(o), results::BLOCK_BYTES));
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
                    c.line(format!("const cleave::u32 block_at = shared + (cleave::u32)(warpgroup * 2 + staged) * {};", results::BLOCK_BYTES));
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
    fn slot(&self, r: &Ring, o: &Operand) -> String {
        let before = r.operands.iter().map(|i| &self.steps.operands[*i]).take_while(|x| x.node != o.node);
        let offset: u32 = before.map(Operand::bytes).sum();
        let start = format!("{0}_ring + {0}_slot * {1}", r.name, r.bytes);
        if offset == 0 { start } else { format!("{start} + {offset}") }
    }
    fn ring_of(&self, unit: usize) -> impl Iterator<Item = &Ring> {
        self.rings.iter().filter(move |r| r.reader == unit)
    }
    /// Whether a ring's next slot is awaited before the wait for its reader: see [`Shape::early`].
    fn early(&self, r: &Ring) -> bool {
        let shifted = !self.schedule.prologue.iter().any(|e| matches!(e, Event::Issue(i) | Event::Work(i) if i.unit == r.reader));
        self.shape.early && shifted
    }
    /// Whether the slot that is given back is not the one in use.
    fn lags(&self, r: &Ring) -> bool {
        self.early(r) || self.schedule.lags(r.reader)
    }
    fn await_slot(&self, c: &mut Code, r: &Ring) {
        c.line(format!("cleave::barrier_wait({0}_full + 8 * {0}_slot, {0}_phase);", r.name))
    }
    fn products(&self, i: &Instance) -> impl Iterator<Item = &Product> {
        let all = self.schedule.products(i.unit).iter();
        all.filter_map(|o| if let Work::Product(p) = &self.steps.work[*o] { Some(p) } else { None })
    }
    fn events(&self, c: &mut Code, events: &[Event], place: Place) -> Result<(), Refusal> {
        let mut first = place == Place::Prologue;
        let mut at = 0;
        while at < events.len() {
            match &events[at] {
                Event::Issue(_) => {
                    let run: Vec<&Instance> = events[at..].iter().map_while(|e| if let Event::Issue(i) = e { Some(i) } else { None }).collect();
                    at += run.len();
                    self.issue(c, &run, std::mem::take(&mut first));
                    continue;
                }
                Event::Wait { younger, retired } => self.wait(c, *younger, retired, place),
                Event::Work(i) => {
                    let Some(o) = self.schedule.operation(i.unit) else { return Err("work that is none".into()) };
                    let text = match &self.steps.work[o] {
                        Work::Text(text) => text,
                        Work::Read { operand, declaration, name } => {
                            self.read(c, i.unit, &self.steps.operands[*operand], declaration, name);
                            at += 1;
                            continue;
                        }
                        Work::Product(_) => return Err("work that is a product".into()),
                    };
                    if i.offset != 0 && (text.text().contains("partial") || text.text().contains(&self.cx.start(self.steps.l.dim))) {
                        return Err("work on an earlier tile that asks for its position".into());
                    }
                    c.append(text)
                }
            }
            at += 1
        }
        if place == Place::Prologue {
            self.rings.iter().filter(|r| self.early(r)).for_each(|r| self.await_slot(c, r))
        }
        Ok(())
    }
    /// A tile's values to registers; its slot is given back at once.
    fn read(&self, c: &mut Code, unit: usize, o: &Operand, declaration: &str, name: &str) {
        for r in self.ring_of(unit) {
            self.await_slot(c, r);
            c.line(declaration);
            let tile = format!("cleave::Tile<{}, {}, {}>{{{} - cleave::shared_start()}}", self.steps.dtype(), o.rows, o.columns, self.slot(r, o));
            c.line(format!("cleave::read_tile<false>({name}, {tile}, warp_row, 0);"));
            c.line(format!("if (cleave::lane() == 0) cleave::barrier_arrive({0}_empty + 8 * {0}_slot);", r.name));
            self.advance(c, &r.name)
        }
    }
    fn issue(&self, c: &mut Code, run: &[&Instance], first: bool) {
        for (n, i) in run.iter().enumerate() {
            for r in self.ring_of(i.unit).filter(|r| !self.early(r)) {
                self.await_slot(c, r)
            }
            if n == 0 {
                if first {
                    self.await_resident(c)
                }
                for p in run.iter().flat_map(|i| self.products(i)) {
                    let name = self.cx.value_name(p.node);
                    match p.carried {
                        true => c.line(format!("cleave::pin({name});")),
                        false => c.line(format!("cleave::Fragment<1, {}> {name};", p.columns)),
                    }
                }
                c.line("cleave::products_begin();")
            }
            for p in self.products(i) {
                self.product(c, p)
            }
            c.line("cleave::products_commit();");
            for r in self.ring_of(i.unit).filter(|r| self.lags(r)) {
                self.advance(c, &r.name)
            }
        }
    }
    fn product(&self, c: &mut Code, p: &Product) {
        let name = self.cx.value_name(p.node);
        let address = |o: usize| match self.rings.iter().find(|r| r.operands.contains(&o)) {
            Some(r) => self.slot(r, &self.steps.operands[o]),
            None => self.resident_tile(&self.steps.operands[o]),
        };
        let b = &self.steps.operands[p.right];
        let (to, fresh) = (address(p.right), !p.carried);
        c.line(match &p.left {
            Left::Shared(o) => {
                let a = &self.steps.operands[*o];
                let from = format!("{} + warpgroup * {}", address(*o), self.steps.between_warpgroups(a));
                format!(
                    "cleave::multiply_shared<{}, {}, {}, {}, {}>({name}, {from}, {to}, {fresh}, {}());",
                    p.depth,
                    a.mn,
                    a.rows,
                    b.mn,
                    b.rows,
                    self.steps.dtype()
                )
            }
            Left::Packed(packed) => format!("cleave::multiply_registers<{}, {}, {}>({name}, {packed}, {to}, {fresh});", p.depth, b.mn, b.rows),
        })
    }
    fn wait(&self, c: &mut Code, younger: usize, retired: &[Instance], place: Place) {
        for r in retired.iter().flat_map(|i| self.ring_of(i.unit)) {
            if self.early(r) && place != Place::Tail {
                self.await_slot(c, r)
            }
        }
        c.line(format!("cleave::products_wait<{younger}>();"));
        // an accumulator that the next group goes on with is still in flight
        let settled = self.schedule.body.iter().any(|e| matches!(e, Event::Wait { younger: 0, .. }));
        for p in retired.iter().flat_map(|i| self.products(i)) {
            if younger == 0 || settled || !p.carried {
                c.line(format!("cleave::pin({});", self.cx.value_name(p.node)))
            }
        }
        for i in retired {
            for r in self.ring_of(i.unit) {
                let n = &r.name;
                let guarded = place == Place::Body && i.offset < -1;
                if guarded {
                    c.open(format!("if (j >= {}) {{  // the first steps have fewer groups in flight", -i.offset))
                }
                if self.lags(r) {
                    c.line(format!("if (cleave::lane() == 0) cleave::barrier_arrive({n}_empty + 8 * {n}_freed);"));
                    c.line(format!("if (++{n}_freed == {}) {n}_freed = 0;", self.memory.stages))
                } else {
                    c.line(format!("if (cleave::lane() == 0) cleave::barrier_arrive({n}_empty + 8 * {n}_slot);"));
                    self.advance(c, n)
                }
                if guarded {
                    c.close("}")
                }
            }
        }
    }
}
