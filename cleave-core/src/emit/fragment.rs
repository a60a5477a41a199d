//! The placement on tensor cores: rows of a part's row dim over warps in blocks of 16, columns in the registers of a row's four
//! lanes, operands of products in shared tiles, streamed ones through a ring that asynchronous copies fill.
//!
//! Every value takes its space from its dims: rows and columns: a fragment; rows only: one value a row, equal in the row's
//! lanes; columns only: one a column; neither: a scalar. A streamed load, or an operand of a product, is a shared tile. Warps
//! share out the rows, the columns of a grid dim, or the tiles of the loop; in the last case each warp has its own states, and
//! they merge by the table of frames like the pieces of a split.
use super::bounds::Bounds;
use super::code::Code;
use super::frames::{self, OfTile};
use super::part::{Context, Refusal, Site, c_type};
use super::shared::Placed;
use crate::axis::AxisId;
use crate::dtype::DType;
use crate::graph::{Access, Factor, FrameKind, NodeId, Op};
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
enum Class {
    Fragment(DimId),
    Rows,
    Columns(DimId),
    Scalar,
}

/// A tile of an input in shared memory.
#[derive(Clone, Debug)]
struct Shared {
    outer: Option<DimId>,
    inner: DimId,
    dtype: DType,
    at: u32,
    ring: bool,
}

struct Writer<'a> {
    cx: &'a Context<'a>,
    shape: Shape,
    code: Code,
    registers: HashSet<NodeId>,
    tiles: HashMap<NodeId, Shared>,
    loops: Vec<(DimId, Bounds, bool)>,
    shared: u32,
    /// Asynchronous copies that no wait has covered yet.
    pending: bool,
    before_split: bool,
    /// Folds whose lanes hold shares until the loop ends.
    open_folds: Vec<NodeId>,
    /// Loads that a map reads, so that they are needed in registers.
    mapped: HashSet<NodeId>,
    /// Operands that are packed already in the body at hand.
    packed: HashSet<String>,
    guards: RefCell<Vec<Guard>>,
    /// Declarations of the loop's body: up to which column an atom holds in each row.
    limits: RefCell<Vec<String>>,
}

/// An element of a value in registers.
struct Lane<'w, 'a> {
    writer: &'w Writer<'a>,
    class: Class,
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
    fn limited(&self, atom: &Atom) -> Option<String> {
        let Class::Fragment(column) = self.class else { return None };
        self.writer.limit(atom, column).map(|limit| format!("{} < {limit}(i, c >> 1)", self.position(column)))
    }
}

pub fn place(cx: &Context, shape: Shape, limit: u32) -> Result<Placed, Refusal> {
    let mut w = Writer {
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
    };
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
        cx.group_rows()
    }
    Ok(Placed { body, shared_bytes: w.shared.max(16), partial_bytes: partial, guards: w.guards.into_inner() })
}

