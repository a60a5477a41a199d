//! The plainest placement: every value is an f32 tile in shared memory, every statement a loop of the block's threads over the
//! elements of its result, with a barrier after it. It takes any strides and any tile program whose tiles fit, is exact in f32,
//! and is slow: the entry that accepts everything.
mod states;

use crate::emit::bounds::Bounds;
use crate::emit::code::Code;
use crate::emit::frames::{self, Step};
use crate::emit::part::{Context, Refusal, Site};
use crate::frame::{Frame, Statistic};
use crate::graph::{NodeId, Op};
use crate::plan::{Guard, Word};
use crate::tile::{DimId, DimSet, Loop, Part, Role, State, Statement};
use std::collections::HashMap;

pub const THREADS: u32 = 256;
/// What every device from compute capability 8.0 on gives to a block.
pub const SHARED_BYTES: u32 = 99 * 1024;

/// The text of a part, and what its launch needs.
pub struct Placed {
    pub body: Code,
    pub shared_bytes: u32,
    /// Bytes of state that a piece of an item stores.
    pub partial_bytes: u64,
    /// What the code asks of tensors.
    pub guards: Vec<Guard>,
}

struct Writer<'a> {
    cx: &'a Context<'a>,
    code: Code,
    /// The value's dims wider than one, outermost first, and its first float in shared memory.
    held: HashMap<NodeId, (Vec<DimId>, u32)>,
    kept: HashMap<NodeId, (Vec<DimId>, u32)>,
    /// The room of values that are gone.
    room: HashMap<NodeId, (Vec<DimId>, u32)>,
    /// The bounds of the loops at hand.
    loops: Vec<(DimId, Bounds)>,
    floats: u32,
    /// Statements before the split loop run in every piece, their stores in the first.
    before_split: bool,
}

/// An element of a tile: the local index of each wide dim.
struct Element<'w, 'a> {
    writer: &'w Writer<'a>,
    index: &'w dyn Fn(DimId) -> String,
}

impl Site for Element<'_, '_> {
    fn value(&self, node: NodeId) -> Option<String> {
        self.writer.held.get(&node).map(|(dims, at)| self.writer.slot(dims, *at, self.index))
    }
    fn position(&self, dim: DimId) -> String {
        self.writer.position(dim, &(self.index)(dim))
    }
}

/// Tile lengths to try for a part, from those that reuse most.
pub fn tiles<'a>(part: &'a Part, bounds: &'a dyn Fn(DimId) -> Option<u32>) -> impl Iterator<Item = Vec<u32>> + 'a {
    [(16, 32), (16, 16), (8, 16), (8, 8), (4, 8), (1, 8), (1, 1)].into_iter().map(move |(grid, step)| {
        let tile = |(d, dim): (usize, &crate::tile::Dim)| match dim.role {
            _ if dim.batch => 1,
            Role::Grid => grid,
            Role::Loop => step,
            Role::Chip => bounds(DimId(d as u8)).unwrap_or(step),
        };
        part.dims.iter().enumerate().map(tile).collect()
    })
}

pub fn place(cx: &Context, bound: &dyn Fn(DimId) -> Option<u32>) -> Result<Placed, Refusal> {
    let mut w = Writer {
        cx,
        code: Code::at(1),
        held: HashMap::new(),
        kept: HashMap::new(),
        room: HashMap::new(),
        loops: vec![],
        floats: 4, // the first words are the flag of a split
        before_split: cx.part.split,
    };
    let split = if cx.part.split { cx.part.split_loop() } else { None };
    w.code.line("float* const at = (float*)cleave::shared_memory;");
    let mut partial = 0;
    for (i, s) in cx.part.body.iter().enumerate() {
        if split == Some(i) {
            w.before_split = false
        }
        w.statement(s, bound, split == Some(i))?;
        if let (true, Statement::Loop(l)) = (split == Some(i), s) {
            partial = w.merge_pieces(l)
        }
    }
    if w.floats * 4 > SHARED_BYTES {
        return Err(format!("{} bytes of shared memory are too many", w.floats * 4));
    }
    Ok(Placed { body: w.code, shared_bytes: w.floats * 4, partial_bytes: partial as u64 * 4, guards: vec![] })
}

