//! The placement for what memory bounds: rows that are read once, and products with one row or a few.
//!
//! One dim of a part lies along the threads (the lane dim): a thread holds chunks of neighbouring elements of it, which it reads by loads
//! of 16 bytes. A group of threads works on one position of the row dim, or on a few that share what they read; other dims are unrolled
//! in registers. A reduction along the lane dim leaves a share in every thread; at the end of its loop the shares are merged by the table
//! of frames: lanes, then warps, then the pieces of a split. Every level is the same function over states, and a level of one vanishes.
//!
//! A row that several loops read comes from memory once if it has a home on chip: in registers, where a tile holds the lane dim whole and
//! every loop runs once, or in shared memory, where each thread reads back what it wrote. Longer rows are streamed again.
//!
//! Invariant: beyond the bounds of a loop registers hold zeros or garbage, never anything that reaches a state or memory.
mod loads;
mod loops;
pub mod menu;
mod merge;
pub mod shape;
mod statements;
mod stores;

use crate::emit::bounds::Bounds;
use crate::emit::code::Code;
use crate::emit::part::{Context, Refusal, Site};
use crate::emit::shared::Placed;
use crate::frame::Frame;
use crate::graph::{NodeId, Op};
use crate::plan::{Guard, TensorRef};
use crate::tile::{DimId, DimSet, Role, Statement};
pub use shape::{Hints, Home, Plan, Shape};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// How a value lies in a thread's registers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    /// Floats: one for each unrolled index, by chunk and element if it varies along the lane dim.
    Floats,
    /// Chunks as they lie in memory.
    Chunks,
}

struct Writer<'a> {
    cx: &'a Context<'a>,
    shape: Shape,
    code: Code,
    held: HashMap<NodeId, Form>,
    /// Where in shared memory readings lie that more than one loop asks for, and whether they are there already.
    slots: HashMap<NodeId, (u32, bool)>,
    /// Maps that are written where they are used.
    inlined: HashSet<NodeId>,
    /// The loops at hand: bounds, and whether a predicate cuts them.
    loops: Vec<(DimId, Bounds, bool)>,
    /// Bounds that are declared already, in a whole shape.
    bounded: HashSet<DimId>,
    shared: u32,
    before_split: bool,
    guards: RefCell<Vec<Guard>>,
    /// How many loops along the lane dim are still to read an input.
    readings: HashMap<NodeId, u32>,
    /// Bytes of the tensors that are read once, as an expression.
    streams: RefCell<Vec<String>>,
}

/// One element: indices of unrolled dims by their names, `chunk` the chunk, `e` the element in it.
struct Element<'w, 'a>(&'w Writer<'a>);

impl Site for Element<'_, '_> {
    fn value(&self, node: NodeId) -> Option<String> {
        let w = self.0;
        if let Op::Input { input, access } = w.cx.part.graph.op(node)
            && access.dims.is_empty()
        {
            return (w.cx.dtype(TensorRef::Input(*input)) != crate::dtype::DType::I32).then(|| w.cx.scalar(*input));
        }
        let form = *w.held.get(&node)?;
        let name = w.cx.value_name(node);
        let dims = w.indices(w.cx.part.of(node));
        Some(match (w.varies(node), form) {
            (false, _) => format!("{name}{dims}"),
            (true, Form::Floats) => format!("{name}{dims}[chunk][e]"),
            (true, Form::Chunks) => format!("{name}{dims}[chunk].get(e)"),
        })
    }
    fn position(&self, dim: DimId) -> String {
        let w = self.0;
        if dim == w.shape.lane {
            return if w.shape.width == 1 { w.chunk_position() } else { format!("({} + e)", w.chunk_position()) };
        }
        w.position(dim)
    }
    fn folds(&self) -> bool {
        true
    }
}

