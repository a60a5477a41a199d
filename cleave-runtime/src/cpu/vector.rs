//! Loops over rows of f32, compiled for each instruction set that `pulp` tells apart and chosen at run time. In: rows, a number for each row, or one
//! number. Out: f32.
use super::functions;
use super::stored::MOST_LANES;
use half::{bf16, f16};
use once_cell::sync::Lazy;
use pulp::{Arch, Simd, WithSimd};

/// Work that is compiled once for each instruction set.
pub trait Kernel {
    type Output;
    /// `FUSED`: a multiply-add is one instruction.
    fn run<const FUSED: bool>(self) -> Self::Output;
}

struct Lifted<K>(K);

impl<K: Kernel> WithSimd for Lifted<K> {
    type Output = K::Output;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> K::Output {
        if S::IS_SCALAR { self.0.run::<false>() } else { self.0.run::<true>() }
    }
}

static ARCH: Lazy<Arch> = Lazy::new(Arch::new);

/// The widest instructions of this machine.
#[inline]
pub fn arch() -> Arch {
    *ARCH
}

/// Runs a kernel with the widest instructions of this machine.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    arch().dispatch(Lifted(kernel))
}

/// A value over some rows of `n` elements.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// The same everywhere.
    Scalar(f32),
    /// One number for each row, side by side.
    Column(*const f32),
    /// Elements side by side in rows that are so many elements apart.
    Rows(*const f32, isize),
}

/// One row of an operand.
#[derive(Clone, Copy)]
enum Row<'a> {
    Scalar(f32),
    Slice(&'a [f32]),
}

impl Operand {
    #[inline(always)]
    unsafe fn row<'a>(&self, r: usize, n: usize) -> Row<'a> {
        unsafe {
            match *self {
                Operand::Scalar(x) => Row::Scalar(x),
                Operand::Column(x) => Row::Scalar(*x.add(r)),
                Operand::Rows(x, pitch) => Row::Slice(std::slice::from_raw_parts(x.offset(r as isize * pitch), n)),
            }
        }
    }
    /// From row `r` and element `from` on.
    pub fn at(self, r: usize, from: usize) -> Operand {
        match self {
            Operand::Scalar(x) => Operand::Scalar(x),
            Operand::Column(x) => Operand::Column(x.wrapping_add(r)),
            Operand::Rows(x, pitch) => Operand::Rows(x.wrapping_offset(r as isize * pitch).wrapping_add(from), pitch),
        }
    }
}

/// Where a result goes: rows of `n` elements side by side, `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub pointer: *mut f32,
    pub pitch: isize,
    pub rows: usize,
    pub n: usize,
}

impl Target {
    #[inline(always)]
    unsafe fn row<'a>(&self, r: usize) -> &'a mut [f32] {
        unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(r as isize * self.pitch), self.n) }
    }
    /// Sets every element.
    ///
    /// # Safety
    /// They are writable.
    pub unsafe fn fill(self, x: f32) {
        (0..self.rows).for_each(|r| unsafe { self.row(r) }.fill(x))
    }
}

/// Elementwise operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unary {
    Copy,
    Exp,
    Log,
    Tanh,
    Sigmoid,
    Abs,
    RoundF16,
    RoundBf16,
    Sqrt,
    Reciprocal,
    /// `k * x + c`
    Affine(f32, f32),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Binary {
    Multiply,
    Add,
    Subtract,
    /// x / y; where x is 0, 0 whatever y is.
    Quotient,
    /// The greater; NaN if either is.
    Greatest,
    /// `x + k * y`
    MultiplyAdd(f32),
    /// exp(x - y)
    ExpOfDifference,
}

/// Operands are lent, here and below: a copy would read as wide words what was written just before as narrow ones, and wait for it.
struct Map1<'a>(Unary, &'a Target, &'a Operand);