impl Writer<'_> {
    // ---- classes and names ----------------------------------------------------------------------------------
    fn class(&self, node: NodeId) -> Result<Class, Refusal> {
        self.class_of(self.cx.wide(node)).map_err(|e| format!("t{}: {e}", node.0))
    }
    fn class_of(&self, wide: DimSet) -> Result<Class, Refusal> {
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
    fn local(&self, dim: DimId) -> u32 {
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
    fn offset(&self, dim: DimId) -> String {
        let local = self.local(dim);
        if Some(dim) == self.shape.column && self.shape.warp_columns > 1 {
            format!("warp_column * {local}")
        } else if self.cx.part.dim(dim).role == Role::Loop && self.shape.warp_loop > 1 {
            format!("warp_loop * {local}")
        } else {
            "0".into()
        }
    }
    fn row_name(&self) -> String {
        self.cx.name("row", &format!("{}_row", self.cx.dim_name(self.shape.row)))
    }
    fn column_name(&self, dim: DimId) -> String {
        self.cx.name(&format!("column of {}", dim.0), &format!("{}_column", self.cx.dim_name(dim)))
    }
    fn column_line(&self, dim: DimId) -> String {
        format!("const int {} = {} + {} + cleave::column_of_lane();", self.column_name(dim), self.cx.start(dim), self.offset(dim))
    }
    fn type_of(&self, class: Class) -> String {
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
    fn coordinates(&self) -> Vec<String> {
        let s = self.shape;
        let text = self.code.text();
        let mut lines = vec![];
        let mut coordinate = |name: &str, value: String| {
            if text.contains(name) {
                lines.push(format!("const int {name} = {value};"))
            }
        };
        let row = self.row_name();
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
    /// The name of the column of each row below which an atom of a predicate holds, in a loop over columns whose index it has
    /// with factor -1. Declared once for a tile: what is left for an element is a comparison.
    fn limit(&self, atom: &Atom, column: DimId) -> Option<String> {
        self.loops.iter().find(|l| l.0 == column)?;
        let [axis] = self.cx.part.dim(column).axes[..] else { return None };
        let varies = |d: DimId| self.cx.tile(d) > 1 && d != self.shape.row;
        let fixed = atom.tables.iter().all(|t| !self.cx.part.dims_of(t.0.access.axes()).iter().any(varies));
        let others = atom.indices.iter().filter(|i| i.0 != axis).all(|i| self.cx.part.dim_of(i.0).is_some_and(|d| !varies(d)));
        if !fixed || !others || !atom.indices.contains(&(axis, -1)) {
            return None;
        }
        let mut rest = atom.clone();
        rest.indices.retain(|i| i.0 != axis);
        let name = self.cx.name(&format!("limit {atom:?}"), &format!("{}_limit", self.cx.dim_name(column)));
        let value = self.cx.atom(&Lane { writer: self, class: Class::Rows }, &rest);
        let line =
            format!("cleave::Limits<{}> {name}; cleave::each({name}, [&](int i, int h) {{ (void)i, (void)h; return {value} + 1; }});", self.shape.blocks);
        let mut limits = self.limits.borrow_mut();
        if !limits.contains(&line) {
            limits.push(line)
        }
        Some(name)
    }
    fn element(&self, class: Class, node: NodeId) -> String {
        self.cx.element(&Lane { writer: self, class }, node)
    }

    // ---- what the placement can take -------------------------------------------------------------------------
    fn check(&mut self) -> Result<(), Refusal> {
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

    // ---- loads -------------------------------------------------------------------------------------------------
    /// The dims of a tile: rows, and columns, in which the input is contiguous if in any.
    fn tile_dims(&self, node: NodeId, access: &Access) -> Result<(Option<DimId>, DimId), Refusal> {
        let wide = self.cx.wide(node);
        let order: Vec<AxisId> = access.dims.iter().flatten().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).collect();
        let inner = order.iter().rev().filter_map(|a| self.cx.part.dim_of(*a)).find(|d| wide.contains(*d));
        let inner = inner.ok_or_else(|| format!("t{} has no wide dim", node.0))?;
        let rest: Vec<DimId> = wide.iter().filter(|d| *d != inner).collect();
        match rest[..] {
            [] => Ok((None, inner)),
            [outer] => Ok((Some(outer), inner)),
            _ => Err(format!("a tile of t{} has more than two dims", node.0)),
        }
    }
    fn tile_type(&self, t: &Shared) -> String {
        format!("cleave::Tile<{}, {}, {}>", c_type(t.dtype), t.outer.map_or(1, |d| self.cx.tile(d)), self.cx.tile(t.inner))
    }
    fn tile_bytes(&self, t: &Shared) -> u32 {
        let bytes = t.outer.map_or(1, |d| self.cx.tile(d)) * self.cx.tile(t.inner) * t.dtype.bytes() as u32;
        bytes.next_multiple_of(128)
    }
    /// Reserves a tile for a load.
    fn new_tile(&self, node: NodeId, at: u32, ring: bool) -> Result<Shared, Refusal> {
        let Op::Input { input, access } = self.cx.part.graph.op(node) else { return Err(format!("t{} is loaded but no input", node.0)) };
        let (outer, inner) = self.tile_dims(node, access)?;
        let tile = Shared { outer, inner, dtype: self.cx.dtype(self.cx.input_ref(*input)), at, ring };
        if self.cx.tile(inner) % (16 / tile.dtype.bytes() as u32) != 0 || tile.dtype == DType::I32 {
            return Err(format!("a tile of `{}` is no whole number of chunks", self.cx.part.graph.input(*input).name));
        }
        Ok(tile)
    }
    /// Lines that fill the tile of a load.
    fn fill_tile(&self, code: &mut Code, node: NodeId, name: &str, loop_dim: Option<(DimId, &Bounds)>) {
        let Op::Input { input, access } = self.cx.part.graph.op(node) else { return };
        let t = &self.tiles[&node];
        let tensor = self.cx.input_ref(*input);
        let pointer = self.cx.pointer(tensor, false);
        let threads = self.shape.threads();
        let range = |d: DimId| -> (String, String) {
            let start = self.cx.start(d);
            match loop_dim {
                Some((l, b)) if l == d => (if b.left { format!("{} - {start}", b.low) } else { "0".into() }, format!("{} - {start}", b.high)),
                _ if start == "0" => ("0".into(), self.cx.size(d)),
                _ => ("0".into(), format!("{} - {start}", self.cx.size(d))),
            }
        };
        let at = |d: DimId, local: &str| {
            let start = self.cx.start(d);
            if start == "0" { local.to_string() } else { format!("({start} + {local})") }
        };
        let (column_low, column_high) = range(t.inner);
        let (row_low, row_high) = t.outer.map_or(("0".into(), "1".into()), range);
        let position = |d: DimId| {
            if Some(d) == t.outer {
                at(d, "r")
            } else if d == t.inner {
                at(d, "k")
            } else {
                self.cx.start(d)
            }
        };
        let inner_axes = &self.cx.part.dim(t.inner).axes;
        let factors: Vec<(usize, usize, Factor)> =
            access.dims.iter().enumerate().flat_map(|(d, f)| f.iter().enumerate().map(move |(i, f)| (d, i, *f))).collect();
        let last = factors.iter().rfind(|x| matches!(x.2, Factor::Axis(a) if inner_axes.contains(&a)));
        let unit = last.filter(|_| inner_axes.len() == 1).map(|x| (x.0, x.1));
        let elements = || {
            let whole = self.cx.offset(tensor, access, &position, &|_| true);
            format!(
                "cleave::load_elements<{threads}>({name}, {pointer}, {row_low}, {row_high}, {column_low}, {column_high}, [&](int r, int k) {{ (void)r; return {whole}; }});"
            )
        };
        let Some((d, f)) = unit else { return code.line(elements()) };
        let inner_start = self.cx.start(t.inner);
        let with_start = |offset: String| if inner_start == "0" { offset } else { format!("{offset} + {inner_start}") };
        let rows = match t.outer {
            Some(o) if self.cx.part.dim(o).axes.len() > 1 => {
                let columns = with_start(self.cx.offset(tensor, access, &position, &|d| d != Some(t.inner)));
                format!("cleave::load_chunks<{threads}>({name}, {pointer}, {row_low}, {row_high}, {column_high}, [&](int r) {{ return {columns}; }});")
            }
            _ => {
                let first = with_start(self.cx.offset(tensor, access, &|d| self.cx.start(d), &|d| d != Some(t.inner)));
                let axis = t.outer.map(|o| self.cx.part.dim(o).axes[0]);
                let strides: Vec<String> = factors
                    .iter()
                    .filter(|x| matches!(x.2, Factor::Axis(a) if Some(a) == axis))
                    .map(|x| self.cx.stride(tensor, x.0 as u32, x.1 as u32))
                    .collect();
                let stride = if strides.is_empty() { "0".into() } else { strides.join(" + ") };
                format!("cleave::load_rows<{threads}>({name}, {pointer} + ({first}), {stride}, {row_low}, {row_high}, {column_high});")
            }
        };
        let bytes = 16;
        let promised = self.shape.aligned && access.dims[d].len() == 1 && matches!(tensor, TensorRef::Input(_));
        if promised {
            let mut guards = self.guards.borrow_mut();
            for g in [Guard::Contiguous(tensor, d as u32), Guard::Aligned(tensor, bytes)] {
                if !guards.contains(&g) {
                    guards.push(g)
                }
            }
            return code.line(rows);
        }
        let flag = self.vector_flag(tensor, access, (d, f), bytes as usize / t.dtype.bytes());
        code.line(format!("if ({flag}) {rows}"));
        code.line(format!("else {}", elements()))
    }
    /// A flag of the part: rows of a tensor are contiguous in the factor `unit`, and start at multiples of `multiple` elements.
    fn vector_flag(&self, tensor: TensorRef, access: &Access, unit: (usize, usize), multiple: usize) -> String {
        let key = format!("{}_in_{multiple}s_{:?}", self.cx.tensor_name(tensor), access);
        let name = self.cx.name(&format!("flag {key}"), &format!("{}_in_{multiple}s", self.cx.tensor_name(tensor)));
        let mut tests = vec![format!("{} == 1", self.cx.stride(tensor, unit.0 as u32, unit.1 as u32))];
        for (d, factors) in access.dims.iter().enumerate() {
            for (f, factor) in factors.iter().enumerate() {
                if (d, f) != unit && !matches!(factor, Factor::Part { index: 0, .. }) {
                    tests.push(format!("{} % {multiple} == 0", self.cx.stride(tensor, d as u32, f as u32)))
                }
            }
        }
        let pointer = self.cx.pointer(tensor, matches!(tensor, TensorRef::Output(_)));
        let bytes = multiple * self.cx.dtype(tensor).bytes();
        tests.push(format!("((cleave::u64){pointer} & {}) == 0", bytes - 1));
        self.cx.hoist_flag(&name, format!("const bool {name} = {};", tests.join(" && ")));
        name
    }
    fn tile_name(&self, node: NodeId) -> String {
        let name = self.cx.value_name(node);
        let shared = name.strip_suffix("_tile").map_or(name.clone(), |n| format!("{n}_shared"));
        self.cx.name(&format!("tile {}", node.0), &shared)
    }
    fn is_operand(&self, node: NodeId) -> bool {
        self.cx.contractions().iter().any(|c| c.2 == node || c.3 == node)
    }
    /// Declares the registers of a value and fills them.
    fn define(&mut self, node: NodeId, expression: impl FnOnce(&Self, Class) -> String) -> Result<(), Refusal> {
        let class = self.class(node)?;
        self.declare(node, class);
        let x = expression(self, class);
        let name = self.cx.value_name(node);
        self.code.line(format!("cleave::each({name}, [&]({}) {{ return {x}; }});", Self::indices(class)));
        self.registers.insert(node);
        Ok(())
    }
    fn declare(&mut self, node: NodeId, class: Class) {
        let (t, name) = (self.type_of(class), self.cx.value_name(node));
        self.code.line(format!("{t} {name};"))
    }
    /// Waits for the copies issued so far.
    fn settle(&mut self) {
        if std::mem::take(&mut self.pending) {
            self.code.line("cleave::copy_wait<0>();");
            self.code.line("cleave::barrier();")
        }
    }
    /// A shared tile's values in registers, where a map reads them.
    fn registers_of_tile(&mut self, node: NodeId) -> Result<(), Refusal> {
        let t = self.tiles[&node].clone();
        let (class, name, tile) = (self.class(node)?, self.cx.value_name(node), self.tile_name(node));
        self.declare(node, class);
        match class {
            Class::Fragment(c) => {
                let transposed = t.inner == self.shape.row;
                self.code.line(format!("cleave::read_tile<{transposed}>({name}, {tile}, warp_row, {});", self.offset(c)))
            }
            Class::Rows => self
                .code
                .line(format!("cleave::each({name}, [&](int i, int h) {{ return {tile}.get(0, warp_row + cleave::row_of_lane() + 16 * i + 8 * h); }});")),
            Class::Columns(c) => {
                let offset = self.offset(c);
                self.code.line(format!("cleave::each({name}, [&](int j, int h) {{ return {tile}.get(0, {offset} + cleave::column_of_lane() + 8 * j + h); }});"))
            }
            Class::Scalar => return Err("a shared tile of one value".into()),
        }
        self.registers.insert(node);
        Ok(())
    }

    // ---- statements ----------------------------------------------------------------------------------------------
    fn statement(&mut self, s: &Statement) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        match s {
            Statement::Load { node, .. } => {
                let Op::Input { input, access } = g.op(*node) else { return Err(format!("t{} is loaded but no input", node.0)) };
                if access.dims.is_empty() {
                    return if self.cx.dtype(TensorRef::Input(*input)) == DType::I32 {
                        self.define(*node, |w, _| w.cx.direct(&Lane { writer: w, class: Class::Scalar }, *input, access))
                    } else {
                        Ok(())
                    };
                }
                if self.tiles.contains_key(node) {
                    // streamed: the ring has it
                    return if self.mapped.contains(node) { self.registers_of_tile(*node) } else { Ok(()) };
                }
                if self.is_operand(*node) {
                    let t = self.new_tile(*node, self.shared, false)?;
                    self.shared += self.tile_bytes(&t);
                    let (kind, name) = (self.tile_type(&t), self.tile_name(*node));
                    self.code.line(format!("const {kind} {name} = {{{}}};", t.at));
                    self.tiles.insert(*node, t);
                    let mut code = Code::at(self.code.depth());
                    self.fill_tile(&mut code, *node, &name, None);
                    self.code.append(&code);
                    self.code.line("cleave::copy_commit();");
                    self.pending = true;
                    if self.mapped.contains(node) {
                        self.settle();
                        self.registers_of_tile(*node)?
                    }
                    return Ok(());
                }
                self.define(*node, |w, class| w.cx.direct(&Lane { writer: w, class }, *input, access))
            }
            // a predicate is tested where it selects
            Statement::Map { node } if matches!(g.op(*node), Op::Predicate(_)) => Ok(()),
            Statement::Map { node } => self.define(*node, |w, class| w.cx.operation(&Lane { writer: w, class }, *node)),
            Statement::Reduce { node, over } => {
                let class = self.class(*node)?;
                self.declare(*node, class);
                let (name, identity) = (self.cx.value_name(*node), self.identity(*node));
                self.code.line(format!("cleave::fill({name}, {identity});"));
                self.registers.insert(*node);
                if self.accumulate(*node, *over)? {
                    let op = self.join(*node);
                    self.code.line(format!("cleave::join_lanes({name}, {op});"))
                }
                Ok(())
            }
            Statement::Fold { node, over } => {
                if self.accumulate(*node, *over)? && !self.open_folds.contains(node) {
                    self.open_folds.push(*node)
                }
                Ok(())
            }
            Statement::Rebase { frame } => self.rebase(*frame),
            Statement::Store { output, store, first } => self.store(*output, *store, *first),
            Statement::Loop(_) => Err("a loop in a loop".into()),
            Statement::Recall { .. } => Err("a tile is kept for a later loop".into()),
        }
    }
    fn identity(&self, node: NodeId) -> &'static str {
        if matches!(self.cx.part.graph.op(node), Op::Maximum(_)) { "-cleave::infinity()" } else { "0.0f" }
    }
    fn join(&self, node: NodeId) -> &'static str {
        if matches!(self.cx.part.graph.op(node), Op::Maximum(_)) { "cleave::Greatest()" } else { "cleave::Sum()" }
    }
    /// Whether a column of a dim counts; `None` if every column does.
    fn counts(&self, class: Class, dim: DimId) -> Option<String> {
        let position = Lane { writer: self, class }.position(dim);
        if self.cx.part.grid.contains(&dim) {
            return None;
        }
        match self.loops.iter().rfind(|l| l.0 == dim) {
            Some((_, b, masks)) => {
                let low = if b.left { format!("{position} >= {} && ", b.low) } else { String::new() };
                let test = format!("{low}{position} < {}", b.high);
                Some(if *masks { format!("(!partial || ({test}))") } else { format!("({test})") })
            }
            None => Some(format!("{position} < {}", self.cx.size(dim))),
        }
    }
    /// Adds the reduction of a tile to registers that hold its identity or a running value. Whether the lanes of a row hold
    /// shares of it afterwards.
    fn accumulate(&mut self, node: NodeId, over: DimSet) -> Result<bool, Refusal> {
        if let Some((x, y)) = self.cx.part.contraction(node) {
            return self.product(node, over, x, y).map(|()| false);
        }
        let g = &self.cx.part.graph;
        let (class, operands) = (self.class(node)?, g.operands(node).to_vec());
        let wide = self.cx.wide_of(over);
        let inner = self.class_of(self.cx.wide(node).union(wide.iter().copied().collect()))?;
        let maximum = matches!(g.op(node), Op::Maximum(_));
        let x = self.element(inner, operands[0]);
        let mut conditions: Vec<String> = operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class: inner }, *p))).collect();
        let name = self.cx.value_name(node);
        if let [d] = wide[..] {
            conditions.extend(self.counts(inner, d))
        } else if !wide.is_empty() {
            return Err("a reduction over two dims".into());
        }
        if wide.contains(&self.shape.row) {
            return Err("a reduction over the rows".into());
        }
        let x = if conditions.is_empty() { x } else { format!("{} ? {x} : {}", conditions.join(" && "), self.identity(node)) };
        match wide[..] {
            [d] => self.code.line(format!(
                "cleave::fold_columns<{}>({name}, {}, [&]({}) {{ return {x}; }});",
                self.local(d),
                self.join(node),
                Self::indices(inner)
            )),
            _ => {
                let old = self.element(class, node);
                let new = if maximum { format!("cleave::greater({old}, {x})") } else { format!("{old} + ({x})") };
                self.code.line(format!("cleave::each({name}, [&]({}) {{ return {new}; }});", Self::indices(class)))
            }
        }
        Ok(!wide.is_empty())
    }
    /// node += a product of matrices.
    fn product(&mut self, node: NodeId, over: DimSet, x: NodeId, y: NodeId) -> Result<(), Refusal> {
        let row = self.shape.row;
        let (a, b) = if self.cx.part.of(x).contains(row) { (x, y) } else { (y, x) };
        let wide = self.cx.wide_of(over);
        let [k] = wide[..] else { return Err("a product over other than one dim".into()) };
        let Class::Fragment(c) = self.class(node)? else { return Err("a product that is no fragment".into()) };
        let Some(b_tile) = self.tiles.get(&b).cloned() else { return Err(format!("t{}, the right operand of a product, is computed", b.0)) };
        let steps = if b_tile.dtype == DType::F32 { 8 } else { 16 };
        if self.local(k) % steps != 0 || self.local(c) % steps != 0 {
            return Err("a product narrower than the instruction".into());
        }
        let b_transposed = match (b_tile.outer, b_tile.inner) {
            (Some(o), i) if o == c && i == k => false,
            (Some(o), i) if o == k && i == c => true,
            _ => return Err("the right operand has other dims".into()),
        };
        let (name, b_name, t, depth) = (self.cx.value_name(node), self.tile_name(b), c_type(b_tile.dtype), self.local(k));
        let (k_at, c_at) = (self.offset(k), self.offset(c));
        match self.tiles.get(&a).cloned() {
            Some(a_tile) if a_tile.dtype == b_tile.dtype && !self.registers.contains(&a) => {
                if !a_tile.ring {
                    self.settle_resident()
                }
                if !b_tile.ring {
                    self.settle_resident()
                }
                let a_name = self.tile_name(a);
                self.code.line(format!(
                    "cleave::multiply_tiles<{}, {b_transposed}, {depth}>({name}, {a_name}, warp_row, {k_at}, {b_name}, {k_at}, {c_at});",
                    a_tile.inner == row
                ))
            }
            a_tile => {
                if let Some(t) = a_tile
                    && t.dtype == DType::F32
                    && b_tile.dtype != DType::F32
                    && !matches!(self.cx.part.graph.op(a), Op::Input { input, .. } if self.cx.part.graph.input(*input).workspace.is_some())
                {
                    return Err("an f32 operand with a narrower one".into());
                }
                if self.tiles.contains_key(&a) && !self.registers.contains(&a) {
                    self.registers_of_tile(a)?
                }
                self.settle_resident();
                let class = Class::Fragment(k);
                let mut x = self.element(class, a);
                // beyond the range of k the other operand is 0, but this one may be anything
                let loaded = matches!(self.cx.part.graph.op(a), Op::Input { .. });
                if !loaded && let Some(counts) = self.counts(class, k) {
                    x = format!("{counts} ? {x} : 0.0f")
                }
                let packed = self.cx.name(&format!("packed {} {t}", a.0), &format!("{}_packed", self.cx.value_name(a)));
                let key = format!("packed {} {t}", a.0);
                if self.packed.insert(key) {
                    self.code.line(format!("cleave::Packed<{t}, {}, {depth}> {packed};", self.shape.blocks));
                    self.code.line(format!("cleave::pack_fragment({packed}, [&](int i, int j, int c) {{ return {x}; }});"))
                }
                self.code.line(format!("cleave::multiply_packed<{b_transposed}, {depth}>({name}, {packed}, {b_name}, {k_at}, {c_at});"))
            }
        }
        Ok(())
    }
    fn settle_resident(&mut self) {
        if self.loops.is_empty() {
            self.settle()
        }
    }
    fn kind(&self, frame: NodeId) -> FrameKind {
        match self.cx.part.graph.op(frame) {
            Op::Frame(kind, _) => *kind,
            _ => unreachable!("a state's frame is a frame"),
        }
    }
    fn rebase(&mut self, frame: NodeId) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        let Op::Frame(kind, axes) = g.op(frame) else { return Err(format!("t{} is no frame", frame.0)) };
        let row = frames::code(*kind);
        let class = self.class(frame)?;
        if class != Class::Rows {
            return Err("a frame that is not by row".into());
        }
        let wide = self.cx.wide_of(self.cx.part.dims_of(*axes));
        let operands = g.operands(frame).to_vec();
        let name = self.cx.value_name(frame);
        let (of_tile, before) = (
            self.cx.name(&format!("of tile {}", frame.0), &format!("{name}_of_tile")),
            self.cx.name(&format!("before {}", frame.0), &format!("{name}_before")),
        );
        let kind = self.type_of(class);
        self.code.line(format!("{kind} {of_tile};"));
        match wide[..] {
            [d] if d != self.shape.row => {
                let inner = Class::Fragment(d);
                let mut conditions: Vec<String> =
                    operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class: inner }, *p))).collect();
                conditions.extend(self.counts(inner, d));
                let counts = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
                let (verb, value) = match row.of_tile {
                    OfTile::Mean => ("mean".to_string(), self.element(inner, operands[0])),
                    OfTile::Greatest => match self.cx.scaled(&Lane { writer: self, class: inner }, operands[0]) {
                        Some((scale, x)) => (format!("scaled {scale}"), self.element(inner, x)),
                        None => ("greatest".to_string(), self.element(inner, operands[0])),
                    },
                };
                let (function, scale) = match verb.strip_prefix("scaled ") {
                    Some(scale) => ("greatest_scaled", format!("{scale}, ")),
                    None => (verb.as_str(), String::new()),
                };
                self.code.line(format!(
                    "cleave::{function}<{}>({of_tile}, {scale}[&](int i, int j, int c) {{ return {value}; }}, [&](int i, int j, int c) {{ return {counts}; }});",
                    self.local(d)
                ))
            }
            [] => {
                let x = self.element(class, operands[0]);
                let conditions: Vec<String> = operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class }, *p))).collect();
                let x = if conditions.is_empty() { x } else { format!("{} ? {x} : {}", conditions.join(" && "), row.identity) };
                self.code.line(format!("cleave::each({of_tile}, [&](int i, int h) {{ return {x}; }});"))
            }
            _ => return Err("a frame over other than one dim".into()),
        }
        self.code.line(format!("const {kind} {before} = {name};"));
        let merged = (row.merge)(&format!("{before}(i, h)"), &format!("{of_tile}(i, h)"));
        self.code.line(format!("cleave::each({name}, [&](int i, int h) {{ return {merged}; }});"));
        self.transport(frame, &before, &name)
    }
    /// Moves the members of a frame's state from one frame to another.
    fn transport(&mut self, frame: NodeId, from: &str, to: &str) -> Result<(), Refusal> {
        let row = frames::code(self.kind(frame));
        let all = self.cx.part.statements();
        let state = all.iter().find_map(|(_, s)| if let Statement::Loop(l) = s { l.states.iter().find(|s| s.frame == Some(frame)) } else { None });
        let Some(state) = state else { return Err(format!("t{} has no state", frame.0)) };
        let mut members = state.members.clone();
        members.sort_by_key(|m| (m.tower, std::cmp::Reverse(m.degree)));
        let mut steps: Vec<i8> = vec![];
        let step_name = |d: i8| if row.step_by_degree { format!("{from}_step{d}") } else { format!("{from}_step") };
        for m in &members {
            let degree = if row.step_by_degree { m.degree } else { 0 };
            let step = step_name(degree);
            if !steps.contains(&degree) {
                steps.push(degree);
                let kind = self.type_of(Class::Rows);
                let x = (row.step)(&format!("{from}(i, h)"), &format!("{to}(i, h)"), m.degree);
                self.code.line(format!("{kind} {step};"));
                self.code.line(format!("cleave::each({step}, [&](int i, int h) {{ return {x}; }});"))
            }
            let class = self.class(m.node)?;
            let index = match class {
                Class::Fragment(_) => "(i, c >> 1)",
                Class::Rows => "(i, h)",
                _ => return Err("a member that is not by row".into()),
            };
            let (name, value) = (self.cx.value_name(m.node), Lane { writer: self, class }.value(m.node).unwrap_or_default());
            let lower = |q: i8| {
                let x = members.iter().find(|x| x.tower == m.tower && x.degree == q);
                x.and_then(|x| Lane { writer: self, class }.value(x.node)).unwrap_or("0.0f".into())
            };
            let x = (row.moved)(m.degree, &value, &format!("{step}{index}"), &lower);
            if x != value {
                self.code.line(format!("cleave::each({name}, [&]({}) {{ return {x}; }});", Self::indices(class)))
            }
        }
        Ok(())
    }

    // ---- loops -----------------------------------------------------------------------------------------------------
    fn reset(&mut self, l: &Loop, declare: bool) -> Result<(), Refusal> {
        for s in &l.states {
            let frame = s.frame.map(|f| (f, frames::code(self.kind(f)).identity));
            let all: Vec<_> = frame.into_iter().chain(s.members.iter().map(|m| (m.node, self.identity(m.node)))).collect();
            for (node, identity) in all {
                let class = self.class(node)?;
                if declare {
                    self.declare(node, class);
                    self.registers.insert(node);
                }
                let name = self.cx.value_name(node);
                self.code.line(format!("cleave::fill({name}, {identity});"))
            }
        }
        Ok(())
    }
    /// A loop, and the merge of its states over warps and pieces. Bytes of state of a piece.
    fn enter(&mut self, l: &Loop, split: bool, limit: u32) -> Result<u64, Refusal> {
        let tile = self.cx.tile(l.dim);
        self.reset(l, true)?;
        let streamed: Vec<NodeId> = l
            .body
            .iter()
            .filter_map(|s| match s {
                Statement::Load { node, .. } if !self.cx.wide(*node).is_empty() => Some(*node),
                _ => None,
            })
            .collect();
        let ring = self.shared;
        let mut stage_bytes = 0;
        for n in &streamed {
            let t = self.new_tile(*n, ring + stage_bytes, true)?;
            stage_bytes += self.tile_bytes(&t);
            self.tiles.insert(*n, t);
        }
        let room = limit.saturating_sub(ring);
        let stages = self.shape.stages.min(if stage_bytes == 0 { 2 } else { room / stage_bytes });
        if stages < 2 {
            return Err(format!("two stages of {stage_bytes} bytes do not fit in shared memory"));
        }
        self.shared = ring + stages * stage_bytes;

        self.code.open("{");
        let bounds = self.cx.loop_bounds(&mut self.code, l, true);
        let (low, high, full_low, full_high, left) = (bounds.low.clone(), bounds.high.clone(), bounds.full_low.clone(), bounds.full_high.clone(), bounds.left);
        self.code.line(format!("int first = {low} / {tile}, last = {low} < {high} ? ({high} + {}) / {tile} : first;", tile - 1));
        if split {
            self.code.line("const int tiles = last - first;");
            self.code.line("last = first + (int)((cleave::i64)tiles * (piece + 1) / pieces);");
            self.code.line("first = first + (int)((cleave::i64)tiles * piece / pieces);")
        }
        let start = self.cx.start(l.dim);
        // the copies of one tile
        self.code.open("auto fetch = [&](int tile, int stage) {");
        self.code.line(format!("const int {start} = tile * {tile};"));
        for n in &streamed {
            let t = self.tiles[n].clone();
            let (kind, name) = (self.tile_type(&t), self.tile_name(*n));
            self.code.line(format!("const {kind} {name} = {{{} + (cleave::u32)stage * {stage_bytes}}};", t.at));
            let mut code = Code::at(self.code.depth());
            self.fill_tile(&mut code, *n, &name, Some((l.dim, &bounds)));
            self.code.append(&code)
        }
        self.code.close("};");
        // the work on one tile
        self.loops.push((l.dim, bounds, true));
        let depth = self.code.depth();
        let outer = std::mem::replace(&mut self.code, Code::at(depth + 1));
        for s in &l.body {
            if let Statement::Load { node, .. } = s
                && self.tiles.contains_key(node)
            {
                let t = self.tiles[node].clone();
                let (kind, name) = (self.tile_type(&t), self.tile_name(*node));
                self.code.line(format!("const {kind} {name} = {{{} + (cleave::u32)stage * {stage_bytes}}};", t.at))
            }
            self.statement(s)?
        }
        let body = std::mem::replace(&mut self.code, outer);
        self.loops.pop();
        self.packed.clear();
        self.code.open("auto step = [&](int tile, int stage, auto masked) {");
        self.code.line("constexpr bool partial = decltype(masked)::value;");
        self.code.line("(void)partial, (void)tile, (void)stage;");
        let limits = std::mem::take(&mut *self.limits.borrow_mut());
        if body.text().contains(&start) || body.text().contains(&self.column_name(l.dim)) {
            self.code.line(format!("const int {start} = tile * {tile};"))
        }
        if body.text().contains(&self.column_name(l.dim)) {
            let line = self.column_line(l.dim);
            self.code.line(line)
        }
        limits.into_iter().for_each(|l| self.code.line(l));
        self.code.append(&body);
        self.code.close("};");
        self.code.line(format!("for (int s = 0; s < {}; s++) {{ if (first + s < last) fetch(first + s, s); cleave::copy_commit(); }}", stages - 1));
        self.code.line("int stage = 0;");
        let masks = body.text().contains("partial");
        if masks {
            if left {
                self.code.line(format!("const int whole = ({full_low} + {}) / {tile};", tile - 1))
            }
            self.code.line(format!("const int cut = {full_high} / {tile};"))
        }
        self.code.line("CLEAVE_ONCE");
        self.code.open("for (int tile = first; tile < last; tile++) {");
        self.code.line(format!("cleave::copy_wait<{}>();", stages - 2));
        self.code.line("cleave::barrier();");
        self.code.line(format!("if (tile + {0} < last) fetch(tile + {0}, stage == 0 ? {0} : stage - 1);", stages - 1));
        self.code.line("cleave::copy_commit();");
        if masks {
            let from = if left { "tile >= whole && " } else { "" };
            self.code.line(format!("if ({from}tile < cut) step(tile, stage, cleave::no()); else step(tile, stage, cleave::yes());"))
        } else {
            self.code.line("step(tile, stage, cleave::no());")
        }
        self.code.line(format!("stage = stage + 1 == {stages} ? 0 : stage + 1;"));
        self.code.close("}");
        self.code.line("cleave::copy_wait<0>();");
        self.code.line("cleave::barrier();");
        self.code.close("}");
        self.pending = false;
        // streamed tiles and what the body computed are gone, their memory is free again
        for s in &l.body {
            if let Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } = s {
                self.registers.remove(node);
                if streamed.contains(node) {
                    self.tiles.remove(node);
                }
            }
        }
        for n in std::mem::take(&mut self.open_folds) {
            let (name, op) = (self.cx.value_name(n), self.join(n));
            self.code.line(format!("cleave::join_lanes({name}, {op});"))
        }
        let used = self.shared;
        self.shared = ring;
        let bytes = self.merge(l, split, ring)?;
        self.shared = self.shared.max(used);
        if self.shared > limit {
            return Err(format!("{} bytes of shared memory are too many", self.shared));
        }
        Ok(bytes)
    }
    /// States in the order of their words: `(node, class, first word)`, and the words of a thread.
    fn state_words(&self, l: &Loop) -> Result<(Vec<(NodeId, Class, u32)>, u32), Refusal> {
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
    fn word(&self, pointer: &str, class: Class, at: u32, stride: u32) -> String {
        let index = match class {
            Class::Fragment(c) => format!("{at} + i * {} + j * 4 + c", self.local(c) / 2),
            Class::Rows => format!("{at} + 2 * i + h"),
            Class::Columns(_) => format!("{at} + 2 * j + h"),
            Class::Scalar => format!("{at}"),
        };
        format!("{pointer}[({index}) * {stride}]")
    }
    fn write_states(&mut self, words: &[(NodeId, Class, u32)], stride: u32) {
        for (n, class, at) in words {
            let name = self.cx.value_name(*n);
            let (to, x) = (self.word("mine", *class, *at, stride), Lane { writer: self, class: *class }.value(*n).unwrap_or_default());
            self.code.line(format!("cleave::visit({name}, [&]({}) {{ {to} = {x}; }});", Self::indices(*class)))
        }
    }
    /// Merges the states at `theirs` into those in registers.
    fn merge_states(&mut self, l: &Loop, words: &[(NodeId, Class, u32)], stride: u32) -> Result<(), Refusal> {
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
            let row = frames::code(self.kind(f));
            let name = self.cx.value_name(f);
            let kind = self.type_of(Class::Rows);
            let (mine, other) = (format!("{name}_mine"), format!("{name}_theirs"));
            self.code.open("{");
            self.code.line(format!("const {kind} {mine} = {name};"));
            self.code.line(format!("{kind} {other};"));
            let word = self.word("theirs", Class::Rows, at(f), stride);
            self.code.line(format!("cleave::each({other}, [&](int i, int h) {{ return {word}; }});"));
            let merged = (row.merge)(&format!("{mine}(i, h)"), &format!("{other}(i, h)"));
            self.code.line(format!("cleave::each({name}, [&](int i, int h) {{ return {merged}; }});"));
            let mut members = s.members.clone();
            members.sort_by_key(|m| (m.tower, std::cmp::Reverse(m.degree)));
            let mut steps: Vec<i8> = vec![];
            for m in &members {
                let degree = if row.step_by_degree { m.degree } else { 0 };
                if !steps.contains(&degree) {
                    steps.push(degree);
                    for from in [&mine, &other] {
                        let x = (row.step)(&format!("{from}(i, h)"), &format!("{name}(i, h)"), m.degree);
                        self.code.line(format!("{kind} {from}_step{degree};"));
                        self.code.line(format!("cleave::each({from}_step{degree}, [&](int i, int h) {{ return {x}; }});"))
                    }
                }
                let class = self.class(m.node)?;
                let index = if class == Class::Rows { "(i, h)" } else { "(i, c >> 1)" };
                let value = |n: NodeId| Lane { writer: self, class }.value(n).unwrap_or_default();
                let node_of = |q: i8| members.iter().find(|x| x.tower == m.tower && x.degree == q).map(|x| x.node);
                let lower_mine = |q: i8| node_of(q).map_or("0.0f".into(), value);
                let theirs = |n: NodeId| self.word("theirs", class, at(n), stride);
                let lower_theirs = |q: i8| node_of(q).map_or("0.0f".into(), theirs);
                let a = (row.moved)(m.degree, &value(m.node), &format!("{mine}_step{degree}{index}"), &lower_mine);
                let b = (row.moved)(m.degree, &theirs(m.node), &format!("{other}_step{degree}{index}"), &lower_theirs);
                let member = self.cx.value_name(m.node);
                self.code.line(format!("cleave::each({member}, [&]({}) {{ return {a} + {b}; }});", Self::indices(class)))
            }
            self.code.close("}")
        }
        Ok(())
    }
    /// The states of the warps that shared a loop, then those of the pieces of a split, merged in order.
    fn merge(&mut self, l: &Loop, split: bool, free: u32) -> Result<u64, Refusal> {
        let (words, count) = self.state_words(l)?;
        let s = self.shape;
        let stride = 32 * s.warp_rows * s.warp_columns;
        let thread = format!("cleave::thread() % {stride}");
        if s.warp_loop > 1 && count > 0 {
            self.code.open("{  // the warps' states, merged in order");
            self.code.line(format!("float* const states = (float*)(cleave::shared_memory + {free}) + {thread};"));
            self.code.line(format!("float* const mine = states + warp_loop * {};", count * stride));
            self.write_states(&words, stride);
            self.code.line("cleave::barrier();");
            self.reset(l, false)?;
            self.code.line("CLEAVE_ONCE");
            self.code.open(format!("for (int other = 0; other < {}; other++) {{", s.warp_loop));
            self.code.line(format!("const float* const theirs = states + other * {};", count * stride));
            self.merge_states(l, &words, stride)?;
            self.code.close("}");
            self.code.line("cleave::barrier();");
            self.code.close("}");
            self.shared = self.shared.max(free + s.warp_loop * count * stride * 4)
        }
        if !split || count == 0 {
            return Ok(0);
        }
        let floats = count * stride;
        let number = self.cx.number;
        let (partials, counters) = (self.cx.name("partials", "partials"), self.cx.name("counters", "counters"));
        self.cx.words.constant(Word::Partials(number), |w| format!("float* const {partials} = (float*){w};"));
        self.cx.words.constant(Word::Counters(number), |w| format!("cleave::u32* const {counters} = (cleave::u32*){w};"));
        self.code.open("if (pieces > 1) {  // the last piece to arrive merges all, in order");
        self.code.line(format!("float* const states = {partials} + (cleave::i64)item * pieces * {floats} + {thread};"));
        let guard = if s.warp_loop > 1 { "if (warp_loop == 0) {" } else { "{" };
        self.code.open(guard);
        self.code.line(format!("float* const mine = states + (cleave::i64)piece * {floats};"));
        self.write_states(&words, stride);
        self.code.close("}");
        self.code.line(format!("if (!cleave::last_to_arrive({counters} + item, pieces, {free})) return;"));
        self.reset(l, false)?;
        self.code.line("CLEAVE_ONCE");
        self.code.open("for (int other = 0; other < pieces; other++) {");
        self.code.line(format!("const float* const theirs = states + (cleave::i64)other * {floats};"));
        self.merge_states(l, &words, stride)?;
        self.code.close("}");
        self.code.close("}");
        self.shared = self.shared.max(free + 16);
        Ok(floats as u64 * 4)
    }

    // ---- stores ------------------------------------------------------------------------------------------------------
    fn store(&mut self, output: u32, store: u32, first: DimSet) -> Result<(), Refusal> {
        let (node, access, dims) = self.cx.store_dims(output, store);
        let tensor = self.cx.output_ref(output);
        let pointer = self.cx.pointer(tensor, true);
        let wide: DimSet = dims.iter().filter(|d| self.cx.tile(*d) > 1).collect();
        let class = self.class_of(wide)?;
        let s = self.shape;
        let mut guards: Vec<String> = self.cx.first_condition(first).into_iter().collect();
        if self.before_split && self.cx.part.split {
            guards.push("piece == 0".into())
        }
        if s.warp_loop > 1 {
            guards.push("warp_loop == 0".into())
        }
        let column = match class {
            Class::Fragment(c) | Class::Columns(c) => Some(c),
            _ => None,
        };
        if s.warp_columns > 1 && column != s.column {
            guards.push("warp_column == 0".into())
        }
        match class {
            Class::Rows => guards.push("(cleave::lane() & 3) == 0".into()),
            Class::Columns(_) => guards.push("cleave::lane() < 4 && warp_row == 0".into()),
            Class::Scalar => guards.push("cleave::thread() == 0".into()),
            Class::Fragment(_) => {}
        }
        if !guards.is_empty() {
            self.code.open(format!("if ({}) {{", guards.join(" && ")))
        }
        let site = Lane { writer: self, class };
        let position = |d: DimId| site.position(d);
        let x = self.cx.element(&site, node);
        let single = column.filter(|c| self.cx.part.dim(*c).axes.len() == 1);
        let line = match (class, single) {
            (Class::Fragment(c), Some(_)) if self.class(node) == Ok(class) && self.registers.contains(&node) => {
                let axis = self.cx.part.dim(c).axes[0];
                let unit = access
                    .dims
                    .iter()
                    .enumerate()
                    .flat_map(|(d, f)| f.iter().enumerate().map(move |(i, f)| (d, i, *f)))
                    .find(|(_, _, f)| *f == Factor::Axis(axis));
                let Some((d, f, _)) = unit else { return Err("a store that lacks its columns".into()) };
                let stride = self.cx.stride(tensor, d as u32, f as u32);
                let pairs = self.vector_flag(tensor, &access, (d, f), 2);
                let rows = Lane { writer: self, class: Class::Rows };
                let inside = self.cx.inside(dims.difference(DimSet::of(c)), &|d| rows.position(d));
                let offset = self.cx.offset(tensor, &access, &|d| rows.position(d), &|d| d != Some(c));
                let name = self.cx.value_name(node);
                format!(
                    "cleave::store_rows({pointer}, {name}, {}, {}, {stride}, {pairs}, [&](int i, int h) {{ return {inside} ? (cleave::i64)({offset}) : -1; }});",
                    self.column_name(c),
                    self.cx.size(c)
                )
            }
            _ => {
                let inside = self.cx.inside(dims, &position);
                let offset = self.cx.offset(tensor, &access, &position, &|_| true);
                let kind = self.type_of(class);
                format!("cleave::visit({kind}(), [&]({}) {{ if ({inside}) cleave::put({pointer} + ({offset}), {x}); }});", Self::indices(class))
            }
        };
        self.code.line(line);
        if !guards.is_empty() {
            self.code.close("}")
        }
        Ok(())
    }
}
