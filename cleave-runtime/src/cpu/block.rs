//! One block: the body of a part run for one tile of its grid. In: a [`Context`], the tile of each grid dim, memory for the buffers. Out:
//! what the part's stores write.
//!
//! A value is a strided view: a tile of an input where it lies, in its storage type, or a buffer. Inputs are copied (and converted)
//! only for a consumer that cannot read them in place.
use super::contraction::{self, Extent, Matrix};
use super::decode::{Loop, MAX_DIMS, Part, Step};
use super::vector::{Operand, Target, Total};
use super::{frames, stored, vector};
use cleave_core::axis::{AxisId, MAX_AXES};
use cleave_core::domain::{Domain, Span, Surroundings, index_at, index_range};
use cleave_core::dtype::DType;
use cleave_core::graph::{Access, Factor, NodeId, Op};
use cleave_core::predicate::Table;
use cleave_core::tile::{DimId, DimSet};

/// A tensor read or written under an access: where an element is, given the position along each dim of the part.
#[derive(Clone, Debug)]
pub struct Addressing {
    pub pointer: *mut u8,
    pub dtype: DType,
    /// In elements; 0 where the access lacks the dim.
    pub strides: [isize; MAX_DIMS],
    /// Packed dims that have no one stride.
    pub irregular: DimSet,
    /// In elements, of every axis: for irregular dims, empty without.
    axes: Vec<isize>,
}

impl Addressing {
    pub fn new(part: &Part, access: &Access, pointer: *mut u8, dtype: DType, dim_strides: &[i64], extents: &[i64]) -> Self {
        let extent = |a: AxisId| extents[a.0 as usize];
        let mut axes = [0isize; MAX_AXES];
        let mut constant = 0;
        for (d, factor, inner) in access.factors(&extent) {
            let stride = (dim_strides[d] * inner) as isize;
            match factor {
                Factor::Axis(a) => axes[a.0 as usize] += stride,
                Factor::Part { index, .. } => constant += index as isize * stride,
            }
        }
        let mut strides = [0; MAX_DIMS];
        let mut irregular = DimSet::EMPTY;
        for (d, dim) in part.source.dims.iter().enumerate() {
            // of the axes that have more than one position, from the innermost out
            let mut inner: Option<(isize, i64)> = None;
            for a in dim.axes.iter().rev().filter(|a| extent(**a) > 1) {
                let (stride, n) = (axes[a.0 as usize], extent(*a));
                match inner {
                    None => strides[d] = stride,
                    Some((s, count)) if stride == s * count as isize => {}
                    Some(_) => irregular = irregular.union(DimSet::of(DimId(d as u8))),
                }
                inner = Some((inner.map_or(stride, |i| i.0), inner.map_or(1, |i| i.1) * n))
            }
            if irregular.contains(DimId(d as u8)) {
                strides[d] = 0
            }
        }
        let axes = if irregular.is_empty() { vec![] } else { axes.to_vec() };
        Addressing { pointer: pointer.wrapping_offset(constant * dtype.bytes() as isize), dtype, strides, irregular, axes }
    }
    /// The offset in elements of a position along a dim.
    pub fn offset(&self, part: &Part, extents: &[i64], dim: DimId, position: i64) -> isize {
        if !self.irregular.contains(dim) {
            return position as isize * self.strides[dim.0 as usize];
        }
        let axes = &part.source.dim(dim).axes;
        axes.iter().map(|a| index_at(axes, *a, position, &|x| extents[x.0 as usize]) as isize * self.axes[a.0 as usize]).sum()
    }
}

/// Positions of a packed dim one stride apart.
pub struct Stretch {
    /// Of the first, in elements.
    pub offset: isize,
    pub length: usize,
    pub stride: isize,
}

impl Addressing {
    /// How far a dim's positions from this one on are one stride apart: to the end of its innermost long axis.
    pub fn stretch(&self, part: &Part, extents: &[i64], dim: DimId, position: i64) -> Stretch {
        let offset = self.offset(part, extents, dim, position);
        let extent = |a: AxisId| extents[a.0 as usize];
        match part.source.dim(dim).axes.iter().rev().find(|a| extent(**a) > 1) {
            None => Stretch { offset, length: usize::MAX, stride: 0 },
            Some(a) if self.irregular.contains(dim) => {
                let n = extent(*a);
                Stretch { offset, length: (n - position % n) as usize, stride: self.axes[a.0 as usize] }
            }
            Some(_) => Stretch { offset, length: usize::MAX, stride: self.strides[dim.0 as usize] },
        }
    }
}

