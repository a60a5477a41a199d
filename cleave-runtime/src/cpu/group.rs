//! Runs a [`Group`]: some rows of the innermost dim at a time, or a chunk of one, as many elements as stay in the first cache.
//!
//! In: the block with the values that the group reads. Out: the tiles that it writes, the results of its reductions, its stores. Where no
//! position matters (no mask, no index), adjacent dims that lie one after the other in every tile are one longer dim.
use super::block::{Addressing, Block, Value, reserve};
use super::decode::MAX_DIMS;
use super::expression::{CHUNK, Code, Group, Instruction, Place, Slot, Work};
use super::mask::{RowMask, Rows};
use super::stored;
use super::vector::{self, Operand, Target, Unary};
use cleave_core::axis::AxisId;
use cleave_core::domain::index_at;
use cleave_core::dtype::DType;
use cleave_core::tile::{DimId, DimSet};

/// How a slot is read or written.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// f32, rows side by side.
    Direct,
    /// One element for each row.
    Column,
    /// Through a register.
    Staged,
    /// A store that another block makes.
    Off,
}

/// A slot of the run at hand. Strides are in bytes, by the group's dims.
#[derive(Clone, Copy)]
struct Live<'a> {
    pointer: *mut u8,
    dtype: DType,
    strides: [isize; MAX_DIMS],
    mode: Mode,
    written: bool,
    staging: *mut f32,
    /// Where strides do not tell the position along some dims.
    irregular: Option<&'a Addressing>,
}

/// The dims of a run, outermost first; the last is along the row, the one before it from row to row.
pub struct Extents {
    count: usize,
    lengths: [usize; MAX_DIMS],
    /// The part's dim, where dims have not been joined.
    dims: [DimId; MAX_DIMS],
    position: [usize; MAX_DIMS],
}

/// The rows at hand: `rows` of them, elements `start..start + n` of each.
#[derive(Clone, Copy)]
pub struct Window {
    pub rows: usize,
    pub start: usize,
    pub n: usize,
}

/// What a register holds.
#[derive(Clone, Copy)]
enum Held {
    Rows,
    Column,
    Scalar(f32),
}

impl<'a, 'b> Block<'a, 'b> {
    pub fn group(&mut self, group: &'a Group) {
        let masked = group.masks.iter().any(|m| !self.held[m.0.index()]);
        let code = if masked { &group.masked } else { &group.whole };
        let mut extents = Extents { count: group.dims.len(), lengths: [1; MAX_DIMS], dims: [DimId(0); MAX_DIMS], position: [0; MAX_DIMS] };
        for (i, d) in group.dims.iter().enumerate() {
            extents.lengths[i] = self.length(*d);
            extents.dims[i] = *d
        }
        let mut slots: Vec<Live<'b>> = Vec::with_capacity(group.slots.len());
        for s in &group.slots {
            let (v, written, irregular, mode) = self.live(s);
            let live = Live { pointer: v.pointer, dtype: v.dtype, strides: [0; MAX_DIMS], mode, written, staging: std::ptr::null_mut(), irregular };
            let live = slots.push_mut(live);
            for (s, d) in live.strides.iter_mut().zip(&group.dims) {
                *s = v.strides[d.0 as usize] * v.dtype.bytes() as isize
            }
        }
        if extents.lengths.contains(&0) {
            return;
        }
        let irregular = slots.iter().any(|s| s.irregular.is_some());
        if !masked && !irregular && !code.instructions.iter().any(|i| matches!(i.work, Work::Position(_))) {
            join(&mut extents, &mut slots)
        }
        extents.count = extents.count.max(1);
        let masks = if masked { Rows::new(self, group, &extents.dims[..extents.count]) } else { Rows::none() };
        Run { block: self, code, slots, extents, masks, memory: std::ptr::null_mut(), totals: vec![] }.run(irregular)
    }

