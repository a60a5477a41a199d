//! The producer warp: it fills rings by TMA in the order in which the consumers wait for them.
use super::maps;
use super::pipeline::Event;
use super::steps::{Operand, Ring};
use super::text::Text;
use crate::emit::code::Code;

impl Text<'_, '_> {
    // ---- the producer --------------------------------------------------------------------------------------------------
    pub(super) fn producer(&self) -> Code {
        let mut c = Code::at(3);
        self.extent(&mut c);
        for r in self.rings {
            let part = if self.steps.unrolled > 1 { ", int part" } else { "" };
            c.open(format!("auto load_{} = [&](int step{part}) {{", r.name));
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
    pub(super) fn load_resident(&self, c: &mut Code) {
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
    pub(super) fn await_resident(&self, c: &mut Code) {
        self.resident().for_each(|(o, _)| c.line(format!("cleave::barrier_wait({}, {}_phase);", self.resident_barrier(o, "full"), o.name)))
    }
    pub(super) fn resident_barrier(&self, o: &Operand, which: &str) -> String {
        if self.memory.residents == 1 { format!("{}_{which}", o.name) } else { format!("{0}_{which} + 8 * {0}_slot", o.name) }
    }
    pub(super) fn resident_tile(&self, o: &Operand) -> String {
        if self.memory.residents == 1 { o.name.clone() } else { format!("{0} + {0}_slot * {1}", o.name, o.bytes()) }
    }
    pub(super) fn advance_resident(&self, c: &mut Code, o: &Operand) {
        c.line(match self.memory.residents {
            1 => format!("{}_phase ^= 1;", o.name),
            n => format!("if (++{0}_slot == {n}) {0}_slot = 0, {0}_phase ^= 1;", o.name),
        })
    }
    pub(super) fn load(&self, c: &mut Code, r: &Ring) {
        let (n, l) = (&r.name, self.steps.l);
        let (tile, steps) = (self.cx.tile(l.dim), self.steps.unrolled);
        let part = if steps > 1 { format!(" + part * {tile}") } else { String::new() };
        c.line(format!("const int {} = {} * {}{part};", self.cx.start(l.dim), self.visited("step"), tile * steps));
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
    pub(super) fn boxes(&self, c: &mut Code, o: &Operand, to: &str, offset: u32, barrier: &str) {
        for block in 0..o.blocks() {
            let plus = |text: &str, n: u32| if n == 0 { text.to_string() } else { format!("{text} + {n}") };
            let to = plus(to, offset + block * o.rows * 128);
            let mut coordinates = vec![plus(&o.column_at, block * maps::COLUMNS), o.row_at.clone()];
            coordinates.extend(o.boxes.rest.iter().cloned());
            c.line(format!("cleave::copy_box({to}, {}, {barrier}, {});", self.map(o), coordinates.join(", ")))
        }
    }
    pub(super) fn advance(&self, c: &mut Code, ring: &str) {
        c.line(format!("if (++{ring}_slot == {}) {ring}_slot = 0, {ring}_phase ^= 1;", self.memory.stages))
    }
    /// Loads in the order in which the consumers wait for them.
    pub(super) fn loads(&self, c: &mut Code, events: &[Event], first: bool, step: &dyn Fn(i32) -> String) {
        let mut resident = first;
        for e in events {
            let (Event::Issue(i) | Event::Work(i)) = e else { continue };
            for r in self.rings {
                let Some(part) = r.readers.iter().position(|u| *u == i.unit) else { continue };
                let part = if self.steps.unrolled > 1 { format!(", {part}") } else { String::new() };
                c.line(format!("load_{}({}{part});", r.name, step(i.offset)))
            }
            if std::mem::take(&mut resident) {
                self.load_resident(c)
            }
        }
    }
}
