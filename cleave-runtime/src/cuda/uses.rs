//! Which streams have used a piece of memory since it was last written. What one stream does is in order anyway and costs nothing here; the first use
//! on another one makes it wait for what the others have been given by then.
use cudarc::driver::{CudaStream, DriverError, sys};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Uses(Mutex<State>);

struct State {
    writer: Arc<CudaStream>,
    /// Streams that have waited for the writer since, and may read.
    readers: Vec<Arc<CudaStream>>,
}

fn same(a: &CudaStream, b: &CudaStream) -> bool {
    a.cu_stream() == b.cu_stream()
}

/// Makes `stream` wait for `other`, which must not be in the middle of a capture: what comes before a capture cannot be told from what is in it then.
fn join(stream: &CudaStream, other: &CudaStream) -> Result<(), DriverError> {
    match other.capture_status()? {
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => stream.join(other),
        _ => Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION)),
    }
}

impl Uses {
    /// Of memory that is allocated, and filled, on this stream.
    pub fn new(home: &Arc<CudaStream>) -> Uses {
        Uses(Mutex::new(State { writer: home.clone(), readers: vec![] }))
    }
    /// What is put on `stream` next may read the memory.
    pub fn read(&self, stream: &Arc<CudaStream>) -> Result<(), DriverError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if same(&state.writer, stream) || state.readers.iter().any(|r| same(r, stream)) {
            return Ok(());
        }
        join(stream, &state.writer)?;
        state.readers.push(stream.clone());
        Ok(())
    }
    /// What is put on `stream` next may write the memory, and free it.
    pub fn write(&self, stream: &Arc<CudaStream>) -> Result<(), DriverError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { writer, readers } = &mut *state;
        for other in readers.iter().chain([&*writer]).filter(|o| !same(o, stream)) {
            join(stream, other)?
        }
        readers.clear();
        if !same(writer, stream) {
            *writer = stream.clone()
        }
        Ok(())
    }
}
