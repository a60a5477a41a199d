//! Streams and scratch memory of the caller.
use crate::cuda::Scratch;
use crate::device::{Device, DeviceKind};
use crate::error::{Doing, Error, Result};
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// An order of work on a CUDA device.
#[derive(Clone)]
pub struct Stream {
    pub(crate) stream: Arc<CudaStream>,
}

impl Stream {
    /// A new stream of a CUDA device.
    pub fn new(device: &Device) -> Result<Stream> {
        match &device.kind {
            DeviceKind::Cpu => Err(no_streams()),
            DeviceKind::Cuda(c) => Ok(Stream { stream: c.context().new_stream().doing(|| "making a stream".into())? }),
        }
    }
    /// The device's own stream, on which tensors are made, filled and read, and which calls take that name no other. It cannot be recorded.
    pub fn own(device: &Device) -> Result<Stream> {
        match &device.kind {
            DeviceKind::Cpu => Err(no_streams()),
            DeviceKind::Cuda(c) => Ok(Stream { stream: c.stream().clone() }),
        }
    }
    /// A stream that the application made. It must exist as long as tensors that were used on it.
    pub fn from_cuda(stream: Arc<CudaStream>) -> Stream {
        Stream { stream }
    }
    pub fn as_cuda(&self) -> &Arc<CudaStream> {
        &self.stream
    }
    /// What is put on this stream next waits for what `other` has been given. Calls see to it themselves; replays do not.
    pub fn after(&self, other: &Stream) -> Result<()> {
        self.stream.join(&other.stream).doing(|| "ordering two streams".into())
    }
    /// Waits until everything launched on it is done.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().doing(|| "waiting for a stream".into())
    }
}

fn no_streams() -> Error {
    Error::Shape("the cpu has no streams; leave `.on(..)` out".into())
}

/// Scratch memory that a caller lends to calls: partial states of a split and tensors between launches. It grows when a call
/// needs more, except while a stream captures. Calls that share it must be ordered, as by one stream.
#[derive(Default)]
pub struct Workspace {
    pub(crate) scratch: Scratch,
}

impl Workspace {
    pub fn new() -> Workspace {
        Workspace::default()
    }
    /// Bytes held on the device.
    pub fn bytes(&self) -> usize {
        self.scratch.bytes()
    }
}
