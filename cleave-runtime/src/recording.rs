//! Calls that are recorded once and repeated by one launch (a CUDA graph).
use crate::error::{Doing, Error, Result};
use crate::stream::Stream;
use cudarc::driver::{CudaGraph, sys};

/// The launches of some calls, to be repeated as one. Addresses, extents and scalars are those of the recorded calls; what changes from replay to replay
/// is what lies in the tensors, a length among it.
pub struct Recording {
    graph: CudaGraph,
}

impl Recording {
    /// Records the calls that `work` makes on `stream`; none of them runs. Each must be ready for these very arguments, by [`prepare`](crate::Call::prepare) or by having run
    /// on this stream, and write to memory that is there (`run_into`).
    pub fn new<E: From<Error>>(stream: &Stream, work: impl FnOnce() -> Result<(), E>) -> Result<Recording, E> {
        let raw = &stream.stream;
        raw.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).doing(|| "beginning to record".into())?;
        // whatever happens in between, the stream must not go on capturing
        let worked = work();
        let graph = raw.end_capture(sys::CUgraphInstantiate_flags(0));
        worked?;
        let graph = graph.doing(|| "ending a recording".into())?.ok_or_else(|| Error::Shape("nothing was recorded".into()))?;
        graph.upload().doing(|| "loading a recording".into())?;
        Ok(Recording { graph })
    }
    /// Runs what was recorded, on its stream.
    ///
    /// # Safety
    /// The tensors of the recorded calls are still where they were, and nothing that they write is borrowed elsewhere. Uses of them on other streams, as copies on the device's
    /// own one, are ordered by the caller with [`Stream::after`].
    pub unsafe fn replay(&self) -> Result<()> {
        self.graph.launch().doing(|| "replaying a recording".into())
    }
}
