//! The text of a part: barriers, then the producer warp and the consumer warpgroups, both from one schedule.
use super::pipeline::Schedule;
use super::results::{self, Stage};
use super::steps::{Memory, Operand, Ring, Steps};
use super::{Placed, Shape};
use crate::emit::code::Code;
use crate::emit::fragment::Writer;
use crate::emit::part::{Context, Refusal};
use crate::plan::Word;

/// The first of the hardware's barriers that warpgroups use: an id that is known only at run time reserves all.
pub(super) const FIRST_BARRIER: u32 = 5;

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
pub(super) enum Place {
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
        if let Some(lowered) = lowered {
            c.line(format!("cleave::lower_registers<{lowered}>();"))
        }
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
            let row = self.cx.start(self.shape.row);
            if !producer.text().contains(&row) {
                c.line(format!("(void){row};  // no copy has rows"))
            }
            c.append(&producer);
            if self.shape.persistent {
                self.tell(c)
            }
        });
        c.line("return;");
        c.close("}");
        if lowered.is_some() {
            c.line(format!("cleave::raise_registers<{raised}>();"))
        }
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
            partial_bytes: if self.split() { w.piece_bytes(self.steps.l)? } else { 0 },
            maps,
            guards,
            instructions: steps.instructions.clone(),
            schedule: self.schedule.to_string(),
        })
    }

    pub(super) fn in_blocks(&self) -> bool {
        self.results.iter().any(|r| r.stage == Stage::Blocks)
    }
    /// Whether a resident tile is where a result is staged.
    pub(super) fn stages(&self, o: &Operand) -> bool {
        self.results.iter().any(|r| matches!(r.stage, Stage::Resident(i) if self.steps.operands[i].node == o.node))
    }

    // ---- shared memory, barriers, tiles ---------------------------------------------------------------------------
    pub(super) fn resident(&self) -> impl Iterator<Item = (&Operand, u32)> {
        self.memory.resident.iter().map(|(o, at)| (&self.steps.operands[*o], *at))
    }
    pub(super) fn addresses(&self, c: &mut Code) {
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
        if self.split() {
            c.line(format!("const cleave::u32 arrived = shared + {};", at + 8))
        }
    }
    /// Whether several blocks may share out the steps of a tile.
    pub(super) fn split(&self) -> bool {
        self.cx.part.split
    }
    pub(super) fn barriers(&self, c: &mut Code) {
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
    pub(super) fn map(&self, o: &Operand) -> String {
        let at = self.steps.operands.iter().position(|x| x.node == o.node).unwrap_or(0);
        format!("p.maps[{}]", self.first_map + at)
    }
    pub(super) fn turns(&self, c: &mut Code, phase: u32) {
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
    pub(super) fn tiles(&self, c: &mut Code, one: impl FnOnce(&mut Code)) {
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
    pub(super) fn claim(&self, c: &mut Code) {
        let (blocks, claims) = (self.cx.word(Word::Blocks, "blocks"), self.cx.name("claims", "claims"));
        self.cx.words.constant(Word::Claims, |w| format!("cleave::u32* const {claims} = (cleave::u32*){w};"));
        c.line("// back at 0 after as many claims as there are blocks");
        c.line(format!("const int claimed = one ? cleave::grid() + cleave::claim({claims}, {blocks} - 1) : 0;"))
    }
    pub(super) fn tell(&self, c: &mut Code) {
        c.line("block = cleave::uniform(claimed);");
        c.line("cleave::barrier_wait(next_empty + 8 * (turn & 1), ((turn >> 1) & 1) ^ 1);");
        c.line("if (one) cleave::write_shared(next + 4 * (turn & 1), block), cleave::barrier_arrive(next_full + 8 * (turn & 1));");
        c.line("turn++;")
    }
    pub(super) fn follow(&self, c: &mut Code) {
        c.line("cleave::barrier_wait(next_full + 8 * (turn & 1), (turn >> 1) & 1);");
        c.line("block = cleave::uniform(cleave::read_shared(next + 4 * (turn & 1)));");
        c.line("if (cleave::lane() == 0) cleave::barrier_arrive(next_empty + 8 * (turn & 1));");
        c.line("turn++;")
    }
    /// The tile that a step visits.
    pub(super) fn visited(&self, step: &str) -> String {
        if self.steps.bounds.intervals.len() == 2 { format!("visits({step})") } else { format!("(last - 1 - {step})") }
    }
    /// Lines for the tiles that the loop visits: `steps` of them, the last first.
    pub(super) fn extent(&self, c: &mut Code) {
        let (b, tile) = (&self.steps.bounds, self.cx.tile(self.steps.l.dim) * self.steps.unrolled);
        c.append(&self.steps.bounds_code);
        match &b.intervals[..] {
            [(low, high), (other_low, other_high)] => {
                c.line(format!("const cleave::Visits visits = cleave::visits({low}, {high}, {other_low}, {other_high}, {tile});"));
                c.line("const int last = visits.end, steps = visits.steps;");
                c.line("(void)last;")
            }
            _ => c.line(format!(
                "{}int last = ({} + {}) / {tile}, steps = {} < {} ? last - {} / {tile} : 0;",
                if self.split() { "" } else { "const " },
                b.high,
                tile - 1,
                b.low,
                b.high,
                b.low
            )),
        }
        c.line(format!("(void){}, (void){};", b.full_low, b.full_high));
        if self.split() {
            c.open("if (pieces > 1) {");
            c.line("const int all = steps, before = (int)((cleave::i64)all * piece / pieces);");
            c.line("steps = (int)((cleave::i64)all * (piece + 1) / pieces) - before, last -= before;");
            c.close("}")
        }
    }
}
