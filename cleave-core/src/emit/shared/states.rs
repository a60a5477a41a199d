//! States in shared memory: their frames, the move of their members from one frame to another, and the merge of a split's pieces.
use super::*;

impl Writer<'_> {
    pub(super) fn rebase(&mut self, frame: NodeId) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        let Op::Frame(row, axes) = g.op(frame) else { return Err(format!("t{} is no frame", frame.0)) };
        let row = *row;
        let over: Vec<DimId> = self.cx.part.dims_of(*axes).iter().collect();
        let (dims, at) = self.hold(frame);
        let before = self.scratch(frame, "before");
        let operands = g.operands(frame).to_vec();
        let lanes = self.few(&dims);
        self.each(&dims, lanes, |w| {
            w.code.line(match row.statistic {
                Statistic::Greatest => "float x = -cleave::infinity();",
                Statistic::Mean => "float x = 0.0f, count = 0.0f;",
            });
            w.open_over(&over, lanes);
            let key = w.element(operands[0]);
            let condition = operands[1..].iter().map(|p| format!("({})", w.site(|s| w.cx.condition(s, *p)))).collect::<Vec<_>>().join(" && ");
            let update = match row.statistic {
                Statistic::Greatest => format!("x = cleave::greater(x, {key});"),
                Statistic::Mean => format!("{{ x += {key}; count += 1.0f; }}"),
            };
            w.code.line(if condition.is_empty() { update } else { format!("if ({condition}) {update}") });
            w.close_over(&over);
            if lanes {
                match row.statistic {
                    Statistic::Greatest => w.code.line("x = cleave::join_warp(x, cleave::Greatest());"),
                    Statistic::Mean => w.code.line("x = cleave::join_warp(x, cleave::Sum()); count = cleave::join_warp(count, cleave::Sum());"),
                }
                w.code.open("if (cleave::lane() == 0) {")
            }
            if row.statistic == Statistic::Mean {
                w.code.line("x = count > 0.0f ? x / count : cleave::not_a_number();")
            }
            let slot = w.slot(&dims, at, &|d| w.local(d));
            let old = w.slot(&dims, before, &|d| w.local(d));
            w.code.line(format!("{old} = {slot};"));
            w.code.line(format!("{slot} = {};", (row.code.merge)(&old, &(row.code.suited)("x"))));
            if lanes {
                w.code.close("}")
            }
        });
        let state = self.state_of(frame)?;
        self.transport(&state, &dims, before, at, &|w, node| w.held[&node].1);
        Ok(())
    }
    /// A second tile of a frame's shape.
    pub(super) fn scratch(&mut self, frame: NodeId, what: &str) -> u32 {
        // keyed by a name, so that every rebase of a frame shares it
        let key = NodeId(u32::MAX - 2 * frame.0 - (what == "in") as u32);
        if let Some(h) = self.held.get(&key) {
            return h.1;
        }
        let dims = self.cx.wide_of(self.cx.part.of(frame));
        let at = self.reserve(self.length(&dims));
        self.held.insert(key, (dims, at));
        at
    }
    pub(super) fn state_of(&self, frame: NodeId) -> Result<State, Refusal> {
        let all = self.cx.part.statements();
        let found = all.iter().find_map(|(_, s)| if let Statement::Loop(l) = s { l.states.iter().find(|s| s.frame == Some(frame)).cloned() } else { None });
        found.ok_or_else(|| format!("t{} has no state", frame.0))
    }
    /// Moves the members of a state, which lie at `at`, from the frame at `from` to the one at `to`.
    pub(super) fn transport(&mut self, state: &State, frame_dims: &[DimId], from: u32, to: u32, at: &dyn Fn(&Self, NodeId) -> u32) {
        let row = self.row(state.frame.expect("a frame is transported"));
        for m in &state.in_order() {
            // a count stays what it is, and may lack dims of the frame
            let steps = Step::of(m);
            if steps.is_empty() {
                continue;
            }
            let dims = self.held[&m.node].0.clone();
            let place = at(self, m.node);
            let tower: Vec<(i8, u32, Vec<DimId>)> = state.tower_to(m).iter().map(|x| (x.moment, at(self, x.node), self.held[&x.node].0.clone())).collect();
            self.each(&dims, false, |w| {
                let slot = w.slot(&dims, place, &|d| w.local(d));
                let (from, to) = (w.slot(frame_dims, from, &|d| w.local(d)), w.slot(frame_dims, to, &|d| w.local(d)));
                let lower = |q: i8| tower.iter().find(|x| x.0 == q).map_or("0.0f".into(), |x| w.slot(&x.2, x.1, &|d| w.local(d)));
                let moved = frames::moved(m, &slot, &|s| s.name("frame"), &lower);
                for s in &steps {
                    w.code.line(format!("const float {} = {};", s.name("frame"), s.expression(&row, &from, &to)))
                }
                w.code.line(format!("{slot} = {moved};"))
            })
        }
    }
    /// After a split loop: every piece but the last to arrive leaves its states and ends; the last one merges them in order.
    pub(super) fn merge_pieces(&mut self, l: &Loop) -> u32 {
        let mut floats = 0;
        let mut places: HashMap<NodeId, u32> = HashMap::new();
        for s in &l.states {
            for n in s.frame.iter().copied().chain(s.members.iter().map(|m| m.node)) {
                places.insert(n, floats);
                floats += self.length(&self.held[&n].0)
            }
        }
        let number = self.cx.number;
        let (partials, counters) = (self.cx.name("partials", "partials"), self.cx.name("counters", "counters"));
        self.cx.words.constant(Word::Partials(number), |w| format!("float* const {partials} = (float*){w};"));
        self.cx.words.constant(Word::Counters(number), |w| format!("cleave::u32* const {counters} = (cleave::u32*){w};"));
        self.code.open("if (pieces > 1) {  // the last piece to arrive merges all, in order");
        self.code.line(format!("float* const mine = {partials} + ((cleave::i64)item * pieces + piece) * {floats};"));
        let nodes: Vec<NodeId> = l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node))).collect();
        for n in &nodes {
            let (dims, at) = self.held[n].clone();
            let (length, place) = (self.length(&dims), places[n]);
            self.code.line("CLEAVE_ONCE");
            self.code.line(format!("for (int e = cleave::thread(); e < {length}; e += {THREADS}) mine[{place} + e] = at[{at} + e];"))
        }
        self.code.line(format!("if (!cleave::last_to_arrive({counters} + item, pieces, 0)) return;"));
        self.reset(l);
        self.code.line("CLEAVE_ONCE");
        self.code.open("for (int other = 0; other < pieces; other++) {");
        self.code.line(format!("const float* const theirs = {partials} + ((cleave::i64)item * pieces + other) * {floats};"));
        for s in &l.states {
            let mut incoming: HashMap<NodeId, u32> = HashMap::new();
            for m in &s.members {
                let (dims, _) = self.held[&m.node].clone();
                let (length, place) = (self.length(&dims), places[&m.node]);
                let at = self.reserve(length);
                incoming.insert(m.node, at);
                self.code.line("CLEAVE_ONCE");
                self.code.line(format!("for (int e = cleave::thread(); e < {length}; e += {THREADS}) at[{at} + e] = theirs[{place} + e];"))
            }
            if let Some(f) = s.frame {
                let row = self.row(f);
                let (dims, at) = self.held[&f].clone();
                let (before, theirs) = (self.scratch(f, "before"), self.scratch(f, "in"));
                // one value has no loop over elements
                let place = if self.length(&dims) == 1 { places[&f].to_string() } else { format!("{} + e", places[&f]) };
                self.each(&dims, false, |w| {
                    let local = |d: DimId| w.local(d);
                    let (slot, old, new) = (w.slot(&dims, at, &local), w.slot(&dims, before, &local), w.slot(&dims, theirs, &local));
                    w.code.line(format!("{old} = {slot};"));
                    w.code.line(format!("{new} = theirs[{place}];"));
                    w.code.line(format!("{slot} = {};", (row.code.merge)(&old, &new)))
                });
                self.transport(s, &dims, before, at, &|w, n| w.held[&n].1);
                self.transport(s, &dims, theirs, at, &|_, n| incoming[&n])
            } else {
                self.code.line("cleave::barrier();")
            }
            for m in &s.members {
                let (dims, at) = self.held[&m.node].clone();
                let from = incoming[&m.node];
                let maximum = matches!(self.cx.part.graph.op(m.node), Op::Maximum(_));
                self.each(&dims, false, |w| {
                    let local = |d: DimId| w.local(d);
                    let (slot, x) = (w.slot(&dims, at, &local), w.slot(&dims, from, &local));
                    w.code.line(if maximum { format!("{slot} = cleave::greater({slot}, {x});") } else { format!("{slot} += {x};") })
                })
            }
        }
        self.code.close("}");
        self.code.close("}");
        floats
    }
}
