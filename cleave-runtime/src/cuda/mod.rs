//! The CUDA side: devices and their modules ([`context`], [`module`]), and launches of a chosen entry ([`launch`]). Everything
//! goes through libcuda, which is loaded when a device is first asked for; nothing here needs CUDA to build.
mod compiled;
mod context;
mod launch;
mod maps;
mod module;
mod uses;

pub(crate) use context::CudaDevice;
pub(crate) use launch::{Binding, Loaded, Scratch};
pub(crate) use module::Usable;
pub(crate) use uses::Uses;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use std::sync::Arc;

/// The address of a slice's first element.
pub(crate) fn address_of<T>(slice: &CudaSlice<T>) -> u64 {
    let (address, reading) = slice.device_ptr(slice.stream());
    std::mem::forget(reading); // nothing was read: no event to record
    address
}

/// A slice of any element type. Its uses on several streams cudarc orders by events, two for each use.
pub(crate) trait Tracked: Send + Sync {
    /// The stream that it was allocated on.
    fn home(&self) -> &Arc<CudaStream>;
    /// Makes `stream` wait for writes; the guard records the read when it is dropped.
    fn reading<'a>(&'a self, stream: &'a CudaStream) -> SyncOnDrop<'a>;
    /// Makes `stream` wait for reads and writes; the guard records the write when it is dropped.
    fn writing<'a>(&'a mut self, stream: &'a CudaStream) -> SyncOnDrop<'a>;
}

impl<T> Tracked for CudaSlice<T> {
    fn home(&self) -> &Arc<CudaStream> {
        self.stream()
    }
    fn reading<'a>(&'a self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        self.device_ptr(stream).1
    }
    fn writing<'a>(&'a mut self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        self.device_ptr_mut(stream).1
    }
}