pub fn place(cx: &Context, shape: Shape) -> Result<Placed, Refusal> {
    let mut w = Writer {
        cx,
        shape,
        code: Code::at(1),
        held: HashMap::new(),
        slots: HashMap::new(),
        inlined: HashSet::new(),
        loops: vec![],
        bounded: HashSet::new(),
        shared: 16, // the flag of a split
        before_split: cx.part.split,
        guards: Default::default(),
        readings: HashMap::new(),
        streams: Default::default(),
    };
    w.check()?;
    w.guard(w.shape.guards(cx.part)?);
    let split = if cx.part.split { cx.part.split_loop() } else { None };
    let mut partial = 0;
    w.inline(&cx.part.body);
    w.count_readings();
    w.reserve_slots();
    // readings first: what an epilogue needs is there when the loops end
    for s in cx.part.body.iter().filter(|s| matches!(s, Statement::Load { .. })) {
        w.statement(s)?
    }
    for (i, s) in cx.part.body.iter().enumerate() {
        if split == Some(i) {
            w.before_split = false
        }
        match s {
            Statement::Load { .. } => {}
            Statement::Loop(l) => partial = w.enter(l, split == Some(i))?.max(partial),
            s => w.statement(s)?,
        }
    }
    let mut body = Code::at(1);
    w.coordinates().into_iter().for_each(|l| body.line(l));
    body.append(&w.code);
    Ok(Placed { body, shared_bytes: w.shared, partial_bytes: partial, guards: w.guards.into_inner() })
}

