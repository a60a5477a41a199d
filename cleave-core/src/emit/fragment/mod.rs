//! The placement on tensor cores: rows of a part's row dim over warps in blocks of 16, columns in the registers of a row's four
//! lanes, operands of products in shared tiles, streamed ones through a ring that asynchronous copies fill.
//!
//! Every value takes its space from its dims: rows and columns: a fragment; rows only: one value a row, equal in the row's
//! lanes; columns only: one a column; neither: a scalar. A streamed load, or an operand of a product, is a shared tile. Warps
//! share out the rows, the columns of a grid dim, or the tiles of the loop; in the last case each warp has its own states, and
//! they merge by the table of frames like the pieces of a split.
mod loads;
mod loops;
mod merge;
mod statements;
mod stores;

use crate::axis::AxisId;
use crate::dtype::DType;
use crate::emit::bounds::Bounds;
use crate::emit::code::Code;
use crate::emit::frames::{self, Step};
use crate::emit::part::{Context, Refusal, Site, c_type};
use crate::emit::shared::Placed;
use crate::frame::{Frame, Statistic};
use crate::graph::{Access, Factor, NodeId, Op};
use crate::plan::{Guard, TensorRef, Word};
use crate::predicate::Atom;
use crate::tile::{DimId, DimSet, Loop, Part, Role, Statement};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// How a part lies on the warps of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    pub row: DimId,
    /// The grid dim whose columns warps share out.
    pub column: Option<DimId>,
    /// Blocks of 16 rows of a warp.
    pub blocks: u32,
    pub warp_rows: u32,
    pub warp_columns: u32,
    /// Warps that share out the tiles of the loop.
    pub warp_loop: u32,
    pub stages: u32,
    /// Only for tensors whose rows are contiguous and aligned, which the entry's guards ask for.
    pub aligned: bool,
}

/// Rows of tiles in a group of items.
const GROUP: u32 = 8;

impl Shape {
    pub fn threads(&self) -> u32 {
        32 * self.warp_rows * self.warp_columns * self.warp_loop
    }
}

/// The row dim and the grid dim of columns of a part: the outermost grid dim that every product has on exactly one side, and
/// the other grid dim of the products.
pub fn roles(part: &Part) -> Result<(DimId, Option<DimId>), Refusal> {
    let products: Vec<(NodeId, NodeId, NodeId)> = part
        .statements()
        .iter()
        .filter_map(|(_, s)| match s {
            Statement::Reduce { node, .. } | Statement::Fold { node, .. } => part.contraction(*node).map(|(x, y)| (*node, x, y)),
            _ => None,
        })
        .collect();
    if products.is_empty() {
        return Err("no product of matrices".into());
    }
    let fits =
        |d: DimId| !part.dim(d).batch && products.iter().all(|(o, x, y)| part.of(*o).contains(d) && (part.of(*x).contains(d) != part.of(*y).contains(d)));
    let row = part.grid.iter().copied().find(|d| fits(*d)).ok_or("no grid dim is a row of every product")?;
    let others: BTreeSet<DimId> =
        products.iter().flat_map(|(o, ..)| part.of(*o).iter()).filter(|d| *d != row && part.grid.contains(d) && !part.dim(*d).batch).collect();
    // of several, the one that lies innermost in the grid; the others have tiles of one
    Ok((row, part.grid.iter().rev().copied().find(|d| others.contains(d))))
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::emit) enum Class {
    Fragment(DimId),
    Rows,
    Columns(DimId),
    Scalar,
}

/// A tile of an input in shared memory.
#[derive(Clone, Debug)]
pub(in crate::emit) struct Shared {
    outer: Option<DimId>,
    inner: DimId,
    dtype: DType,
    at: u32,
    ring: bool,
}

