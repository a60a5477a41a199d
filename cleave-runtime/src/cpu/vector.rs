//! Loops over slices of f32 and conversions from and to storage types, compiled for each instruction set that `pulp` tells apart and
//! chosen at run time. In: slices of one length, or one value for a whole slice. Out: f32.
use super::functions;
use cleave_core::dtype::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
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

/// Runs a kernel with the widest instructions of this machine.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    Arch::new().dispatch(Lifted(kernel))
}

/// Values along the innermost dim of a tile.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// The same everywhere.
    Scalar(f32),
    Slice(&'a [f32]),
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
}

struct Map1<'a>(Unary, &'a mut [f32], &'a [f32]);

impl Kernel for Map1<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        #[inline(always)]
        fn each(d: &mut [f32], a: &[f32], f: impl Fn(f32) -> f32) {
            for (d, a) in d.iter_mut().zip(a) {
                *d = f(*a)
            }
        }
        let Map1(op, d, a) = self;
        match op {
            Unary::Copy => d.copy_from_slice(a),
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
pub fn unary(op: Unary, d: &mut [f32], a: &[f32]) {
    dispatch(Map1(op, d, a))
}

pub fn unary_scalar(op: Unary, a: f32) -> f32 {
    let mut d = [0.0];
    dispatch(Map1(op, &mut d, &[a]));
    d[0]
}

struct Map2<'a>(Binary, &'a mut [f32], Operand<'a>, Operand<'a>);

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
        fn each(d: &mut [f32], a: Operand, b: Operand, f: impl Fn(f32, f32) -> f32) {
            match (a, b) {
                (Operand::Slice(a), Operand::Slice(b)) => {
                    for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
                        *d = f(*a, *b)
                    }
                }
                (Operand::Slice(a), Operand::Scalar(b)) => {
                    for (d, a) in d.iter_mut().zip(a) {
                        *d = f(*a, b)
                    }
                }
                (Operand::Scalar(a), Operand::Slice(b)) => {
                    for (d, b) in d.iter_mut().zip(b) {
                        *d = f(a, *b)
                    }
                }
                (Operand::Scalar(a), Operand::Scalar(b)) => d.fill(f(a, b)),
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
        }
    }
}

/// `d = op(a, b)`.
pub fn binary(op: Binary, d: &mut [f32], a: Operand, b: Operand) {
    dispatch(Map2(op, d, a, b))
}

pub fn binary_scalar(op: Binary, a: f32, b: f32) -> f32 {
    let mut d = [0.0];
    dispatch(Map2(op, &mut d, Operand::Scalar(a), Operand::Scalar(b)));
    d[0]
}

/// Independent accumulators of a reduction: four registers of eight lanes.
const LANES: usize = 32;

struct Sum<'a>(&'a [f32]);

impl Kernel for Sum<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<const FUSED: bool>(self) -> f32 {
        let mut lanes = [0f32; LANES];
        let (blocks, rest) = self.0.as_chunks::<LANES>();
        for block in blocks {
            for (l, x) in lanes.iter_mut().zip(block) {
                *l += x
            }
        }
        for (l, x) in lanes.iter_mut().zip(rest) {
            *l += x
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width]
            }
            width /= 2
        }
        lanes[0]
    }
}

/// The sum, in 32 independent partial sums.
pub fn sum(x: &[f32]) -> f32 {
    dispatch(Sum(x))
}

struct Greatest<'a>(&'a [f32]);

impl Kernel for Greatest<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<const FUSED: bool>(self) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let keep = |l: &mut f32, x: &f32| *l = if *x > *l { *x } else { *l };
        let (blocks, rest) = self.0.as_chunks::<LANES>();
        for block in blocks {
            lanes.iter_mut().zip(block).for_each(|(l, x)| keep(l, x))
        }
        lanes.iter_mut().zip(rest).for_each(|(l, x)| keep(l, x));
        lanes.iter().fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
    }
}

/// The greatest number; NaN is passed over; -inf of nothing.
pub fn greatest(x: &[f32]) -> f32 {
    dispatch(Greatest(x))
}

