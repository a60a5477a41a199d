//! The product of two strided matrices, blocked for the caches: `c[i][j] (+)= sum_k a[i][k] * b[k][j]`.
//!
//! In: operands in any storage type with any strides; `c` in f32. A tile of `c` lives in registers: six rows of two vectors, of four where there are
//! thirty-two registers. One operand is read along those vectors, the other one number at a time, spread over a vector; which is which follows from what would have to be copied. The vectors
//! are read from panels, unless few rows meet them; the spread numbers in place if each row's are side by side, else from staged rows.
//! While a block is multiplied the columns of the next one are asked for. Depth is cut in blocks of [`DEPTH`], so that a sum is one of blocks.
use super::block::{Line, reserve};
use super::panel;
use super::stored::{MOST_LANES, with_stored};
use super::vector::arch;
use cleave_core::dtype::DType;
use pulp::{Simd, WithSimd};

/// Rows of a tile: with [`panel::vectors`] each they leave four of sixteen registers, or eight of thirty-two, to operands.
const ROWS: usize = 6;
/// Addends of a block: six rows of them stay in a first cache.
const DEPTH: usize = 256;
/// Columns of a block, and rows that are staged at a time: `DEPTH` times both stays in a second cache.
const COLUMNS: usize = 256;
const STRIPE: usize = 192;
/// Elements of a cache line.
const LINE: usize = 16;
/// Elements that a store across rows takes as long as: it is made one by one, and anew for every block of depth.
const ACROSS: usize = 8;
/// Addends between two lines that are asked for ahead.
const BETWEEN: usize = 4;
/// Bytes of a first cache, on the machines that have least.
const FIRST_CACHE: usize = 32 << 10;
/// Rows that are multiples of so many bytes apart meet in few sets of a first cache.
const MEET: usize = 2048;

/// A matrix; strides are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub pointer: *const u8,
    pub dtype: DType,
    /// Along the operand's own dim.
    pub own: isize,
    /// Along the summed dim.
    pub depth: isize,
}

/// A product: `rows` of `a`, `columns` of `b`.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub a: Operand,
    pub b: Operand,
    pub c: *mut f32,
    pub c_row: isize,
    pub c_column: isize,
    /// Adds to `c`, which is overwritten otherwise.
    pub add: bool,
}

impl Operand {
    fn at(self, own: usize, depth: usize) -> Operand {
        let offset = own as isize * self.own + depth as isize * self.depth;
        Operand { pointer: self.pointer.wrapping_offset(offset * self.dtype.bytes() as isize), ..self }
    }
    /// Whether vectors can be read in place: where few rows of the other operand meet each, a panel of copies would not pay.
    fn is_vectors(&self, reuse: usize) -> bool {
        self.dtype == DType::F32 && self.own == 1 && reuse <= 2 * ROWS
    }
    /// Whether rows can be read in place: their numbers lie side by side.
    fn is_rows(&self) -> bool {
        self.dtype == DType::F32 && self.depth == 1
    }
    /// Whether rows meet in few sets of a first cache, and drive out what should stay there.
    fn meets(&self) -> bool {
        (4 * self.own).unsigned_abs().is_multiple_of(MEET)
    }
}

impl Product {
    /// With the operands the other way round.
    fn turned(self) -> Product {
        Product { rows: self.columns, columns: self.rows, a: self.b, b: self.a, c_row: self.c_column, c_column: self.c_row, ..self }
    }
    /// The columns that are copied after those from `column` at `depth` on.
    fn ahead(&self, column: usize, depth: usize) -> panel::Ahead {
        let next = if column + COLUMNS < self.columns { (column + COLUMNS, depth) } else { (0, depth + DEPTH) };
        if next.1 >= self.depth {
            return panel::Ahead::NOTHING;
        }
        panel::Ahead::new(self.b.at(next.0, next.1), COLUMNS.min(self.columns - next.0), DEPTH.min(self.depth - next.1))
    }
    /// Elements copied beside the product itself; a copy across rows counts twice.
    fn copied(&self) -> usize {
        let Product { rows, columns, depth, .. } = *self;
        let vectors = if self.b.is_vectors(rows) { 0 } else { columns * depth * if self.b.own == 1 { 1 } else { 2 } };
        let spread = if self.a.is_rows() && !self.a.meets() { 0 } else { rows * depth };
        let result = if self.c_column == 1 { 0 } else { ACROSS * rows * columns * depth.div_ceil(DEPTH) };
        vectors + spread + result
    }
}

/// Runs a product. `scratch` holds the copies.
///
/// # Safety
/// All elements that lengths and strides reach are valid; `c` overlaps neither operand.
pub unsafe fn multiply(product: Product, scratch: &mut Vec<Line>) {
    let turned = product.turned();
    let product = if turned.copied() < product.copied() { turned } else { product };
    if product.depth == 0 && !product.add {
        for i in 0..product.rows as isize {
            (0..product.columns as isize).for_each(|j| unsafe { *product.c.offset(i * product.c_row + j * product.c_column) = 0.0 })
        }
    }
    arch().dispatch(Blocked { product, scratch })
}

