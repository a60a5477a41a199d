//! Owned memory of a tensor: aligned bytes of the host, or a slice of a CUDA device with its address.
use crate::cuda::{CudaDevice, Uses, address_of};
use crate::element::Element;
use crate::error::{Doing, Error, Result};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Elements of the host, aligned to a cache line so that vector loads never straddle two.
pub(crate) struct HostMemory<T> {
    pointer: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its elements, which are `Send` and `Sync`
unsafe impl<T: Element> Send for HostMemory<T> {}
unsafe impl<T: Element> Sync for HostMemory<T> {}

/// Bytes to which host memory is aligned.
pub(crate) const HOST_ALIGNMENT: usize = 64;
/// Bytes to which the driver aligns what it allocates.
pub(crate) const CUDA_ALIGNMENT: u64 = 256;

impl<T: Element> HostMemory<T> {
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_mul(size_of::<T>())?.max(1), HOST_ALIGNMENT).ok()
    }
    /// Zeros; the system maps them at first touch.
    pub fn zeros(len: usize) -> Result<Self> {
        let full = || Error::OutOfMemory { device: "cpu".into(), bytes: len.saturating_mul(size_of::<T>()) };
        let layout = Self::layout(len).ok_or_else(full)?;
        // SAFETY: the size is not 0, and all bits 0 is a value of every `Element`
        let pointer = unsafe { alloc_zeroed(layout) };
        Ok(HostMemory { pointer: NonNull::new(pointer.cast()).ok_or_else(full)?, len })
    }
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `zeros` allocated and initialised `len` elements
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl<T> Drop for HostMemory<T> {
    fn drop(&mut self) {
        if let Ok(layout) = Layout::from_size_align((self.len * size_of::<T>()).max(1), HOST_ALIGNMENT) {
            // SAFETY: the layout is the one that `zeros` allocated with
            unsafe { dealloc(self.pointer.as_ptr().cast(), layout) }
        }
    }
}

/// Elements of a CUDA device, with their address and the streams that use them.
pub(crate) struct CudaMemory<T> {
    pub slice: ManuallyDrop<CudaSlice<T>>,
    pub address: u64,
    pub device: CudaDevice,
    pub uses: Uses,
}

impl<T> CudaMemory<T> {
    /// Takes over a slice.
    pub fn of(device: &CudaDevice, mut slice: CudaSlice<T>) -> Self {
        let home = slice.stream().clone();
        // from here on its uses are told by `uses`: those before, which cudarc's events tell, are waited for now
        let _ = slice.device_ptr_mut(&home);
        CudaMemory { address: address_of(&slice), slice: ManuallyDrop::new(slice), device: *device, uses: Uses::new(&home) }
    }
}

impl<T> Drop for CudaMemory<T> {
    fn drop(&mut self) {
        // memory that some stream may still use, and that cannot be waited for, is kept rather than given to the next tensor
        match self.uses.write(self.slice.stream()) {
            // SAFETY: it is not used again
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.slice) },
            Err(e) => self.slice.context().record_err::<()>(Err(e)),
        }
    }
}

impl<T: Element> CudaMemory<T> {
    /// Memory that holds anything.
    pub fn uninit(device: &CudaDevice, stream: &Arc<CudaStream>, len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: whoever asks for it writes it before it is read
        let slice = unsafe { stream.alloc::<T>(len.max(1)) }.map_err(|e| device.allocation_error(e, bytes))?;
        Ok(Self::of(device, slice))
    }
    pub fn zeros(device: &CudaDevice, stream: &Arc<CudaStream>, len: usize) -> Result<Self> {
        let mut memory = Self::uninit(device, stream, len)?;
        stream.memset_zeros(&mut *memory.slice).doing(|| "setting memory to zero".into())?;
        Ok(memory)
    }
    pub fn from_slice(device: &CudaDevice, data: &[T]) -> Result<Self> {
        let mut memory = Self::uninit(device, device.stream(), data.len())?;
        if !data.is_empty() {
            device.stream().memcpy_htod(data, &mut *memory.slice).doing(|| "copying to the device".into())?
        }
        Ok(memory)
    }
}

pub(crate) enum Memory<T> {
    Host(HostMemory<T>),
    Cuda(CudaMemory<T>),
}
