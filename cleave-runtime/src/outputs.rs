//! What a call returns and what it may write to: one tensor, or a tuple of tensors.
use crate::argument::Target;
use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::view::AsViewMut;
use cleave_core::dtype::DType;
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// Where new outputs are allocated.
pub struct Allocation<'a> {
    pub(crate) device: &'a Device,
    pub(crate) stream: Option<&'a Arc<CudaStream>>,
}

/// The outputs of a kernel: `Tensor<T>`, or a tuple of tensors.
pub trait Outputs: Sized {
    const TYPES: &'static [DType];
    /// One tensor for each shape; there are as many as `TYPES`.
    #[doc(hidden)]
    fn allocate(at: &Allocation, shapes: &[Vec<usize>]) -> Result<Self>;
    #[doc(hidden)]
    fn targets(&mut self) -> Vec<Target<'_>>;
}

/// Memory that outputs `O` may be written to: `&mut Tensor<T>` or `ViewMut<T>`, or a tuple of them.
pub trait Targets<'t, O> {
    #[doc(hidden)]
    fn into_targets(self) -> Vec<Target<'t>>;
}

/// Of a kernel that only writes over its arguments.
impl Outputs for () {
    const TYPES: &'static [DType] = &[];
    fn allocate(_: &Allocation, _: &[Vec<usize>]) -> Result<Self> {
        Ok(())
    }
    fn targets(&mut self) -> Vec<Target<'_>> {
        vec![]
    }
}

impl<T: Element> Outputs for Tensor<T> {
    const TYPES: &'static [DType] = &[T::DTYPE];
    fn allocate(at: &Allocation, shapes: &[Vec<usize>]) -> Result<Self> {
        Tensor::output(at.device, at.stream, shapes.first().map_or(&[], |s| s))
    }
    fn targets(&mut self) -> Vec<Target<'_>> {
        vec![Target::new(self.view_mut())]
    }
}

impl<'t, T: Element, A: AsViewMut<'t, T>> Targets<'t, Tensor<T>> for A {
    fn into_targets(self) -> Vec<Target<'t>> {
        vec![Target::new(self.as_view_mut())]
    }
}

macro_rules! tuple {
    ($($t:ident $a:ident $i:tt),*) => {
        impl<$($t: Element),*> Outputs for ($(Tensor<$t>,)*) {
            const TYPES: &'static [DType] = &[$($t::DTYPE),*];
            fn allocate(at: &Allocation, shapes: &[Vec<usize>]) -> Result<Self> {
                Ok(($(Tensor::<$t>::output(at.device, at.stream, shapes.get($i).map_or(&[], |s| s))?,)*))
            }
            fn targets(&mut self) -> Vec<Target<'_>> {
                vec![$(Target::new(self.$i.view_mut())),*]
            }
        }

        impl<'t, $($t: Element, $a: AsViewMut<'t, $t>),*> Targets<'t, ($(Tensor<$t>,)*)> for ($($a,)*) {
            fn into_targets(self) -> Vec<Target<'t>> {
                vec![$(Target::new(self.$i.as_view_mut())),*]
            }
        }
    };
}
tuple!(T0 A0 0);
tuple!(T0 A0 0, T1 A1 1);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2, T3 A3 3);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2, T3 A3 3, T4 A4 4);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2, T3 A3 3, T4 A4 4, T5 A5 5);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2, T3 A3 3, T4 A4 4, T5 A5 5, T6 A6 6);
tuple!(T0 A0 0, T1 A1 1, T2 A2 2, T3 A3 3, T4 A4 4, T5 A5 5, T6 A6 6, T7 A7 7);