impl Writer<'_> {
    fn guard(&self, guards: Vec<Guard>) {
        let mut all = self.guards.borrow_mut();
        for g in guards {
            if !all.contains(&g) {
                all.push(g)
            }
        }
    }
    // ---- dims, names, positions ------------------------------------------------------------------------------
    /// Whether a value varies along the lane dim.
    fn varies(&self, node: NodeId) -> bool {
        self.cx.part.of(node).contains(self.shape.lane)
    }
    /// The positions of a dim that a thread holds, of the lane dim excepted.
    fn local(&self, dim: DimId) -> u32 {
        if Some(dim) == self.shape.row || Some(dim) == self.shape.share { self.shape.rows } else { self.cx.tile(dim) }
    }
    /// The dims of a set that are unrolled, outermost first.
    fn unrolled(&self, dims: DimSet) -> Vec<DimId> {
        dims.iter().filter(|d| *d != self.shape.lane && self.local(*d) > 1).collect()
    }
    fn index(&self, dim: DimId) -> String {
        self.cx.name(&format!("index of dim {}", dim.0), &format!("{}_i", self.cx.dim_name(dim)))
    }
    fn indices(&self, dims: DimSet) -> String {
        self.unrolled(dims).iter().map(|d| format!("[{}]", self.index(*d))).collect()
    }
    fn lane_name(&self) -> String {
        self.cx.name("lane", &format!("{}_lane", self.cx.dim_name(self.shape.lane)))
    }
    fn row_name(&self, dim: DimId) -> String {
        self.cx.name("row", &format!("{}_row", self.cx.dim_name(dim)))
    }
    /// The first position of chunk at hand.
    fn chunk_position(&self) -> String {
        match self.shape.chunks {
            1 => self.lane_name(),
            _ => format!("({} + chunk * {})", self.lane_name(), self.shape.group * self.shape.width),
        }
    }
    /// The position of a dim other than the lane dim.
    fn position(&self, dim: DimId) -> String {
        let start =
            if (Some(dim) == self.shape.row || Some(dim) == self.shape.share) && self.cx.tile(dim) > 1 { self.row_name(dim) } else { self.cx.start(dim) };
        if self.local(dim) > 1 { format!("({start} + {})", self.index(dim)) } else { start }
    }
    /// The line that says where a thread's first chunk lies, given the tile's start.
    fn lane_line(&self) -> String {
        let s = &self.shape;
        let thread = if s.groups == 1 { "cleave::thread()".to_string() } else { format!("cleave::thread() % {}", s.group) };
        let offset = if s.width == 1 { thread } else { format!("{thread} * {}", s.width) };
        let start =
            if s.home == Home::Registers && self.cx.part.dim(s.lane).role == Role::Loop { String::new() } else { format!("{} + ", self.cx.start(s.lane)) };
        format!("const int {} = {start}{offset};", self.lane_name())
    }
    /// The number of a thread's warp: found once, where all lanes are, as it takes all of them.
    fn warp(&self) -> String {
        self.cx.name("warp", "warp_number")
    }
    /// The line that says where a group's positions of the row dim, or of the shared one, start.
    fn row_line(&self, dim: DimId) -> String {
        let s = &self.shape;
        let step = if s.rows > 1 { format!(" * {}", s.rows) } else { String::new() };
        let group = if s.groups > 1 { format!(" + {} / {}{step}", self.warp(), s.group / 32) } else { String::new() };
        format!("const int {} = {}{group};", self.row_name(dim), self.cx.start(dim))
    }
    fn coordinates(&self) -> Vec<String> {
        let mut lines = vec![];
        let text = self.code.text();
        let s = &self.shape;
        if let Some(row) = s.row
            && self.cx.tile(row) > 1
            && text.contains(&self.row_name(row))
        {
            lines.push(self.row_line(row))
        }
        if text.contains(&self.warp()) || lines.iter().any(|l: &String| l.contains(&self.warp())) {
            lines.insert(0, format!("const int {} = cleave::warp();", self.warp()))
        }
        if self.cx.part.split && !text.contains("piece") {
            lines.push("(void)piece;".into())
        }
        let fixed = s.home == Home::Registers || self.cx.part.grid.contains(&s.lane);
        if fixed && text.contains(&self.lane_name()) {
            lines.push(self.lane_line())
        }
        let streams = self.streams.borrow();
        if !streams.is_empty() {
            lines.push(format!("const cleave::u64 policy = cleave::stream_policy({});", streams.join(" + ")))
        }
        lines
    }
    /// The condition that a thread stands for its group.
    fn leader(&self) -> String {
        if self.shape.groups == 1 || self.shape.share.is_some() {
            "cleave::thread() == 0".into()
        } else {
            format!("cleave::thread() % {} == 0", self.shape.group)
        }
    }
    /// The condition that chunk at hand, or its element `e` where a predicate cuts the loop, is one that counts.
    fn counts(&self) -> String {
        let lane = self.shape.lane;
        match self.loops.iter().rfind(|l| l.0 == lane) {
            Some((_, b, true)) => {
                let position = Element(self).position(lane);
                format!("{position} >= {} && {position} < {}", b.low, b.high)
            }
            Some((_, b, false)) => format!("{} < {}", self.chunk_position(), b.high),
            None => format!("{} < {}", self.chunk_position(), self.cx.size(lane)),
        }
    }
    /// Whether positions of dims other than the lane dim are inside the extents, or the bounds of their loop, where a tile may exceed them.
    fn rows_inside(&self, dims: DimSet) -> Vec<String> {
        let beyond = |d: &DimId| *d != self.shape.lane && self.cx.tile(*d) > 1;
        let test = |d: DimId| {
            let p = self.position(d);
            match self.loops.iter().rfind(|l| l.0 == d) {
                Some((_, b, true)) => format!("{p} >= {} && {p} < {}", b.low, b.high),
                _ => format!("{p} < {}", self.cx.size(d)),
            }
        };
        dims.iter().filter(beyond).map(test).collect()
    }
    /// Opens loops over the unrolled dims of a set; closed by [`Writer::close`] with what this gives.
    fn open_unrolled(&mut self, dims: DimSet) -> usize {
        let dims = self.unrolled(dims);
        for d in &dims {
            let (i, n) = (self.index(*d), self.local(*d));
            self.code.line("CLEAVE_UNROLL");
            self.code.open(format!("for (int {i} = 0; {i} < {n}; {i}++) {{"))
        }
        dims.len()
    }
    fn open_chunks(&mut self) -> usize {
        if self.shape.chunks == 1 {
            self.code.open("{ constexpr int chunk = 0; (void)chunk;")
        } else {
            self.code.line("CLEAVE_UNROLL");
            self.code.open(format!("for (int chunk = 0; chunk < {}; chunk++) {{", self.shape.chunks))
        }
        1
    }
    fn open_elements(&mut self) -> usize {
        if self.shape.width == 1 {
            self.code.open("{ constexpr int e = 0; (void)e;")
        } else {
            self.code.line("CLEAVE_UNROLL");
            self.code.open(format!("for (int e = 0; e < {}; e++) {{", self.shape.width))
        }
        1
    }
    fn close(&mut self, loops: usize) {
        (0..loops).for_each(|_| self.code.close("}"))
    }
    /// The array type of a value: what follows its name in a declaration.
    fn extents_of(&self, node: NodeId, form: Form) -> String {
        let mut s: String = self.unrolled(self.cx.part.of(node)).iter().map(|d| format!("[{}]", self.local(*d))).collect();
        if self.varies(node) {
            s += &format!("[{}]", self.shape.chunks);
            if form == Form::Floats {
                s += &format!("[{}]", self.shape.width)
            }
        }
        s
    }
    fn declare(&mut self, node: NodeId, form: Form) {
        let kind = match (form, self.cx.part.graph.op(node)) {
            (Form::Chunks, Op::Input { input, .. }) => self.chunk_type(self.cx.input_ref(*input)),
            _ => "float".into(),
        };
        let (name, extents) = (self.cx.value_name(node), self.extents_of(node, form));
        self.code.line(format!("{kind} {name}{extents};"));
        self.held.insert(node, form);
    }
    fn chunk_type(&self, tensor: TensorRef) -> String {
        format!("cleave::Chunk<{}, {}>", crate::emit::part::c_type(self.cx.dtype(tensor)), self.shape.width)
    }
    fn element(&self, node: NodeId) -> String {
        self.cx.element(&Element(self), node)
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

    // ---- what the placement can take -------------------------------------------------------------------------
    fn check(&self) -> Result<(), Refusal> {
        let part = self.cx.part;
        if part.dims.iter().any(|d| d.role == Role::Chip) {
            return Err("a dim that is whole on chip".into());
        }
        let mut domains: HashMap<DimId, &Vec<Vec<NodeId>>> = HashMap::new();
        for (depth, s) in part.statements() {
            match s {
                Statement::Loop(l) => {
                    if l.dim != self.shape.lane && Some(l.dim) != self.shape.share && self.cx.tile(l.dim) > 1 {
                        return Err("a loop of tiles along another dim than the threads'".into());
                    }
                    if !l.keep.is_empty() && (l.dim != self.shape.lane || self.shape.home != Home::Registers) {
                        return Err("a tile is kept for a later loop".into());
                    }
                    if l.dim == self.shape.lane && self.shape.home != Home::Stream {
                        if depth > 0 {
                            return Err("a loop in a loop, of which each is to run once".into());
                        }
                        if *domains.entry(l.dim).or_insert(&l.domain) != &l.domain {
                            return Err("loops along one dim that visit other parts of it".into());
                        }
                    }
                }
                Statement::Reduce { over, .. } if over.contains(self.shape.lane) => return Err("a reduction within a tile of the threads' dim".into()),
                _ => {}
            }
        }
        Ok(())
    }
    /// Finds the maps of a body that one statement beside them uses, so that they need no registers of their own.
    fn inline(&mut self, body: &[Statement]) {
        let part = self.cx.part;
        let stated: HashSet<NodeId> = part
            .statements()
            .iter()
            .filter_map(|(_, s)| match s {
                Statement::Map { node } | Statement::Load { node, .. } | Statement::Recall { node, .. } => Some(*node),
                Statement::Reduce { node, .. } | Statement::Fold { node, .. } | Statement::Rebase { frame: node } => Some(*node),
                _ => None,
            })
            .collect();
        let mut uses: HashMap<NodeId, u32> = HashMap::new();
        let mut count = |s: &Statement, weight: u32| {
            let mut todo: Vec<NodeId> = match s {
                Statement::Map { node } | Statement::Reduce { node, .. } | Statement::Fold { node, .. } | Statement::Rebase { frame: node } => {
                    part.graph.operands(*node).to_vec()
                }
                Statement::Store { output, store, .. } => vec![part.graph.outputs[*output as usize].stores[*store as usize].node],
                Statement::Loop(l) => l.keep.clone(),
                _ => vec![],
            };
            while let Some(n) = todo.pop() {
                if stated.contains(&n) { *uses.entry(n).or_default() += weight } else { todo.extend(part.graph.operands(n)) }
            }
        };
        for s in body {
            count(s, 1);
            if let Statement::Loop(l) = s {
                fn inner<'a>(body: &'a [Statement], f: &mut dyn FnMut(&'a Statement)) {
                    for s in body {
                        f(s);
                        if let Statement::Loop(l) = s {
                            inner(&l.body, f)
                        }
                    }
                }
                inner(&l.body, &mut |s| count(s, 2))
            }
        }
        for s in body {
            if let Statement::Map { node } = s {
                if uses.get(node).is_none_or(|n| *n <= 1) {
                    self.inlined.insert(*node)
                } else {
                    self.inlined.remove(node)
                };
            }
        }
    }
}