pub(in crate::emit) struct Writer<'a> {
    pub(in crate::emit) cx: &'a Context<'a>,
    pub(in crate::emit) shape: Shape,
    pub(in crate::emit) code: Code,
    pub(in crate::emit) registers: HashSet<NodeId>,
    pub(in crate::emit) tiles: HashMap<NodeId, Shared>,
    pub(in crate::emit) loops: Vec<(DimId, Bounds, bool)>,
    pub(in crate::emit) shared: u32,
    /// Asynchronous copies that no wait has covered yet.
    pub(in crate::emit) pending: bool,
    pub(in crate::emit) before_split: bool,
    /// Folds whose lanes hold shares until the loop ends.
    pub(in crate::emit) open_folds: Vec<NodeId>,
    /// Loads that a map reads, so that they are needed in registers.
    pub(in crate::emit) mapped: HashSet<NodeId>,
    /// Operands that are packed already in the body at hand.
    pub(in crate::emit) packed: HashSet<String>,
    pub(in crate::emit) guards: RefCell<Vec<Guard>>,
    /// Declarations of the loop's body: up to which column an atom holds in each row.
    pub(in crate::emit) limits: RefCell<Vec<String>>,
    /// Guards may promise that a scale of what a frame follows is not negative.
    pub(in crate::emit) signed: bool,
    /// Bytes of the tensors that are read once, as expressions.
    pub(in crate::emit) streams: RefCell<Vec<String>>,
    /// Tiles that are 0 outside of the tensor, in loops that go no further.
    pub(in crate::emit) filled: HashSet<NodeId>,
    /// What is computed outside of the extents is left out where it is stored.
    pub(in crate::emit) clipped: bool,
    /// Declarations of indices along the axes of packed columns, where they may be asked for.
    pub(in crate::emit) unpacked: RefCell<Option<Vec<String>>>,
}

/// An element of a value in registers.
pub(in crate::emit) struct Lane<'w, 'a> {
    pub(in crate::emit) writer: &'w Writer<'a>,
    pub(in crate::emit) class: Class,
}

impl Site for Lane<'_, '_> {
    fn value(&self, node: NodeId) -> Option<String> {
        let w = self.writer;
        if let Op::Input { input, access } = w.cx.part.graph.op(node)
            && access.dims.is_empty()
        {
            return (w.cx.dtype(TensorRef::Input(*input)) != DType::I32).then(|| w.cx.scalar(*input));
        }
        if !w.registers.contains(&node) {
            return None;
        }
        let name = w.cx.value_name(node);
        Some(match (w.class(node).ok()?, self.class) {
            (Class::Fragment(_), _) => format!("{name}(i, j, c)"),
            (Class::Rows, Class::Fragment(_)) => format!("{name}(i, c >> 1)"),
            (Class::Rows, _) => format!("{name}(i, h)"),
            (Class::Columns(_), Class::Fragment(_)) => format!("{name}(j, c & 1)"),
            (Class::Columns(_), _) => format!("{name}(j, h)"),
            (Class::Scalar, _) => name,
        })
    }
    fn position(&self, dim: DimId) -> String {
        let w = self.writer;
        if w.cx.tile(dim) == 1 {
            return w.cx.start(dim);
        }
        match (self.class, dim == w.shape.row) {
            (Class::Fragment(_), true) => format!("({} + 16 * i + 8 * (c >> 1))", w.row_name()),
            (_, true) => format!("({} + 16 * i + 8 * h)", w.row_name()),
            (Class::Fragment(_), false) => format!("({} + 8 * j + (c & 1))", w.column_name(dim)),
            (_, false) => format!("({} + 8 * j + h)", w.column_name(dim)),
        }
    }
    fn tested(&self, predicate: NodeId, condition: String) -> String {
        match self.writer.loops.iter().rfind(|l| l.2) {
            Some((_, b, _)) if b.held.contains(&predicate) => format!("!partial || ({condition})"),
            _ => condition,
        }
    }
    fn folds(&self) -> bool {
        true
    }
    fn float_index(&self, axis: AxisId) -> Option<String> {
        let cx = self.writer.cx;
        let dim = cx.part.dim_of(axis)?;
        let within = match self.class {
            Class::Fragment(c) if c == dim => "8 * j + (c & 1)",
            Class::Columns(c) if c == dim => "8 * j + h",
            _ => return None,
        };
        // one conversion for all columns of a lane; sums of small whole numbers are exact
        (cx.part.dim(dim).axes.len() == 1).then(|| format!("((float){} + (float)({within}))", self.writer.column_name(dim)))
    }
    fn limited(&self, atom: &Atom) -> Option<String> {
        let Class::Fragment(column) = self.class else { return None };
        let (limit, upper) = self.writer.limit(atom, column)?;
        let test = if upper { "<" } else { ">=" };
        Some(format!("8 * j + (c & 1) {test} {limit}(i, c >> 1) - {}", self.writer.column_name(column)))
    }
    fn clipped(&self) -> bool {
        self.writer.clipped
    }
    fn unpacked(&self, axis: AxisId) -> Option<String> {
        let (w, cx) = (self.writer, self.writer.cx);
        let (column, at) = match self.class {
            Class::Fragment(column) => (column, "(j, c & 1)"),
            Class::Columns(column) => (column, "(j, h)"),
            _ => return None,
        };
        if cx.part.dim_of(axis) != Some(column) || cx.part.dim(column).axes.len() < 2 {
            return None;
        }
        let mut all = w.unpacked.borrow_mut();
        let all = all.as_mut()?;
        let name = cx.name(&format!("index of columns {}", axis.0), &format!("{}_of_column", cx.part.graph.axis(axis)));
        let position = Lane { writer: w, class: Class::Columns(column) }.position(column);
        let index = cx.index_at(axis, &format!("cleave::least({position}, {} - 1)", cx.size(column)));
        let line = format!("cleave::Indices<{}> {name}; cleave::each({name}, [&](int j, int h) {{ return {index}; }});", w.local(column));
        if !all.contains(&line) {
            all.push(line)
        }
        Some(name + at)
    }
}

