//! Copies of a product's operands in the order in which it reads them, widened from their storage type.
use super::product::Operand;
use super::stored::{Stored, transpose};
use pulp::Simd;

/// Columns, or depths, of a block that is turned in registers.
const BLOCK: usize = 8;

/// Vectors of a panel's rows: together with six numbers each they are the accumulators of a tile, and leave some registers to operands.
const fn most_vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

/// Columns of a panel.
pub const fn width<S: Simd>() -> usize {
    most_vectors::<S>() * S::F32_LANES
}

/// Vectors of the panel that starts where so many columns, at least one, are left: the last one may be narrower.
pub fn vectors<S: Simd>(left: usize) -> usize {
    left.div_ceil(S::F32_LANES).next_power_of_two().min(most_vectors::<S>())
}

/// Copies columns to panels, `pitch` elements apart, depth after depth; what is missing of the last panel is 0. Memory is read in the order in which it
/// lies, as far as the block goes: pages and lines are met once.
///
/// # Safety
/// The operand's elements are readable; `to` takes the panels.
#[inline(always)]
pub unsafe fn fill<S: Simd, T: Stored>(simd: S, b: Operand, columns: usize, depth: usize, to: *mut f32, pitch: usize) {
    let (lanes, width, from) = (S::F32_LANES, width::<S>(), b.pointer.cast::<T>());
    let full = columns / width * width;
    let last = if full < columns { vectors::<S>(columns - full) * lanes } else { 0 };
    let place = |column: usize, k: usize| {
        let row = if column < full { width } else { last };
        unsafe { to.add(column / width * pitch + k * row + column % width) }
    };
    let whole = columns / lanes * lanes;
    // columns that lie along the depth are turned, a block at a time
    let turned = if b.depth == 1 && b.own != 1 && lanes.is_multiple_of(BLOCK) { depth / BLOCK * BLOCK } else { 0 };
    for column in (0..whole).step_by(BLOCK).take_while(|_| turned > 0) {
        let lines: [*const T; BLOCK] = std::array::from_fn(|c| from.wrapping_offset((column + c) as isize * b.own));
        for k in (0..turned).step_by(BLOCK) {
            unsafe {
                let block = std::array::from_fn(|c| T::eight(lines[c].add(k)));
                for (d, row) in transpose::<S>(block).into_iter().enumerate() {
                    place(column, k + d).cast::<[f32; BLOCK]>().write_unaligned(row)
                }
            }
        }
    }
    for k in turned..depth {
        let line = from.wrapping_offset(k as isize * b.depth);
        unsafe {
            if b.own == 1 {
                for column in (0..full).step_by(width) {
                    for v in 0..most_vectors::<S>() {
                        place(column, k).add(v * lanes).cast::<S::f32s>().write_unaligned(T::vector(simd, line.add(column + v * lanes)))
                    }
                }
                for column in (full..whole).step_by(lanes) {
                    place(column, k).cast::<S::f32s>().write_unaligned(T::vector(simd, line.add(column)))
                }
            } else {
                for column in (0..whole).step_by(lanes) {
                    let vector = T::gather(simd, line.wrapping_offset(column as isize * b.own), b.own);
                    place(column, k).cast::<S::f32s>().write_unaligned(vector)
                }
            }
        }
    }
    for k in 0..depth {
        for column in whole..full + last {
            let at = from.wrapping_offset(k as isize * b.depth + column as isize * b.own);
            unsafe { *place(column, k) = if column < columns { (*at).widen() } else { 0.0 } }
        }
    }
}

/// What is copied next: it is brought to the second cache, line after line, while products keep the processor busy. All at once it would hold up what they
/// read.
#[derive(Clone, Copy)]
pub struct Ahead {
    at: *const u8,
    /// Lines of a run of neighbours, and bytes from the last one to the first of the next run.
    run: usize,
    skip: isize,
    /// Lines of this run, and runs, still to be asked for.
    here: usize,
    runs: usize,
}

const LINE_BYTES: usize = 64;

impl Ahead {
    pub const NOTHING: Ahead = Ahead { at: std::ptr::null(), run: 0, skip: 0, here: 0, runs: 0 };

