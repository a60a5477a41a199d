//! Whether a call's data are as its algorithm assumes. In: arguments that fit, and what would run. Out: the first place found at which the
//! sides of an `assume!` differ, as an error. It looks at the inputs as they are before the call, through the oracle; on a CUDA
//! device they are copied to the host first, after all that was queued before.
use crate::argument::{Argument, ArgumentKind, TensorArgument};
use crate::call::{Call, Checked};
use crate::device::DeviceKind;
use crate::embedded::Decoded;
use crate::error::{Doing, Error, Result};
use crate::outputs::Outputs;
use crate::ready::Ready;
use cleave_core::assumption::Assumption;
use cleave_core::dtype::DType;
use cleave_core::oracle::Elements;
use cudarc::driver::result;
use half::{bf16, f16};
use std::sync::atomic::Ordering;

/// Calls of a kernel that look.
const CALLS: u64 = 4;

impl Decoded {
    /// Whether a call may still have to look.
    pub(crate) fn looks(&self) -> bool {
        !self.file.kernel.assumptions.is_empty() && self.looked.load(Ordering::Relaxed) < CALLS
    }
}

impl<O: Outputs> Call<'_, O> {
    /// Looks at what the algorithm at hand assumes, in the first calls that assume anything.
    pub(crate) fn look(&self, checked: &Checked, ready: &Ready) -> Result<()> {
        let file = &checked.decoded.file;
        let assumed: Vec<&Assumption> = file.assumed(ready.entry(file)).collect();
        let call = checked.decoded.looked.load(Ordering::Relaxed);
        if assumed.is_empty() || call >= CALLS {
            return Ok(());
        }
        let wanted = |i: usize| assumed.iter().any(|a| a.reads().contains(&i));
        let host = Host::new(&self.arguments, wanted, checked)?;
        for a in assumed {
            if let Some(found) = a.broken(&checked.extents, &host, a.tolerance(&self.types), call) {
                let indices = found.place.iter().map(|(axis, i)| format!("{axis} = {i}")).collect::<Vec<_>>().join(", ");
                return Err(Error::Assumption {
                    kernel: file.kernel.name.clone(),
                    assumption: a.to_string(),
                    place: if indices.is_empty() { "here".into() } else { format!("at {indices}") },
                    left: found.left,
                    right: found.right,
                });
            }
        }
        checked.decoded.looked.store(call + 1, Ordering::Relaxed);
        Ok(())
    }
}

/// The arguments in memory that the host reads.
struct Host<'a> {
    arguments: Vec<Values<'a>>,
    strides: Vec<Vec<i64>>,
}

enum Values<'a> {
    Scalar(f64),
    /// From the first element on.
    Borrowed(&'a TensorArgument<'a>),
    Copied(DType, Vec<u8>),
    /// Nothing reads it.
    None,
}

impl<'a> Host<'a> {
    fn new(arguments: &'a [Argument<'_>], wanted: impl Fn(usize) -> bool, checked: &Checked) -> Result<Host<'a>> {
        if let DeviceKind::Cuda(device) = &checked.device.kind {
            device.context().bind_to_thread().and_then(|()| device.context().synchronize()).doing(copying)?
        }
        let values = arguments.iter().enumerate().map(|(i, a)| match &a.kind {
            ArgumentKind::Scalar { dtype: DType::I32, word } => Ok(Values::Scalar(*word as u32 as i32 as f64)),
            ArgumentKind::Scalar { word, .. } => Ok(Values::Scalar(f32::from_bits(*word as u32) as f64)),
            ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) if wanted(i) => Values::of(t),
            _ => Ok(Values::None),
        });
        let strides = |a: &Argument| a.as_tensor().map_or(vec![], |t| t.layout.strides.iter().map(|s| *s as i64).collect());
        Ok(Host { arguments: values.collect::<Result<_>>()?, strides: arguments.iter().map(strides).collect() })
    }
}

fn copying() -> String {
    "copying what an assumption is about to the host".into()
}

impl<'a> Values<'a> {
    fn of(tensor: &'a TensorArgument<'a>) -> Result<Values<'a>> {
        if let DeviceKind::Cpu = tensor.device().kind {
            return Ok(Values::Borrowed(tensor));
        }
        let (first, end) = tensor.bytes();
        let mut bytes = vec![0u8; (end - first) as usize];
        if !bytes.is_empty() {
            // SAFETY: the argument borrows these bytes of the device, which nothing writes to before the call runs
            unsafe { result::memcpy_dtoh_sync(&mut bytes, first) }.doing(copying)?
        }
        Ok(Values::Copied(tensor.dtype, bytes))
    }
}

impl Elements for Host<'_> {
    fn strides(&self, input: usize) -> &[i64] {
        &self.strides[input]
    }
    fn element(&self, input: usize, offset: i64) -> f64 {
        match &self.arguments[input] {
            Values::Scalar(x) => *x,
            Values::None => f64::NAN,
            Values::Borrowed(t) => {
                let bytes = t.dtype.bytes();
                let address = (t.address as *const u8).wrapping_add(offset as usize * bytes);
                // SAFETY: the argument borrows the elements of its layout, and offsets of positions within the extents are theirs
                value(t.dtype, unsafe { std::slice::from_raw_parts(address, bytes) })
            }
            Values::Copied(dtype, all) => all.get(offset as usize * dtype.bytes()..).map_or(f64::NAN, |b| value(*dtype, b)),
        }
    }
}

/// The element at the beginning of some bytes.
fn value(dtype: DType, bytes: &[u8]) -> f64 {
    match (dtype, bytes) {
        (DType::F32, [a, b, c, d, ..]) => f32::from_ne_bytes([*a, *b, *c, *d]) as f64,
        (DType::I32, [a, b, c, d, ..]) => i32::from_ne_bytes([*a, *b, *c, *d]) as f64,
        (DType::F16, [a, b, ..]) => f16::from_ne_bytes([*a, *b]).to_f64(),
        (DType::BF16, [a, b, ..]) => bf16::from_ne_bytes([*a, *b]).to_f64(),
        _ => f64::NAN,
    }
}
