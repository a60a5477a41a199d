//! Matrix products with at most four rows on one side: `c[r][j] += sum_k a[r][k] * b[k][j]`, bound by the memory that holds `b`. It is read once,
//! in place and in its storage type, along whichever of `j` and `k` is contiguous. Sums are blocked: 512 addends a block.
#![expect(clippy::needless_range_loop, reason = "one index over several arrays of a block, unrolled")]
use super::vector;
use cleave_core::dtype::DType;
use pulp::{Arch, Simd, WithSimd};

/// Rows that one pass over `b` serves.
pub const ROWS: usize = 4;
/// Elements of a block along the contracted dim or along `j`.
const BLOCK: usize = 512;

/// Strides in elements.
#[derive(Clone, Copy)]
pub struct Product {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub a: *const f32,
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

/// Adds the product to `c`.
///
/// # Safety
/// All elements that the strides reach are valid, `c` overlaps neither operand, `rows` is at most [`ROWS`], and [`fits`] holds.
pub unsafe fn add(p: Product) {
    unsafe {
        match (p.b_column == 1, p.rows) {
            (_, 0) => {}
            (true, 1) => along_columns::<1>(p),
            (true, 2) => along_columns::<2>(p),
            (true, 3) => along_columns::<3>(p),
            (true, _) => along_columns::<4>(p),
            (false, 1) => along_depth::<1, 4>(p),
            (false, 2) => along_depth::<2, 4>(p),
            (false, 3) => along_depth::<3, 2>(p),
            (false, _) => along_depth::<4, 2>(p),
        }
    }
}

/// The rows of `a`, from `depth` on, side by side.
unsafe fn gather<const R: usize>(p: &Product, depth: usize, a: &mut [[f32; BLOCK]; R], n: usize) {
    for (r, row) in a.iter_mut().enumerate() {
        unsafe { vector::load(DType::F32, p.a.offset(r as isize * p.a_row + depth as isize * p.a_depth).cast(), p.a_depth, &mut row[..n]) }
    }
}

/// `n` contiguous elements of `b` as f32: in place, or converted into `buffer`.
unsafe fn read(p: &Product, element: isize, buffer: &mut [f32; BLOCK], n: usize) -> *const f32 {
    unsafe {
        if p.b_type == DType::F32 {
            return p.b.cast::<f32>().offset(element);
        }
        vector::load(p.b_type, p.b.offset(element * p.b_type.bytes() as isize), 1, &mut buffer[..n]);
        buffer.as_ptr()
    }
}

/// `b` contiguous along the depth: dot products, C columns at a time.
unsafe fn along_depth<const R: usize, const C: usize>(p: Product) {
    let mut a = [[0.0; BLOCK]; R];
    let mut buffers = [[0.0; BLOCK]; C];
    for depth in (0..p.depth).step_by(BLOCK) {
        let n = BLOCK.min(p.depth - depth);
        unsafe { gather(&p, depth, &mut a, n) };
        for j in (0..p.columns).step_by(C) {
            let width = C.min(p.columns - j);
            let mut b = [std::ptr::null(); C];
            for (i, (b, buffer)) in b.iter_mut().zip(&mut buffers).enumerate() {
                // past the last column: the last once more
                let column = j + i.min(width - 1);
                *b = unsafe { read(&p, column as isize * p.b_column + depth as isize, buffer, n) }
            }
            let sums = Arch::new().dispatch(Dots { a: &a, b, n });
            for (r, row) in sums.iter().enumerate() {
                for (i, x) in row[..width].iter().enumerate() {
                    unsafe { *p.c.offset(r as isize * p.c_row + (j + i) as isize * p.c_column) += x }
                }
            }
        }
    }
}

struct Dots<'a, const R: usize, const C: usize> {
    a: &'a [[f32; BLOCK]; R],
    b: [*const f32; C],
    n: usize,
}

impl<const R: usize, const C: usize> WithSimd for Dots<'_, R, C> {
    type Output = [[f32; C]; R];
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; C]; R];
        let vectors = self.n / S::F32_LANES;
        for i in 0..vectors {
            let at = i * S::F32_LANES;
            for c in 0..C {
                // SAFETY: at + F32_LANES <= n
                let b = unsafe { self.b[c].add(at).cast::<S::f32s>().read_unaligned() };
                for r in 0..R {
                    let a = unsafe { self.a[r].as_ptr().add(at).cast::<S::f32s>().read_unaligned() };
                    sums[r][c] = simd.mul_add_f32s(a, b, sums[r][c])
                }
            }
        }
        let mut out = [[0.0; C]; R];
        for r in 0..R {
            for c in 0..C {
                let tail = (vectors * S::F32_LANES..self.n).map(|i| self.a[r][i] * unsafe { *self.b[c].add(i) }).sum::<f32>();
                out[r][c] = simd.reduce_sum_f32s(sums[r][c]) + tail
            }
        }
        out
    }
}