impl Kernel for Map1<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        #[inline(always)]
        fn each(d: &Target, a: &Operand, f: impl Fn(f32) -> f32) {
            for r in 0..d.rows {
                let to = unsafe { d.row(r) };
                match unsafe { a.row(r, d.n) } {
                    Row::Scalar(a) => to.fill(f(a)),
                    Row::Slice(a) => to.iter_mut().zip(a).for_each(|(d, a)| *d = f(*a)),
                }
            }
        }
        let Map1(op, d, a) = self;
        match op {
            Unary::Copy => each(d, a, |x| x),
            Unary::Exp => each(d, a, functions::exp::<FUSED>),
            Unary::Log => each(d, a, functions::log::<FUSED>),
            Unary::Tanh => each(d, a, functions::tanh::<FUSED>),
            Unary::Sigmoid => each(d, a, functions::sigmoid::<FUSED>),
            Unary::Abs => each(d, a, f32::abs),
            Unary::RoundF16 => each(d, a, |x| f16::from_f32(x).to_f32()),
            Unary::RoundBf16 => each(d, a, |x| bf16::from_f32(x).to_f32()),
            Unary::Sqrt => each(d, a, f32::sqrt),
            Unary::Reciprocal => each(d, a, |x| 1.0 / x),
            Unary::Affine(k, 0.0) => each(d, a, |x| k * x),
            Unary::Affine(k, c) => each(d, a, |x| functions::multiply_add::<FUSED>(k, x, c)),
        }
    }
}

/// `d = op(a)`.
///
/// # Safety
/// Operand and target are valid, and the same or apart.
pub unsafe fn unary(op: Unary, d: &Target, a: &Operand) {
    dispatch(Map1(op, d, a))
}

pub fn unary_scalar(op: Unary, a: f32) -> f32 {
    let mut d = 0.0;
    dispatch(Map1(op, &Target { pointer: &mut d, pitch: 1, rows: 1, n: 1 }, &Operand::Scalar(a)));
    d
}

struct Map2<'a>(Binary, &'a Target, &'a Operand, &'a Operand);

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    let m = if b > a { b } else { a };
    if b.is_nan() { b } else { m }
}

#[inline(always)]
fn quotient(a: f32, b: f32) -> f32 {
    if a == 0.0 { 0.0 } else { a / b }
}

impl Kernel for Map2<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        #[inline(always)]
        fn each(d: &Target, a: &Operand, b: &Operand, f: impl Fn(f32, f32) -> f32) {
            for r in 0..d.rows {
                let to = unsafe { d.row(r) };
                match unsafe { (a.row(r, d.n), b.row(r, d.n)) } {
                    (Row::Slice(a), Row::Slice(b)) => to.iter_mut().zip(a).zip(b).for_each(|((d, a), b)| *d = f(*a, *b)),
                    (Row::Slice(a), Row::Scalar(b)) => to.iter_mut().zip(a).for_each(|(d, a)| *d = f(*a, b)),
                    (Row::Scalar(a), Row::Slice(b)) => to.iter_mut().zip(b).for_each(|(d, b)| *d = f(a, *b)),
                    (Row::Scalar(a), Row::Scalar(b)) => to.fill(f(a, b)),
                }
            }
        }
        let Map2(op, d, a, b) = self;
        match op {
            Binary::Multiply => each(d, a, b, |a, b| a * b),
            Binary::Add => each(d, a, b, |a, b| a + b),
            Binary::Subtract => each(d, a, b, |a, b| a - b),
            Binary::Quotient => each(d, a, b, quotient),
            Binary::Greatest => each(d, a, b, greater),
            Binary::MultiplyAdd(k) => each(d, a, b, |a, b| functions::multiply_add::<FUSED>(k, b, a)),
            Binary::ExpOfDifference => each(d, a, b, |a, b| functions::exp::<FUSED>(a - b)),
        }
    }
}

/// `d = op(a, b)`.
///
/// # Safety
/// As of [`unary`].
pub unsafe fn binary(op: Binary, d: &Target, a: &Operand, b: &Operand) {
    dispatch(Map2(op, d, a, b))
}

pub fn binary_scalar(op: Binary, a: f32, b: f32) -> f32 {
    let mut d = 0.0;
    dispatch(Map2(op, &Target { pointer: &mut d, pitch: 1, rows: 1, n: 1 }, &Operand::Scalar(a), &Operand::Scalar(b)));
    d
}

/// What a reduction along rows keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Total {
    Sum,
    /// NaN if an element is.
    Greatest,
    /// NaN is passed over, as a frame does.
    GreatestNumber,
}

