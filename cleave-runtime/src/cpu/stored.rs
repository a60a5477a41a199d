//! Storage types: one element widened to f32 without a branch, so that a loop over them becomes vector code, and conversions of whole rows.
use super::vector::{Kernel, dispatch};
use cleave_core::dtype::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::Simd;

/// An element of memory.
pub trait Stored: Copy {
    fn widen(self) -> f32;
    /// A vector of elements side by side.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, from: *const Self) -> S::f32s {
        unsafe { Self::gather(simd, from, 1) }
    }
    /// A vector of elements `stride` apart.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn gather<S: Simd>(_: S, from: *const Self, stride: isize) -> S::f32s {
        let mut lanes = [0f32; MOST_LANES];
        for (i, lane) in lanes[..S::F32_LANES].iter_mut().enumerate() {
            *lane = unsafe { *from.offset(i as isize * stride) }.widen()
        }
        unsafe { lanes.as_ptr().cast::<S::f32s>().read_unaligned() }
    }
    /// Eight elements side by side.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn eight(from: *const Self) -> [f32; 8] {
        std::array::from_fn(|i| unsafe { *from.add(i) }.widen())
    }
}

/// Rows to columns, in registers where `S` has vectors of eight numbers or more.
#[inline(always)]
pub fn transpose<S: Simd>(rows: [[f32; 8]; 8]) -> [[f32; 8]; 8] {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES >= 8 {
        // such an S was chosen because the processor has at least these vectors
        return unsafe { transpose_avx(rows) };
    }
    std::array::from_fn(|c| std::array::from_fn(|r| rows[r][c]))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
fn transpose_avx(rows: [[f32; 8]; 8]) -> [[f32; 8]; 8] {
    use std::arch::x86_64::*;
    let [a, b, c, d, e, f, g, h]: [__m256; 8] = unsafe { std::mem::transmute(rows) };
    // pairs of rows, then fours, then the halves change places
    let pair = |x, y| (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
    let four = |(lo, hi): (__m256, __m256), (lo2, hi2): (__m256, __m256)| {
        [_mm256_shuffle_ps(lo, lo2, 0x44), _mm256_shuffle_ps(lo, lo2, 0xee), _mm256_shuffle_ps(hi, hi2, 0x44), _mm256_shuffle_ps(hi, hi2, 0xee)]
    };
    let (upper, lower) = (four(pair(a, b), pair(c, d)), four(pair(e, f), pair(g, h)));
    let halves = |i: usize, which: bool| {
        if which { _mm256_permute2f128_ps(upper[i], lower[i], 0x31) } else { _mm256_permute2f128_ps(upper[i], lower[i], 0x20) }
    };
    let columns: [__m256; 8] = std::array::from_fn(|i| halves(i % 4, i >= 4));
    unsafe { std::mem::transmute(columns) }
}

/// Lanes of the widest vector.
pub const MOST_LANES: usize = 16;

impl Stored for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    unsafe fn vector<S: Simd>(_: S, from: *const f32) -> S::f32s {
        unsafe { from.cast::<S::f32s>().read_unaligned() }
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
}

impl Stored for f16 {
    /// The exponent's bias is made good by a product with 2^112, which normalises subnormal numbers too. What is then 2^16 or more was infinite or
    /// NaN: its exponent becomes all ones.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = self.to_bits() as u32;
        let magnitude = f32::from_bits(bits << 13 & 0x0fff_e000) * f32::from_bits(0x7780_0000);
        let special = if magnitude >= 65536.0 { 0x7f80_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | bits << 16 & 0x8000_0000)
    }
}

/// Runs a statement with `T` as the type of a dtype; with an integer's nothing: integers are widened before they meet these loops.
macro_rules! with_stored {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            cleave_core::dtype::DType::F32 => {
                type $t = f32;
                $body
            }
            cleave_core::dtype::DType::F16 => {
                type $t = half::f16;
                $body
            }
            cleave_core::dtype::DType::BF16 => {
                type $t = half::bf16;
                $body
            }
            cleave_core::dtype::DType::I32 => {}
        }
    };
}
pub(super) use with_stored;

struct Widen<'a, T> {
    to: &'a mut [f32],
    from: *const T,
    stride: isize,
}

impl<T: Stored> Kernel for Widen<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Widen { to, from, stride } = self;
        if stride == 1 {
            let from = unsafe { std::slice::from_raw_parts(from, to.len()) };
            to.iter_mut().zip(from).for_each(|(d, x)| *d = x.widen())
        } else {
            to.iter_mut().enumerate().for_each(|(i, d)| *d = unsafe { *from.offset(i as isize * stride) }.widen())
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
    if dtype == DType::I32 {
        return d.iter_mut().enumerate().for_each(|(i, d)| *d = unsafe { *from.cast::<i32>().offset(i as isize * stride) } as f32);
    }
    with_stored!(dtype, T => dispatch(Widen { to: d, from: from.cast::<T>(), stride }))
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
    fn every_half_widens_to_its_value() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(h.widen().to_bits() == h.to_f32().to_bits() || h.is_nan() && h.widen().is_nan(), "{bits:x}");
            assert!(b.widen().to_bits() == b.to_f32().to_bits() || b.is_nan() && b.widen().is_nan(), "{bits:x}")
        }
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