    /// Where a slot lies, whether it is written, and its mode as far as it is known.
    fn live(&mut self, slot: &Slot) -> (Value, bool, Option<&'b Addressing>, Mode) {
        let (part, context) = (self.part(), self.context);
        match *slot {
            Slot::Read(n) => {
                let v = self.values[n.index()];
                (v, false, if v.irregular.is_empty() { None } else { context.load(n) }, Mode::Direct)
            }
            Slot::Write(n) => (self.fresh(n), true, None, Mode::Direct),
            Slot::Tile(n) | Slot::Count(n) => {
                let layout = &part.layout[n.index()];
                let is_count = matches!(slot, Slot::Count(_));
                let index = if is_count { part.counts[n.index()] } else { part.tiles[n.index()] };
                let v = match index {
                    Some(b) => Value { pointer: self.buffer(b).cast(), dtype: DType::F32, strides: self.packed(layout).0, irregular: DimSet::EMPTY },
                    // kept for another loop it lies between the tiles of other turns
                    None => self.fresh(n),
                };
                let identity = if !is_count && part.keeps_greatest(n) { f32::NEG_INFINITY } else { 0.0 };
                let lengths: Vec<(usize, isize)> = layout.iter().map(|d| (self.length(*d), v.strides[d.0 as usize])).collect();
                unsafe { fill(v.pointer.cast(), &lengths, identity) };
                (v, true, None, Mode::Direct)
            }
            Slot::Output { output, store, first } => {
                let off = self.piece.0 != 0 || first.iter().any(|d| self.span(d).start != 0);
                match &context.stores[output as usize][store as usize] {
                    addressing if !off => {
                        let s = &part.graph().outputs[output as usize].stores[store as usize];
                        let v = self.view(addressing, part.source.dims_of(s.access.axes()).iter());
                        (v, true, (!v.irregular.is_empty()).then_some(addressing), Mode::Direct)
                    }
                    _ => (Value::NONE, true, None, Mode::Off),
                }
            }
        }
    }
}

/// Sets every element of a tile, whose dims have these lengths and strides, outermost first.
///
/// # Safety
/// They are writable.
unsafe fn fill(pointer: *mut f32, dims: &[(usize, isize)], x: f32) {
    match *dims {
        [] => unsafe { *pointer = x },
        [(n, 1)] => unsafe { std::slice::from_raw_parts_mut(pointer, n) }.fill(x),
        [(n, stride), ref inner @ ..] => (0..n as isize).for_each(|i| unsafe { fill(pointer.offset(i * stride), inner, x) }),
    }
}

/// Joins adjacent dims where every slot allows it, and drops those of one position.
fn join(extents: &mut Extents, slots: &mut [Live]) {
    let mut kept = 0;
    for i in 0..extents.count {
        let n = extents.lengths[i];
        if n == 1 {
            continue;
        }
        let joins = kept > 0 && slots.iter().all(|s| s.strides[kept - 1] == s.strides[i] * n as isize);
        if joins {
            extents.lengths[kept - 1] *= n;
            slots.iter_mut().for_each(|s| s.strides[kept - 1] = s.strides[i])
        } else {
            extents.lengths[kept] = n;
            slots.iter_mut().for_each(|s| s.strides[kept] = s.strides[i]);
            kept += 1
        }
    }
    for i in kept..extents.count {
        extents.lengths[i] = 1;
        slots.iter_mut().for_each(|s| s.strides[i] = 0)
    }
    extents.count = kept
}

pub struct Run<'r, 'a, 'b> {
    pub block: &'r mut Block<'a, 'b>,
    code: &'a Code,
    slots: Vec<Live<'b>>,
    extents: Extents,
    pub masks: Rows<'a>,
    /// Registers, two more for masks, and a line for each slot.
    memory: *mut f32,
    /// Of reductions along a row of several chunks, by instruction.
    pub totals: Vec<f64>,
}

