//! Copies of a product's operands in the order in which it reads them, widened from their storage type.
use super::product::{Operand, VECTORS};
use super::stored::{Stored, transpose};
use pulp::Simd;

/// Columns, or depths, of a block that is turned in registers.
const BLOCK: usize = 8;

/// Copies columns to panels of [`VECTORS`] vectors, depth after depth; what is missing of the last panel is 0.
///
/// # Safety
/// The operand's elements are readable; `to` takes whole panels.
#[inline(always)]
pub unsafe fn fill<S: Simd, T: Stored>(simd: S, b: Operand, columns: usize, depth: usize, to: *mut f32) {
    let width = VECTORS * S::F32_LANES;
    let from = b.pointer.cast::<T>();
    for (i, j) in (0..columns).step_by(width).enumerate() {
        let panel = unsafe { to.add(i * depth * width) };
        let wide = width.min(columns - j);
        let from = from.wrapping_offset(j as isize * b.own);
        // columns that lie along the depth are turned, a block at a time
        let turned = if b.depth == 1 && b.own != 1 && S::F32_LANES.is_multiple_of(BLOCK) && wide == width { depth / BLOCK * BLOCK } else { 0 };
        for k in (0..turned).step_by(BLOCK) {
            for x in (0..width).step_by(BLOCK) {
                unsafe {
                    let block = std::array::from_fn(|c| T::eight(from.offset((x + c) as isize * b.own).add(k)));
                    for (d, row) in transpose::<S>(block).into_iter().enumerate() {
                        panel.add((k + d) * width + x).cast::<[f32; BLOCK]>().write_unaligned(row)
                    }
                }
            }
        }
        for k in turned..depth {
            unsafe {
                let (source, target) = (from.offset(k as isize * b.depth), panel.add(k * width));
                if wide < width {
                    (0..wide).for_each(|x| *target.add(x) = (*source.offset(x as isize * b.own)).widen());
                    (wide..width).for_each(|x| *target.add(x) = 0.0)
                } else {
                    for x in (0..width).step_by(S::F32_LANES) {
                        let vector = if b.own == 1 { T::vector(simd, source.add(x)) } else { T::gather(simd, source.offset(x as isize * b.own), b.own) };
                        target.add(x).cast::<S::f32s>().write_unaligned(vector)
                    }
                }
            }
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
