//! Owned tensors.
use crate::device::{Device, DeviceKind};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::{Layout, count};
use crate::memory::{CudaMemory, HostMemory, Memory};
use crate::view::{Source, SourceMut, View, ViewMut};
use cudarc::driver::{CudaSlice, CudaStream};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Elements of one type on one device, with a shape and strides (in elements).
pub struct Tensor<T> {
    memory: Memory<T>,
    layout: Layout,
}

impl<T: Element> Tensor<T> {
    /// A contiguous copy of `data`, in row-major order, on the host.
    pub fn from_slice(data: &[T], shape: &[usize]) -> Result<Tensor<T>> {
        Self::from_slice_on(&Device::cpu(), data, shape)
    }
    /// As [`Tensor::from_slice`], on any device.
    pub fn from_slice_on(device: &Device, data: &[T], shape: &[usize]) -> Result<Tensor<T>> {
        if count(shape) != Some(data.len()) {
            return Err(Error::Shape(format!("{} elements do not make a tensor of shape {shape:?}", data.len())));
        }
        let memory = match &device.kind {
            DeviceKind::Cpu => {
                let mut host = HostMemory::zeros(data.len())?;
                host.as_mut_slice().copy_from_slice(data);
                Memory::Host(host)
            }
            DeviceKind::Cuda(c) => Memory::Cuda(CudaMemory::from_slice(c, data)?),
        };
        Ok(Tensor { memory, layout: Layout::contiguous(shape)? })
    }
    /// A tensor of the host whose element at `index` is `f(index)`.
    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> T) -> Result<Tensor<T>> {
        let mut tensor = Self::zeros(&Device::cpu(), shape)?;
        let mut index = vec![0; shape.len()];
        if let Memory::Host(host) = &mut tensor.memory {
            for x in host.as_mut_slice() {
                *x = f(&index);
                for d in (0..shape.len()).rev() {
                    index[d] += 1;
                    if index[d] < shape[d] {
                        break;
                    }
                    index[d] = 0
                }
            }
        }
        Ok(tensor)
    }
    pub fn zeros(device: &Device, shape: &[usize]) -> Result<Tensor<T>> {
        let layout = Layout::contiguous(shape)?;
        let memory = match &device.kind {
            DeviceKind::Cpu => Memory::Host(HostMemory::zeros(layout.len())?),
            DeviceKind::Cuda(c) => Memory::Cuda(CudaMemory::zeros(c, c.stream(), layout.len())?),
        };
        Ok(Tensor { memory, layout })
    }
    /// A tensor whose elements a kernel is about to write.
    pub(crate) fn output(device: &Device, stream: Option<&Arc<CudaStream>>, shape: &[usize]) -> Result<Tensor<T>> {
        let layout = Layout::contiguous(shape)?;
        let memory = match &device.kind {
            DeviceKind::Cpu => Memory::Host(HostMemory::zeros(layout.len())?),
            DeviceKind::Cuda(c) => Memory::Cuda(CudaMemory::uninit(c, stream.unwrap_or(c.stream()), layout.len())?),
        };
        Ok(Tensor { memory, layout })
    }
    /// Takes over a slice of a CUDA device.
    pub fn from_cuda(slice: CudaSlice<T>, shape: &[usize]) -> Result<Tensor<T>> {
        let device = crate::cuda::CudaDevice::of(slice.context())?;
        let layout = Layout::contiguous(shape)?;
        if layout.len() > slice.len() {
            return Err(Error::Shape(format!("{} elements do not make a tensor of shape {shape:?}", slice.len())));
        }
        Ok(Tensor { memory: Memory::Cuda(CudaMemory::of(&device, slice)), layout })
    }
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }
    /// In elements.
    pub fn strides(&self) -> &[usize] {
        &self.layout.strides
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn device(&self) -> Device {
        match &self.memory {
            Memory::Host(_) => Device::cpu(),
            Memory::Cuda(c) => Device { kind: DeviceKind::Cuda(c.device) },
        }
    }
    pub fn view(&self) -> View<'_, T> {
        let source = match &self.memory {
            Memory::Host(h) => Source::host(h.as_slice()),
            Memory::Cuda(c) => Source::Cuda { slice: &c.slice, uses: Some(&c.uses), address: c.address, device: c.device },
        };
        View { source, layout: self.layout.clone() }
    }
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        let source = match &mut self.memory {
            Memory::Host(h) => SourceMut::host(h.as_mut_slice()),
            Memory::Cuda(c) => SourceMut::Cuda { address: c.address, device: c.device, slice: &mut c.slice, uses: Some(&c.uses) },
        };
        ViewMut { source, layout: self.layout.clone() }
    }
    /// The positions `range` of dimension `dim`.
    pub fn slice(&self, dim: usize, range: Range<usize>) -> Result<View<'_, T>> {
        self.view().slice(dim, range)
    }
    /// Dimension `d` of the result is dimension `order[d]` of this tensor.
    pub fn permute(&self, order: &[usize]) -> Result<View<'_, T>> {
        self.view().permute(order)
    }
    /// The same elements under another shape; only of a contiguous tensor.
    pub fn reshape(self, shape: &[usize]) -> Result<Tensor<T>> {
        Ok(Tensor { memory: self.memory, layout: self.layout.reshape(shape)? })
    }
    /// A copy of the elements in row-major order.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }
    /// A contiguous copy on `device`.
    pub fn to_device(&self, device: &Device) -> Result<Tensor<T>> {
        self.view().to_device(device)
    }
    /// The elements of a host tensor, in row-major order; `None` on another device.
    pub fn as_slice(&self) -> Option<&[T]> {
        match &self.memory {
            Memory::Host(h) => Some(h.as_slice()),
            Memory::Cuda(_) => None,
        }
    }
    /// As [`Tensor::as_slice`], to write to.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        match &mut self.memory {
            Memory::Host(h) => Some(h.as_mut_slice()),
            Memory::Cuda(_) => None,
        }
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Tensor<{}>{:?} on {}", T::DTYPE, self.layout.shape, self.device())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_read_the_elements_they_name() {
        let t = Tensor::from_fn(&[2, 3], |i| (i[0] * 3 + i[1]) as f32).unwrap();
        assert_eq!(t.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(t.permute(&[1, 0]).unwrap().to_vec().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(t.slice(1, 1..3).unwrap().to_vec().unwrap(), [1.0, 2.0, 4.0, 5.0]);
        assert_eq!(t.slice(0, 1..2).unwrap().reshape(&[3, 1]).unwrap().to_vec().unwrap(), [3.0, 4.0, 5.0]);
        assert!(t.slice(1, 2..4).is_err() && t.slice(2, 0..1).is_err() && t.permute(&[0, 0]).is_err());
        assert!(t.permute(&[1, 0]).unwrap().reshape(&[6]).is_err());
    }

    #[test]
    fn a_view_writes_only_its_part() {
        let mut t = Tensor::zeros(&Device::cpu(), &[2, 3]).unwrap();
        t.view_mut().slice(1, 1..2).unwrap().copy_from(&Tensor::from_slice(&[7.0f32, 8.0], &[2, 1]).unwrap()).unwrap();
        assert_eq!(t.to_vec().unwrap(), [0.0, 7.0, 0.0, 0.0, 8.0, 0.0]);
    }

    #[test]
    fn host_memory_is_aligned_to_cache_lines() {
        for n in [0, 1, 1000] {
            let t = Tensor::<half::f16>::zeros(&Device::cpu(), &[n]).unwrap();
            assert_eq!(t.as_slice().unwrap().as_ptr() as usize % 64, 0)
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(matches!(Tensor::<f32>::zeros(&Device::cpu(), &[1 << 58]), Err(Error::OutOfMemory { .. } | Error::Shape(_))));
    }
}
