//! Tensor formulas over named axes, compiled at build time to fused kernels.
//!
//! State a formula in a function under [`macro@kernel`]; while cargo builds, `cleave::build()` in the build script finds
//! equal algorithms and compiles them; the function then takes tensors and returns a [`Call`] that runs the one
//! that suits their extents and device.
//!
//! ```toml
//! [dependencies]
//! cleave = "0.1"
//!
//! [build-dependencies]
//! cleave = { version = "0.1", default-features = false, features = ["build"] }
//! ```
//! ```ignore
//! // build.rs
//! fn main() {
//!     cleave::build()
//! }
//! ```
//! ```ignore
//! #[cleave::kernel(dtypes(T = f16, f32))]
//! pub fn matmul<T>(x: Tensor<T, M, D>, w: Tensor<T, N, D>) -> Tensor<T, M, N> {
//!     sum::<D>(x * w)
//! }
//! let y = matmul(&x, &w).run()?;
//! ```
#[cfg(feature = "build")]
pub use cleave_core::build::run as build;
#[cfg(feature = "runtime")]
pub use cleave_macros::{function, kernel, rule};
#[cfg(feature = "runtime")]
#[doc(inline)]
pub use cleave_runtime::*;

/// The compiler behind [`build`]: for tools that show or test its stages.
#[cfg(feature = "build")]
pub use cleave_core as core;
