//! Borrowed tensors: of a [`Tensor`], of a slice of the host, of a slice of cudarc.
use crate::cuda::{CudaDevice, Uses, address_of};
use crate::device::{Device, DeviceKind};
use crate::element::Element;
use crate::error::{Doing, Error, Result};
use crate::layout::Layout;
use crate::tensor::Tensor;
use cudarc::driver::CudaSlice;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// Memory that a view reads. Where a tensor of ours owns it, `uses` tells the streams that use it, else the slice's own events do.
#[derive(Clone)]
pub(crate) enum Source<'a, T> {
    Host { pointer: NonNull<T>, len: usize, marker: PhantomData<&'a [T]> },
    Cuda { slice: &'a CudaSlice<T>, uses: Option<&'a Uses>, address: u64, device: CudaDevice },
}

/// Memory that a view writes.
pub(crate) enum SourceMut<'a, T> {
    Host { pointer: NonNull<T>, len: usize, marker: PhantomData<&'a mut [T]> },
    Cuda { slice: &'a mut CudaSlice<T>, uses: Option<&'a Uses>, address: u64, device: CudaDevice },
}

// SAFETY: they are borrows of memory whose elements are `Send` and `Sync`
unsafe impl<T: Element> Send for Source<'_, T> {}
unsafe impl<T: Element> Sync for Source<'_, T> {}
unsafe impl<T: Element> Send for SourceMut<'_, T> {}
unsafe impl<T: Element> Sync for SourceMut<'_, T> {}

impl<'a, T: Element> Source<'a, T> {
    pub fn host(data: &'a [T]) -> Self {
        Source::Host { pointer: NonNull::from(data).cast(), len: data.len(), marker: PhantomData }
    }
}

impl<'a, T: Element> SourceMut<'a, T> {
    pub fn host(data: &'a mut [T]) -> Self {
        SourceMut::Host { len: data.len(), pointer: NonNull::from(data).cast(), marker: PhantomData }
    }
}

/// A strided tensor to read from.
#[derive(Clone)]
pub struct View<'a, T> {
    pub(crate) source: Source<'a, T>,
    pub(crate) layout: Layout,
}

/// A strided tensor to write to.
pub struct ViewMut<'a, T> {
    pub(crate) source: SourceMut<'a, T>,
    pub(crate) layout: Layout,
}

