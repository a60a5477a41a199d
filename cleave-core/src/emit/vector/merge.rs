//! States merged by the table of frames. One function merges two states; the levels differ in where the other one lies: in another lane,
//! in another warp of the group, in another piece of a split.
use super::*;
use crate::emit::frames::{self, Step};
use crate::plan::Word;
use crate::tile::{Loop, Member, State};

impl Writer<'_> {
    pub(super) fn state_of(&self, frame: NodeId) -> Result<State, Refusal> {
        let all = self.cx.part.statements();
        let found = all.iter().find_map(|(_, s)| if let Statement::Loop(l) = s { l.states.iter().find(|s| s.frame == Some(frame)).cloned() } else { None });
        found.ok_or_else(|| format!("t{} has no state", frame.0))
    }
    pub(super) fn value_at(&self, node: NodeId) -> String {
        let element = if self.varies(node) { "[chunk][e]" } else { "" };
        format!("{}{}{element}", self.cx.value_name(node), self.indices(self.cx.part.of(node)))
    }
    /// Opens loops over the elements of a frame.
    pub(super) fn open_frame(&mut self, frame: NodeId) -> usize {
        let n = self.open_unrolled(self.cx.part.of(frame));
        if self.varies(frame) { n + self.open_chunks() + self.open_elements() } else { n }
    }
    /// Opens loops over what a member has beyond its frame.
    fn open_member(&mut self, m: &Member, frame: Option<NodeId>) -> usize {
        let beyond = frame.map_or(DimSet::EMPTY, |f| self.cx.part.of(f));
        let mut n = self.open_unrolled(self.cx.part.of(m.node).difference(beyond));
        if self.varies(m.node) && !frame.is_some_and(|f| self.varies(f)) {
            n += self.open_chunks() + self.open_elements()
        }
        n
    }
    /// Declares the steps from a frame to another.
    fn steps(&mut self, state: &State, from: &str, to: &str) {
        let row = self.row(state.frame.expect("a frame is transported"));
        for s in Step::of_all(&state.in_order()) {
            self.code.line(format!("const float {} = {};", s.name(from), s.expression(&row, from, to)))
        }
    }
    /// A member after its move from a frame, its value and those of its tower given by `value`.
    fn moved(&self, state: &State, m: &Member, from: &str, value: &dyn Fn(NodeId) -> String) -> String {
        let lower = |q: i8| state.tower_to(m).iter().find(|x| x.moment == q).map_or("0.0f".into(), |x| value(x.node));
        frames::moved(m, &value(m.node), &|s| s.name(from), &lower)
    }
    /// Moves a state's members from one value of its frame to another, at one element of the frame.
    pub(super) fn transport(&mut self, state: &State, from: &str, to: &str) {
        self.steps(state, from, to);
        for m in state.in_order() {
            let x = self.moved(state, &m, from, &|n| self.value_at(n));
            let at = self.value_at(m.node);
            if x != at {
                let n = self.open_member(&m, state.frame);
                self.code.line(format!("{at} = {x};"));
                self.close(n)
            }
        }
    }
    /// Merges into every state another one, an element of which `theirs` gives.
    fn merge_states(&mut self, l: &Loop, theirs: &dyn Fn(&Self, NodeId) -> String) {
        for s in &l.states {
            let Some(f) = s.frame else {
                for m in &s.members {
                    let n = self.open_member(m, None);
                    let (x, y) = (self.value_at(m.node), theirs(self, m.node));
                    let maximum = self.identity(m.node) != "0.0f";
                    self.code.line(if maximum { format!("{x} = cleave::greater({x}, {y});") } else { format!("{x} += {y};") });
                    self.close(n)
                }
                continue;
            };
            let row = self.row(f);
            let outer = self.open_frame(f);
            self.code.open("{");
            let (at, other) = (self.value_at(f), theirs(self, f));
            self.code.line(format!("const float mine = {at}, other = {other};"));
            self.code.line(format!("{at} = {};", (row.code.merge)("mine", "other")));
            self.steps(s, "mine", &at);
            self.steps(s, "other", &at);
            for m in s.in_order() {
                let n = self.open_member(&m, s.frame);
                let a = self.moved(s, &m, "mine", &|n| self.value_at(n));
                let b = self.moved(s, &m, "other", &|n| theirs(self, n));
                let x = self.value_at(m.node);
                self.code.line(format!("{x} = {a} + {b};"));
                self.close(n)
            }
            self.code.close("}");
            self.close(outer)
        }
    }
    fn merge_lanes(&mut self, l: &Loop, lanes: u32) {
        self.code.line("CLEAVE_UNROLL");
        self.code.open(format!("for (int mask = {}; mask > 0; mask >>= 1) {{", lanes / 2));
        self.merge_states(l, &|w, n| format!("cleave::shuffle_xor({}, mask)", w.value_at(n)));
        self.code.close("}")
    }
    /// States in the order of their words, each with its first, and the words of a thread.
    fn words(&self, l: &Loop) -> (Vec<(NodeId, u32)>, u32) {
        let (mut all, mut at) = (vec![], 0);
        for n in l.states.iter().flat_map(|s| s.frame.into_iter().chain(s.members.iter().map(|m| m.node))) {
            all.push((n, at));
            let chunks = if self.varies(n) { self.shape.chunks * self.shape.width } else { 1 };
            at += chunks * self.unrolled(self.cx.part.of(n)).iter().map(|d| self.local(*d)).product::<u32>()
        }
        (all, at)
    }
    /// The word of a state's element at hand, words lying `stride` apart.
    fn word(&self, words: &[(NodeId, u32)], node: NodeId, stride: u32) -> String {
        let first = words.iter().find(|w| w.0 == node).map_or(0, |w| w.1);
        let mut radices: Vec<(String, u32)> = self.unrolled(self.cx.part.of(node)).iter().map(|d| (self.index(*d), self.local(*d))).collect();
        if self.varies(node) {
            radices.extend([("chunk".into(), self.shape.chunks), ("e".into(), self.shape.width)])
        }
        let i = radices.iter().fold(String::new(), |s, (i, n)| if s.is_empty() { i.clone() } else { format!("({s}) * {n} + {i}") });
        let word = if i.is_empty() { first.to_string() } else { format!("{first} + {i}") };
        if stride == 1 { word } else { format!("({word}) * {stride}") }
    }
    fn copy_states(&mut self, words: &[(NodeId, u32)], stride: u32, to_memory: bool) {
        for (node, _) in words {
            let n = self.open_frame(*node);
            let (x, word) = (self.value_at(*node), self.word(words, *node, stride));
            self.code.line(if to_memory { format!("mine[{word}] = {x};") } else { format!("{x} = theirs[{word}];") });
            self.close(n)
        }
    }
    /// The shares of the threads along a loop, after which every thread that holds an element has the whole of it.
    pub(super) fn join(&mut self, l: &Loop) -> Result<(), Refusal> {
        let (words, count) = self.words(l);
        if count == 0 {
            return Ok(());
        }
        if self.shape.share.is_some() {
            self.join_groups(l, &words, count);
            return Ok(());
        }
        self.merge_lanes(l, 32);
        let warps = self.shape.group / 32;
        if warps > 1 {
            let all = self.shape.threads() / 32;
            self.code.open("{  // the warps of the group");
            self.code.line("float* const states = (float*)(cleave::shared_memory + 16);");
            self.code.line("cleave::barrier();");
            self.code.open("if (cleave::lane() == 0) {");
            self.code.line(format!("float* const mine = states + {} * {count};", self.warp()));
            self.copy_states(&words, 1, true);
            self.code.close("}");
            self.code.line("cleave::barrier();");
            let first = if self.shape.groups == 1 { String::new() } else { format!("{} / {warps} * {warps} + ", self.warp()) };
            self.code.line(format!("const float* const theirs = states + ({first}cleave::lane() % {warps}) * {count};"));
            self.copy_states(&words, 1, false);
            self.merge_lanes(l, warps);
            self.code.close("}");
            let used = 16 + all * count * 4;
            if !self.slots.is_empty() && used > self.shape.room() {
                return Err(format!("{used} bytes of states beside rows in shared memory"));
            }
            self.shared = self.shared.max(used)
        }
        Ok(())
    }
    /// Groups that shared a loop or pieces: each thread merges the states of those that hold the same elements, in order.
    fn join_groups(&mut self, l: &Loop, words: &[(NodeId, u32)], count: u32) {
        let (group, groups) = (self.shape.group, self.shape.groups);
        self.code.open("{  // the groups that shared the loop");
        self.code.line(format!("float* const states = (float*)(cleave::shared_memory + 16) + cleave::thread() % {group};"));
        self.code.line("cleave::barrier();");
        self.code.line(format!("float* const mine = states + {} / {} * {};", self.warp(), group / 32, count * group));
        self.copy_states(words, group, true);
        self.code.line("cleave::barrier();");
        self.reset(l);
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int other = 0; other < {groups}; other++) {{"));
        self.code.line(format!("const float* const theirs = states + other * {};", count * group));
        self.merge_states(l, &|w, n| format!("theirs[{}]", w.word(words, n, group)));
        self.code.close("}");
        self.code.close("}");
        self.shared = self.shared.max(16 + groups * count * group * 4)
    }
    /// After a split loop: every piece but the last to arrive leaves its states and ends; lanes, or groups, of the last one take the pieces
    /// in turn.
    pub(super) fn merge_pieces(&mut self, l: &Loop) -> Result<u64, Refusal> {
        let (words, count) = self.words(l);
        if count == 0 {
            return Ok(0);
        }
        let (group, groups, apart) = (self.shape.group, self.shape.groups, self.shape.share.is_some());
        // states that vary along the lane dim: a thread's words lie a group apart
        let (floats, stride) = if apart { (count * group, group) } else { (count * groups, 1) };
        let place = match (apart, groups) {
            (true, _) => format!(" + cleave::thread() % {group}"),
            (false, 1) => String::new(),
            (false, _) => format!(" + {} / {} * {count}", self.warp(), group / 32),
        };
        let number = self.cx.number;
        let (partials, counters) = (self.cx.name("partials", "partials"), self.cx.name("counters", "counters"));
        self.cx.words.constant(Word::Partials(number), |w| format!("float* const {partials} = (float*){w};"));
        self.cx.words.constant(Word::Counters(number), |w| format!("cleave::u32* const {counters} = (cleave::u32*){w};"));
        self.code.open("if (pieces > 1) {  // the last piece to arrive merges all");
        self.code.line(format!("float* const states = {partials} + (cleave::i64)item * pieces * {floats}{place};"));
        let writers = if apart { format!("cleave::thread() < {group}") } else { self.leader() };
        self.code.open(format!("if ({writers}) {{"));
        self.code.line(format!("float* const mine = states + (cleave::i64)piece * {floats};"));
        self.copy_states(&words, stride, true);
        self.code.close("}");
        self.code.line(format!("if (!cleave::last_to_arrive({counters} + item, pieces, 0)) return;"));
        self.reset(l);
        let (first, step) = if apart { (format!("{} / {}", self.warp(), group / 32), groups) } else { ("cleave::lane()".into(), 32) };
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int at = {first}; at < pieces; at += {step}) {{"));
        self.code.line(format!("const float* const theirs = states + (cleave::i64)at * {floats};"));
        self.merge_states(l, &|w, n| format!("theirs[{}]", w.word(&words, n, stride)));
        self.code.close("}");
        if apart {
            self.join_groups(l, &words, count)
        } else {
            self.merge_lanes(l, 32)
        }
        self.code.close("}");
        Ok(floats as u64 * 4)
    }
}
