//! The run time of Cleave: tensors and views, devices, the choice of a plan, and running it on the CPU or a CUDA device.
//!
//! A call goes through these files in order: [`call`] and [`check`] check the arguments and find the extents; [`ready`] chooses an entry of the
//! [`embedded`] plan file and makes it ready, once for each set of extents; debug builds look at what it assumes of the data ([`assumed`]); then the CPU executor ([`cpu`]) or a launch ([`cuda`]) runs it.
mod argument;
mod assumed;
mod call;
mod check;
pub mod cpu;
mod cuda;
mod device;
mod disk;
pub mod dsl;
mod element;
mod embedded;
mod error;
mod key;
mod layout;
mod log;
mod memory;
mod outputs;
mod plan;
mod ready;
mod recording;
mod stream;
mod tensor;
mod tune;
mod tuned;
mod view;

pub use call::Call;
pub use cleave_core::dtype::DType;
pub use device::Device;
pub use element::{Element, Scalar};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use outputs::{Outputs, Targets};
pub use plan::{Plan, PlanAlternative};
pub use recording::Recording;
pub use stream::{Stream, Workspace};
pub use tensor::Tensor;
pub use view::{AsView, AsViewMut, View, ViewMut};

/// What the macro's expansion names. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod private {
    pub use crate::argument::Argument;
    pub use crate::call::call;
    pub use crate::embedded::Embedded;
}
