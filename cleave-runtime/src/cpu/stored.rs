//! Storage types as the loops over them see them: one element widened to f32 without a branch, so that a loop becomes vector code.
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

impl Stored for i32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self as f32
    }
}

/// Runs an expression with `T` as the type of a dtype.
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
            cleave_core::dtype::DType::I32 => {
                type $t = i32;
                $body
            }
        }
    };
}
pub(super) use with_stored;

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
}
