//! A matrix product of two tiles of any number of dims: `c[batch, m, n] (+)= sum_k a[batch, m, k] * b[batch, k, n]`.
//!
//! In: the dims with their strides in each tile. They are collapsed as far as strides allow; what remains besides one dim each of m, n
//! and k is looped over. Few rows on one side are read in place by [`skinny`]; the rest goes to the crate `gemm`.
use super::skinny;
use cleave_core::dtype::DType;
use gemm::Parallelism;

/// An operand or the result: strides are in elements, and stand in [`Extent`].
#[derive(Clone, Copy)]
pub struct Matrix {
    pub pointer: *mut u8,
    pub dtype: DType,
}

/// One dim with its stride in a, b and c; 0 where it is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    pub length: usize,
    pub a: isize,
    pub b: isize,
    pub c: isize,
}

const ONE: Extent = Extent { length: 1, a: 0, b: 0, c: 0 };

/// How a product is run.
#[derive(Debug)]
pub struct Shape {
    m: Extent,
    n: Extent,
    k: Extent,
    /// Dims looped over, outermost first.
    outer: Vec<Extent>,
    /// Of these, some are summed over.
    sums: bool,
    empty: bool,
    skinny: Option<Side>,
}

/// The side that has few rows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    A,
    B,
}

impl Shape {
    /// Collapses dims: those of a alone, of b alone, of both and the result, and summed ones. `types`: of a and b.
    pub fn new(dims: &[Extent], is_sum: impl Fn(usize) -> bool, types: (DType, DType)) -> Self {
        let mut groups: [Vec<Extent>; 4] = Default::default();
        for (i, d) in dims.iter().enumerate() {
            if d.length == 1 {
                continue;
            }
            let group = match (is_sum(i), d.a != 0, d.b != 0) {
                (true, ..) => 3,
                (false, true, true) => 2,
                (false, true, false) => 0,
                (false, false, _) => 1,
            };
            match groups[group].last_mut() {
                // the dim outside and this one are one longer dim
                Some(last) if last.a == d.a * d.length as isize && last.b == d.b * d.length as isize && last.c == d.c * d.length as isize => {
                    *last = Extent { length: last.length * d.length, ..*d }
                }
                _ => groups[group].push(*d),
            }
        }
        let [mut m, mut n, batch, mut k] = groups;
        // the longest dim is the one that the product runs along
        let longest = |dims: &mut Vec<Extent>| {
            let at = (0..dims.len()).max_by_key(|&i| dims[i].length);
            at.map_or(ONE, |i| dims.remove(i))
        };
        let (one_m, one_n, one_k) = (longest(&mut m), longest(&mut n), longest(&mut k));
        let sums = !k.is_empty();
        let outer = [batch, m, n, k].concat();
        let empty = dims.iter().enumerate().any(|(i, d)| is_sum(i) && d.length == 0);
        let few = |rows: &Extent, wide: DType, depth: isize, column: isize| {
            let limit = if wide == DType::F32 { skinny::ROWS } else { 2 * skinny::ROWS };
            rows.length <= limit && skinny::fits(if one_k.length == 1 { 1 } else { depth }, column)
        };
        let skinny = if one_m.length <= one_n.length && few(&one_m, types.1, one_k.b, one_n.b) {
            Some(Side::A)
        } else if few(&one_n, types.0, one_k.a, one_m.a) {
            Some(Side::B)
        } else {
            None
        };
        Shape { m: one_m, n: one_n, k: one_k, outer, sums, empty, skinny }
    }
    /// Whether a, and whether b, must be f32.
    pub fn wants_single(&self) -> (bool, bool) {
        match self.skinny {
            Some(Side::A) => (true, false),
            Some(Side::B) => (false, true),
            None => (true, true),
        }
    }
}

/// Runs the product; with `add`, adds it to `c`.
///
/// # Safety
/// Every element that strides and lengths reach is valid; `c` is f32 and overlaps neither operand; operands are f32 where
/// [`Shape::wants_single`] says so.
pub unsafe fn multiply(shape: &Shape, a: Matrix, b: Matrix, c: *mut f32, add: bool) {
    let Shape { m, n, k, outer, .. } = shape;
    if m.length == 0 || n.length == 0 || outer.iter().any(|d| d.length == 0 && d.c != 0) {
        return;
    }
    let zero_first = !add && (shape.skinny.is_some() || shape.sums || shape.empty);
    if zero_first {
        // an empty summed dim among the outer ones leaves no step of the sum, but a result of 0
        let places: Vec<Extent> = outer.iter().filter(|d| d.c != 0).copied().collect();
        unsafe { each(&places, 0, (0, 0, 0), &mut |(_, _, c_at)| zero(c.offset(c_at), *m, *n)) }
    }
    if shape.empty {
        return;
    }
    let keep = add || zero_first;
    each(outer, 0, (0, 0, 0), &mut |(a_at, b_at, c_at)| unsafe {
        let left = a.pointer.offset(a_at * a.dtype.bytes() as isize);
        let right = b.pointer.offset(b_at * b.dtype.bytes() as isize);
        let out = c.offset(c_at);
        match shape.skinny {
            Some(Side::A) => rows(*m, (m.a, k.a), left, b.dtype, right, (k.b, n.b), *n, (m.c, n.c), k.length, out),
            Some(Side::B) => rows(*n, (n.b, k.b), right, a.dtype, left, (k.a, m.a), *m, (n.c, m.c), k.length, out),
            None => gemm::gemm(
                m.length,
                n.length,
                k.length,
                out,
                n.c,
                m.c,
                keep,
                left.cast::<f32>(),
                k.a,
                m.a,
                right.cast::<f32>(),
                n.b,
                k.b,
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            ),
        }
    })
}

