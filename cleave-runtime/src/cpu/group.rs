//! Runs a [`Group`]: row after row of the innermost dim, in chunks that stay in the first cache.
//!
//! In: the block with the values that the group reads. Out: the tiles that it writes, the results of its reductions, its stores. Where no
//! position matters (no mask, no index), adjacent dims that lie one after the other in every tile are one longer dim.
use super::block::{Addressing, Block, Value, reserve};
use super::decode::MAX_DIMS;
use super::expression::{CHUNK, Code, Group, Instruction, Place, Slot, Work};
use super::mask::{RowMask, Rows};
use super::vector::{self, Operand, Unary};
use cleave_core::axis::AxisId;
use cleave_core::domain::index_at;
use cleave_core::dtype::DType;
use cleave_core::tile::{DimId, DimSet};

/// How a slot is read or written along the innermost dim.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// f32, side by side.
    Direct,
    /// One element for the whole row.
    Scalar,
    /// Through a register.
    Staged,
    /// A store that another block makes.
    Off,
}

/// A slot of the run at hand. Strides are in bytes.
#[derive(Clone, Copy)]
struct Live<'a> {
    pointer: *mut u8,
    dtype: DType,
    strides: [isize; MAX_DIMS],
    mode: Mode,
    written: bool,
    scalar: f32,
    staging: *mut f32,
    /// Where strides do not tell the position along some dims.
    irregular: Option<&'a Addressing>,
}

/// The dims of a run, outermost first; the last is the row.
struct Extents {
    count: usize,
    lengths: [usize; MAX_DIMS],
    /// The part's dim, where dims have not been joined.
    dims: [DimId; MAX_DIMS],
    position: [usize; MAX_DIMS],
}

/// What a register holds.
#[derive(Clone, Copy)]
enum Held {
    Line,
    Scalar(f32),
}

impl<'a, 'b> Block<'a, 'b> {
    pub fn group(&mut self, group: &'a Group) {
        let masked = group.masks.iter().any(|m| !self.held[m.0.index()]);
        let code = if masked { &group.masked } else { &group.whole };
        let mut slots: Vec<Live<'b>> = Vec::with_capacity(group.slots.len());
        for s in &group.slots {
            let live = self.live(s);
            slots.push(live)
        }
        let mut extents = Extents { count: group.dims.len(), lengths: [1; MAX_DIMS], dims: [DimId(0); MAX_DIMS], position: [0; MAX_DIMS] };
        for (i, d) in group.dims.iter().enumerate() {
            extents.lengths[i] = self.length(*d);
            extents.dims[i] = *d
        }
        if extents.lengths.contains(&0) {
            return;
        }
        for live in &mut slots {
            // by position in the group's dims
            let strides = live.strides;
            live.strides = [0; MAX_DIMS];
            for (i, d) in group.dims.iter().enumerate() {
                live.strides[i] = strides[d.0 as usize] * live.dtype.bytes() as isize
            }
        }
        let positional = masked || slots.iter().any(|s| s.irregular.is_some()) || code.instructions.iter().any(|i| matches!(i.work, Work::Position(_)));
        if !positional {
            join(&mut extents, &mut slots)
        }
        if extents.count == 0 {
            extents.count = 1
        }
        let rows = if masked { Rows::new(self, group, &extents.dims[..extents.count]) } else { Rows::none() };
        run(self, code, &mut slots, &mut extents, rows)
    }