/// What the blocks of one part have in common.
pub struct Context<'a> {
    pub part: &'a Part,
    pub extents: &'a [i64],
    /// The tile length of each dim, at least 1.
    pub tiles: &'a [i64],
    /// Of the part's loads, in their order.
    pub loads: Vec<Option<Addressing>>,
    /// `stores[output][store]`
    pub stores: Vec<Vec<Addressing>>,
    /// The inputs that predicates read, as they lie: by input.
    pub tables: Vec<TableData>,
    /// Where each buffer starts, in elements.
    pub offsets: &'a [usize],
}

impl Context<'_> {
    /// Where a loaded node lies.
    pub fn load(&self, node: NodeId) -> Option<&Addressing> {
        self.loads[self.part.loads.iter().position(|l| l.0 == node)?].as_ref()
    }
}

/// An integer input.
#[derive(Clone, Debug)]
pub enum TableData {
    Absent,
    Scalar(i64),
    Tensor { pointer: *const i32, strides: Vec<i64> },
}

/// A tile of a node.
#[derive(Clone, Copy)]
pub struct Value {
    pub pointer: *mut u8,
    pub dtype: DType,
    pub strides: [isize; MAX_DIMS],
    /// Dims whose positions an [`Addressing`] must find; the pointer is then at their position 0.
    pub irregular: DimSet,
}

impl Value {
    pub const NONE: Value = Value { pointer: std::ptr::null_mut(), dtype: DType::F32, strides: [0; MAX_DIMS], irregular: DimSet::EMPTY };
}

/// Memory that one thread uses for block after block.
#[derive(Default)]
pub struct Scratch {
    pub memory: Vec<Line>,
    pub registers: Vec<Line>,
    pub values: Vec<Value>,
    pub held: Vec<bool>,
}

