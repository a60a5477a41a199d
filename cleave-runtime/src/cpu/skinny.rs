//! Matrix products with at most four rows on one side: `c[r][j] += sum_k a[r][k] * b[k][j]`, bound by the memory that holds `b`. It is read once,
//! in place and in its storage type, along whichever of `j` and `k` is contiguous, line after line as far as that goes.
#![expect(clippy::needless_range_loop, reason = "one index over several arrays of a block, unrolled")]
use super::block::{Line, reserve};
use super::stored::{self, Stored, with_stored};
use super::vector;
use cleave_core::dtype::DType;
use pulp::{Simd, WithSimd};

/// Rows that one pass over `b` serves.
pub const ROWS: usize = 4;
/// Numbers of `a` held at a time, of all rows together; sums are blocked by them.
const HELD: usize = 4096;
/// Columns of a block whose sums stay in the first cache.
const COLUMNS: usize = 512;
/// Lines of `b` that are added to those sums at a time.
const LINES: usize = 4;

/// Strides in elements.
#[derive(Clone, Copy)]
pub struct Product {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub a: *const u8,
    pub a_type: DType,
    pub a_row: isize,
    pub a_depth: isize,
    pub b: *const u8,
    pub b_type: DType,
    pub b_depth: isize,
    pub b_column: isize,
    pub c: *mut f32,
    pub c_row: isize,
    pub c_column: isize,
}

/// Whether `b` can be read so.
pub fn fits(b_depth: isize, b_column: isize) -> bool {
    b_depth == 1 || b_column == 1
}

/// Adds the product to `c`. `scratch` holds copies.
///
/// # Safety
/// All elements that the strides reach are valid, `c` overlaps neither operand, `rows` is at most [`ROWS`], and [`fits`] holds.
pub unsafe fn add(p: Product, scratch: &mut Vec<Line>) {
    let memory = reserve(scratch, HELD + ROWS * COLUMNS);
    vector::arch().dispatch(Added { p, memory })
}

struct Added {
    p: Product,
    memory: *mut f32,
}

impl WithSimd for Added {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Added { p, memory } = self;
        unsafe {
            with_stored!(p.b_type, T => match (p.b_column == 1, p.rows) {
                (_, 0) => {}
                (true, 1) => along_columns::<S, T, 1>(simd, p, memory),
                (true, 2) => along_columns::<S, T, 2>(simd, p, memory),
                (true, 3) => along_columns::<S, T, 3>(simd, p, memory),
                (true, _) => along_columns::<S, T, 4>(simd, p, memory),
                (false, 1) => along_depth::<S, T, 1, 1, 4>(simd, p, memory),
                (false, 2) => along_depth::<S, T, 2, 2, 2>(simd, p, memory),
                (false, 3) => along_depth::<S, T, 3, 2, 1>(simd, p, memory),
                (false, _) => along_depth::<S, T, 4, 2, 1>(simd, p, memory),
            })
        }
    }
}

/// The rows of `a`, from `depth` on: where they lie if they are f32 and contiguous, else side by side in `memory`.
#[inline(always)]
unsafe fn rows<const R: usize>(p: &Product, depth: usize, n: usize, memory: *mut f32) -> [*const f32; R] {
    std::array::from_fn(|r| unsafe {
        let from = p.a.offset((r as isize * p.a_row + depth as isize * p.a_depth) * p.a_type.bytes() as isize);
        if p.a_type == DType::F32 && p.a_depth == 1 {
            return from.cast::<f32>();
        }
        let to = memory.add(r * (HELD / R));
        stored::load(p.a_type, from, p.a_depth, std::slice::from_raw_parts_mut(to, n));
        to.cast_const()
    })
}