    fn live(&mut self, slot: &Slot) -> Live<'b> {
        let (part, context) = (self.part(), self.context);
        let of = |v: Value, written: bool| Live {
            pointer: v.pointer,
            dtype: v.dtype,
            strides: v.strides,
            mode: Mode::Direct,
            written,
            scalar: 0.0,
            staging: std::ptr::null_mut(),
            irregular: None,
        };
        match *slot {
            Slot::Read(n) => {
                let v = self.values[n.index()];
                let irregular = if v.irregular.is_empty() { None } else { context.loads[n.index()].as_ref() };
                Live { irregular, ..of(v, false) }
            }
            Slot::Write(n) => of(self.fresh(n), true),
            Slot::Tile(n) | Slot::Count(n) => {
                let dims = &part.layout[n.index()];
                let (strides, size) = self.packed(dims);
                let is_count = matches!(slot, Slot::Count(_));
                let index = if is_count { part.counts.get(&n) } else { part.tiles.get(&n) };
                let pointer = match index {
                    Some(b) => self.buffer(*b).cast(),
                    None => self.fresh(n).pointer,
                };
                let identity = if !is_count && part.keeps_greatest(n) { f32::NEG_INFINITY } else { 0.0 };
                unsafe { std::slice::from_raw_parts_mut(pointer.cast::<f32>(), size).fill(identity) };
                of(Value { pointer, dtype: DType::F32, strides, irregular: DimSet::EMPTY }, true)
            }
            Slot::Output { output, store, first } => {
                let off = self.piece.0 != 0 || first.iter().any(|d| self.span(d).start != 0);
                match &context.stores[output as usize][store as usize] {
                    Some(addressing) if !off => {
                        let s = &part.graph().outputs[output as usize].stores[store as usize];
                        let dims: Vec<DimId> = part.source.dims_of(s.access.axes()).iter().collect();
                        let v = self.view(addressing, &dims);
                        Live { irregular: (!v.irregular.is_empty()).then_some(addressing), ..of(v, true) }
                    }
                    _ => Live { mode: Mode::Off, ..of(Value::NONE, true) },
                }
            }
        }
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

fn run(block: &mut Block, code: &Code, slots: &mut [Live], extents: &mut Extents, mut rows: Rows) {
    let inner = extents.count - 1;
    let length = extents.lengths[inner];
    // registers, one more for a mask, and a line for each slot
    let lines = code.registers as usize + 1 + slots.len();
    let memory = reserve(block.registers, lines * CHUNK);
    let register = |r: usize| unsafe { memory.add(r * CHUNK) };
    let mask_line = register(code.registers as usize);
    for (i, s) in slots.iter_mut().enumerate() {
        s.staging = register(code.registers as usize + 1 + i);
        let irregular_row = s.irregular.is_some_and(|a| a.irregular.contains(extents.dims[inner]));
        s.mode = match s.mode {
            Mode::Off => Mode::Off,
            _ if irregular_row => Mode::Staged,
            _ if !s.written && s.strides[inner] == 0 => Mode::Scalar,
            _ if s.dtype == DType::F32 && (s.strides[inner] == 4 || length == 1) => Mode::Direct,
            _ => Mode::Staged,
        }
    }
    let mut held = [Held::Line; 64];
    let mut held_more = vec![];
    if code.registers as usize > held.len() {
        held_more.resize(code.registers as usize, Held::Line)
    }
    let held: &mut [Held] = if held_more.is_empty() { &mut held } else { &mut held_more };
    let mut totals: Vec<f64> = vec![0.0; code.instructions.len()];
    let count: usize = extents.lengths[..inner].iter().product();
    for row in 0..count {
        rows.start(block, &extents.position[..extents.count]);
        for s in slots.iter_mut().filter(|s| s.mode == Mode::Scalar) {
            let at = row_pointer(block, s, extents);
            unsafe { vector::load(s.dtype, at, 1, std::slice::from_mut(&mut s.scalar)) }
        }
        for start in (0..length).step_by(CHUNK) {
            let n = CHUNK.min(length - start);
            for s in slots.iter().filter(|s| s.mode == Mode::Staged && !s.written) {
                unsafe { read(block, s, extents, start, std::slice::from_raw_parts_mut(s.staging, n)) }
            }
            for (i, instruction) in code.instructions.iter().enumerate() {
                let operand = |p: Place| -> Operand {
                    match p {
                        Place::Number(x) => Operand::Scalar(x),
                        Place::Size(a) => Operand::Scalar(block.context.extents[a.0 as usize] as f32),
                        Place::Register(r) => match held[r as usize] {
                            Held::Scalar(x) => Operand::Scalar(x),
                            Held::Line => Operand::Slice(unsafe { std::slice::from_raw_parts(register(r as usize), n) }),
                        },
                        Place::Slot(s) => {
                            let s = &slots[s as usize];
                            match s.mode {
                                Mode::Scalar => Operand::Scalar(s.scalar),
                                Mode::Direct => Operand::Slice(unsafe { std::slice::from_raw_parts(direct(block, s, extents, start), n) }),
                                _ => Operand::Slice(unsafe { std::slice::from_raw_parts(s.staging, n) }),
                            }
                        }
                    }
                };
                let [a, b] = instruction.operands.map(operand);
                if let Work::Reduce { maximum, propagate, masks } = &instruction.work {
                    let Place::Slot(t) = instruction.target else { continue };
                    let reduction = Reduction { maximum: *maximum, propagate: *propagate, first: start == 0, start, n, mask_line };
                    let s = &slots[t as usize];
                    if s.strides[inner] == 0 {
                        reduction.along(block, &mut rows, masks, a, &mut totals[i], register(code.registers as usize + 1 + t as usize));
                        if start + n == length {
                            let target = row_pointer(block, s, extents).cast::<f32>();
                            unsafe { *target = if *maximum { greater(*target, totals[i] as f32) } else { *target + totals[i] as f32 } }
                        }
                    } else {
                        let target = unsafe { row_pointer(block, s, extents).offset(start as isize * s.strides[inner]).cast::<f32>() };
                        reduction.across(block, &mut rows, masks, a, target, s.strides[inner] / 4)
                    }
                    continue;
                }
                // where the result goes
                let (target, slot): (*mut f32, Option<&Live>) = match instruction.target {
                    Place::Register(r) => (register(r as usize), None),
                    Place::Slot(s) => {
                        let s = &slots[s as usize];
                        match s.mode {
                            Mode::Off => continue,
                            Mode::Direct => (direct(block, s, extents, start), Some(s)),
                            _ => (s.staging, Some(s)),
                        }
                    }
                    _ => continue,
                };
                let line = unsafe { std::slice::from_raw_parts_mut(target, n) };
                let scalar = compute(block, &mut rows, instruction, a, b, line, start, extents, mask_line);
                match (instruction.target, scalar) {
                    (Place::Register(r), Some(x)) => held[r as usize] = Held::Scalar(x),
                    (Place::Register(r), None) => held[r as usize] = Held::Line,
                    (_, Some(x)) => line.fill(x),
                    (_, None) => {}
                }
                if let Some(s) = slot
                    && s.mode == Mode::Staged
                {
                    unsafe { write(block, s, extents, start, std::slice::from_raw_parts(s.staging, n)) }
                }
            }
        }
        if row + 1 < count {
            advance(extents, slots, inner)
        }
    }
}

/// The next row.
fn advance(extents: &mut Extents, slots: &mut [Live], inner: usize) {
    for d in (0..inner).rev() {
        extents.position[d] += 1;
        if extents.position[d] < extents.lengths[d] {
            slots.iter_mut().for_each(|s| s.pointer = s.pointer.wrapping_offset(s.strides[d]));
            return;
        }
        extents.position[d] = 0;
        let back = extents.lengths[d] as isize - 1;
        slots.iter_mut().for_each(|s| s.pointer = s.pointer.wrapping_offset(-back * s.strides[d]))
    }
}

/// The first element of the row at hand.
fn row_pointer(block: &Block, s: &Live, extents: &Extents) -> *mut u8 {
    let Some(addressing) = s.irregular else { return s.pointer };
    let outer = (0..extents.count - 1).filter(|d| addressing.irregular.contains(extents.dims[*d]));
    let offset: isize = outer.map(|d| irregular_offset(block, addressing, extents, d, extents.position[d])).sum();
    s.pointer.wrapping_offset(offset * s.dtype.bytes() as isize)
}

fn irregular_offset(block: &Block, addressing: &Addressing, extents: &Extents, d: usize, position: usize) -> isize {
    let dim = extents.dims[d];
    addressing.offset(block.part(), block.context.extents, dim, block.span(dim).start + position as i64)
}

fn direct(block: &Block, s: &Live, extents: &Extents, start: usize) -> *mut f32 {
    row_pointer(block, s, extents).cast::<f32>().wrapping_add(start)
}

unsafe fn read(block: &Block, s: &Live, extents: &Extents, start: usize, line: &mut [f32]) {
    let (row, inner, bytes) = (row_pointer(block, s, extents), extents.count - 1, s.dtype.bytes() as isize);
    match s.irregular.filter(|a| a.irregular.contains(extents.dims[inner])) {
        Some(a) => line.iter_mut().enumerate().for_each(|(i, x)| {
            let at = irregular_offset(block, a, extents, inner, start + i);
            unsafe { vector::load(s.dtype, row.wrapping_offset(at * bytes), 1, std::slice::from_mut(x)) }
        }),
        None => unsafe { vector::load(s.dtype, row.wrapping_offset(start as isize * s.strides[inner]), s.strides[inner] / bytes, line) },
    }
}

unsafe fn write(block: &Block, s: &Live, extents: &Extents, start: usize, line: &[f32]) {
    let (row, inner, bytes) = (row_pointer(block, s, extents), extents.count - 1, s.dtype.bytes() as isize);
    match s.irregular.filter(|a| a.irregular.contains(extents.dims[inner])) {
        Some(a) => line.iter().enumerate().for_each(|(i, x)| {
            let at = irregular_offset(block, a, extents, inner, start + i);
            unsafe { vector::store(s.dtype, row.wrapping_offset(at * bytes), 1, std::slice::from_ref(x)) }
        }),
        None => unsafe { vector::store(s.dtype, row.wrapping_offset(start as isize * s.strides[inner]), s.strides[inner] / bytes, line) },
    }
}

/// One instruction on one chunk. `Some`: the result is the same everywhere, and the line was not written.
#[allow(clippy::too_many_arguments)]
fn compute(
    block: &Block,
    rows: &mut Rows,
    instruction: &Instruction,
    a: Operand,
    b: Operand,
    line: &mut [f32],
    start: usize,
    extents: &Extents,
    mask_line: *mut f32,
) -> Option<f32> {
    let n = line.len();
    match &instruction.work {
        Work::Unary(op) => match a {
            Operand::Scalar(x) => return Some(vector::unary_scalar(*op, x)),
            Operand::Slice(x) => vector::unary(*op, line, x),
        },
        Work::Binary(op) => match (a, b) {
            (Operand::Scalar(x), Operand::Scalar(y)) => return Some(vector::binary_scalar(*op, x, y)),
            _ => vector::binary(*op, line, a, b),
        },
        Work::Select(mask) => match rows.chunk(*mask, start, n) {
            RowMask::All => match a {
                Operand::Scalar(x) => return Some(x),
                Operand::Slice(x) => vector::unary(Unary::Copy, line, x),
            },
            RowMask::Nothing => return Some(0.0),
            RowMask::Interval(from, to) => {
                line[..from].fill(0.0);
                line[to..].fill(0.0);
                match a {
                    Operand::Scalar(x) => line[from..to].fill(x),
                    Operand::Slice(x) => line[from..to].copy_from_slice(&x[from..to]),
                }
            }
            RowMask::Mixed => {
                let mask_line = unsafe { std::slice::from_raw_parts_mut(mask_line, n) };
                rows.fill(block, *mask, start, mask_line);
                match a {
                    Operand::Slice(x) => vector::choose(line, mask_line, x, 0.0),
                    Operand::Scalar(x) => line.iter_mut().zip(&*mask_line).for_each(|(d, m)| *d = if *m != 0.0 { x } else { 0.0 }),
                }
            }
        },
        Work::Indicator(mask) => match rows.chunk(*mask, start, n) {
            RowMask::All => return Some(1.0),
            RowMask::Nothing => return Some(0.0),
            _ => rows.fill(block, *mask, start, line),
        },
        Work::Position(axis) => return position(block, *axis, line, start, extents),
        Work::Reduce { .. } => {}
    }
    None
}

fn position(block: &Block, axis: AxisId, line: &mut [f32], start: usize, extents: &Extents) -> Option<f32> {
    let part = &block.part().source;
    let dim = part.dim_of(axis)?;
    let axes = &part.dim(dim).axes;
    let at = |offset: usize| index_at(axes, axis, block.span(dim).start + offset as i64, &|a| block.context.extents[a.0 as usize]) as f32;
    match extents.dims[..extents.count].iter().position(|d| *d == dim) {
        Some(i) if i + 1 == extents.count => {
            line.iter_mut().enumerate().for_each(|(j, x)| *x = at(start + j));
            None
        }
        Some(i) => Some(at(extents.position[i])),
        None => Some(at(0)),
    }
}

fn greater(x: f32, y: f32) -> f32 {
    vector::binary_scalar(vector::Binary::Greatest, x, y)
}

/// One reduction over one chunk.
struct Reduction {
    maximum: bool,
    /// Whether a NaN makes the result NaN; a frame passes over it.
    propagate: bool,
    first: bool,
    start: usize,
    n: usize,
    mask_line: *mut f32,
}

impl Reduction {
    /// Where all of the masks hold in this chunk.
    fn masked(&self, block: &Block, rows: &mut Rows, masks: &[u16]) -> RowMask {
        let mut all = RowMask::All;
        for &m in masks {
            all = match (all, rows.chunk(m, self.start, self.n)) {
                (x, RowMask::All) | (RowMask::All, x) => x,
                (RowMask::Nothing, _) | (_, RowMask::Nothing) => RowMask::Nothing,
                (RowMask::Interval(a, b), RowMask::Interval(c, d)) if a.max(c) < b.min(d) => RowMask::Interval(a.max(c), b.min(d)),
                (RowMask::Interval(..), RowMask::Interval(..)) => RowMask::Nothing,
                _ => RowMask::Mixed,
            }
        }
        if let RowMask::Mixed = all {
            let line = unsafe { std::slice::from_raw_parts_mut(self.mask_line, self.n) };
            line.fill(1.0);
            let mut one = vec![0.0; self.n];
            for &m in masks {
                rows.fill(block, m, self.start, &mut one);
                line.iter_mut().zip(&one).for_each(|(l, o)| *l *= o)
            }
        }
        all
    }
    fn line(&self) -> &[f32] {
        unsafe { std::slice::from_raw_parts(self.mask_line, self.n) }
    }
    /// The reduced dim is the row: adds to the row's total.
    fn along(&self, block: &Block, rows: &mut Rows, masks: &[u16], x: Operand, total: &mut f64, line: *mut f32) {
        if self.first {
            *total = if self.maximum { f64::NEG_INFINITY } else { 0.0 }
        }
        let mask = self.masked(block, rows, masks);
        let line = unsafe { std::slice::from_raw_parts_mut(line, self.n) };
        let part: Operand = match (mask, x) {
            (RowMask::Nothing, _) => return,
            (RowMask::All, x) => x,
            (RowMask::Interval(from, to), Operand::Slice(x)) => Operand::Slice(&x[from..to]),
            (_, Operand::Scalar(x)) => Operand::Scalar(x),
            (RowMask::Mixed, Operand::Slice(x)) => {
                vector::choose(line, self.line(), x, if self.maximum { f32::NEG_INFINITY } else { 0.0 });
                Operand::Slice(line)
            }
        };
        let value = match part {
            Operand::Slice(x) if self.maximum => {
                if self.propagate && vector::has_nan(x) {
                    f64::NAN
                } else {
                    vector::greatest(x) as f64
                }
            }
            Operand::Slice(x) => vector::sum(x) as f64,
            Operand::Scalar(x) if self.maximum => x as f64,
            Operand::Scalar(x) => {
                let count = match mask {
                    RowMask::Interval(from, to) => to - from,
                    RowMask::Mixed => self.line().iter().filter(|m| **m != 0.0).count(),
                    _ => self.n,
                };
                x as f64 * count as f64
            }
        };
        *total = match self.maximum {
            false => *total + value,
            true if total.is_nan() || value.is_nan() && self.propagate => f64::NAN,
            true => total.max(value),
        }
    }
    /// The row is kept: adds element by element.
    fn across(&self, block: &Block, rows: &mut Rows, masks: &[u16], x: Operand, target: *mut f32, stride: isize) {
        let (from, to) = match self.masked(block, rows, masks) {
            RowMask::Nothing => return,
            RowMask::Interval(from, to) => (from, to),
            RowMask::All => (0, self.n),
            RowMask::Mixed => {
                for (i, m) in self.line().iter().enumerate().filter(|m| *m.1 != 0.0) {
                    let x = match x {
                        Operand::Scalar(x) => x,
                        Operand::Slice(x) => x[i],
                    };
                    let _ = m;
                    unsafe { self.add(target.offset(i as isize * stride), x) }
                }
                return;
            }
        };
        if stride == 1 && (self.propagate || !self.maximum) {
            let x = match x {
                Operand::Slice(x) => Operand::Slice(&x[from..to]),
                x => x,
            };
            return vector::accumulate(self.maximum, unsafe { std::slice::from_raw_parts_mut(target.add(from), to - from) }, x);
        }
        for i in from..to {
            let x = match x {
                Operand::Scalar(x) => x,
                Operand::Slice(x) => x[i],
            };
            unsafe { self.add(target.offset(i as isize * stride), x) }
        }
    }
    unsafe fn add(&self, target: *mut f32, x: f32) {
        unsafe {
            *target = match (self.maximum, self.propagate) {
                (false, _) => *target + x,
                (true, true) => greater(*target, x),
                (true, false) => target.read().max(x),
            }
        }
    }
}