pub fn place(cx: &Context, shape: Shape, limit: u32) -> Result<Placed, Refusal> {
    let mut w = Writer::new(cx, shape);
    w.check()?;
    let split = if cx.part.split { cx.part.split_loop() } else { None };
    let mut partial = 0;
    for (i, s) in cx.part.body.iter().enumerate() {
        if split == Some(i) {
            w.before_split = false
        }
        match s {
            Statement::Loop(l) => partial = w.enter(l, split == Some(i), limit)?.max(partial),
            s => w.statement(s)?,
        }
    }
    if w.shared > limit {
        return Err(format!("{} bytes of shared memory are too many", w.shared));
    }
    let mut body = Code::at(1);
    w.coordinates().into_iter().for_each(|l| body.line(l));
    body.append(&w.code);
    // neighbours in the order of items share rows or columns of tiles, so that caches serve them
    if let (Some(c), [.., r, last]) = (shape.column, &cx.part.grid[..])
        && *last == c
        && *r == shape.row
    {
        cx.group_rows(GROUP)
    }
    Ok(Placed { body, shared_bytes: w.shared.max(16), partial_bytes: partial, guards: w.guards.into_inner() })
}

impl<'a> Writer<'a> {
    pub(in crate::emit) fn new(cx: &'a Context<'a>, shape: Shape) -> Self {
        Writer {
            cx,
            shape,
            code: Code::at(1),
            registers: HashSet::new(),
            tiles: HashMap::new(),
            loops: vec![],
            shared: 0,
            pending: false,
            before_split: cx.part.split,
            open_folds: vec![],
            mapped: HashSet::new(),
            packed: HashSet::new(),
            guards: Default::default(),
            limits: Default::default(),
            streams: Default::default(),
            unpacked: Default::default(),
            filled: HashSet::new(),
            clipped: false,
            signed: true,
        }
    }
}