impl Total {
    pub fn identity(self) -> f32 {
        if self == Total::Sum { 0.0 } else { f32::NEG_INFINITY }
    }
    pub fn join(self, a: f32, b: f32) -> f32 {
        match self {
            Total::Sum => a + b,
            Total::Greatest => greater(a, b),
            Total::GreatestNumber => a.max(b),
        }
    }
}

/// Independent accumulators of a reduction, each a register.
const ACCUMULATORS: usize = 4;

/// `out[r]` becomes the total of row `r`.
struct Along<'a> {
    total: Total,
    x: *const f32,
    pitch: isize,
    n: usize,
    out: &'a mut [f32],
}

impl WithSimd for Along<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Along { total, x, pitch, n, out } = self;
        for (r, out) in out.iter_mut().enumerate() {
            let row = unsafe { std::slice::from_raw_parts(x.offset(r as isize * pitch), n) };
            *out = match total {
                Total::Sum => of_row::<S, true>(simd, row),
                Total::GreatestNumber => of_row::<S, false>(simd, row),
                // a NaN is greater than nothing: it is looked for apart
                Total::Greatest if has_nan(row) => f32::NAN,
                Total::Greatest => of_row::<S, false>(simd, row),
            }
        }
    }
}

/// Elements between two looks at whether a NaN has been seen.
const CHECKED: usize = 256;

#[inline(always)]
fn has_nan(row: &[f32]) -> bool {
    row.chunks(CHECKED).any(|c| c.iter().fold(false, |n, x| n | x.is_nan()))
}

/// The sum of a row, or the greatest of its numbers.
#[inline(always)]
fn of_row<S: Simd, const SUM: bool>(simd: S, row: &[f32]) -> f32 {
    let total = if SUM { Total::Sum } else { Total::GreatestNumber };
    let join = |a: S::f32s, x: S::f32s| if SUM { simd.add_f32s(a, x) } else { simd.select_f32s(simd.greater_than_f32s(x, a), x, a) };
    let mut sums = [simd.splat_f32s(total.identity()); ACCUMULATORS];
    let (vectors, tail) = S::as_simd_f32s(row);
    let (blocks, rest) = vectors.as_chunks::<ACCUMULATORS>();
    for block in blocks {
        for (sum, x) in sums.iter_mut().zip(block) {
            *sum = join(*sum, *x)
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum = join(*sum, *x)
    }
    let [a, b, c, d] = sums;
    let mut lanes = [total.identity(); MOST_LANES];
    unsafe { lanes.as_mut_ptr().cast::<S::f32s>().write_unaligned(join(join(a, c), join(b, d))) };
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane = total.join(*lane, *x)
    }
    let mut width = MOST_LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = total.join(lanes[i], lanes[i + width])
        }
        width /= 2
    }
    lanes[0]
}

/// The total of each of `out.len()` rows of `n` elements, `pitch` apart: in partial ones, four vectors of them.
///
/// # Safety
/// The rows are readable.
pub unsafe fn along(total: Total, x: *const f32, pitch: isize, n: usize, out: &mut [f32]) {
    arch().dispatch(Along { total, x, pitch, n, out })
}

/// Adds rows to what is there, or keeps the greater.
struct Across(Total, Target, Operand);

impl Kernel for Across {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        #[inline(always)]
        fn each(d: Target, a: Operand, f: impl Fn(f32, f32) -> f32) {
            for r in 0..d.rows {
                let to = unsafe { d.row(r) };
                match unsafe { a.row(r, d.n) } {
                    Row::Scalar(a) => to.iter_mut().for_each(|d| *d = f(*d, a)),
                    Row::Slice(a) => to.iter_mut().zip(a).for_each(|(d, a)| *d = f(*d, *a)),
                }
            }
        }
        let Across(total, d, a) = self;
        match total {
            Total::Sum => each(d, a, |d, x| d + x),
            Total::Greatest => each(d, a, |d, x| if x > d || x.is_nan() { x } else { d }),
            Total::GreatestNumber => each(d, a, |d, x| if x > d { x } else { d }),
        }
    }
}

/// `d = total(d, a)`, element by element; a pitch of 0 adds all rows to one.
///
/// # Safety
/// As of [`unary`].
pub unsafe fn across(total: Total, d: Target, a: Operand) {
    dispatch(Across(total, d, a))
}

struct Scale<'a>(&'a mut [f32], f32);