struct Blocked<'a> {
    product: Product,
    scratch: &'a mut Vec<Line>,
}

impl WithSimd for Blocked<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let p = self.product;
        let width = panel::width::<S>();
        let panels = COLUMNS.min(p.columns).div_ceil(width);
        // panels and staged rows are a line longer than what they hold, so that they do not meet in one set of a cache
        let panel = DEPTH.min(p.depth) * width + LINE;
        let pitch = DEPTH + LINE;
        let memory = reserve(self.scratch, panels * panel + STRIPE.min(p.rows) * pitch);
        let staged = unsafe { memory.add(panels * panel) };
        let in_place = p.b.is_vectors(p.rows);
        // a wider panel comes from the second cache, again for each tile
        let stays = size_of::<f32>() * DEPTH * width <= FIRST_CACHE / 2;
        for depth in (0..p.depth).step_by(DEPTH) {
            let n = DEPTH.min(p.depth - depth);
            let add = p.add || depth > 0;
            for column in (0..p.columns).step_by(COLUMNS) {
                let columns = COLUMNS.min(p.columns - column);
                let b = p.b.at(column, depth);
                // in place only the last, incomplete panel is copied
                let first = if in_place { columns / width } else { 0 };
                unsafe { with_stored!(b.dtype, T => panel::fill::<S, T>(simd, b.at(first * width, 0), columns - first * width, n, memory, panel)) }
                let mut ahead = if in_place { panel::Ahead::NOTHING } else { p.ahead(column, depth) };
                for row in (0..p.rows).step_by(STRIPE) {
                    let rows = STRIPE.min(p.rows - row);
                    let a = p.a.at(row, depth);
                    let (a_pointer, a_row) = if a.is_rows() && !(stays && a.meets()) {
                        (a.pointer.cast::<f32>(), a.own)
                    } else {
                        unsafe { with_stored!(a.dtype, T => panel::stage::<S, T>(simd, a, rows, n, staged, pitch)) };
                        (staged.cast_const(), pitch as isize)
                    };
                    for (i, j) in (0..columns).step_by(width).enumerate() {
                        let vectors = panel::vectors::<S>(columns - j);
                        let (b, b_depth) = if i < first {
                            (unsafe { b.pointer.cast::<f32>().add(j) }, b.depth)
                        } else {
                            (unsafe { memory.cast_const().add((i - first) * panel) }, (vectors * S::F32_LANES) as isize)
                        };
                        let strip = Strip {
                            rows,
                            depth: n,
                            a: a_pointer,
                            a_row,
                            b,
                            b_depth,
                            c: unsafe { p.c.offset(row as isize * p.c_row + (column + j) as isize * p.c_column) },
                            c_row: p.c_row,
                            c_column: p.c_column,
                            columns: width.min(columns - j),
                            add,
                        };
                        unsafe {
                            match vectors {
                                1 => strip.run::<S, 1>(simd, &mut ahead),
                                2 => strip.run::<S, 2>(simd, &mut ahead),
                                _ => strip.run::<S, 4>(simd, &mut ahead),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Rows of `a` by one panel of `b`.
#[derive(Clone, Copy)]
struct Strip {
    rows: usize,
    depth: usize,
    /// Side by side along the depth.
    a: *const f32,
    a_row: isize,
    b: *const f32,
    b_depth: isize,
    c: *mut f32,
    c_row: isize,
    c_column: isize,
    columns: usize,
    add: bool,
}

impl Strip {
    #[inline(always)]
    unsafe fn run<S: Simd, const V: usize>(self, simd: S, ahead: &mut panel::Ahead) {
        let mut rest = self;
        unsafe {
            while rest.rows >= ROWS {
                rest.tile::<S, ROWS, V>(simd, ahead);
                rest.rows -= ROWS;
                rest.a = rest.a.wrapping_offset(ROWS as isize * rest.a_row);
                rest.c = rest.c.wrapping_offset(ROWS as isize * rest.c_row)
            }
            match rest.rows {
                0 => {}
                1 => rest.tile::<S, 1, V>(simd, ahead),
                2 => rest.tile::<S, 2, V>(simd, ahead),
                3 => rest.tile::<S, 3, V>(simd, ahead),
                4 => rest.tile::<S, 4, V>(simd, ahead),
                _ => rest.tile::<S, 5, V>(simd, ahead),
            }
        }
    }
    /// The first `R` rows, in registers.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(self, simd: S, ahead: &mut panel::Ahead) {
        let width = V * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        let mut rows = [self.a; R];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = self.a.wrapping_offset(r as isize * self.a_row)
        }
        let mut b = self.b;
        let mut next = *ahead;
        for k in 0..self.depth {
            if k % BETWEEN == 0 {
                next.line()
            }
            unsafe {
                let vectors: [S::f32s; V] = std::array::from_fn(|v| b.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned());
                for r in 0..R {
                    let x = simd.splat_f32s(*rows[r].add(k));
                    for v in 0..V {
                        sums[r][v] = simd.mul_add_f32s(x, vectors[v], sums[r][v])
                    }
                }
                b = b.wrapping_offset(self.b_depth);
            }
        }
        *ahead = next;
        if self.c_column == 1 && self.columns == width {
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    unsafe {
                        let c = self.c.offset(r as isize * self.c_row).add(v * S::F32_LANES).cast::<S::f32s>();
                        c.write_unaligned(if self.add { simd.add_f32s(*sum, c.read_unaligned()) } else { *sum })
                    }
                }
            }
            return;
        }
        // through memory of its own: the sums then stay in registers
        let mut edge = [[[0f32; MOST_LANES]; V]; R];
        for (row, to) in sums.iter().zip(&mut edge) {
            for (v, sum) in row.iter().enumerate() {
                unsafe { to.as_mut_ptr().cast::<f32>().add(v * S::F32_LANES).cast::<S::f32s>().write_unaligned(*sum) }
            }
        }
        for (r, row) in edge.iter().enumerate() {
            for (j, x) in row.as_flattened()[..self.columns].iter().enumerate() {
                unsafe {
                    let c = self.c.offset(r as isize * self.c_row + j as isize * self.c_column);
                    *c = if self.add { *c + x } else { *x }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored;
    use super::*;

    /// Sizes about the edges of tiles and blocks, either operand contiguous along either of its dims, NaN beyond the rows: against sums in f64.
    #[test]
    fn products_of_all_layouts_equal_sums_in_f64() {
        let mut turn = 0;
        for (rows, columns, depth) in [(1, 1, 1), (7, 17, 300), (97, 33, 257), (6, 16, 256), (100, 257, 5), (13, 300, 40), (5, 9, 0), (193, 64, 64)] {
            for layouts in [[false, false], [false, true], [true, false], [true, true]] {
                let dtype = [DType::F32, DType::F16, DType::BF16][turn % 3];
                turn += 1;
                check(rows, columns, depth, layouts, dtype, turn % 2 == 0)
            }
        }
    }

    /// A matrix in memory, with the values it has there.
    struct Laid {
        memory: Vec<u32>,
        values: Vec<f32>,
        own: usize,
        depth: usize,
    }

    fn matrix(own: usize, depth: usize, across: bool, dtype: DType, seed: usize) -> Laid {
        let (lines, length) = if across { (depth, own) } else { (own, depth) };
        let pitch = length + 3;
        let value = |i: usize| (((i + seed) * 7919 % 251) as f32 - 125.0) / 64.0;
        let all: Vec<f32> = (0..lines * pitch).map(|i| if i % pitch < length { value(i) } else { f32::NAN }).collect();
        let mut memory = vec![0u32; (all.len() * dtype.bytes()).div_ceil(4)];
        let mut values = vec![0.0; all.len()];
        unsafe {
            stored::store(dtype, memory.as_mut_ptr().cast(), 1, &all);
            stored::load(dtype, memory.as_ptr().cast(), 1, &mut values)
        }
        if across { Laid { memory, values, own: 1, depth: pitch } } else { Laid { memory, values, own: pitch, depth: 1 } }
    }

    fn check(rows: usize, columns: usize, depth: usize, across: [bool; 2], dtype: DType, add: bool) {
        let (a, b) = (matrix(rows, depth, across[0], dtype, 1), matrix(columns, depth, across[1], dtype, 17));
        let operand = |m: &Laid| Operand { pointer: m.memory.as_ptr().cast(), dtype, own: m.own as isize, depth: m.depth as isize };
        let start = if add { 1.0 } else { f32::NAN };
        let mut c = vec![start; rows * columns];
        let product = Product { rows, columns, depth, a: operand(&a), b: operand(&b), c: c.as_mut_ptr(), c_row: columns as isize, c_column: 1, add };
        unsafe { multiply(product, &mut vec![]) };
        for i in 0..rows {
            for j in 0..columns {
                let exact: f64 = (0..depth).map(|k| a.values[i * a.own + k * a.depth] as f64 * b.values[j * b.own + k * b.depth] as f64).sum();
                let got = c[i * columns + j] as f64 - if add { 1.0 } else { 0.0 };
                assert!((got - exact).abs() < 1e-5 * (depth as f64 + 1.0), "{rows} {columns} {depth} {across:?} {dtype}: {got} {exact}")
            }
        }
    }
}