struct HasNan<'a>(&'a [f32]);

impl Kernel for HasNan<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<const FUSED: bool>(self) -> bool {
        self.0.chunks(CHECKED).any(|c| c.iter().fold(false, |n, x| n | x.is_nan()))
    }
}

/// Elements between two looks at whether a NaN has been seen.
const CHECKED: usize = 256;

/// Whether there is a NaN.
pub fn has_nan(x: &[f32]) -> bool {
    dispatch(HasNan(x))
}

struct Accumulate<'a> {
    maximum: bool,
    into: &'a mut [f32],
    x: Operand<'a>,
}

impl Kernel for Accumulate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        #[inline(always)]
        fn each(into: &mut [f32], x: Operand, f: impl Fn(f32, f32) -> f32) {
            match x {
                Operand::Slice(x) => into.iter_mut().zip(x).for_each(|(d, x)| *d = f(*d, *x)),
                Operand::Scalar(x) => into.iter_mut().for_each(|d| *d = f(*d, x)),
            }
        }
        if self.maximum { each(self.into, self.x, |d, x| if x > d || x.is_nan() { x } else { d }) } else { each(self.into, self.x, |d, x| d + x) }
    }
}

/// `into = into + x`, or the greater of the two (NaN if either is).
pub fn accumulate(maximum: bool, into: &mut [f32], x: Operand) {
    dispatch(Accumulate { maximum, into, x })
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

struct Choose<'a>(&'a mut [f32], &'a [f32], &'a [f32], f32);

impl Kernel for Choose<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for ((d, mask), x) in self.0.iter_mut().zip(self.1).zip(self.2) {
            *d = if *mask != 0.0 { *x } else { self.3 }
        }
    }
}

/// `d = x` where the mask is not 0, else `other`.
pub fn choose(d: &mut [f32], mask: &[f32], x: &[f32], other: f32) {
    dispatch(Choose(d, mask, x, other))
}

struct Widen<'a>(&'a mut [f32], &'a [bf16]);

impl Kernel for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for (d, x) in self.0.iter_mut().zip(self.1) {
            *d = f32::from_bits((x.to_bits() as u32) << 16)
        }
    }
}

struct Narrow<'a>(&'a mut [bf16], &'a [f32]);

impl Kernel for Narrow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for (d, x) in self.0.iter_mut().zip(self.1) {
            let bits = x.to_bits();
            // to nearest, ties to even; a NaN stays one
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            let quiet = bits >> 16 | 0x40;
            *d = bf16::from_bits(if x.is_nan() { quiet } else { rounded } as u16)
        }
    }
}

/// Reads `d.len()` elements of a storage type, `stride` elements apart.
///
/// # Safety
/// The elements are readable.
pub unsafe fn load(dtype: DType, from: *const u8, stride: isize, d: &mut [f32]) {
    let n = d.len();
    unsafe {
        match (dtype, stride) {
            (DType::F32, 1) => std::ptr::copy_nonoverlapping(from.cast::<f32>(), d.as_mut_ptr(), n),
            (DType::F16, 1) => std::slice::from_raw_parts(from.cast::<f16>(), n).convert_to_f32_slice(d),
            (DType::BF16, 1) => dispatch(Widen(d, std::slice::from_raw_parts(from.cast::<bf16>(), n))),
            (DType::F32, _) => d.iter_mut().enumerate().for_each(|(i, d)| *d = *from.cast::<f32>().offset(i as isize * stride)),
            (DType::F16, _) => d.iter_mut().enumerate().for_each(|(i, d)| *d = (*from.cast::<f16>().offset(i as isize * stride)).to_f32()),
            (DType::BF16, _) => d.iter_mut().enumerate().for_each(|(i, d)| *d = (*from.cast::<bf16>().offset(i as isize * stride)).to_f32()),
            (DType::I32, _) => d.iter_mut().enumerate().for_each(|(i, d)| *d = *from.cast::<i32>().offset(i as isize * stride) as f32),
        }
    }
}