impl Writer<'_> {
    // ---- classes and names ----------------------------------------------------------------------------------
    pub(in crate::emit) fn class(&self, node: NodeId) -> Result<Class, Refusal> {
        self.class_of(self.cx.wide(node)).map_err(|e| format!("t{}: {e}", node.0))
    }
    pub(in crate::emit) fn class_of(&self, wide: DimSet) -> Result<Class, Refusal> {
        let rest: Vec<DimId> = wide.iter().filter(|d| *d != self.shape.row).collect();
        match (wide.contains(self.shape.row), &rest[..]) {
            (true, []) => Ok(Class::Rows),
            (true, [c]) => Ok(Class::Fragment(*c)),
            (false, []) => Ok(Class::Scalar),
            (false, [c]) => Ok(Class::Columns(*c)),
            _ => Err("more than one dim of columns".into()),
        }
    }
    /// Columns of a dim that a warp holds.
    pub(in crate::emit) fn local(&self, dim: DimId) -> u32 {
        let tile = self.cx.tile(dim);
        if Some(dim) == self.shape.column {
            tile / self.shape.warp_columns
        } else if self.cx.part.dim(dim).role == Role::Loop {
            tile / self.shape.warp_loop
        } else {
            tile
        }
    }
    /// The first column of a warp within the tile of a dim.
    pub(in crate::emit) fn offset(&self, dim: DimId) -> String {
        let local = self.local(dim);
        if Some(dim) == self.shape.column && self.shape.warp_columns > 1 {
            format!("warp_column * {local}")
        } else if self.cx.part.dim(dim).role == Role::Loop && self.shape.warp_loop > 1 {
            format!("warp_loop * {local}")
        } else {
            "0".into()
        }
    }
    pub(in crate::emit) fn row_name(&self) -> String {
        self.cx.name("row", &format!("{}_row", self.cx.dim_name(self.shape.row)))
    }
    pub(in crate::emit) fn column_name(&self, dim: DimId) -> String {
        self.cx.name(&format!("column of {}", dim.0), &format!("{}_column", self.cx.dim_name(dim)))
    }
    pub(in crate::emit) fn column_line(&self, dim: DimId) -> String {
        format!("const int {} = {} + {} + cleave::column_of_lane();", self.column_name(dim), self.cx.start(dim), self.offset(dim))
    }
    pub(in crate::emit) fn type_of(&self, class: Class) -> String {
        match class {
            Class::Fragment(c) => format!("cleave::Fragment<{}, {}>", self.shape.blocks, self.local(c)),
            Class::Rows => format!("cleave::Rows<{}>", self.shape.blocks),
            Class::Columns(c) => format!("cleave::Columns<{}>", self.local(c)),
            Class::Scalar => "float".into(),
        }
    }
    fn indices(class: Class) -> &'static str {
        match class {
            Class::Fragment(_) => "int i, int j, int c",
            Class::Rows => "int i, int h",
            Class::Columns(_) => "int j, int h",
            Class::Scalar => "",
        }
    }
    /// Where the warp and the lane stand; those that the body does not mention are left out.
    pub(in crate::emit) fn coordinates(&self) -> Vec<String> {
        let s = self.shape;
        let text = self.code.text();
        let mut lines = vec![];
        let mut coordinate = |name: &str, value: String| {
            if text.contains(name) {
                lines.push(format!("const {} {name} = {value};", if name == "policy" { "cleave::u64" } else { "int" }))
            }
        };
        let row = self.row_name();
        if !self.streams.borrow().is_empty() {
            coordinate("policy", format!("cleave::stream_policy({})", self.streams.borrow().join(" + ")))
        }
        coordinate("warp_column", format!("cleave::warp() / {} % {}", s.warp_rows, s.warp_columns));
        coordinate("warp_loop", format!("cleave::warp() / {}", s.warp_rows * s.warp_columns));
        if text.contains(&row) || text.contains("warp_row ") || text.contains("warp_row)") || text.contains("warp_row,") {
            lines.push(format!("const int warp_row = cleave::warp() % {} * {};", s.warp_rows, 16 * s.blocks))
        }
        if text.contains(&row) {
            lines.push(format!("const int {row} = {} + warp_row + cleave::row_of_lane();", self.cx.start(s.row)))
        }
        for d in self.cx.part.dims.iter().enumerate().map(|(d, _)| DimId(d as u8)) {
            let streamed = self.cx.part.dim(d).role == Role::Loop && !self.cx.part.grid.contains(&d);
            if d != s.row && !streamed && self.cx.tile(d) > 1 && text.contains(&self.column_name(d)) {
                lines.push(self.column_line(d))
            }
        }
        lines
    }
    /// Whether a predicate that is tested as a limit holds only where the loop over a dim goes.
    pub(in crate::emit) fn limits(&self, predicate: NodeId, dim: DimId) -> bool {
        let g = &self.cx.part.graph;
        let Op::Predicate(id) = g.op(predicate) else { return false };
        let [clause] = &g.predicate(*id).clauses[..] else { return false };
        let left = self.loops.iter().any(|l| l.0 == dim && l.1.left);
        let any = |upper: bool| clause.iter().any(|atom| self.limit(atom, dim).is_some_and(|l| l.1 == upper));
        any(true) && (!left || any(false))
    }
    /// Whether a value is 0 where the loop over a dim does not go.
    pub(in crate::emit) fn vanishes(&self, node: NodeId, dim: DimId) -> bool {
        let g = &self.cx.part.graph;
        let Op::Product(e) = g.op(node) else { return self.filled.contains(&node) };
        // of a factor that is not known to be 0 there nothing is known: it may be no number
        let filled = |x: NodeId| self.filled.contains(&x) || matches!(g.op(x), Op::Number(_));
        let mut factors = g.operands(node).iter().zip(e);
        factors.clone().any(|(x, e)| *e > 0 && self.limits(*x, dim)) || factors.all(|(x, e)| *e > 0 && filled(*x))
    }
    /// The name of the column of each row below which (true) or from which on (false) an atom of a predicate holds, in a loop over columns whose
    /// index it has with factor -1 or 1, and where the loop goes. Declared once for a tile: what is left for an element is a comparison.
    fn limit(&self, atom: &Atom, column: DimId) -> Option<(String, bool)> {
        let (_, bounds, _) = self.loops.iter().find(|l| l.0 == column)?;
        let [axis] = self.cx.part.dim(column).axes[..] else { return None };
        let varies = |d: DimId| self.cx.tile(d) > 1 && d != self.shape.row;
        let fixed = atom.tables.iter().all(|t| !self.cx.part.dims_of(t.0.access.axes()).iter().any(varies));
        let others = atom.indices.iter().filter(|i| i.0 != axis).all(|i| self.cx.part.dim_of(i.0).is_some_and(|d| !varies(d)));
        let quotients = atom.quotients.iter().flat_map(|q| q.0.of.free().iter().collect::<Vec<_>>());
        let level = quotients.into_iter().all(|a| a != axis && self.cx.part.dim_of(a).is_some_and(|d| !varies(d)));
        let upper = match atom.indices.iter().find(|i| i.0 == axis)?.1 {
            -1 => true,
            1 => false,
            _ => return None,
        };
        if !fixed || !others || !level {
            return None;
        }
        let mut rest = atom.clone();
        rest.indices.retain(|i| i.0 != axis);
        let name = self.cx.name(&format!("limit {atom:?}"), &format!("{}_limit", self.cx.dim_name(column)));
        let value = self.cx.atom(&Lane { writer: self, class: Class::Rows }, &rest);
        let at = if upper { format!("cleave::least({value} + 1, {})", bounds.high) } else { format!("cleave::most(-({value}), {})", bounds.low) };
        let line = format!("cleave::Limits<{}> {name}; cleave::each({name}, [&](int i, int h) {{ (void)i, (void)h; return {at}; }});", self.shape.blocks);
        let mut limits = self.limits.borrow_mut();
        if !limits.contains(&line) {
            limits.push(line)
        }
        Some((name, upper))
    }
    pub(in crate::emit) fn element(&self, class: Class, node: NodeId) -> String {
        self.cx.element(&Lane { writer: self, class }, node)
    }

    // ---- what the placement can take -------------------------------------------------------------------------
    pub(in crate::emit) fn check(&mut self) -> Result<(), Refusal> {
        let part = self.cx.part;
        for (depth, s) in part.statements() {
            match s {
                Statement::Recall { .. } => return Err("a tile is kept for a later loop".into()),
                Statement::Loop(l) if !l.keep.is_empty() => return Err("a tile is kept for a later loop".into()),
                Statement::Loop(_) if depth > 0 => return Err("a loop in a loop".into()),
                Statement::Reduce { over, .. }
                    if self.shape.warp_loop > 1 && over.iter().any(|d| part.dim(d).role == Role::Loop && !part.grid.contains(&d)) =>
                {
                    return Err("a reduction over the loop within a tile".into());
                }
                _ => {}
            }
            if depth > 0 && self.shape.warp_loop > 1 && matches!(s, Statement::Store { .. }) {
                return Err("a store in a loop that warps share".into());
            }
        }
        let products: HashSet<NodeId> = self.cx.contractions().iter().map(|c| c.0).collect();
        let statements: HashSet<NodeId> = part
            .statements()
            .iter()
            .filter_map(|s| match s.1 {
                Statement::Map { node } | Statement::Load { node, .. } | Statement::Reduce { node, .. } | Statement::Fold { node, .. } => Some(*node),
                Statement::Rebase { frame } => Some(*frame),
                _ => None,
            })
            .collect();
        // loads below an expression, through operations that have no statement of their own
        let mut todo: Vec<NodeId> = vec![];
        for (_, s) in part.statements() {
            match s {
                Statement::Map { node } => todo.extend(part.graph.operands(*node)),
                Statement::Reduce { node, .. } | Statement::Fold { node, .. } if !products.contains(node) => todo.extend(part.graph.operands(*node)),
                Statement::Rebase { frame } => todo.extend(part.graph.operands(*frame)),
                Statement::Store { output, store, .. } => todo.push(part.graph.outputs[*output as usize].stores[*store as usize].node),
                _ => {}
            }
        }
        for (_, _, x, y) in self.cx.contractions() {
            todo.extend([x, y].into_iter().filter(|n| !statements.contains(n)))
        }
        let mut seen = HashSet::new();
        while let Some(n) = todo.pop() {
            if !seen.insert(n) {
                continue;
            }
            if matches!(part.graph.op(n), Op::Input { .. }) {
                self.mapped.insert(n);
            }
            if !statements.contains(&n) {
                todo.extend(part.graph.operands(n))
            }
        }
        Ok(())
    }
}
