//! A matrix product of two tiles of any number of dims: `c[batch, m, n] (+)= sum_k a[batch, m, k] * b[batch, k, n]`.
//!
//! In: the dims with their strides in each tile. They are collapsed as far as strides allow; what remains besides one dim each of m, n
//! and k is looped over. Few rows on one side are read in place by [`skinny`]; the rest goes to [`product`]. Nothing is allocated.
use super::block::Line;
use super::decode::MAX_DIMS;
use super::{product, skinny};
use cleave_core::dtype::DType;

/// An operand: strides are in elements, and stand in [`Extent`].
#[derive(Clone, Copy)]
pub struct Matrix {
    pub pointer: *const u8,
    pub dtype: DType,
}

/// One dim with its stride in a, b and c; 0 where it is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    pub length: usize,
    pub a: isize,
    pub b: isize,
    pub c: isize,
    pub is_sum: bool,
}

pub const ONE: Extent = Extent { length: 1, a: 0, b: 0, c: 0, is_sum: false };

/// Dims, outermost first.
#[derive(Clone, Copy, Debug)]
struct Dims {
    count: usize,
    all: [Extent; MAX_DIMS],
}

impl Dims {
    const NONE: Dims = Dims { count: 0, all: [ONE; MAX_DIMS] };

    fn as_slice(&self) -> &[Extent] {
        &self.all[..self.count]
    }
    fn push(&mut self, d: Extent) {
        self.all[self.count] = d;
        self.count += 1
    }
    /// Adds a dim inside those that are here; if it goes on where the last one ends, they are one longer dim.
    fn join(&mut self, d: Extent) {
        let n = d.length as isize;
        match self.all[..self.count].last_mut() {
            Some(last) if last.a == d.a * n && last.b == d.b * n && last.c == d.c * n => *last = Extent { length: last.length * d.length, ..d },
            _ => self.push(d),
        }
    }
    /// Takes out the longest dim: the product runs along it.
    fn longest(&mut self) -> Extent {
        let Some(at) = (0..self.count).max_by_key(|&i| self.all[i].length) else { return ONE };
        let found = self.all[at];
        self.all.copy_within(at + 1..self.count, at);
        self.count -= 1;
        found
    }
}

/// The side that has few rows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    A,
    B,
}

/// Runs the product over `dims`, outermost first; with `add`, adds it to `c`. `scratch` holds copies.
///
/// # Safety
/// Every element that strides and lengths reach is valid; `c` is f32 and overlaps neither operand.
pub unsafe fn multiply(dims: &[Extent], a: Matrix, b: Matrix, c: *mut f32, add: bool, scratch: &mut Vec<Line>) {
    if dims.iter().any(|d| d.length == 0 && !d.is_sum) {
        return;
    }
    let empty = dims.iter().any(|d| d.length == 0);
    // dims of a alone, of b alone, of both and the result, and summed ones
    let mut groups = [Dims::NONE; 4];
    for d in dims.iter().filter(|d| d.length > 1) {
        let group = match (d.is_sum, d.a != 0, d.b != 0) {
            (true, ..) => 3,
            (false, true, true) => 2,
            (false, true, false) => 0,
            (false, false, _) => 1,
        };
        groups[group].join(*d)
    }
    let [mut of_a, mut of_b, batch, mut sums] = groups;
    let (m, n, k) = (of_a.longest(), of_b.longest(), sums.longest());
    let mut outer = batch;
    of_a.as_slice().iter().chain(of_b.as_slice()).for_each(|d| outer.push(*d));
    let results = outer.count;
    sums.as_slice().iter().for_each(|d| outer.push(*d));
    let few = |rows: &Extent, wide: DType, depth: isize, column: isize| {
        let limit = if wide == DType::F32 { skinny::ROWS } else { 2 * skinny::ROWS };
        rows.length <= limit && skinny::fits(if k.length == 1 { 1 } else { depth }, column)
    };
    let side = if m.length <= n.length && few(&m, b.dtype, k.b, n.b) {
        Some(Side::A)
    } else if few(&n, a.dtype, k.a, m.a) {
        Some(Side::B)
    } else {
        None
    };
    // what adds to the result step by step starts from 0
    let zero_first = !add && (side.is_some() || !sums.as_slice().is_empty() || empty);
    if zero_first {
        unsafe { each(&outer.all[..results], (0, 0, 0), &mut |(_, _, c_at)| zero(c.offset(c_at), m, n)) }
    }
    if empty {
        return;
    }
    let add = add || zero_first;
    unsafe {
        each(outer.as_slice(), (0, 0, 0), &mut |(a_at, b_at, c_at)| {
            let at = |x: Matrix, offset: isize| Matrix { pointer: x.pointer.offset(offset * x.dtype.bytes() as isize), ..x };
            let (a, b, c) = (at(a, a_at), at(b, b_at), c.offset(c_at));
            match side {
                Some(Side::A) => rows(m, (m.a, k.a), a, b, (k.b, n.b), n, (m.c, n.c), k.length, c, scratch),
                Some(Side::B) => rows(n, (n.b, k.b), b, a, (k.a, m.a), m, (n.c, m.c), k.length, c, scratch),
                None => {
                    let operand = |x: Matrix, own, depth| product::Operand { pointer: x.pointer, dtype: x.dtype, own, depth };
                    let product = product::Product {
                        rows: m.length,
                        columns: n.length,
                        depth: k.length,
                        a: operand(a, m.a, k.a),
                        b: operand(b, n.b, k.b),
                        c,
                        c_row: m.c,
                        c_column: n.c,
                        add,
                    };
                    product::multiply(product, scratch)
                }
            }
        })
    }
}