impl Run<'_, '_, '_> {
    fn run(mut self, irregular: bool) {
        let inner = self.extents.count - 1;
        let length = self.extents.lengths[inner];
        let lines = self.code.registers as usize + 2 + self.slots.len();
        self.memory = reserve(self.block.registers, lines * CHUNK);
        if length > CHUNK {
            self.totals.resize(self.code.instructions.len(), 0.0)
        }
        // where strides do not tell where the next row is, it stands alone
        let together = if irregular || length > CHUNK { 1 } else { CHUNK / length };
        for i in 0..self.slots.len() {
            let staging = self.register(self.code.registers as usize + 2 + i);
            let s = &mut self.slots[i];
            s.staging = staging;
            let irregular_row = s.irregular.is_some_and(|a| a.irregular.contains(self.extents.dims[inner]));
            s.mode = match s.mode {
                Mode::Off => Mode::Off,
                _ if irregular_row => Mode::Staged,
                _ if !s.written && s.strides[inner] == 0 => Mode::Column,
                _ if s.dtype == DType::F32 && (s.strides[inner] == 4 || length == 1) => Mode::Direct,
                _ => Mode::Staged,
            }
        }
        let (rows, outer) = if inner == 0 { (1, 1) } else { (self.extents.lengths[inner - 1], self.extents.lengths[..inner - 1].iter().product()) };
        for turn in 0..outer {
            for row in (0..rows).step_by(together) {
                let count = together.min(rows - row);
                if inner > 0 {
                    self.extents.position[inner - 1] = row
                }
                self.masks.start(self.block, &self.extents.position[..self.extents.count], count);
                for start in (0..length).step_by(CHUNK) {
                    self.window(Window { rows: count, start, n: CHUNK.min(length - start) })
                }
            }
            if turn + 1 < outer {
                self.advance(inner - 1)
            }
        }
    }

    /// To the next position along the dims outside `rows`.
    fn advance(&mut self, rows: usize) {
        let Extents { lengths, position, .. } = &mut self.extents;
        for d in (0..rows).rev() {
            position[d] += 1;
            if position[d] < lengths[d] {
                self.slots.iter_mut().for_each(|s| s.pointer = s.pointer.wrapping_offset(s.strides[d]));
                return;
            }
            position[d] = 0;
            let back = lengths[d] as isize - 1;
            self.slots.iter_mut().for_each(|s| s.pointer = s.pointer.wrapping_offset(-back * s.strides[d]))
        }
    }

    fn register(&self, r: usize) -> *mut f32 {
        self.memory.wrapping_add(r * CHUNK)
    }
    /// Two lines for masks.
    #[expect(clippy::mut_from_ref, reason = "scratch of the caller alone, which ends its use before it asks again")]
    pub fn mask_lines(&self, n: usize) -> (&mut [f32], &mut [f32]) {
        let line = |i: usize| unsafe { std::slice::from_raw_parts_mut(self.register(self.code.registers as usize + i), n) };
        (line(0), line(1))
    }
    /// The length of a row.
    pub fn length(&self) -> usize {
        self.extents.lengths[self.inner()]
    }
    /// Whether a reduction to a slot runs along the rows.
    pub fn runs_along(&self, slot: usize) -> bool {
        self.slots[slot].strides[self.inner()] == 0
    }
    /// Elements from one of a slot to the next along a row, and from row to row.
    pub fn inner_stride(&self, slot: usize) -> isize {
        self.slots[slot].strides[self.inner()] / 4
    }
    pub fn slot_pitch(&self, slot: usize) -> isize {
        self.row_stride(&self.slots[slot]) / 4
    }
    /// Where row `r` of those at hand begins in a slot of f32.
    pub fn slot_row(&self, slot: usize, r: usize) -> *mut f32 {
        let s = &self.slots[slot];
        self.row_pointer(s).wrapping_offset(r as isize * self.row_stride(s)).cast()
    }
    fn inner(&self) -> usize {
        self.extents.count - 1
    }
    /// Bytes from a row to the next.
    fn row_stride(&self, s: &Live) -> isize {
        if self.inner() == 0 { 0 } else { s.strides[self.inner() - 1] }
    }
    /// The first element of the first row at hand.
    fn row_pointer(&self, s: &Live) -> *mut u8 {
        let (inner, e) = (self.inner(), &self.extents);
        let Some(addressing) = s.irregular else {
            return if inner == 0 { s.pointer } else { s.pointer.wrapping_offset(s.strides[inner - 1] * e.position[inner - 1] as isize) };
        };
        let row = if inner == 0 { 0 } else { s.strides[inner - 1] * e.position[inner - 1] as isize };
        let outer = (0..inner).filter(|d| addressing.irregular.contains(e.dims[*d]));
        let offset: isize = outer.map(|d| self.irregular_offset(addressing, d, e.position[d])).sum();
        s.pointer.wrapping_offset(row + offset * s.dtype.bytes() as isize)
    }
    fn irregular_offset(&self, addressing: &Addressing, d: usize, position: usize) -> isize {
        let dim = self.extents.dims[d];
        addressing.offset(self.block.part(), self.block.context.extents, dim, self.block.span(dim).start + position as i64)
    }
    fn direct(&self, s: &Live, w: Window) -> *mut f32 {
        self.row_pointer(s).cast::<f32>().wrapping_add(w.start)
    }
    fn each_row(&self, s: &Live, w: Window, mut row: impl FnMut(usize, *mut u8, isize)) {
        let (pointer, bytes) = (self.row_pointer(s), s.dtype.bytes() as isize);
        let inner = s.strides[self.inner()];
        for r in 0..w.rows {
            row(r, pointer.wrapping_offset(r as isize * self.row_stride(s) + w.start as isize * inner), inner / bytes)
        }
    }
    /// A row whose positions strides do not tell, stretch by stretch: where each begins, its stride, and its place in the row.
    fn stretches(&self, s: &Live, addressing: &Addressing, w: Window, mut visit: impl FnMut(*mut u8, isize, std::ops::Range<usize>)) {
        let (row, dim) = (self.row_pointer(s), self.extents.dims[self.inner()]);
        let (block, mut i) = (&*self.block, 0);
        while i < w.n {
            let position = block.span(dim).start + (w.start + i) as i64;
            let run = addressing.stretch(block.part(), block.context.extents, dim, position);
            let end = w.n.min(i.saturating_add(run.length));
            visit(row.wrapping_offset(run.offset * s.dtype.bytes() as isize), run.stride, i..end);
            i = end
        }
    }
    fn irregular_row<'s>(&self, s: &Live<'s>) -> Option<&'s Addressing> {
        s.irregular.filter(|a| a.irregular.contains(self.extents.dims[self.inner()]))
    }
    unsafe fn read(&self, s: &Live, w: Window) {
        let line = |from: usize, n: usize| unsafe { std::slice::from_raw_parts_mut(s.staging.add(from), n) };
        match (s.mode, self.irregular_row(s)) {
            (_, Some(a)) => self.stretches(s, a, w, |at, stride, part| unsafe { stored::load(s.dtype, at, stride, line(part.start, part.len())) }),
            (Mode::Column, None) => unsafe { stored::load(s.dtype, self.row_pointer(s), self.row_stride(s) / s.dtype.bytes() as isize, line(0, w.rows)) },
            _ => self.each_row(s, w, |r, at, stride| unsafe { stored::load(s.dtype, at, stride, line(r * w.n, w.n)) }),
        }
    }
    unsafe fn write(&self, s: &Live, w: Window) {
        let line = |from: usize, n: usize| unsafe { std::slice::from_raw_parts(s.staging.add(from), n) };
        match self.irregular_row(s) {
            Some(a) => self.stretches(s, a, w, |at, stride, part| unsafe { stored::store(s.dtype, at, stride, line(part.start, part.len())) }),
            None => self.each_row(s, w, |r, at, stride| unsafe { stored::store(s.dtype, at, stride, line(r * w.n, w.n)) }),
        }
    }

    fn window(&mut self, w: Window) {
        for s in self.slots.iter().filter(|s| !s.written && matches!(s.mode, Mode::Staged | Mode::Column)) {
            unsafe { self.read(s, w) }
        }
        let mut held = [Held::Rows; 16];
        let mut more = vec![];
        if self.code.registers as usize > held.len() {
            more.resize(self.code.registers as usize, Held::Rows)
        }
        let held: &mut [Held] = if more.is_empty() { &mut held } else { &mut more };
        let code = self.code;
        for (i, instruction) in code.instructions.iter().enumerate() {
            let (a, b) = (self.operand(instruction.operands[0], held, w), self.operand(instruction.operands[1], held, w));
            if let (Work::Reduce { total, masks }, Place::Slot(t)) = (&instruction.work, instruction.target) {
                self.reduce(i, *total, masks, a, t as usize, w);
                continue;
            }
            match instruction.target {
                Place::Register(r) => {
                    let line = self.register(r as usize);
                    held[r as usize] = self.compute(instruction, &a, &b, &Target { pointer: line, pitch: w.n as isize, rows: w.rows, n: w.n }, true, w)
                }
                Place::Slot(s) => {
                    let s = &self.slots[s as usize];
                    let target = match s.mode {
                        Mode::Off => continue,
                        Mode::Direct => Target { pointer: self.direct(s, w), pitch: self.row_stride(s) / 4, rows: w.rows, n: w.n },
                        _ => Target { pointer: s.staging, pitch: w.n as isize, rows: w.rows, n: w.n },
                    };
                    self.compute(instruction, &a, &b, &target, false, w);
                    if s.mode == Mode::Staged {
                        unsafe { self.write(s, w) }
                    }
                }
                _ => {}
            }
        }
    }

    fn operand(&self, p: Place, held: &[Held], w: Window) -> Operand {
        match p {
            Place::Number(x) => Operand::Scalar(x),
            Place::Size(a) => Operand::Scalar(self.block.context.extents[a.0 as usize] as f32),
            Place::Register(r) => match held[r as usize] {
                Held::Scalar(x) => Operand::Scalar(x),
                Held::Column => Operand::Column(self.register(r as usize)),
                Held::Rows => Operand::Rows(self.register(r as usize), w.n as isize),
            },
            Place::Slot(s) => {
                let s = &self.slots[s as usize];
                match s.mode {
                    Mode::Direct => Operand::Rows(self.direct(s, w), self.row_stride(s) / 4),
                    Mode::Column if w.rows == 1 => Operand::Scalar(unsafe { *s.staging }),
                    Mode::Column => Operand::Column(s.staging),
                    _ => Operand::Rows(s.staging, w.n as isize),
                }
            }
        }
    }

    /// One instruction on the rows at hand. What is the same along rows stays a column or a number, if the target may be one (`narrow`).
    fn compute(&self, instruction: &Instruction, a: &Operand, b: &Operand, to: &Target, narrow: bool, w: Window) -> Held {
        let of_columns = |x: &Operand| if let Operand::Column(x) = *x { Operand::Rows(x, 0) } else { *x };
        let is_rows = |x: &Operand| matches!(x, Operand::Rows(..));
        let as_column = Target { pointer: to.pointer, pitch: 0, rows: 1, n: w.rows };
        // rows that lie one after the other are one
        let dense = |x: &Operand| match *x {
            Operand::Rows(_, pitch) => pitch == w.n as isize,
            Operand::Column(_) => false,
            Operand::Scalar(_) => true,
        };
        let joined = Target { pitch: 0, rows: 1, n: w.rows * w.n, ..*to };
        let dense_target = to.pitch == w.n as isize;
        match &instruction.work {
            Work::Unary(op) => match *a {
                Operand::Scalar(x) if narrow => return Held::Scalar(vector::unary_scalar(*op, x)),
                Operand::Column(_) if narrow => {
                    unsafe { vector::unary(*op, &as_column, &of_columns(a)) };
                    return Held::Column;
                }
                _ => {
                    let to = if dense(a) && dense_target { &joined } else { to };
                    unsafe { vector::unary(*op, to, a) }
                }
            },
            Work::Binary(op) => match (*a, *b) {
                (Operand::Scalar(x), Operand::Scalar(y)) if narrow => return Held::Scalar(vector::binary_scalar(*op, x, y)),
                _ if narrow && !is_rows(a) && !is_rows(b) => {
                    unsafe { vector::binary(*op, &as_column, &of_columns(a), &of_columns(b)) };
                    return Held::Column;
                }
                _ => {
                    let to = if dense(a) && dense(b) && dense_target { &joined } else { to };
                    unsafe { vector::binary(*op, to, a, b) }
                }
            },
            Work::Select(mask) => (0..w.rows).for_each(|r| self.select(*mask, a, to, r, w)),
            Work::Indicator(mask) => {
                for r in 0..w.rows {
                    let line = unsafe { std::slice::from_raw_parts_mut(to.pointer.offset(r as isize * to.pitch), w.n) };
                    self.masks.fill(self.block, *mask, r, w.start, line)
                }
            }
            Work::Position(axis) => self.position(*axis, to, w),
            Work::Reduce { .. } => {}
        }
        Held::Rows
    }

    /// The operand where the mask holds in row `r`, else 0.
    fn select(&self, mask: u16, a: &Operand, to: &Target, r: usize, w: Window) {
        let row = Target { pointer: to.pointer.wrapping_offset(r as isize * to.pitch), pitch: 0, rows: 1, n: w.n };
        let part = |from: usize, to: usize| Target { pointer: row.pointer.wrapping_add(from), n: to - from, ..row };
        let (from, end) = match self.masks.chunk(mask, r, w.start, w.n) {
            RowMask::All => (0, w.n),
            RowMask::Nothing => (w.n, w.n),
            RowMask::Interval(from, end) => (from, end),
            RowMask::Mixed => {
                let (line, _) = self.mask_lines(w.n);
                self.masks.fill(self.block, mask, r, w.start, line);
                return unsafe { vector::choose(row, line, a.at(r, 0), 0.0) };
            }
        };
        unsafe {
            part(0, from).fill(0.0);
            part(end, w.n).fill(0.0);
            vector::unary(Unary::Copy, &part(from, end), &a.at(r, from))
        }
    }

    fn position(&self, axis: AxisId, to: &Target, w: Window) {
        let (block, e, inner) = (&*self.block, &self.extents, self.inner());
        let part = &block.part().source;
        let Some(dim) = part.dim_of(axis) else { return unsafe { to.fill(0.0) } };
        let axes = &part.dim(dim).axes;
        let at = |offset: usize| index_at(axes, axis, block.span(dim).start + offset as i64, &|a| block.context.extents[a.0 as usize]) as f32;
        let found = e.dims[..e.count].iter().position(|d| *d == dim);
        for r in 0..w.rows {
            let line = unsafe { std::slice::from_raw_parts_mut(to.pointer.offset(r as isize * to.pitch), w.n) };
            match found {
                Some(i) if i == inner => line.iter_mut().enumerate().for_each(|(j, x)| *x = at(w.start + j)),
                Some(i) if i + 1 == inner => line.fill(at(e.position[i] + r)),
                Some(i) => line.fill(at(e.position[i])),
                None => line.fill(at(0)),
            }
        }
    }
}