impl Kernel for Scale<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.0.iter_mut().for_each(|x| *x *= self.1)
    }
}

/// `x = x * k`.
pub fn scale(x: &mut [f32], k: f32) {
    dispatch(Scale(x, k))
}

struct Choose<'a>(Target, &'a [f32], Operand, f32);

impl Kernel for Choose<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Choose(to, mask, x, other) = self;
        let to = unsafe { to.row(0) };
        match unsafe { x.row(0, to.len()) } {
            Row::Scalar(x) => to.iter_mut().zip(mask).for_each(|(d, m)| *d = if *m != 0.0 { x } else { other }),
            Row::Slice(x) => to.iter_mut().zip(mask).zip(x).for_each(|((d, m), x)| *d = if *m != 0.0 { *x } else { other }),
        }
    }
}

/// The first row: `d = x` where the mask is not 0, else `other`.
///
/// # Safety
/// As of [`unary`].
pub unsafe fn choose(d: Target, mask: &[f32], x: Operand, other: f32) {
    dispatch(Choose(d, mask, x, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numerator_of_zero_wins_over_any_denominator() {
        let mut d = [1.0; 3];
        let (a, b) = ([0.0, 1.0, 0.0], [0.0, 4.0, f32::NAN]);
        unsafe { binary(Binary::Quotient, &target(&mut d), &Operand::Rows(a.as_ptr(), 3), &Operand::Rows(b.as_ptr(), 3)) };
        assert_eq!(d, [0.0, 0.25, 0.0])
    }

    fn target(d: &mut [f32]) -> Target {
        Target { pointer: d.as_mut_ptr(), pitch: 0, rows: 1, n: d.len() }
    }

    fn total(total: Total, x: &[f32]) -> f32 {
        let mut out = [7.0];
        unsafe { along(total, x.as_ptr(), 0, x.len(), &mut out) };
        out[0]
    }

    #[test]
    fn a_maximum_is_nan_if_an_element_is_and_a_frame_passes_over_it() {
        let x: Vec<f32> = (0..100).map(|i| if i == 50 { f32::NAN } else { -(i as f32) }).collect();
        assert_eq!(total(Total::GreatestNumber, &x), 0.0);
        assert_eq!(total(Total::GreatestNumber, &[]), f32::NEG_INFINITY);
        assert!(total(Total::Greatest, &x).is_nan() && total(Total::Greatest, &x[..50]) == 0.0);
        assert!(binary_scalar(Binary::Greatest, f32::NAN, 1.0).is_nan());
        assert!(binary_scalar(Binary::Greatest, 1.0, f32::NAN).is_nan());
        let (mut d, mut e, x) = ([1.0, f32::NAN, 1.0], [1.0, 5.0, 1.0], [f32::NAN, 2.0, 3.0]);
        unsafe { across(Total::Greatest, target(&mut d), Operand::Rows(x.as_ptr(), 3)) };
        assert!(d[0].is_nan() && d[1].is_nan() && d[2] == 3.0);
        unsafe { across(Total::GreatestNumber, target(&mut e), Operand::Rows(x.as_ptr(), 3)) };
        assert_eq!(e, [1.0, 5.0, 3.0])
    }

    #[test]
    fn a_sum_of_many_equal_addends_stays_near_the_exact_one() {
        let x = vec![1.000_06f32; 512];
        assert!((total(Total::Sum, &x) as f64 / (x[0] as f64 * 512.0) - 1.0).abs() < 1e-6);
        assert_eq!(total(Total::Sum, &[1.0, 2.0, 3.0]), 6.0)
    }

    #[test]
    fn rows_meet_columns_and_rows_that_are_apart() {
        let (a, column) = ([1.0, 2.0, 9.0, 3.0, 4.0, 9.0], [10.0, 20.0]);
        let (mut d, mut totals) = ([0.0; 4], [0.0; 2]);
        unsafe {
            binary(Binary::Add, &Target { pointer: d.as_mut_ptr(), pitch: 2, rows: 2, n: 2 }, &Operand::Rows(a.as_ptr(), 3), &Operand::Column(column.as_ptr()));
            along(Total::Sum, a.as_ptr(), 3, 2, &mut totals)
        }
        assert_eq!((d, totals), ([11.0, 12.0, 23.0, 24.0], [3.0, 7.0]))
    }
}