/// The rows of one side in groups that [`skinny`] takes.
#[allow(clippy::too_many_arguments)]
unsafe fn rows(
    few: Extent,
    few_strides: (isize, isize),
    few_at: Matrix,
    wide_at: Matrix,
    wide_strides: (isize, isize),
    wide: Extent,
    c_strides: (isize, isize),
    depth: usize,
    c: *mut f32,
    scratch: &mut Vec<Line>,
) {
    // a depth of 1 has no stride: any will do
    let (b_depth, b_column) = (if depth == 1 { 1 } else { wide_strides.0 }, wide_strides.1);
    for first in (0..few.length).step_by(skinny::ROWS) {
        let at = first as isize;
        let product = skinny::Product {
            rows: skinny::ROWS.min(few.length - first),
            columns: wide.length,
            depth,
            a: few_at.pointer.wrapping_offset(at * few_strides.0 * few_at.dtype.bytes() as isize),
            a_type: few_at.dtype,
            a_row: few_strides.0,
            a_depth: few_strides.1,
            b: wide_at.pointer,
            b_type: wide_at.dtype,
            b_depth,
            b_column,
            c: c.wrapping_offset(at * c_strides.0),
            c_row: c_strides.0,
            c_column: c_strides.1,
        };
        unsafe { skinny::add(product, scratch) }
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
unsafe fn each(dims: &[Extent], at: (isize, isize, isize), visit: &mut dyn FnMut((isize, isize, isize))) {
    let Some((d, inner)) = dims.split_first() else { return visit(at) };
    for i in 0..d.length as isize {
        unsafe { each(inner, (at.0 + i * d.a, at.1 + i * d.b, at.2 + i * d.c), visit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// c[b, m, n] = sum over k and l of a[m, b, k, l] * w[b, n, l, k]: a batch, and a sum of two dims that do not collapse.
    fn check(m: usize, n: usize, k: usize, l: usize, batch: usize) {
        let value = |i: usize| ((i * 7919 % 251) as f32 - 125.0) / 64.0;
        let a: Vec<f32> = (0..m * batch * k * l).map(value).collect();
        let w: Vec<f32> = (0..batch * n * l * k).map(|i| value(i + 17)).collect();
        let mut c = vec![f32::NAN; batch * m * n];
        let (mi, ni, ki, li) = (m as isize, n as isize, k as isize, l as isize);
        let kept = |length, a, b, c| Extent { length, a, b, c, is_sum: false };
        let dims = [
            kept(batch, ki * li, ni * li * ki, mi * ni),
            kept(m, batch as isize * ki * li, 0, ni),
            kept(n, 0, li * ki, 1),
            Extent { length: k, a: li, b: 1, c: 0, is_sum: true },
            Extent { length: l, a: 1, b: ki, c: 0, is_sum: true },
        ];
        let matrix = |x: &[f32]| Matrix { pointer: x.as_ptr().cast(), dtype: DType::F32 };
        let mut scratch = vec![];
        unsafe {
            multiply(&dims, matrix(&a), matrix(&w), c.as_mut_ptr(), false, &mut scratch);
            multiply(&dims, matrix(&a), matrix(&w), c.as_mut_ptr(), true, &mut scratch);
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
