//! States of warps that shared a loop, and of pieces of a split, merged in order by the table of frames.
use super::*;

/// A state, and the first of its words in what a thread stores.
type StateWords = (NodeId, Class, u32);

impl Writer<'_> {
    /// States in the order of their words: `(node, class, first word)`, and the words of a thread.
    pub(in crate::emit) fn state_words(&self, l: &Loop) -> Result<(Vec<StateWords>, u32), Refusal> {
        let (mut all, mut at) = (vec![], 0);
        for n in l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node))) {
            let class = self.class(n)?;
            all.push((n, class, at));
            at += match class {
                Class::Fragment(c) => self.shape.blocks * self.local(c) / 2,
                Class::Rows => self.shape.blocks * 2,
                Class::Columns(c) => self.local(c) / 4,
                Class::Scalar => 1,
            }
        }
        Ok((all, at))
    }
    pub(in crate::emit) fn word(&self, pointer: &str, class: Class, at: u32, stride: u32) -> String {
        let index = match class {
            Class::Fragment(c) => format!("{at} + i * {} + j * 4 + c", self.local(c) / 2),
            Class::Rows => format!("{at} + 2 * i + h"),
            Class::Columns(_) => format!("{at} + 2 * j + h"),
            Class::Scalar => format!("{at}"),
        };
        format!("{pointer}[({index}) * {stride}]")
    }
    pub(in crate::emit) fn write_states(&mut self, words: &[StateWords], stride: u32) {
        for (n, class, at) in words {
            let name = self.cx.value_name(*n);
            let (to, x) = (self.word("mine", *class, *at, stride), Lane { writer: self, class: *class }.value(*n).unwrap_or_default());
            self.code.line(format!("cleave::visit({name}, [&]({}) {{ {to} = {x}; }});", Self::indices(*class)))
        }
    }
    /// Merges the states at `theirs` into those in registers.
    pub(in crate::emit) fn merge_states(&mut self, l: &Loop, words: &[StateWords], stride: u32) -> Result<(), Refusal> {
        let at = |n: NodeId| words.iter().find(|w| w.0 == n).map_or(0, |w| w.2);
        for s in &l.states {
            let Some(f) = s.frame else {
                for m in &s.members {
                    let (class, name) = (self.class(m.node)?, self.cx.value_name(m.node));
                    let (x, y) = (Lane { writer: self, class }.value(m.node).unwrap_or_default(), self.word("theirs", class, at(m.node), stride));
                    let sum = if self.identity(m.node) == "0.0f" { format!("{x} + {y}") } else { format!("cleave::greater({x}, {y})") };
                    self.code.line(format!("cleave::each({name}, [&]({}) {{ return {sum}; }});", Self::indices(class)))
                }
                continue;
            };
            let row = self.row(f);
            let name = self.cx.value_name(f);
            let kind = self.type_of(Class::Rows);
            let (mine, other) = (format!("{name}_mine"), format!("{name}_theirs"));
            self.code.open("{");
            self.code.line(format!("const {kind} {mine} = {name};"));
            self.code.line(format!("{kind} {other};"));
            let word = self.word("theirs", Class::Rows, at(f), stride);
            self.code.line(format!("cleave::each({other}, [&](int i, int h) {{ return {word}; }});"));
            let merged = (row.code.merge)(&format!("{mine}(i, h)"), &format!("{other}(i, h)"));
            self.code.line(format!("cleave::each({name}, [&](int i, int h) {{ return {merged}; }});"));
            let members = s.in_order();
            for (from, step) in [&mine, &other].into_iter().flat_map(|from| Step::of_all(&members).into_iter().map(move |s| (from, s))) {
                let x = step.expression(&row, &format!("{from}(i, h)"), &format!("{name}(i, h)"));
                self.code.line(format!("{kind} {};", step.name(from)));
                self.code.line(format!("cleave::each({}, [&](int i, int h) {{ return {x}; }});", step.name(from)))
            }
            for m in &members {
                let class = self.class(m.node)?;
                let index = if class == Class::Rows { "(i, h)" } else { "(i, c >> 1)" };
                let value = |n: NodeId| Lane { writer: self, class }.value(n).unwrap_or_default();
                let node_of = |q: i8| members.iter().find(|x| x.tower == m.tower && x.moment == q).map(|x| x.node);
                let lower_mine = |q: i8| node_of(q).map_or("0.0f".into(), value);
                let theirs = |n: NodeId| self.word("theirs", class, at(n), stride);
                let lower_theirs = |q: i8| node_of(q).map_or("0.0f".into(), theirs);
                let a = frames::moved(m, &value(m.node), &|s| s.name(&mine) + index, &lower_mine);
                let b = frames::moved(m, &theirs(m.node), &|s| s.name(&other) + index, &lower_theirs);
                let member = self.cx.value_name(m.node);
                self.code.line(format!("cleave::each({member}, [&]({}) {{ return {a} + {b}; }});", Self::indices(class)))
            }
            self.code.close("}")
        }
        Ok(())
    }
    /// The states of the warps that shared a loop or pieces: half of the warps give theirs to the other half, until the first has all. Where a later loop
    /// asks for them, all warps get them back.
    fn merge_warps(&mut self, l: &Loop, words: &[StateWords], free: u32) -> Result<(), Refusal> {
        let s = self.shape;
        let (count, stride) = (self.state_words(l)?.1, self.sharers());
        let half = s.warp_loop / 2;
        self.code.open("{  // the warps' states");
        self.code.line(format!("float* const states = (float*)(cleave::shared_memory + {free}) + cleave::thread() % {stride};"));
        self.code.line("cleave::barrier();");
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int half = {half}; half > 0; half >>= 1) {{"));
        self.code.open("if (warp_loop >= half && warp_loop < 2 * half) {");
        self.code.line(format!("float* const mine = states + (warp_loop - half) * {};", count * stride));
        self.write_states(words, stride);
        self.code.close("}");
        self.code.line("cleave::barrier();");
        self.code.open("if (warp_loop < half) {");
        self.code.line(format!("const float* const theirs = states + warp_loop * {};", count * stride));
        self.merge_states(l, words, stride)?;
        self.code.close("}");
        self.code.line("cleave::barrier();");
        self.code.close("}");
        let last = self.cx.part.split_loop().is_some_and(|i| matches!(&self.cx.part.body[i], Statement::Loop(last) if std::ptr::eq(last, l)));
        if !last {
            self.code.line("float* const mine = states;");
            self.code.open("if (warp_loop == 0) {");
            self.write_states(words, stride);
            self.code.close("}");
            self.code.line("cleave::barrier();");
            self.code.line("const float* const theirs = states;");
            self.code.open("if (warp_loop > 0) {");
            self.reset(l, false)?;
            self.merge_states(l, words, stride)?;
            self.code.close("}");
            self.code.line("cleave::barrier();")
        }
        self.code.close("}");
        self.shared = self.shared.max(free + half * count * stride * 4);
        Ok(())
    }
    /// The states of the warps that shared a loop, then those of the pieces of a split, merged in order.
    pub(in crate::emit) fn merge(&mut self, l: &Loop, split: bool, free: u32) -> Result<u64, Refusal> {
        let (words, count) = self.state_words(l)?;
        let s = self.shape;
        if s.warp_loop > 1 && count > 0 {
            self.merge_warps(l, &words, free)?
        }
        if !split || count == 0 {
            return Ok(0);
        }
        let counter = self.counter();
        self.code.open("if (pieces > 1) {  // the last piece to arrive merges all, in order");
        self.write_piece(l)?;
        self.code.line(format!("if (!cleave::last_to_arrive({counter}, pieces, {free})) return;"));
        self.merge_pieces(l)?;
        if s.warp_loop > 1 {
            self.merge_warps(l, &words, free)?
        }
        self.code.close("}");
        self.shared = self.shared.max(free + 16);
        self.piece_bytes(l)
    }

    // ---- pieces of a split ---------------------------------------------------------------------------------------------
    /// Bytes of the states of a piece.
    pub(in crate::emit) fn piece_bytes(&self, l: &Loop) -> Result<u64, Refusal> {
        Ok(self.state_words(l)?.1 as u64 * self.sharers() as u64 * 4)
    }
    /// Where the pieces of the item at hand are counted.
    pub(in crate::emit) fn counter(&self) -> String {
        let counters = self.cx.name("counters", "counters");
        self.cx.words.constant(Word::Counters(self.cx.number), |w| format!("cleave::u32* const {counters} = (cleave::u32*){w};"));
        format!("{counters} + item")
    }
    /// Threads that have a state each, beside those that share the loop with them.
    fn sharers(&self) -> u32 {
        32 * self.shape.warp_rows * self.shape.warp_columns
    }
    /// The states of an item's piece, as an expression.
    fn piece(&self, l: &Loop, which: &str) -> Result<String, Refusal> {
        let (stride, count) = (self.sharers(), self.state_words(l)?.1);
        let partials = self.cx.name("partials", "partials");
        self.cx.words.constant(Word::Partials(self.cx.number), |w| format!("float* const {partials} = (float*){w};"));
        Ok(format!("{partials} + ((cleave::i64)item * pieces + {which}) * {} + cleave::thread() % {stride}", count * stride))
    }
    /// The piece at hand leaves its states.
    pub(in crate::emit) fn write_piece(&mut self, l: &Loop) -> Result<(), Refusal> {
        let (words, _) = self.state_words(l)?;
        let mine = self.piece(l, "piece")?;
        self.code.open(if self.shape.warp_loop > 1 { "if (warp_loop == 0) {" } else { "{" });
        self.code.line(format!("float* const mine = {mine};"));
        self.write_states(&words, self.sharers());
        self.code.close("}");
        Ok(())
    }
    /// All pieces, in order, into the states at hand.
    pub(in crate::emit) fn merge_pieces(&mut self, l: &Loop) -> Result<(), Refusal> {
        let (words, _) = self.state_words(l)?;
        self.reset(l, false)?;
        // warps that shared the loop share the pieces, too: their reads are under way at the same time
        let (first, step) = if self.shape.warp_loop > 1 { ("warp_loop", self.shape.warp_loop) } else { ("0", 1) };
        let theirs = self.piece(l, "other")?;
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int other = {first}; other < pieces; other += {step}) {{"));
        self.code.line(format!("const float* const theirs = {theirs};"));
        self.merge_states(l, &words, self.sharers())?;
        self.code.close("}");
        Ok(())
    }
}