/// The rows of one side in groups that [`skinny`] takes.
#[allow(clippy::too_many_arguments)]
unsafe fn rows(
    few: Extent,
    few_strides: (isize, isize),
    few_at: *mut u8,
    wide_type: DType,
    wide_at: *mut u8,
    wide_strides: (isize, isize),
    wide: Extent,
    c_strides: (isize, isize),
    depth: usize,
    c: *mut f32,
) {
    // a depth of 1 has no stride: any will do
    let (b_depth, b_column) = (if depth == 1 { 1 } else { wide_strides.0 }, wide_strides.1);
    for first in (0..few.length).step_by(skinny::ROWS) {
        let at = first as isize;
        unsafe {
            skinny::add(skinny::Product {
                rows: skinny::ROWS.min(few.length - first),
                columns: wide.length,
                depth,
                a: few_at.cast::<f32>().offset(at * few_strides.0),
                a_row: few_strides.0,
                a_depth: few_strides.1,
                b: wide_at,
                b_type: wide_type,
                b_depth,
                b_column,
                c: c.offset(at * c_strides.0),
                c_row: c_strides.0,
                c_column: c_strides.1,
            })
        }
    }
}

unsafe fn zero(c: *mut f32, m: Extent, n: Extent) {
    let (long, short) = if n.c == 1 || m.c != 1 { (n, m) } else { (m, n) };
    for i in 0..short.length {
        unsafe {
            let row = c.offset(i as isize * short.c);
            if long.c == 1 || long.length == 1 {
                std::slice::from_raw_parts_mut(row, long.length).fill(0.0)
            } else {
                (0..long.length).for_each(|j| *row.offset(j as isize * long.c) = 0.0)
            }
        }
    }
}

/// Calls `visit` with the offsets in a, b and c of every position over `dims`.
fn each(dims: &[Extent], from: usize, at: (isize, isize, isize), visit: &mut dyn FnMut((isize, isize, isize))) {
    let Some(d) = dims.get(from) else { return visit(at) };
    for i in 0..d.length as isize {
        each(dims, from + 1, (at.0 + i * d.a, at.1 + i * d.b, at.2 + i * d.c), visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// c[b, m, n] = sum over k and l of a[m, b, k, l] * w[b, n, l, k]: a batch, and a sum of two dims that do not collapse.
    fn check(m: usize, n: usize, k: usize, l: usize, batch: usize) {
        let value = |i: usize| ((i * 7919 % 251) as f32 - 125.0) / 64.0;
        let mut a: Vec<f32> = (0..m * batch * k * l).map(value).collect();
        let mut w: Vec<f32> = (0..batch * n * l * k).map(|i| value(i + 17)).collect();
        let mut c = vec![f32::NAN; batch * m * n];
        let (mi, ni, ki, li) = (m as isize, n as isize, k as isize, l as isize);
        let dims = [
            Extent { length: batch, a: ki * li, b: ni * li * ki, c: mi * ni },
            Extent { length: m, a: batch as isize * ki * li, b: 0, c: ni },
            Extent { length: n, a: 0, b: li * ki, c: 1 },
            Extent { length: k, a: li, b: 1, c: 0 },
            Extent { length: l, a: 1, b: ki, c: 0 },
        ];
        let shape = Shape::new(&dims, |i| i >= 3, (DType::F32, DType::F32));
        let matrix = |x: &mut Vec<f32>| Matrix { pointer: x.as_mut_ptr().cast(), dtype: DType::F32 };
        unsafe {
            multiply(&shape, matrix(&mut a), matrix(&mut w), c.as_mut_ptr(), false);
            multiply(&shape, matrix(&mut a), matrix(&mut w), c.as_mut_ptr(), true);
        }
        for ib in 0..batch {
            for im in 0..m {
                for jn in 0..n {
                    let mut exact = 0.0;
                    for ik in 0..k {
                        for il in 0..l {
                            exact += a[((im * batch + ib) * k + ik) * l + il] as f64 * w[((ib * n + jn) * l + il) * k + ik] as f64
                        }
                    }
                    let got = c[(ib * m + im) * n + jn] as f64;
                    assert!((got - 2.0 * exact).abs() < 1e-4 * (k * l + 1) as f64, "{m} {n} {k} {l} {batch}: {got} {}", 2.0 * exact)
                }
            }
        }
    }

    #[test]
    fn products_over_many_dims_equal_sums_in_f64() {
        for (m, n, k, l, b) in
            [(1, 9, 5, 3, 2), (9, 1, 5, 3, 2), (1, 1, 1, 1, 1), (7, 6, 5, 4, 3), (33, 40, 17, 1, 2), (3, 20, 1, 1, 1), (8, 8, 0, 2, 2), (2, 0, 3, 3, 1)]
        {
            check(m, n, k, l, b)
        }
    }
}
