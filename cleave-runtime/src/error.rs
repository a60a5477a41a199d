//! Everything that can go wrong at run time. A message names the kernel, the tensor or axis, and what to do about it.
use cleave_core::extent::ExtentError;
use cudarc::driver::DriverError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The shapes of the arguments contradict each other or the kernel's signature.
    #[error("`{kernel}`: {source}")]
    Extents { kernel: String, source: Box<ExtentError> },
    /// An `assert!` in the kernel's body does not hold.
    #[error("`{kernel}` asserts `{condition}`{message}, but {values}")]
    Assertion { kernel: String, condition: String, message: String, values: String },
    /// What the kernel assumes of its inputs does not hold of those of this call. Only debug builds look.
    #[error(
        "`{kernel}` assumes `{assumption}`, but {place} the left side is {left} and the right side {right}; without its `assume!` the kernel is right for any data"
    )]
    Assumption { kernel: String, assumption: String, place: String, left: f64, right: f64 },
    /// A generic parameter has a type that the kernel was not built for.
    #[error("`{kernel}` is not built for {parameter} = {found}, only for {built}; add {found} to `dtypes({parameter} = ..)`")]
    Types { kernel: String, parameter: String, found: String, built: String },
    /// A tensor has another element type than the kernel declares.
    #[error("`{kernel}`: `{tensor}` holds {found}, the kernel declares {declared}")]
    Element { kernel: String, tensor: String, declared: String, found: String },
    /// A tensor was given for a scalar, or the other way round, or their number is wrong.
    #[error("`{kernel}`: {message}")]
    Arguments { kernel: String, message: String },
    #[error("`{kernel}`: `{first}` is on {first_device} and `{second}` on {second_device}; move one of them with `to_device`")]
    Devices { kernel: String, first: String, first_device: Box<str>, second: String, second_device: Box<str> },
    #[error("`{kernel}`: the stream belongs to {stream}, the tensors are on {tensors}")]
    Stream { kernel: String, stream: String, tensors: String },
    #[error("`{kernel}`: output `{output}` has shape {expected:?}, the target {found:?}")]
    Target { kernel: String, output: String, expected: Vec<i64>, found: Vec<usize> },
    #[error("`{kernel}`: output `{output}` overlaps `{other}`; give it memory of its own")]
    Aliased { kernel: String, output: String, other: String },
    #[error("`{kernel}`: elements of output `{output}` share addresses (strides {strides:?}); give it memory of its own")]
    Overlap { kernel: String, output: String, strides: Vec<usize> },
    /// A shape, stride or range that does not fit its tensor.
    #[error("{0}")]
    Shape(String),
    #[error("libcuda was not found; install the NVIDIA driver, or use `Device::cpu()`")]
    NoCuda,
    #[error("there is no CUDA device {ordinal}, this machine has {count}")]
    NoDevice { ordinal: usize, count: usize },
    #[error(
        "`{kernel}` has no code for {device} (compute capability {capability}), only for {built}; set CLEAVE_ARCHS={wanted} when building, or install NVRTC"
    )]
    NoCode { kernel: String, device: String, capability: String, built: String, wanted: String },
    #[error("no compiled entry of `{kernel}` accepts {extents}: {reason}")]
    NoEntry { kernel: String, extents: String, reason: String },
    #[error("out of memory on {device}: {bytes} bytes were asked for")]
    OutOfMemory { device: String, bytes: usize },
    /// A call during stream capture would have to allocate or load.
    #[error("`{kernel}` is not loaded for these shapes yet, and the stream is capturing; call `.prepare()` before the capture begins")]
    Capture { kernel: String },
    /// A call during stream capture that asks for new outputs.
    #[error("`{kernel}`: outputs cannot be allocated while the stream is capturing; use `run_into` with tensors that are there")]
    CaptureOutput { kernel: String },
    #[error("`{kernel}` writes `{argument}` in place, so it cannot be run many times on the same arguments; tuning it is not possible")]
    Tune { kernel: String, argument: String },
    #[error("NVRTC could not compile `{kernel}`: {log}")]
    Compile { kernel: String, log: String },
    #[error("{doing}: {source}")]
    Driver { doing: String, source: DriverError },
    #[error("the plan file of `{kernel}` is damaged or of another version of cleave; rebuild the crate")]
    Plan { kernel: String },
    #[error("`{kernel}`: {source}")]
    Execute { kernel: String, source: crate::cpu::ExecuteError },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was being done when the driver failed; running out of memory is an error of its own.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Driver { doing: what(), source })
    }
}
