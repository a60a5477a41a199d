//! Types that a tensor may hold: the host's side of [`DType`].
use cleave_core::dtype::DType;
use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A storage type: `f32`, [`struct@f16`], [`struct@bf16`] or, in predicates and biases, `i32`.
pub trait Element: sealed::Sealed + Copy + Default + PartialEq + PartialOrd + std::fmt::Debug + Send + Sync + DeviceRepr + ValidAsZeroBits + 'static {
    const DTYPE: DType;
    /// Rounded to nearest even.
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
}

macro_rules! element {
    ($($type:ty, $dtype:ident, $from:expr, $to:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: DType = DType::$dtype;
                fn from_f32(value: f32) -> Self {
                    $from(value)
                }
                fn to_f32(self) -> f32 {
                    $to(self)
                }
            }
        )*
    };
}
element! {
    f32, F32, std::convert::identity, std::convert::identity;
    f16, F16, f16::from_f32, f16::to_f32;
    bf16, BF16, bf16::from_f32, bf16::to_f32;
    i32, I32, |x: f32| x as i32, |x: i32| x as f32;
}

/// A scalar argument of a kernel: `f32` or `i32`.
pub trait Scalar: Element {
    /// The 32 bits of the value, zero-extended: what a launch's argument holds.
    fn word(self) -> u64;
}

impl Scalar for f32 {
    fn word(self) -> u64 {
        self.to_bits() as u64
    }
}

impl Scalar for i32 {
    fn word(self) -> u64 {
        self as u32 as u64
    }
}
