//! Arguments and targets of a call with their types erased: what the macro's expansion hands over.
use crate::cuda::{Binding, CudaDevice, Tracked, Uses};
use crate::device::{Device, DeviceKind};
use crate::element::{Element, Scalar};
use crate::layout::Layout;
use crate::view::{AsView, AsViewMut, Source, SourceMut, ViewMut};
use cleave_core::choose::Facts;
use cleave_core::dtype::DType;
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// An input of a call.
pub struct Argument<'call> {
    pub(crate) kind: ArgumentKind<'call>,
}

pub(crate) enum ArgumentKind<'call> {
    Scalar {
        dtype: DType,
        word: u64,
    },
    Tensor(TensorArgument<'call>),
    /// Read and written over; the target is taken when the call runs.
    InPlace(TensorArgument<'call>, Option<Target<'call>>),
}

pub(crate) struct TensorArgument<'call> {
    pub dtype: DType,
    /// Of the first element.
    pub address: u64,
    pub layout: Layout,
    pub place: Place<'call>,
}

#[derive(Clone)]
pub(crate) enum Place<'call> {
    Host,
    Cuda {
        device: CudaDevice,
        slice: &'call dyn Tracked,
        uses: Option<&'call Uses>,
    },
    /// Memory that the call writes too: the target holds the slice.
    Target {
        device: CudaDevice,
    },
}

/// An output of a call.
pub struct Target<'t> {
    pub(crate) dtype: DType,
    pub(crate) address: u64,
    pub(crate) layout: Layout,
    pub(crate) place: TargetPlace<'t>,
}

pub(crate) enum TargetPlace<'t> {
    Host,
    Cuda { device: CudaDevice, slice: &'t mut dyn Tracked, uses: Option<&'t Uses> },
}

impl<'call> Argument<'call> {
    pub fn tensor<T: Element>(tensor: impl AsView<'call, T>) -> Argument<'call> {
        let view = tensor.as_view();
        let offset = (view.layout.offset * size_of::<T>()) as u64;
        let (base, place) = match view.source {
            Source::Host { pointer, .. } => (pointer.as_ptr() as u64, Place::Host),
            Source::Cuda { slice, uses, address, device } => (address, Place::Cuda { device, slice, uses }),
        };
        Argument { kind: ArgumentKind::Tensor(TensorArgument { dtype: T::DTYPE, address: base + offset, layout: view.layout, place }) }
    }
    /// A tensor that the kernel reads and writes over.
    pub fn in_place<T: Element>(tensor: impl AsViewMut<'call, T>) -> Argument<'call> {
        let target = Target::new(tensor.as_view_mut());
        let place = match &target.place {
            TargetPlace::Host => Place::Host,
            TargetPlace::Cuda { device, .. } => Place::Target { device: *device },
        };
        let read = TensorArgument { dtype: target.dtype, address: target.address, layout: target.layout.clone(), place };
        Argument { kind: ArgumentKind::InPlace(read, Some(target)) }
    }
    pub fn scalar<T: Scalar>(value: T) -> Argument<'call> {
        Argument { kind: ArgumentKind::Scalar { dtype: T::DTYPE, word: value.word() } }
    }
    /// The extent of an axis; one that does not fit is refused as no extent at all.
    pub fn extent(n: usize) -> Argument<'call> {
        Argument { kind: ArgumentKind::Scalar { dtype: DType::I32, word: i32::try_from(n).unwrap_or(-1) as u32 as u64 } }
    }
    pub(crate) fn binding(&self) -> Binding<'_> {
        match &self.kind {
            ArgumentKind::Scalar { word, .. } => Binding::Scalar(*word),
            ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) => Binding::Tensor { address: t.address, strides: &t.layout.strides },
        }
    }
    pub(crate) fn as_tensor(&self) -> Option<&TensorArgument<'call>> {
        match &self.kind {
            ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) => Some(t),
            ArgumentKind::Scalar { .. } => None,
        }
    }
    /// What an argument that is written in place is written to; none a second time.
    pub(crate) fn take_target(&mut self) -> Option<Target<'call>> {
        if let ArgumentKind::InPlace(_, target) = &mut self.kind { target.take() } else { None }
    }
    pub(crate) fn target(&self) -> Option<&Target<'call>> {
        if let ArgumentKind::InPlace(_, target) = &self.kind { target.as_ref() } else { None }
    }
}

impl TensorArgument<'_> {
    pub fn device(&self) -> Device {
        match &self.place {
            Place::Host => Device::cpu(),
            Place::Cuda { device, .. } | Place::Target { device } => Device { kind: DeviceKind::Cuda(*device) },
        }
    }
    pub fn facts(&self) -> Facts {
        facts(self.address, &self.layout, self.dtype)
    }
    pub fn bytes(&self) -> (u64, u64) {
        bytes(self.address, &self.layout, self.dtype)
    }
}

impl<'t> Target<'t> {
    pub(crate) fn new<T: Element>(view: ViewMut<'t, T>) -> Target<'t> {
        let offset = (view.layout.offset * size_of::<T>()) as u64;
        let (base, place) = match view.source {
            SourceMut::Host { pointer, .. } => (pointer.as_ptr() as u64, TargetPlace::Host),
            SourceMut::Cuda { slice, uses, address, device } => (address, TargetPlace::Cuda { device, slice, uses }),
        };
        Target { dtype: T::DTYPE, address: base + offset, layout: view.layout, place }
    }
    /// The same for a shorter time.
    pub(crate) fn shorter<'s>(self) -> Target<'s>
    where
        't: 's,
    {
        let place = match self.place {
            TargetPlace::Host => TargetPlace::Host,
            TargetPlace::Cuda { device, slice, uses } => TargetPlace::Cuda { device, slice, uses },
        };
        Target { dtype: self.dtype, address: self.address, layout: self.layout, place }
    }
    pub(crate) fn home(&self) -> Option<&Arc<CudaStream>> {
        if let TargetPlace::Cuda { slice, .. } = &self.place { Some(slice.home()) } else { None }
    }
    pub(crate) fn device(&self) -> Device {
        match &self.place {
            TargetPlace::Host => Device::cpu(),
            TargetPlace::Cuda { device, .. } => Device { kind: DeviceKind::Cuda(*device) },
        }
    }
    pub(crate) fn facts(&self) -> Facts {
        facts(self.address, &self.layout, self.dtype)
    }
    pub(crate) fn bytes(&self) -> (u64, u64) {
        bytes(self.address, &self.layout, self.dtype)
    }
}

fn facts(address: u64, layout: &Layout, dtype: DType) -> Facts {
    Facts::of(address, layout.shape.iter().zip(&layout.strides).map(|(n, s)| (*n as u64, *s as u64)), dtype.bytes() as u64)
}

/// The addresses from the first element's to beyond the last's.
fn bytes(address: u64, layout: &Layout, dtype: DType) -> (u64, u64) {
    (address, address + (layout.span().unwrap_or(0) * dtype.bytes()) as u64)
}