/// Writes elements of a storage type, `stride` elements apart.
///
/// # Safety
/// The elements are writable.
pub unsafe fn store(dtype: DType, to: *mut u8, stride: isize, x: &[f32]) {
    let n = x.len();
    unsafe {
        match (dtype, stride) {
            (DType::F32, 1) => std::ptr::copy_nonoverlapping(x.as_ptr(), to.cast::<f32>(), n),
            (DType::F16, 1) => std::slice::from_raw_parts_mut(to.cast::<f16>(), n).convert_from_f32_slice(x),
            (DType::BF16, 1) => dispatch(Narrow(std::slice::from_raw_parts_mut(to.cast::<bf16>(), n), x)),
            (DType::F32, _) => x.iter().enumerate().for_each(|(i, x)| *to.cast::<f32>().offset(i as isize * stride) = *x),
            (DType::F16, _) => x.iter().enumerate().for_each(|(i, x)| *to.cast::<f16>().offset(i as isize * stride) = f16::from_f32(*x)),
            (DType::BF16, _) => x.iter().enumerate().for_each(|(i, x)| *to.cast::<bf16>().offset(i as isize * stride) = bf16::from_f32(*x)),
            (DType::I32, _) => x.iter().enumerate().for_each(|(i, x)| *to.cast::<i32>().offset(i as isize * stride) = *x as i32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numerator_of_zero_wins_over_any_denominator() {
        let mut d = [1.0; 3];
        binary(Binary::Quotient, &mut d, Operand::Slice(&[0.0, 1.0, 0.0]), Operand::Slice(&[0.0, 4.0, f32::NAN]));
        assert_eq!(d, [0.0, 0.25, 0.0])
    }

    #[test]
    fn a_maximum_is_nan_if_an_element_is_and_a_frame_passes_over_it() {
        let x: Vec<f32> = (0..100).map(|i| if i == 50 { f32::NAN } else { -(i as f32) }).collect();
        assert_eq!(greatest(&x), 0.0);
        assert_eq!(greatest(&[]), f32::NEG_INFINITY);
        assert!(has_nan(&x) && !has_nan(&x[..50]));
        assert!(binary_scalar(Binary::Greatest, f32::NAN, 1.0).is_nan());
        assert!(binary_scalar(Binary::Greatest, 1.0, f32::NAN).is_nan());
        let mut d = [1.0, f32::NAN, 1.0];
        accumulate(true, &mut d, Operand::Slice(&[f32::NAN, 2.0, 3.0]));
        assert!(d[0].is_nan() && d[1].is_nan() && d[2] == 3.0)
    }

    #[test]
    fn a_sum_of_many_equal_addends_stays_near_the_exact_one() {
        let x = vec![1.000_06f32; 512];
        assert!((sum(&x) as f64 / (x[0] as f64 * 512.0) - 1.0).abs() < 1e-6);
        assert_eq!(sum(&[1.0, 2.0, 3.0]), 6.0)
    }

    #[test]
    fn storage_types_round_as_half_does_and_keep_nan() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 1.000_3e-2).chain([f32::NAN, f32::INFINITY, 1e-30, 65_504.0]).collect();
        let mut narrow = vec![bf16::ZERO; x.len()];
        let mut wide = vec![0.0; x.len()];
        unsafe {
            store(DType::BF16, narrow.as_mut_ptr().cast(), 1, &x);
            load(DType::BF16, narrow.as_ptr().cast(), 1, &mut wide);
        }
        for ((x, n), w) in x.iter().zip(&narrow).zip(&wide) {
            let want = bf16::from_f32(*x);
            assert!(*n == want || n.is_nan() && want.is_nan());
            assert!(*w == want.to_f32() || w.is_nan() && want.is_nan())
        }
        let mut half = vec![f16::ZERO; x.len() * 2];
        let mut back = vec![0.0; x.len()];
        unsafe {
            store(DType::F16, half.as_mut_ptr().cast(), 2, &x);
            load(DType::F16, half.as_ptr().cast(), 2, &mut back);
        }
        for (x, b) in x.iter().zip(&back) {
            let want = f16::from_f32(*x).to_f32();
            assert!(*b == want || b.is_nan() && want.is_nan())
        }
    }
}