// Values point into the memory of a call that is over, and are overwritten before the next reads them.
unsafe impl Send for Scratch {}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} bytes", 64 * (self.memory.len() + self.registers.len()))
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line(#[allow(dead_code)] pub [f32; 16]);

/// At least `elements` of uninitialised-looking memory: what it holds does not matter.
pub fn reserve(lines: &mut Vec<Line>, elements: usize) -> *mut f32 {
    let n = elements.div_ceil(16);
    if lines.len() < n {
        lines.resize(n, Line([0.0; 16]))
    }
    lines.as_mut_ptr().cast()
}

pub struct Block<'a, 'b> {
    pub context: &'b Context<'a>,
    pub memory: *mut f32,
    pub registers: &'b mut Vec<Line>,
    pub values: &'b mut Vec<Value>,
    /// Predicates, by node, that hold throughout the tile at hand.
    pub held: &'b mut Vec<bool>,
    pub at: [Span; MAX_DIMS],
    /// Which share of the split loop to run, of how many.
    pub piece: (usize, usize),
    /// Elements of tiles loaded so far.
    pub loaded: u64,
}

/// Why a body was left.
pub enum Outcome {
    Done,
    /// The split loop has run its share; its states are in their buffer.
    Partial,
}

impl<'a, 'b> Block<'a, 'b> {
    pub fn part(&self) -> &'a Part {
        self.context.part
    }
    pub fn span(&self, dim: DimId) -> Span {
        self.at[dim.0 as usize]
    }
    pub fn length(&self, dim: DimId) -> usize {
        self.span(dim).len() as usize
    }
    pub fn buffer(&self, index: usize) -> *mut f32 {
        unsafe { self.memory.add(self.context.offsets[index]) }
    }
    /// Row-major strides of a tile over `dims` as long as the tile at hand, and its elements.
    pub fn packed(&self, dims: &[DimId]) -> ([isize; MAX_DIMS], usize) {
        let mut strides = [0; MAX_DIMS];
        let mut size = 1;
        for d in dims.iter().rev() {
            strides[d.0 as usize] = size as isize;
            size *= self.length(*d)
        }
        (strides, size)
    }
    /// A node's value in its own buffer.
    pub fn fresh(&mut self, node: NodeId) -> Value {
        let part = self.part();
        let Some(index) = part.values[node.index()] else { return Value::NONE };
        let mut pointer = self.buffer(index);
        let dims = &part.layout[node.index()];
        let (strides, _) = match part.buffers[index].whole {
            None => self.packed(dims),
            // side by side with the tiles of other turns of the loop
            Some(whole) => {
                let mut strides = [0; MAX_DIMS];
                let mut size = 1;
                for d in dims.iter().rev() {
                    strides[d.0 as usize] = size;
                    size *= if *d == whole { part.source.extent(whole, self.context.extents) as isize } else { self.length(*d) as isize }
                }
                pointer = unsafe { pointer.offset(strides[whole.0 as usize] * self.span(whole).start as isize) };
                (strides, 0)
            }
        };
        let value = Value { pointer: pointer.cast(), dtype: DType::F32, strides, irregular: DimSet::EMPTY };
        self.values[node.index()] = value;
        value
    }

    /// Runs steps. At the top level, with `resume`, those after the split loop only.
    pub fn run(&mut self, body: &'a [Step], resume: bool) -> Outcome {
        let start = if resume { body.iter().position(|s| matches!(s, Step::Loop(l) if l.is_split)).map_or(0, |i| i + 1) } else { 0 };
        for step in &body[start..] {
            match step {
                Step::Load { node, again } => {
                    if !again {
                        self.loaded += self.part().layout[node.index()].iter().map(|d| self.length(*d) as u64).product::<u64>()
                    }
                    self.load(*node)
                }
                Step::Recall(node) => {
                    self.fresh(*node);
                }
                Step::Group(group) => self.group(group),
                Step::Contract { node, x, y, order, over, fold } => self.contract(*node, *x, *y, order, *over, *fold),
                Step::Fold { node, maximum } => self.fold(*node, *maximum),
                Step::Rebase { frame, row, the_loop, state } => frames::rebase(self, *frame, *row, *the_loop, *state),
                Step::Settle { frame, row } => frames::settle(self, *frame, *row),
                Step::Loop(l) => {
                    self.the_loop(l);
                    if l.is_split && self.piece.1 > 1 {
                        return Outcome::Partial;
                    }
                    frames::publish(self, l)
                }
            }
        }
        Outcome::Done
    }

    // ---- loads -----------------------------------------------------------------------------------------------

    fn load(&mut self, node: NodeId) {
        let Some(addressing) = self.context.load(node) else { return };
        self.values[node.index()] = self.view(addressing, self.part().layout[node.index()].iter().copied());
    }
    /// The tile at hand of a tensor.
    pub fn view(&self, addressing: &Addressing, dims: impl Iterator<Item = DimId>) -> Value {
        let regular = dims.filter(|d| !addressing.irregular.contains(*d));
        let offset: isize = regular.map(|d| self.span(d).start as isize * addressing.strides[d.0 as usize]).sum();
        Value {
            pointer: addressing.pointer.wrapping_offset(offset * addressing.dtype.bytes() as isize),
            dtype: addressing.dtype,
            strides: addressing.strides,
            irregular: addressing.irregular,
        }
    }
    /// A value of floats that strides describe: by a copy, if it is none where it lies.
    fn regular(&mut self, node: NodeId) -> Value {
        let value = self.values[node.index()];
        if value.irregular.is_empty() && value.dtype != DType::I32 {
            return value;
        }
        let part = self.part();
        let dims = &part.layout[node.index()];
        let to = self.fresh(node);
        let Some(addressing) = self.context.load(node) else { return to };
        let Some((inner, outer)) = dims.split_last() else {
            unsafe { stored::load(value.dtype, value.pointer, 1, std::slice::from_raw_parts_mut(to.pointer.cast(), 1)) };
            return to;
        };
        let n = self.length(*inner);
        let rows: usize = outer.iter().map(|d| self.length(*d)).product();
        let bytes = value.dtype.bytes() as isize;
        let position = |d: DimId, i: usize| {
            if value.irregular.contains(d) {
                addressing.offset(part, self.context.extents, d, self.span(d).start + i as i64)
            } else {
                i as isize * value.strides[d.0 as usize]
            }
        };
        for row in 0..rows {
            let (mut from, mut rest) = (0, row);
            for d in outer.iter().rev() {
                from += position(*d, rest % self.length(*d));
                rest /= self.length(*d)
            }
            // the copy is packed: row after row
            let target = unsafe { std::slice::from_raw_parts_mut(to.pointer.cast::<f32>().add(row * n), n) };
            if value.irregular.contains(*inner) {
                for (i, x) in target.iter_mut().enumerate() {
                    let at = from + position(*inner, i);
                    unsafe { stored::load(value.dtype, value.pointer.offset(at * bytes), 1, std::slice::from_mut(x)) }
                }
            } else {
                unsafe { stored::load(value.dtype, value.pointer.offset(from * bytes), value.strides[inner.0 as usize], target) }
            }
        }
        to
    }

    // ---- reductions ------------------------------------------------------------------------------------------

    fn contract(&mut self, node: NodeId, x: NodeId, y: NodeId, order: &[DimId], over: DimSet, fold: bool) {
        let c = if fold { self.values[node.index()] } else { self.fresh(node) };
        let (a, b) = (self.regular(x), self.regular(y));
        let mut dims = [contraction::ONE; MAX_DIMS];
        for (e, d) in dims.iter_mut().zip(order) {
            let i = d.0 as usize;
            *e = Extent { length: self.length(*d), a: a.strides[i], b: b.strides[i], c: c.strides[i], is_sum: over.contains(*d) }
        }
        let matrix = |v: Value| Matrix { pointer: v.pointer, dtype: v.dtype };
        unsafe { contraction::multiply(&dims[..order.len()], matrix(a), matrix(b), c.pointer.cast(), fold, self.registers) }
    }

    fn fold(&mut self, node: NodeId, maximum: bool) {
        let part = self.part();
        let Some(tile) = part.tiles[node.index()] else { return };
        let (_, size) = self.packed(&part.layout[node.index()]);
        let carried = self.values[node.index()];
        let into = Target { pointer: carried.pointer.cast(), pitch: 0, rows: 1, n: size };
        unsafe { vector::across(if maximum { Total::Greatest } else { Total::Sum }, into, Operand::Rows(self.buffer(tile), 0)) }
    }

    // ---- loops -----------------------------------------------------------------------------------------------

    fn the_loop(&mut self, l: &'a Loop) {
        frames::fresh(self, l);
        let dim = l.source.dim;
        let extent = self.part().source.extent(dim, self.context.extents);
        let tile = self.context.tiles[dim.0 as usize];
        if l.source.domain.is_empty() {
            let tiles = (extent + tile - 1) / tile;
            let (first, end) = self.share(l, tiles as usize);
            for i in first as i64..end as i64 {
                self.at[dim.0 as usize] = Span::new(i * tile, ((i + 1) * tile).min(extent));
                self.run(&l.body, false);
            }
        } else {
            let domain = self.domain(l, extent);
            let tiles: Vec<Span> = domain.tiles(tile).collect();
            let (first, end) = self.share(l, tiles.len());
            let before: Vec<(NodeId, bool)> = domain.full.iter().map(|f| (f.0, self.held[f.0.index()])).collect();
            for &span in &tiles[first..end] {
                self.at[dim.0 as usize] = span;
                for &(p, was) in &before {
                    self.held[p.index()] = was || domain.holds(p, span)
                }
                self.run(&l.body, false);
            }
            for (p, was) in before {
                self.held[p.index()] = was
            }
        }
        self.at[dim.0 as usize] = Span::new(0, extent)
    }
    fn share(&self, l: &Loop, tiles: usize) -> (usize, usize) {
        let (piece, pieces) = if l.is_split { self.piece } else { (0, 1) };
        (tiles * piece / pieces, tiles * (piece + 1) / pieces)
    }
    fn domain(&self, l: &Loop, extent: i64) -> Domain {
        let (part, extents) = (&self.part().source, self.context.extents);
        let bound = |a: AxisId| extents[a.0 as usize];
        let range = |a: AxisId| match part.dim_of(a) {
            Some(d) if !self.span(d).is_empty() => index_range(&part.dim(d).axes, a, self.span(d), &bound),
            _ => (0, bound(a) - 1),
        };
        let table = |t: &Table| self.table_range(t, &range);
        Domain::new(part, &l.source, extent, &Surroundings { index: &range, extent: &bound, table: &table })
    }
    fn table_range(&self, table: &Table, range: &dyn Fn(AxisId) -> (i64, i64)) -> Option<(i64, i64)> {
        let axes: Vec<(AxisId, (i64, i64))> = table.access.axes().iter().map(|a| (a, range(a))).collect();
        let count: i64 = axes.iter().map(|(_, r)| r.1 - r.0 + 1).product();
        let mut found: Option<(i64, i64)> = None;
        for i in 0..count {
            let index = |a: AxisId| {
                let mut rest = i;
                for (b, r) in &axes {
                    let n = r.1 - r.0 + 1;
                    if *b == a {
                        return r.0 + rest % n;
                    }
                    rest /= n
                }
                0
            };
            let x = self.table(table, &index);
            found = Some(found.map_or((x, x), |f| (f.0.min(x), f.1.max(x))))
        }
        found
    }
    /// The value of a table at a position.
    pub fn table(&self, table: &Table, index: &dyn Fn(AxisId) -> i64) -> i64 {
        match &self.context.tables[table.input.index()] {
            TableData::Absent => 0,
            TableData::Scalar(x) => *x,
            TableData::Tensor { pointer, strides } => {
                let offset = table.access.offset(strides, index, &|a| self.context.extents[a.0 as usize]);
                unsafe { *pointer.offset(offset as isize) as i64 }
            }
        }
    }
    pub fn is_frame(&self, node: NodeId) -> bool {
        matches!(self.part().graph().op(node), Op::Frame(..))
    }
}