impl Writer<'_> {
    fn length(&self, dims: &[DimId]) -> u32 {
        dims.iter().map(|d| self.cx.tile(*d)).product()
    }
    fn reserve(&mut self, floats: u32) -> u32 {
        let at = self.floats;
        self.floats += floats;
        at
    }
    fn slot(&self, dims: &[DimId], at: u32, index: &dyn Fn(DimId) -> String) -> String {
        let i = dims.iter().fold(String::new(), |s, d| if s.is_empty() { index(*d) } else { format!("({s}) * {} + {}", self.cx.tile(*d), index(*d)) });
        if i.is_empty() { format!("at[{at}]") } else { format!("at[{at} + {i}]") }
    }
    fn position(&self, dim: DimId, index: &str) -> String {
        let start = self.cx.start(dim);
        match (start.as_str(), index) {
            (s, "0") => s.into(),
            ("0", i) => i.into(),
            (s, i) => format!("({s} + {i})"),
        }
    }
    fn hold(&mut self, node: NodeId) -> (Vec<DimId>, u32) {
        if let Some(h) = self.held.get(&node) {
            return h.clone();
        }
        let (dims, at) = self.room.remove(&node).unwrap_or_else(|| {
            let dims = self.cx.wide_of(self.cx.part.of(node));
            let at = self.reserve(self.length(&dims));
            (dims, at)
        });
        self.held.insert(node, (dims.clone(), at));
        (dims, at)
    }
    fn local(&self, dim: DimId) -> String {
        if self.cx.tile(dim) == 1 { "0".into() } else { self.cx.name(&format!("local of dim {}", dim.0), &format!("{}_i", self.cx.dim_name(dim))) }
    }
    /// A loop of the threads over the elements of dims; `body` writes its lines. With `lanes`, a warp works on each element.
    fn each(&mut self, dims: &[DimId], lanes: bool, body: impl FnOnce(&mut Self)) {
        let n = self.length(dims);
        if lanes {
            self.code.line("CLEAVE_ONCE");
            self.code.open(format!("for (int e = cleave::warp(); e < {n}; e += {}) {{", THREADS / 32))
        } else if n == 1 {
            self.code.open("if (cleave::thread() == 0) {")
        } else {
            self.code.line("CLEAVE_ONCE");
            self.code.open(format!("for (int e = cleave::thread(); e < {n}; e += {THREADS}) {{"))
        }
        let mut inner = 1;
        for d in dims.iter().rev() {
            let (name, tile) = (self.local(*d), self.cx.tile(*d));
            let quotient = if inner == 1 { "e".to_string() } else { format!("e / {inner}") };
            inner *= tile;
            self.code.line(if inner == n { format!("const int {name} = {quotient};") } else { format!("const int {name} = {quotient} % {tile};") })
        }
        body(self);
        self.code.close("}");
        self.code.line("cleave::barrier();")
    }
    fn element(&self, node: NodeId) -> String {
        self.cx.element(&Element { writer: self, index: &|d| self.local(d) }, node)
    }
    fn operation(&self, node: NodeId) -> String {
        self.cx.operation(&Element { writer: self, index: &|d| self.local(d) }, node)
    }
    fn site(&self, f: impl FnOnce(&dyn Site) -> String) -> String {
        f(&Element { writer: self, index: &|d| self.local(d) })
    }
    /// The range of local indices of a dim that count.
    fn valid(&self, dim: DimId) -> (String, String) {
        let (start, tile) = (self.cx.start(dim), self.cx.tile(dim));
        match self.loops.iter().rfind(|l| l.0 == dim) {
            Some((_, b)) => (format!("cleave::most({} - {start}, 0)", b.low), format!("cleave::least({} - {start}, {tile})", b.high)),
            None => ("0".into(), format!("cleave::least({} - {start}, {tile})", self.cx.size(dim))),
        }
    }
    /// Opens loops over the counting indices of dims; with `lanes` the innermost is shared by the lanes of a warp.
    fn open_over(&mut self, over: &[DimId], lanes: bool) {
        for (i, d) in over.iter().enumerate() {
            let (low, high) = self.valid(*d);
            let name = if self.cx.tile(*d) == 1 { format!("{}_only", self.cx.dim_name(*d)) } else { self.local(*d) };
            let spread = lanes && i + 1 == over.len();
            let (first, step) = if spread { (format!("{low} + cleave::lane()"), 32) } else { (low, 1) };
            self.code.open(format!("for (int {name} = {first}, {name}_end = {high}; {name} < {name}_end; {name} += {step}) {{"))
        }
    }
    fn close_over(&mut self, over: &[DimId]) {
        over.iter().for_each(|_| self.code.close("}"))
    }
    /// `x` = the reduction of a node over dims, in every thread of the element (every lane with `lanes`).
    fn reduction(&mut self, node: NodeId, over: &[DimId], lanes: bool) -> &'static str {
        let g = &self.cx.part.graph;
        let operands = g.operands(node);
        let maximum = matches!(g.op(node), Op::Maximum(_));
        self.code.line(format!("float x = {};", if maximum { "-cleave::infinity()" } else { "0.0f" }));
        self.open_over(over, lanes);
        let key = self.element(operands[0]);
        if maximum {
            let condition = operands[1..].iter().map(|p| format!("({})", self.site(|s| self.cx.condition(s, *p)))).collect::<Vec<_>>().join(" && ");
            let update = format!("x = cleave::greater(x, {key});");
            self.code.line(if condition.is_empty() { update } else { format!("if ({condition}) {update}") })
        } else if let Some((a, b)) = self.cx.part.contraction(node) {
            let (a, b) = (self.element(a), self.element(b));
            self.code.line(format!("x = cleave::multiply_add({a}, {b}, x);"))
        } else {
            self.code.line(format!("x += {key};"))
        }
        self.close_over(over);
        if lanes {
            let op = if maximum { "cleave::Greatest()" } else { "cleave::Sum()" };
            self.code.line(format!("x = cleave::join_warp(x, {op});"))
        }
        if maximum { "greater" } else { "add" }
    }
    fn over(&self, over: DimSet) -> Vec<DimId> {
        over.iter().collect()
    }
    fn few(&self, dims: &[DimId]) -> bool {
        self.length(dims) * 4 <= THREADS
    }
    fn statement(&mut self, s: &Statement, bound: &dyn Fn(DimId) -> Option<u32>, split: bool) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        match s {
            Statement::Load { node, .. } => {
                let Op::Input { input, access } = g.op(*node) else { return Err(format!("t{} is loaded but no input", node.0)) };
                let (dims, at) = self.hold(*node);
                let inside: Vec<String> = self
                    .cx
                    .part
                    .of(*node)
                    .iter()
                    .filter_map(|d| {
                        let (_, b) = self.loops.iter().rfind(|l| l.0 == d)?;
                        let position = self.position(d, &self.local(d));
                        Some(format!("{position} >= {} && {position} < {}", b.low, b.high))
                    })
                    .collect();
                self.each(&dims, false, |w| {
                    let slot = w.slot(&dims, at, &|d| w.local(d));
                    let x = w.site(|s| w.cx.direct(s, *input, access));
                    w.code.line(if inside.is_empty() { format!("{slot} = {x};") } else { format!("{slot} = {} ? {x} : 0.0f;", inside.join(" && ")) })
                })
            }
            Statement::Recall { node, dim } => {
                let Some((kept, from)) = self.kept.get(node).cloned() else { return Err(format!("t{} is recalled but not kept", node.0)) };
                let (dims, at) = self.hold(*node);
                self.each(&dims, false, |w| w.recall(&kept, from, &dims, at, *dim, bound, false))
            }
            // a predicate is tested where it selects
            Statement::Map { node } if matches!(g.op(*node), Op::Predicate(_)) => {}
            Statement::Map { node } => {
                let (dims, at) = self.hold(*node);
                self.each(&dims, false, |w| {
                    let (slot, x) = (w.slot(&dims, at, &|d| w.local(d)), w.operation(*node));
                    w.code.line(format!("{slot} = {x};"))
                })
            }
            Statement::Reduce { node, over } => {
                let (dims, at) = self.hold(*node);
                let (over, lanes) = (self.over(*over), self.few(&dims));
                self.each(&dims, lanes, |w| {
                    w.reduction(*node, &over, lanes);
                    let slot = w.slot(&dims, at, &|d| w.local(d));
                    w.code.line(format!("{}{slot} = x;", if lanes { "if (cleave::lane() == 0) " } else { "" }))
                })
            }
            Statement::Fold { node, over } => {
                let (dims, at) = self.hold(*node);
                let (over, lanes) = (self.over(*over), self.few(&dims));
                self.each(&dims, lanes, |w| {
                    let how = w.reduction(*node, &over, lanes);
                    let slot = w.slot(&dims, at, &|d| w.local(d));
                    let sum = if how == "add" { format!("{slot} + x") } else { format!("cleave::greater({slot}, x)") };
                    w.code.line(format!("{}{slot} = {sum};", if lanes { "if (cleave::lane() == 0) " } else { "" }))
                })
            }
            Statement::Rebase { frame } => self.rebase(*frame)?,
            Statement::Loop(l) => self.enter(l, bound, split)?,
            Statement::Store { output, store, first } => self.store(*output, *store, *first),
        }
        Ok(())
    }
    #[allow(clippy::too_many_arguments)]
    fn recall(&mut self, kept: &[DimId], from: u32, dims: &[DimId], at: u32, dim: DimId, bound: &dyn Fn(DimId) -> Option<u32>, keep: bool) {
        let tile = self.slot(dims, at, &|d| self.local(d));
        let i = kept.iter().fold(String::new(), |s, d| {
            let length = if *d == dim { bound(*d).unwrap_or(1) } else { self.cx.tile(*d) };
            let i = if *d == dim { self.position(*d, &self.local(*d)) } else { self.local(*d) };
            if s.is_empty() { i } else { format!("({s}) * {length} + {i}") }
        });
        let whole = format!("at[{from} + {i}]");
        let guard = format!("if ({} < {}) ", self.position(dim, &self.local(dim)), bound(dim).unwrap_or(1));
        self.code.line(if keep {
            format!("{guard}{whole} = {tile};")
        } else {
            format!("{tile} = {} < {} ? {whole} : 0.0f;", self.position(dim, &self.local(dim)), bound(dim).unwrap_or(1))
        })
    }
    fn reset(&mut self, l: &Loop) {
        for s in &l.states {
            if let Some(f) = s.frame {
                let identity = self.row(f).code.nothing;
                let (dims, at) = self.hold(f);
                self.each(&dims, false, |w| {
                    let slot = w.slot(&dims, at, &|d| w.local(d));
                    w.code.line(format!("{slot} = {identity};"))
                })
            }
            for m in &s.members {
                let (dims, at) = self.hold(m.node);
                let identity = self.identity(m.node);
                self.each(&dims, false, |w| {
                    let slot = w.slot(&dims, at, &|d| w.local(d));
                    w.code.line(format!("{slot} = {identity};"))
                })
            }
        }
    }
    fn identity(&self, member: NodeId) -> &'static str {
        if matches!(self.cx.part.graph.op(member), Op::Maximum(_)) { "-cleave::infinity()" } else { "0.0f" }
    }
    fn row(&self, frame: NodeId) -> Frame {
        match self.cx.part.graph.op(frame) {
            Op::Frame(row, _) => *row,
            _ => unreachable!("a state's frame is a frame"),
        }
    }
    fn enter(&mut self, l: &Loop, bound: &dyn Fn(DimId) -> Option<u32>, split: bool) -> Result<(), Refusal> {
        self.reset(l);
        let (dim, tile) = (self.cx.dim_name(l.dim), self.cx.tile(l.dim));
        let mut kept = vec![];
        for n in &l.keep {
            let Some(length) = bound(l.dim) else { return Err(format!("t{} is kept over {dim}, which has no bound", n.0)) };
            let dims: Vec<DimId> = self.cx.part.of(*n).iter().filter(|d| self.cx.tile(*d) > 1 || *d == l.dim).collect();
            let floats = dims.iter().map(|d| if *d == l.dim { length } else { self.cx.tile(*d) }).product();
            let at = self.reserve(floats);
            self.kept.insert(*n, (dims.clone(), at));
            kept.push((*n, dims, at))
        }
        self.code.open("{");
        let bounds = self.cx.loop_bounds(&mut self.code, l, false);
        let (low, high) = (bounds.low.clone(), bounds.high.clone());
        self.code.line(format!("int first = {low} / {tile}, last = {low} < {high} ? ({high} + {}) / {tile} : first;", tile - 1));
        if split {
            self.code.line("const int tiles = last - first;");
            self.code.line("last = first + (int)((cleave::i64)tiles * (piece + 1) / pieces);");
            self.code.line("first = first + (int)((cleave::i64)tiles * piece / pieces);")
        }
        self.code.line("CLEAVE_ONCE");
        self.code.open(format!("for (int tile = first; tile < last; tile++) {{  // over {dim}"));
        let start = self.cx.start(l.dim);
        self.code.line(format!("const int {start} = tile * {tile};"));
        self.loops.push((l.dim, bounds));
        for s in &l.body {
            self.statement(s, bound, false)?
        }
        for (n, dims, at) in kept {
            let (tile_dims, tile_at) = self.hold(n);
            self.each(&tile_dims, false, |w| w.recall(&dims, at, &tile_dims, tile_at, l.dim, bound, true))
        }
        self.loops.pop();
        self.code.close("}");
        self.code.close("}");
        self.forget(&l.body);
        Ok(())
    }
    /// What a loop's body computed is gone after it; its room stays for another loop that computes it again.
    fn forget(&mut self, body: &[Statement]) {
        for s in body {
            match s {
                Statement::Load { node, .. } | Statement::Recall { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } => {
                    if let Some(h) = self.held.remove(node) {
                        self.room.insert(*node, h);
                    }
                }
                Statement::Loop(l) => self.forget(&l.body),
                _ => {}
            }
        }
    }
    fn store(&mut self, output: u32, store: u32, first: DimSet) {
        let (node, access, dims) = self.cx.store_dims(output, store);
        let tensor = self.cx.output_ref(output);
        let wide = self.cx.wide_of(dims);
        let pointer = self.cx.pointer(tensor, true);
        let mut guards: Vec<String> = self.cx.first_condition(first).into_iter().collect();
        if self.before_split && self.cx.part.split {
            guards.push("piece == 0".into())
        }
        if !guards.is_empty() {
            self.code.open(format!("if ({}) {{", guards.join(" && ")))
        }
        self.each(&wide, false, |w| {
            let position = |d: DimId| w.position(d, &w.local(d));
            let inside = w.cx.inside(dims, &position);
            let offset = w.cx.offset(tensor, &access, &position, &|_| true);
            let x = w.element(node);
            w.code.line(format!("if ({inside}) cleave::put({pointer} + ({offset}), {x});"))
        });
        if !guards.is_empty() {
            self.code.close("}")
        }
    }
}