/// `b` contiguous along the depth: dot products of `C` columns at a time, each in `U` vectors.
#[inline(always)]
unsafe fn along_depth<S: Simd, T: Stored, const R: usize, const C: usize, const U: usize>(simd: S, p: Product, memory: *mut f32) {
    let block = HELD / R;
    for depth in (0..p.depth).step_by(block) {
        let n = block.min(p.depth - depth);
        let a: [*const f32; R] = unsafe { rows(&p, depth, n, memory) };
        for j in (0..p.columns).step_by(C) {
            let width = C.min(p.columns - j);
            // past the last column: the last once more
            let b: [*const T; C] = std::array::from_fn(|c| {
                let column = (j + c.min(width - 1)) as isize;
                p.b.cast::<T>().wrapping_offset(column * p.b_column + depth as isize)
            });
            let sums = unsafe { dots::<S, T, R, C, U>(simd, a, b, n) };
            for (r, row) in sums.iter().enumerate() {
                for (i, x) in row[..width].iter().enumerate() {
                    unsafe { *p.c.offset(r as isize * p.c_row + (j + i) as isize * p.c_column) += x }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn dots<S: Simd, T: Stored, const R: usize, const C: usize, const U: usize>(simd: S, a: [*const f32; R], b: [*const T; C], n: usize) -> [[f32; C]; R] {
    let zero = simd.splat_f32s(0.0);
    let mut sums = [[[zero; U]; C]; R];
    let mut at = 0;
    unsafe {
        while at + U * S::F32_LANES <= n {
            for u in 0..U {
                let here = at + u * S::F32_LANES;
                let x: [S::f32s; R] = std::array::from_fn(|r| a[r].add(here).cast::<S::f32s>().read_unaligned());
                for c in 0..C {
                    let y = T::vector(simd, b[c].add(here));
                    for r in 0..R {
                        sums[r][c][u] = simd.mul_add_f32s(x[r], y, sums[r][c][u])
                    }
                }
            }
            at += U * S::F32_LANES
        }
        while at + S::F32_LANES <= n {
            for c in 0..C {
                let y = T::vector(simd, b[c].add(at));
                for r in 0..R {
                    sums[r][c][0] = simd.mul_add_f32s(a[r].add(at).cast::<S::f32s>().read_unaligned(), y, sums[r][c][0])
                }
            }
            at += S::F32_LANES
        }
    }
    let mut out = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            let total = (1..U).fold(sums[r][c][0], |t, u| simd.add_f32s(t, sums[r][c][u]));
            let tail = (at..n).map(|i| unsafe { *a[r].add(i) * (*b[c].add(i)).widen() }).sum::<f32>();
            out[r][c] = simd.reduce_sum_f32s(total) + tail
        }
    }
    out
}

/// `b` contiguous along the columns: [`LINES`] lines of `b` at a time, scaled and added to sums that stay in the first cache.
#[inline(always)]
unsafe fn along_columns<S: Simd, T: Stored, const R: usize>(simd: S, p: Product, memory: *mut f32) {
    let (block, sums) = (HELD / R, unsafe { memory.add(HELD) });
    for depth in (0..p.depth).step_by(block) {
        let n = block.min(p.depth - depth);
        let a: [*const f32; R] = unsafe { rows(&p, depth, n, memory) };
        for j in (0..p.columns).step_by(COLUMNS) {
            let width = COLUMNS.min(p.columns - j);
            unsafe {
                std::slice::from_raw_parts_mut(sums, R * COLUMNS).fill(0.0);
                let line = |k: usize| p.b.cast::<T>().offset((depth + k) as isize * p.b_depth + j as isize);
                let whole = n / LINES * LINES;
                for k in (0..whole).step_by(LINES) {
                    add_lines::<S, T, R, LINES>(simd, std::array::from_fn(|r| a[r].add(k)), std::array::from_fn(|i| line(k + i)), sums, width)
                }
                // one by one: a weight of 0 would not hide a NaN
                for k in whole..n {
                    add_lines::<S, T, R, 1>(simd, std::array::from_fn(|r| a[r].add(k)), [line(k)], sums, width)
                }
                for r in 0..R {
                    let c = p.c.offset(r as isize * p.c_row + j as isize * p.c_column);
                    (0..width).for_each(|i| *c.offset(i as isize * p.c_column) += *sums.add(r * COLUMNS + i))
                }
            }
        }
    }
}

/// Adds `K` lines of `b`, each times one number for each row.
#[inline(always)]
unsafe fn add_lines<S: Simd, T: Stored, const R: usize, const K: usize>(simd: S, a: [*const f32; R], b: [*const T; K], sums: *mut f32, width: usize) {
    let weights: [[S::f32s; K]; R] = std::array::from_fn(|r| std::array::from_fn(|k| simd.splat_f32s(unsafe { *a[r].add(k) })));
    let vectors = width / S::F32_LANES;
    unsafe {
        for at in (0..vectors * S::F32_LANES).step_by(S::F32_LANES) {
            let b: [S::f32s; K] = std::array::from_fn(|k| T::vector(simd, b[k].add(at)));
            for r in 0..R {
                let place = sums.add(r * COLUMNS + at).cast::<S::f32s>();
                let mut sum = place.read_unaligned();
                for k in 0..K {
                    sum = simd.mul_add_f32s(weights[r][k], b[k], sum)
                }
                place.write_unaligned(sum)
            }
        }
        for at in vectors * S::F32_LANES..width {
            for r in 0..R {
                for k in 0..K {
                    *sums.add(r * COLUMNS + at) += *a[r].add(k) * (*b[k].add(at)).widen()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Both layouts, every row count, depths and widths around the block, NaN in the stride gaps: against sums in f64.
    #[test]
    fn few_rows_times_a_matrix_equal_sums_in_f64() {
        for (rows, depth, columns) in [(1, 1, 1), (1, 513, 7), (2, 64, 33), (3, 130, 514), (4, 1030, 9), (4, 127, 1025), (1, 3, 600), (4, 0, 5)] {
            for transposed in [false, true] {
                for dtype in [DType::F32, DType::F16, DType::BF16] {
                    check(rows, depth, columns, transposed, dtype)
                }
            }
        }
    }

    fn check(rows: usize, depth: usize, columns: usize, transposed: bool, dtype: DType) {
        let value = |i: usize| ((i * 7919 % 251) as f32 - 125.0) / 64.0;
        let a: Vec<f32> = (0..rows * depth * 2).map(|i| if i % 2 == 0 { value(i / 2) } else { f32::NAN }).collect();
        let (lines, length) = if transposed { (columns, depth) } else { (depth, columns) };
        let pitch = length + 3;
        let b: Vec<f32> = (0..lines * pitch).map(|i| if i % pitch < length { value(i) } else { f32::NAN }).collect();
        let mut stored = vec![0u32; (b.len() * dtype.bytes()).div_ceil(4)]; // words, for their alignment
        unsafe { stored::store(dtype, stored.as_mut_ptr().cast(), 1, &b) };
        let mut c = vec![1.0f32; rows * columns];
        let (b_depth, b_column) = if transposed { (1, pitch as isize) } else { (pitch as isize, 1) };
        unsafe {
            let product = Product {
                rows,
                columns,
                depth,
                a: a.as_ptr().cast(),
                a_type: DType::F32,
                a_row: 2 * depth as isize,
                a_depth: 2,
                b: stored.as_ptr().cast(),
                b_type: dtype,
                b_depth,
                b_column,
                c: c.as_mut_ptr(),
                c_row: columns as isize,
                c_column: 1,
            };
            add(product, &mut vec![])
        }
        let round = |x: f32| match dtype {
            DType::F16 => f16::from_f32(x).to_f64(),
            DType::BF16 => bf16::from_f32(x).to_f64(),
            _ => x as f64,
        };
        for r in 0..rows {
            for j in 0..columns {
                let exact: f64 = (0..depth).map(|k| a[2 * (r * depth + k)] as f64 * round(b[if transposed { j * pitch + k } else { k * pitch + j }])).sum();
                let got = c[r * columns + j] as f64 - 1.0;
                assert!((got - exact).abs() < 1e-5 * (depth as f64).max(1.0), "{rows} {depth} {columns} {transposed} {dtype}: {got} {exact}")
            }
        }
    }
}