/// `b` contiguous along the columns: rows of `b`, four at a time, scaled and added to sums that stay in the first cache.
unsafe fn along_columns<const R: usize>(p: Product) {
    let mut a = [[0.0; BLOCK]; R];
    let mut buffers = [[0.0; BLOCK]; 4];
    for depth in (0..p.depth).step_by(BLOCK) {
        let n = BLOCK.min(p.depth - depth);
        unsafe { gather(&p, depth, &mut a, n) };
        for j in (0..p.columns).step_by(BLOCK) {
            let width = BLOCK.min(p.columns - j);
            let mut sums = [[0f32; BLOCK]; R];
            for k in (0..n).step_by(4) {
                let mut b = [std::ptr::null(); 4];
                let mut weights = [[0f32; 4]; R];
                let deep = 4.min(n - k);
                for (i, (b, buffer)) in b.iter_mut().zip(&mut buffers).enumerate() {
                    // past the last row: the last once more, not used
                    let row = k + i.min(deep - 1);
                    *b = unsafe { read(&p, (depth + row) as isize * p.b_depth + j as isize, buffer, width) };
                    if i < deep {
                        weights.iter_mut().zip(&a).for_each(|(w, a)| w[i] = a[row])
                    }
                }
                match deep {
                    4 => Arch::new().dispatch(Rows::<R, 4> { weights: &weights, b: [b[0], b[1], b[2], b[3]], sums: &mut sums, width }),
                    // one by one: a weight of 0 would not hide a NaN
                    _ => (0..deep).for_each(|i| {
                        let mut one = [[0f32; 4]; R];
                        one.iter_mut().zip(&weights).for_each(|(o, w)| o[0] = w[i]);
                        Arch::new().dispatch(Rows::<R, 1> { weights: &one, b: [b[i]], sums: &mut sums, width })
                    }),
                }
            }
            for (r, row) in sums.iter().enumerate() {
                unsafe {
                    let c = p.c.offset(r as isize * p.c_row + j as isize * p.c_column);
                    if p.c_column == 1 {
                        vector::accumulate(false, std::slice::from_raw_parts_mut(c, width), vector::Operand::Slice(&row[..width]))
                    } else {
                        row[..width].iter().enumerate().for_each(|(i, x)| *c.offset(i as isize * p.c_column) += x)
                    }
                }
            }
        }
    }
}

struct Rows<'a, const R: usize, const K: usize> {
    weights: &'a [[f32; 4]; R],
    b: [*const f32; K],
    sums: &'a mut [[f32; BLOCK]; R],
    width: usize,
}

impl<const R: usize, const K: usize> WithSimd for Rows<'_, R, K> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let vectors = self.width / S::F32_LANES;
        let mut weights = [[simd.splat_f32s(0.0); K]; R];
        for r in 0..R {
            for k in 0..K {
                weights[r][k] = simd.splat_f32s(self.weights[r][k])
            }
        }
        for i in 0..vectors {
            let at = i * S::F32_LANES;
            let mut b = [simd.splat_f32s(0.0); K];
            for k in 0..K {
                // SAFETY: at + F32_LANES <= width
                b[k] = unsafe { self.b[k].add(at).cast::<S::f32s>().read_unaligned() }
            }
            for r in 0..R {
                let sum = unsafe { self.sums[r].as_mut_ptr().add(at).cast::<S::f32s>() };
                let mut x = unsafe { sum.read_unaligned() };
                for k in 0..K {
                    x = simd.mul_add_f32s(weights[r][k], b[k], x)
                }
                unsafe { sum.write_unaligned(x) }
            }
        }
        for i in vectors * S::F32_LANES..self.width {
            for r in 0..R {
                for k in 0..K {
                    self.sums[r][i] += self.weights[r][k] * unsafe { *self.b[k].add(i) }
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
        unsafe { vector::store(dtype, stored.as_mut_ptr().cast(), 1, &b) };
        let mut c = vec![1.0f32; rows * columns];
        let (b_depth, b_column) = if transposed { (1, pitch as isize) } else { (pitch as isize, 1) };
        unsafe {
            add(Product {
                rows,
                columns,
                depth,
                a: a.as_ptr(),
                a_row: 2 * depth as isize,
                a_depth: 2,
                b: stored.as_ptr().cast(),
                b_type: dtype,
                b_depth,
                b_column,
                c: c.as_mut_ptr(),
                c_row: columns as isize,
                c_column: 1,
            })
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
