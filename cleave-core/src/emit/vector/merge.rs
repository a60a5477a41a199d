//! States merged by the table of frames. One function merges two states; the levels differ in where the other one lies: in another lane,
//! in another warp of the group, in another piece of a split.
use super::*;
use crate::emit::frames;
use crate::plan::Word;
use crate::tile::{Loop, Member, State};

impl Writer<'_> {
    pub(super) fn state_of(&self, frame: NodeId) -> Result<State, Refusal> {
        let all = self.cx.part.statements();
        let found = all.iter().find_map(|(_, s)| if let Statement::Loop(l) = s { l.states.iter().find(|s| s.frame == Some(frame)).cloned() } else { None });
        found.ok_or_else(|| format!("t{} has no state", frame.0))
    }
    fn value_at(&self, node: NodeId) -> String {
        let element = if self.varies(node) { "[v][e]" } else { "" };
        format!("{}{}{element}", self.cx.value_name(node), self.indices(self.cx.part.of(node)))
    }
    /// Opens loops over what a member has beyond its frame.
    fn open_member(&mut self, m: &Member, frame: Option<NodeId>) -> usize {
        let beyond = frame.map_or(DimSet::EMPTY, |f| self.cx.part.of(f));
        let mut n = self.open_unrolled(self.cx.part.of(m.node).difference(beyond));
        if self.varies(m.node) {
            n += self.open_chunks() + self.open_elements()
        }
        n
    }
    /// Members in the order in which they move: of a tower the highest degree first, as it reads the lower ones.
    fn ordered(state: &State) -> Vec<Member> {
        let mut members = state.members.clone();
        members.sort_by_key(|m| (m.tower, std::cmp::Reverse(m.degree)));
        members
    }
    /// Declares the steps from a frame to another for each degree that needs one of its own; gives their names.
    fn steps(&mut self, state: &State, from: &str, to: &str) -> Vec<(i8, String)> {
        let row = frames::code(self.kind(state.frame.expect("a frame is transported")));
        let mut steps: Vec<(i8, String)> = vec![];
        for m in Self::ordered(state) {
            let degree = if row.step_by_degree { m.degree } else { 0 };
            if steps.iter().all(|s| s.0 != degree) {
                let name = format!("{from}_step{}", steps.len());
                self.code.line(format!("const float {name} = {};", (row.step)(from, to, m.degree)));
                steps.push((degree, name))
            }
        }
        steps
    }
    /// A member after its move, its value and those of its tower given by `value`.
    fn moved(&self, state: &State, m: &Member, steps: &[(i8, String)], value: &dyn Fn(NodeId) -> String) -> String {
        let row = frames::code(self.kind(state.frame.expect("a frame is transported")));
        let degree = if row.step_by_degree { m.degree } else { 0 };
        let step = steps.iter().find(|s| s.0 == degree).map_or("", |s| &s.1);
        let lower = |q: i8| state.members.iter().find(|x| x.tower == m.tower && x.degree == q).map_or("0.0f".into(), |x| value(x.node));
        (row.moved)(m.degree, &value(m.node), step, &lower)
    }
    /// Moves a state's members from one value of its frame to another, at one element of the frame.
    pub(super) fn transport(&mut self, state: &State, from: &str, to: &str) {
        let steps = self.steps(state, from, to);
        for m in Self::ordered(state) {
            let x = self.moved(state, &m, &steps, &|n| self.value_at(n));
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
            let row = frames::code(self.kind(f));
            let outer = self.open_unrolled(self.cx.part.of(f));
            self.code.open("{");
            let (at, other) = (self.value_at(f), theirs(self, f));
            self.code.line(format!("const float mine = {at}, other = {other};"));
            self.code.line(format!("{at} = {};", (row.merge)("mine", "other")));
            let (steps, other_steps) = (self.steps(s, "mine", &at), self.steps(s, "other", &at));
            for m in Self::ordered(s) {
                let n = self.open_member(&m, s.frame);
                let a = self.moved(s, &m, &steps, &|n| self.value_at(n));
                let b = self.moved(s, &m, &other_steps, &|n| theirs(self, n));
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
    /// States in the order of their words, each with its first, and the words of a group.
    fn words(&self, l: &Loop) -> (Vec<(NodeId, u32)>, u32) {
        let (mut all, mut at) = (vec![], 0);
        for n in l.states.iter().flat_map(|s| s.frame.into_iter().chain(s.members.iter().map(|m| m.node))) {
            all.push((n, at));
            at += self.unrolled(self.cx.part.of(n)).iter().map(|d| self.local(*d)).product::<u32>()
        }
        (all, at)
    }
    /// The word of a state's element at hand.
    fn word(&self, words: &[(NodeId, u32)], node: NodeId) -> String {
        let first = words.iter().find(|w| w.0 == node).map_or(0, |w| w.1);
        let dims = self.unrolled(self.cx.part.of(node));
        let i = dims.iter().fold(String::new(), |s, d| if s.is_empty() { self.index(*d) } else { format!("({s}) * {} + {}", self.local(*d), self.index(*d)) });
        if i.is_empty() { first.to_string() } else { format!("{first} + {i}") }
    }
    fn copy_states(&mut self, words: &[(NodeId, u32)], to_memory: bool) {
        for (node, _) in words {
            let n = self.open_unrolled(self.cx.part.of(*node));
            let (x, word) = (self.value_at(*node), self.word(words, *node));
            self.code.line(if to_memory { format!("mine[{word}] = {x};") } else { format!("{x} = theirs[{word}];") });
            self.close(n)
        }
    }
    /// The shares of a group's threads, after which every thread of it has the whole.
    pub(super) fn join(&mut self, l: &Loop) -> Result<(), Refusal> {
        let (words, count) = self.words(l);
        if count == 0 {
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
            self.code.line(format!("float* const mine = states + cleave::warp() * {count};"));
            self.copy_states(&words, true);
            self.code.close("}");
            self.code.line("cleave::barrier();");
            let first = if self.shape.groups == 1 { String::new() } else { format!("cleave::warp() / {warps} * {warps} + ") };
            self.code.line(format!("const float* const theirs = states + ({first}cleave::lane() % {warps}) * {count};"));
            self.copy_states(&words, false);
            self.merge_lanes(l, warps);
            self.code.close("}");
            self.shared = self.shared.max(16 + all * count * 4)
        }
        Ok(())
    }
    /// After a split loop: every piece but the last to arrive leaves its states and ends; the lanes of the last one take the pieces in turn.
    pub(super) fn merge_pieces(&mut self, l: &Loop) -> Result<u64, Refusal> {
        let (words, count) = self.words(l);
        if count == 0 {
            return Ok(0);
        }
        let floats = count * self.shape.groups;
        let number = self.cx.number;
        let (partials, counters) = (self.cx.name("partials", "partials"), self.cx.name("counters", "counters"));
        self.cx.words.constant(Word::Partials(number), |w| format!("float* const {partials} = (float*){w};"));
        self.cx.words.constant(Word::Counters(number), |w| format!("cleave::u32* const {counters} = (cleave::u32*){w};"));
        let group = if self.shape.groups == 1 { String::new() } else { format!(" + cleave::warp() / {} * {count}", self.shape.group / 32) };
        self.code.open("if (pieces > 1) {  // the last piece to arrive merges all");
        self.code.line(format!("float* const states = {partials} + (cleave::i64)item * pieces * {floats}{group};"));
        self.code.open(format!("if ({}) {{", self.leader()));
        self.code.line(format!("float* const mine = states + (cleave::i64)piece * {floats};"));
        self.copy_states(&words, true);
        self.code.close("}");
        self.code.line(format!("if (!cleave::last_to_arrive({counters} + item, pieces, 0)) return;"));
        self.reset(l);
        self.code.line("CLEAVE_ONCE");
        self.code.open("for (int at = cleave::lane(); at < pieces; at += 32) {");
        self.code.line(format!("const float* const theirs = states + (cleave::i64)at * {floats};"));
        self.merge_states(l, &|w, n| format!("theirs[{}]", w.word(&words, n)));
        self.code.close("}");
        self.merge_lanes(l, 32);
        self.code.close("}");
        Ok(floats as u64 * 4)
    }
}