impl<'a, T: Element> View<'a, T> {
    /// Host memory under a shape and strides (in elements), which must stay within it.
    pub fn from_slice(data: &'a [T], shape: &[usize], strides: &[usize]) -> Result<Self> {
        Ok(View { source: Source::host(data), layout: Layout::strided(shape, strides, data.len())? })
    }
    /// Memory of a CUDA device under a shape and strides (in elements), which must stay within it.
    pub fn from_cuda(slice: &'a CudaSlice<T>, shape: &[usize], strides: &[usize]) -> Result<Self> {
        let device = CudaDevice::of(slice.context())?;
        Ok(View { layout: Layout::strided(shape, strides, slice.len())?, source: Source::Cuda { slice, uses: None, address: address_of(slice), device } })
    }
    /// Host memory that another library owns.
    ///
    /// # Safety
    /// `len` elements from `pointer` on are initialised, aligned, and outlive `'a`; nothing writes them meanwhile.
    pub unsafe fn from_raw_parts(pointer: NonNull<T>, len: usize, shape: &[usize], strides: &[usize]) -> Result<Self> {
        Ok(View { source: Source::Host { pointer, len, marker: PhantomData }, layout: Layout::strided(shape, strides, len)? })
    }
    pub fn slice(self, dim: usize, range: Range<usize>) -> Result<Self> {
        Ok(View { source: self.source, layout: self.layout.slice(dim, range)? })
    }
    pub fn permute(self, order: &[usize]) -> Result<Self> {
        Ok(View { source: self.source, layout: self.layout.permute(order)? })
    }
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        Ok(View { source: self.source, layout: self.layout.reshape(shape)? })
    }
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }
    /// In elements.
    pub fn strides(&self) -> &[usize] {
        &self.layout.strides
    }
    pub fn device(&self) -> Device {
        match &self.source {
            Source::Host { .. } => Device::cpu(),
            Source::Cuda { device, .. } => Device { kind: DeviceKind::Cuda(*device) },
        }
    }
    /// The elements in row-major order.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut out = vec![T::default(); self.layout.len()];
        match &self.source {
            Source::Host { pointer, len, .. } => {
                // SAFETY: the source borrows `len` elements
                let data = unsafe { std::slice::from_raw_parts(pointer.as_ptr(), *len) };
                self.layout.runs(|at, offset, n| out[at..at + n].copy_from_slice(&data[offset..offset + n]))
            }
            Source::Cuda { slice, uses, .. } => {
                // the span in one copy, then the elements of it: a copy for each run would cost a call of the driver each
                let span = self.layout.span().unwrap_or(0);
                if span > 0 {
                    let part = slice.slice(self.layout.offset..self.layout.offset + span);
                    let stream = slice.stream();
                    uses.map_or(Ok(()), |u| u.read(stream)).doing(|| "copying to the host".into())?;
                    let data = stream.clone_dtoh(&part).doing(|| "copying to the host".into())?;
                    stream.synchronize().doing(|| "copying to the host".into())?;
                    let base = self.layout.offset;
                    self.layout.runs(|at, offset, n| out[at..at + n].copy_from_slice(&data[offset - base..offset - base + n]))
                }
            }
        }
        Ok(out)
    }
    /// A contiguous copy on `device`.
    pub fn to_device(&self, device: &Device) -> Result<Tensor<T>> {
        Tensor::from_slice_on(device, &self.to_vec()?, &self.layout.shape)
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// See [`View::from_slice`].
    pub fn from_slice(data: &'a mut [T], shape: &[usize], strides: &[usize]) -> Result<Self> {
        Ok(ViewMut { layout: Layout::strided(shape, strides, data.len())?, source: SourceMut::host(data) })
    }
    /// See [`View::from_cuda`].
    pub fn from_cuda(slice: &'a mut CudaSlice<T>, shape: &[usize], strides: &[usize]) -> Result<Self> {
        let device = CudaDevice::of(slice.context())?;
        Ok(ViewMut { layout: Layout::strided(shape, strides, slice.len())?, source: SourceMut::Cuda { address: address_of(slice), slice, uses: None, device } })
    }
    /// Host memory that another library owns.
    ///
    /// # Safety
    /// `len` elements from `pointer` on are initialised, aligned, and outlive `'a`; nothing else uses them meanwhile.
    pub unsafe fn from_raw_parts(pointer: NonNull<T>, len: usize, shape: &[usize], strides: &[usize]) -> Result<Self> {
        Ok(ViewMut { source: SourceMut::Host { pointer, len, marker: PhantomData }, layout: Layout::strided(shape, strides, len)? })
    }
    pub fn slice(self, dim: usize, range: Range<usize>) -> Result<Self> {
        Ok(ViewMut { source: self.source, layout: self.layout.slice(dim, range)? })
    }
    pub fn permute(self, order: &[usize]) -> Result<Self> {
        Ok(ViewMut { source: self.source, layout: self.layout.permute(order)? })
    }
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        Ok(ViewMut { source: self.source, layout: self.layout.reshape(shape)? })
    }
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }
    /// In elements.
    pub fn strides(&self) -> &[usize] {
        &self.layout.strides
    }
    pub fn device(&self) -> Device {
        match &self.source {
            SourceMut::Host { .. } => Device::cpu(),
            SourceMut::Cuda { device, .. } => Device { kind: DeviceKind::Cuda(*device) },
        }
    }
    /// Writes the elements of a tensor of the same shape.
    pub fn copy_from<'b>(&mut self, from: impl AsView<'b, T>) -> Result<()> {
        let from = from.as_view();
        if from.shape() != self.shape() {
            return Err(Error::Shape(format!("shape {:?} cannot be copied into shape {:?}", from.shape(), self.shape())));
        }
        let data = from.to_vec()?;
        match &mut self.source {
            SourceMut::Host { pointer, len, .. } => {
                // SAFETY: the source borrows `len` elements exclusively
                let target = unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), *len) };
                self.layout.runs(|at, offset, n| target[offset..offset + n].copy_from_slice(&data[at..at + n]));
                Ok(())
            }
            SourceMut::Cuda { slice, uses, .. } => {
                let stream = slice.stream().clone();
                uses.map_or(Ok(()), |u| u.write(&stream)).doing(|| "copying to the device".into())?;
                let mut done = Ok(());
                self.layout.runs(|at, offset, n| {
                    if done.is_ok() {
                        done = stream.memcpy_htod(&data[at..at + n], &mut slice.slice_mut(offset..offset + n))
                    }
                });
                done.doing(|| "copying to the device".into())
            }
        }
    }
}

impl<T: Element> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "View<{}>{:?} on {}", T::DTYPE, self.layout.shape, self.device())
    }
}

impl<T: Element> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ViewMut<{}>{:?} on {}", T::DTYPE, self.layout.shape, self.device())
    }
}

/// What a kernel takes as an input: anything that lends a strided tensor of `T` for `'a`.
pub trait AsView<'a, T: Element> {
    fn as_view(&self) -> View<'a, T>;
}

impl<'a, T: Element> AsView<'a, T> for &'a Tensor<T> {
    fn as_view(&self) -> View<'a, T> {
        self.view()
    }
}

impl<'a, T: Element> AsView<'a, T> for View<'a, T> {
    fn as_view(&self) -> View<'a, T> {
        self.clone()
    }
}

impl<'a, T: Element> AsView<'a, T> for &View<'a, T> {
    fn as_view(&self) -> View<'a, T> {
        (*self).clone()
    }
}

/// What a kernel writes to: anything that lends a strided tensor of `T` to write for `'a`.
#[expect(clippy::wrong_self_convention, reason = "`&mut Tensor` and `ViewMut` are what is consumed")]
pub trait AsViewMut<'a, T: Element> {
    fn as_view_mut(self) -> ViewMut<'a, T>;
}

impl<'a, T: Element> AsViewMut<'a, T> for &'a mut Tensor<T> {
    fn as_view_mut(self) -> ViewMut<'a, T> {
        self.view_mut()
    }
}

impl<'a, T: Element> AsViewMut<'a, T> for ViewMut<'a, T> {
    fn as_view_mut(self) -> ViewMut<'a, T> {
        self
    }
}