    pub fn new(b: Operand, columns: usize, depth: usize) -> Ahead {
        let bytes = b.dtype.bytes();
        let (stride, length, runs) = match (b.own, b.depth) {
            (1, stride) => (stride, columns, depth),
            (stride, 1) => (stride, depth, columns),
            _ => return Ahead::NOTHING,
        };
        let run = (length * bytes).div_ceil(LINE_BYTES);
        Ahead { at: b.pointer, run, skip: stride * bytes as isize - ((run - 1) * LINE_BYTES) as isize, here: run, runs }
    }
    /// Asks for the next line.
    #[inline(always)]
    pub fn line(&mut self) {
        if self.runs == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it reads nothing that a program could see: any address will do
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(self.at.cast())
        }
        self.here -= 1;
        if self.here > 0 {
            self.at = self.at.wrapping_add(LINE_BYTES)
        } else {
            self.at = self.at.wrapping_offset(self.skip);
            self.here = self.run;
            self.runs -= 1
        }
    }
}

/// Copies rows, `pitch` elements apart.
///
/// # Safety
/// The operand's elements are readable; `to` takes the rows.
#[inline(always)]
pub unsafe fn stage<S: Simd, T: Stored>(simd: S, a: Operand, rows: usize, depth: usize, to: *mut f32, pitch: usize) {
    let from = a.pointer.cast::<T>();
    unsafe {
        if a.depth == 1 {
            for i in 0..rows {
                let (source, target) = (from.offset(i as isize * a.own), to.add(i * pitch));
                let whole = depth / S::F32_LANES * S::F32_LANES;
                for k in (0..whole).step_by(S::F32_LANES) {
                    target.add(k).cast::<S::f32s>().write_unaligned(T::vector(simd, source.add(k)))
                }
                (whole..depth).for_each(|k| *target.add(k) = (*source.add(k)).widen())
            }
        } else {
            for k in 0..depth {
                let source = from.offset(k as isize * a.depth);
                (0..rows).for_each(|i| *to.add(i * pitch + k) = (*source.offset(i as isize * a.own)).widen())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vector::arch;
    use super::*;
    use cleave_core::dtype::DType;
    use pulp::WithSimd;

    const DEPTH: usize = 19;
    const GUARD: usize = 64;

    /// Fills the panels of so many columns, which lie along either dim, and looks at every element of them, and at those beyond.
    struct Filled {
        columns: usize,
        turned: bool,
    }

    impl WithSimd for Filled {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            let Filled { columns, turned } = self;
            let (own, along) = if turned { (DEPTH, 1) } else { (1, columns) };
            let source: Vec<f32> = (0..columns * DEPTH).map(|i| i as f32 + 1.0).collect();
            let b = Operand { pointer: source.as_ptr().cast(), dtype: DType::F32, own: own as isize, depth: along as isize };
            let (width, pitch) = (width::<S>(), DEPTH * width::<S>() + 16);
            let last = columns - (columns - 1) / width * width;
            let last_row = vectors::<S>(last) * S::F32_LANES;
            let size = (columns - 1) / width * pitch + DEPTH * last_row;
            let mut panels = vec![f32::NAN; size + GUARD];
            unsafe { fill::<S, f32>(simd, b, columns, DEPTH, panels.as_mut_ptr(), pitch) };
            for column in 0..columns {
                let row = if column / width == (columns - 1) / width { last_row } else { width };
                for k in 0..DEPTH {
                    assert_eq!(panels[column / width * pitch + k * row + column % width], source[column * own + k * along], "{column} {k}")
                }
            }
            for k in 0..DEPTH {
                let start = (columns - 1) / width * pitch + k * last_row;
                assert!(panels[start + last..start + last_row].iter().all(|x| *x == 0.0))
            }
            assert!(panels[size..].iter().all(|x| x.is_nan()), "{columns} {turned}: written beyond the last panel")
        }
    }

    #[test]
    fn panels_hold_their_columns_zeros_to_the_end_of_a_vector_and_nothing_beyond() {
        for columns in [1, 7, 16, 17, 32, 33, 48, 64, 65, 100, 128, 200] {
            for turned in [false, true] {
                arch().dispatch(Filled { columns, turned });
                Filled { columns, turned }.with_simd(pulp::Scalar)
            }
        }
    }
}
