//! The consumer warpgroups: the schedule's events, with the waits for slots, their release, and the fences around products.
use super::maps;
use super::pipeline::{Event, Instance};
use super::steps::{Left, Operand, Product, Ring, Term, Work, identifiers};
use super::text::{FIRST_BARRIER, Place, Text};
use super::unroll;
use crate::emit::code::Code;
use crate::emit::fragment::{Class, Writer};
use crate::emit::part::Refusal;
use crate::tile::Statement;
use std::collections::HashSet;

impl Text<'_, '_> {
    // ---- the consumers -------------------------------------------------------------------------------------------------
    /// Everything that a consumer does for a tile, left in the writer's code.
    pub(super) fn consumer(&self, w: &mut Writer) -> Result<Code, Refusal> {
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
        let whole = self.steps.has_whole_tiles();
        if masks && !l.domain.is_empty() {
            let cut = if whole { " && last - 1 - j >= cut" } else { "" };
            if whole {
                c.line(format!("const int cut = {} / {};  // tiles below need no mask", self.steps.bounds.full_high, self.cx.tile(l.dim)))
            }
            c.line("CLEAVE_ONCE");
            c.open(format!("for (; j < steps{cut}; j++) {{"));
            self.place(&mut c, w, Place::Body, true)?;
            c.close("}")
        }
        let left = masks && whole && self.steps.bounds.left;
        if left {
            let tile = self.cx.tile(l.dim);
            c.line(format!("const int whole = ({} + {}) / {tile};  // and those from here on", self.steps.bounds.full_low, tile - 1))
        }
        if whole || !masks {
            c.line("CLEAVE_ONCE");
            c.open(if left { "for (; j < steps && last - 1 - j >= whole; j++) {" } else { "for (; j < steps; j++) {" });
            self.place(&mut c, w, Place::Body, false)?;
            c.close("}")
        }
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
        if self.split() {
            self.gather(w)?
        }
        // where a packed column lies takes divisions: once for all rows
        let depth = w.code.depth();
        let before = std::mem::replace(&mut w.code, Code::at(depth));
        w.unpacked.replace(Some(vec![]));
        for (at, s) in self.cx.part.body.iter().enumerate().skip(self.steps.at + 1) {
            match (self.results.iter().find(|r| r.at == at), s) {
                (Some(r), _) => self.store(w, r),
                _ if self.results.iter().any(|r| r.others.contains(&at)) => {}
                // registers are full of accumulators: other fragments are made where they are stored
                (None, Statement::Load { node, .. } | Statement::Map { node }) if matches!(w.class(*node), Ok(Class::Fragment(_))) => {}
                (None, Statement::Store { output, store, .. }) => {
                    let (node, _, _) = self.cx.store_dims(*output, *store);
                    if let Class::Fragment(column) = w.class(node)?
                        && self.cx.part.dim(column).axes.len() == 1
                        && !w.registers.contains(&node)
                    {
                        w.define(node, |w, class| w.element(class, node))?
                    }
                    w.statement(s)?
                }
                (None, s) => w.statement(s)?,
            }
        }
        let results = std::mem::replace(&mut w.code, before);
        w.unpacked.take().into_iter().flatten().for_each(|line| w.code.line(line));
        w.code.append(&results);
        if self.split() {
            w.code.close("}");
            self.leave(&mut w.code)
        }
        let mut c = Code::at(3);
        c.append(&w.code);
        Ok(c)
    }
    /// Opens what only the block that is the last to arrive of those of a tile does, with the states of all.
    fn gather(&self, w: &mut Writer) -> Result<(), Refusal> {
        let (l, threads) = (self.steps.l, 128 * self.shape.warpgroups);
        w.code.open("if (pieces > 1) {");
        w.write_piece(l)?;
        w.code.close("}");
        let counter = w.counter();
        w.code.open(format!("if (pieces == 1 || cleave::last_to_arrive({counter}, pieces, arrived, {}, {threads})) {{", FIRST_BARRIER - 1));
        w.code.open("if (pieces > 1) {");
        w.merge_pieces(l)?;
        w.code.close("}");
        Ok(())
    }
    /// A block that stores no results gives back where they would have been staged.
    fn leave(&self, c: &mut Code) {
        let mut staged = self.resident().filter(|(o, _)| self.shape.persistent && self.stages(o)).peekable();
        if staged.peek().is_none() {
            return;
        }
        c.open("else {");
        for (o, _) in staged {
            c.line(format!("if ((cleave::thread() & 127) == 0) cleave::barrier_arrive({});", self.resident_barrier(o, "empty")));
            self.advance_resident(c, o)
        }
        c.close("}")
    }
    /// One copy of a stretch of the schedule.
    pub(super) fn place(&self, c: &mut Code, w: &Writer, place: Place, masked: bool) -> Result<(), Refusal> {
        let l = self.steps.l;
        let events = match place {
            Place::Prologue => &self.schedule.prologue,
            Place::Body => &self.schedule.body,
            Place::Tail => &self.schedule.tail,
        };
        let mut inner = Code::at(c.depth() + (place != Place::Body) as usize);
        self.events(&mut inner, events, place)?;
        let (start, column, tile) = (self.cx.start(l.dim), w.column_name(l.dim), self.cx.tile(l.dim));
        let text = inner.text();
        let used: HashSet<&str> = identifiers(text).collect();
        let later: Vec<(u32, String, String)> =
            (1..self.steps.unrolled).map(|step| (step * tile, unroll::later(self.cx, &start, step), unroll::later(self.cx, &column, step))).collect();
        let needs_column = used.contains(&*column) || later.iter().any(|l| used.contains(&*l.2));
        let needs_start = needs_column || used.contains(&*start) || later.iter().any(|l| used.contains(&*l.1));
        if place != Place::Body {
            c.open("{")
        }
        if text.contains("partial") {
            c.line(format!("constexpr bool partial = {masked};"))
        }
        if needs_start {
            let step = if place == Place::Body { "j" } else { "0" };
            c.line(format!("const int {start} = {} * {};", self.visited(step), tile * self.steps.unrolled))
        }
        if needs_column {
            c.line(w.column_line(l.dim))
        }
        for (positions, later_start, later_column) in &later {
            if used.contains(&**later_start) {
                c.line(format!("const int {later_start} = {start} + {positions};"))
            }
            if used.contains(&**later_column) {
                c.line(format!("const int {later_column} = {column} + {positions};"))
            }
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
    pub(super) fn clear(&self, c: &mut Code, above: bool) -> Result<(), Refusal> {
        for r in self.rings {
            let operands: Vec<&Operand> = r.operands.iter().map(|o| &self.steps.operands[*o]).filter(|o| o.cleared).collect();
            if operands.is_empty() {
                continue;
            }
            // read as keys, rows beyond the end give what a mask leaves out
            let at_once = |unit: usize| r.again.map_or(r.readers.contains(&unit), |last| last == unit);
            if self.schedule.prologue.iter().any(|e| matches!(e, Event::Issue(i) if at_once(i.unit))) {
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
            if r.again.is_none() {
                self.await_slot(c, r)
            }
            for o in operands {
                c.line(format!("cleave::clear_rows<{}, {}>({}, {first}, {end});", o.rows, o.columns, self.slot(r, o, r.again)))
            }
            c.line("cleave::publish_shared();");
            c.line(format!("cleave::barrier_of({FIRST_BARRIER} + warpgroup, 128);"));
            c.close("}")
        }
        Ok(())
    }
    /// Where a unit, or the first reader, finds an operand.
    pub(super) fn slot(&self, r: &Ring, o: &Operand, unit: Option<usize>) -> String {
        let which = if unit.is_some() && unit == r.again { "freed" } else { "slot" };
        let before = r.operands.iter().map(|i| &self.steps.operands[*i]).take_while(|x| x.node != o.node);
        let offset: u32 = before.map(Operand::bytes).sum();
        let start = format!("{0}_ring + {0}_{which} * {1}", r.name, r.bytes);
        if offset == 0 { start } else { format!("{start} + {offset}") }
    }
    pub(super) fn ring_of(&self, unit: usize) -> impl Iterator<Item = &Ring> {
        self.rings.iter().filter(move |r| r.readers.contains(&unit))
    }
    /// Whether a ring's next slot is awaited before the wait for its reader: see [`Shape::early`].
    pub(super) fn early(&self, r: &Ring) -> bool {
        self.shape.early && r.readers.iter().all(|u| self.schedule.is_shifted(*u))
    }
    /// Whether the slot that is given back is not the one in use.
    pub(super) fn lags(&self, r: &Ring) -> bool {
        self.early(r) || r.again.is_some() || r.readers.iter().any(|u| self.schedule.lags(*u))
    }
    pub(super) fn await_slot(&self, c: &mut Code, r: &Ring) {
        c.line(format!("cleave::barrier_wait({0}_full + 8 * {0}_slot, {0}_phase);", r.name))
    }
    pub(super) fn products(&self, i: &Instance) -> impl Iterator<Item = &Product> {
        let all = self.schedule.products(i.unit).iter();
        all.filter_map(|o| if let Work::Product(p) = &self.steps.work[*o] { Some(p) } else { None })
    }
    pub(super) fn events(&self, c: &mut Code, events: &[Event], place: Place) -> Result<(), Refusal> {
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
    pub(super) fn read(&self, c: &mut Code, unit: usize, o: &Operand, declaration: &str, name: &str) {
        for r in self.ring_of(unit) {
            self.await_slot(c, r);
            c.line(declaration);
            let at = self.slot(r, o, None);
            c.line(match o.rows {
                1 => format!("cleave::read_columns({name}, {at}, {}());", o.dtype),
                rows => {
                    format!("cleave::read_tile<false>({name}, cleave::Tile<{}, {rows}, {}>{{{at} - cleave::shared_start()}}, warp_row, 0);", o.dtype, o.columns)
                }
            });
            c.line(format!("if (cleave::lane() == 0) cleave::barrier_arrive({0}_empty + 8 * {0}_slot);", r.name));
            self.advance(c, &r.name)
        }
    }
    pub(super) fn issue(&self, c: &mut Code, run: &[&Instance], first: bool) {
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
                self.product(c, p, i.unit)
            }
            c.line("cleave::products_commit();");
            for r in self.ring_of(i.unit).filter(|r| self.lags(r)) {
                self.advance(c, &r.name)
            }
        }
    }
    pub(super) fn product(&self, c: &mut Code, p: &Product, unit: usize) {
        let name = self.cx.value_name(p.node);
        let address = |o: usize| match self.rings.iter().find(|r| r.operands.contains(&o)) {
            Some(r) => self.slot(r, &self.steps.operands[o], Some(unit)),
            None => self.resident_tile(&self.steps.operands[o]),
        };
        for (n, Term { left, right, by_rows, depth }) in p.terms.iter().enumerate() {
            let b = &self.steps.operands[*right];
            let (mut to, fresh) = (address(*right), n == 0 && !p.carried);
            if p.shared_out {
                // a warpgroup's columns: blocks of 64, or rows of a K-major tile
                let bytes = if *by_rows { p.columns / maps::COLUMNS * b.rows } else { p.columns } * 128;
                to += &format!(" + {} * {bytes}", self.shape.column_group())
            }
            c.line(match left {
                Left::Shared(o) => {
                    let a = &self.steps.operands[*o];
                    let from = format!("{} + {} * {}", address(*o), self.shape.row_group(), self.steps.between_warpgroups(a));
                    format!("cleave::multiply_shared<{depth}, {}, {}, {by_rows}, {}>({name}, {from}, {to}, {fresh}, {}());", a.mn, a.rows, b.rows, b.dtype)
                }
                Left::Packed(packed) => format!("cleave::multiply_registers<{depth}, {by_rows}, {}>({name}, {packed}, {to}, {fresh});", b.rows),
            })
        }
    }
    pub(super) fn wait(&self, c: &mut Code, younger: usize, retired: &[Instance], place: Place) {
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
            for r in self.rings.iter().filter(|r| r.again.map_or(r.readers.contains(&i.unit), |last| last == i.unit)) {
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
