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
            DeviceKind::Cpu => Err(Error::Shape("the cpu has no streams; leave `.on(..)` out".into())),
            DeviceKind::Cuda(c) => Ok(Stream { stream: c.context().new_stream().doing(|| "making a stream".into())? }),
        }
    }
    /// A stream that the application made.
    pub fn from_cuda(stream: Arc<CudaStream>) -> Stream {
        Stream { stream }
    }
    pub fn as_cuda(&self) -> &Arc<CudaStream> {
        &self.stream
    }
    /// Waits until everything launched on it is done.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().doing(|| "waiting for a stream".into())
    }
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
