//! Timing instead of estimating: the entries and splits that the cost model ranks first are run on the call's own arguments, and the
//! fastest is what calls of like extents run from then on, in this process and, by a file ([`tuned`](crate::tuned)), in later ones.
use crate::argument::{Target, TargetPlace};
use crate::call::{Call, Checked};
use crate::cuda::CudaDevice;
use crate::device::DeviceKind;
use crate::error::{Doing, Error, Result};
use crate::log::log;
use crate::outputs::Outputs;
use crate::plan::Plan;
use crate::ready::Ready;
use cleave_core::choose::{Alternative, candidates, insist};
use cudarc::driver::{CudaSlice, CudaStream, sys};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many candidates are timed at most, and up to how many times the estimate of the best.
const CANDIDATES: usize = 10;
const WORTH: f64 = 4.0;
/// A candidate is run once unobserved, then until it has had this many runs or this much time. The median counts.
const RUNS: usize = 9;
const PATIENCE: Duration = Duration::from_millis(200);

impl<'call, O: Outputs> Call<'call, O> {
    /// Times the entries and splits that the cost model ranks first, with outputs of its own, and keeps the fastest for calls of like
    /// extents on this device. On CUDA each run starts with a cold L2 cache. With `CLEAVE_TUNE=1` every first call does so by itself.
    pub fn tune(&mut self) -> Result<Plan> {
        let checked = self.check()?;
        if let Some(argument) = self.written_in_place(&checked) {
            return Err(Error::Tune { kernel: checked.decoded.file.kernel.name.clone(), argument: argument.into() });
        }
        let stream = self.cuda_stream(checked.decoded)?;
        let mut outputs = self.allocate(&checked, stream.as_ref())?;
        let ready = self.tune_into(&checked, &mut outputs.targets(), stream.as_ref())?;
        Ok(ready.plan(&checked.decoded.file, &checked.device))
    }

    /// Writes to `targets` many times.
    pub(crate) fn tune_into(&mut self, checked: &Checked, targets: &mut [Target], stream: Option<&Arc<CudaStream>>) -> Result<Arc<Ready>> {
        let (question, key) = (self.question(checked, Some(targets)), self.key(checked.decoded, targets));
        let file = &checked.decoded.file;
        let model = checked.device.model();
        let mut offers = self.with_wanted(checked, &question, |wanted| wanted.ask(file, |request| candidates(file, request, model)))?;
        offers.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let limit = offers.first().map_or(0.0, |o| o.seconds * WORTH);
        offers.retain(|o| o.seconds <= limit);
        offers.truncate(CANDIDATES);
        let mut clock = Clock::new(checked, targets, stream)?;
        let mut best: Option<(f64, Arc<Ready>, Alternative)> = None;
        for offer in offers {
            let mut ready = self.with_wanted(checked, &question, |wanted| {
                let choice = wanted.ask(file, |request| insist(file, request, &offer))?;
                Ready::of(self.kernel, checked.decoded, wanted, choice)
            })?;
            let seconds = clock.median(|| self.run_ready(checked.decoded, &ready, targets, stream, false))?;
            log(|| {
                format!("{}: entry {}, split {}: {:.1} us, estimated {:.1} us", file.kernel.name, offer.entry, offer.pieces, seconds * 1e6, offer.seconds * 1e6)
            });
            if best.as_ref().is_none_or(|b| seconds < b.0) {
                ready.choice.seconds = seconds;
                best = Some((seconds, Arc::new(ready), Alternative { seconds, ..offer }))
            }
        }
        let (_, ready, offer) = best.ok_or_else(|| Error::Plan { kernel: file.kernel.name.clone() })?;
        checked.decoded.tuned(&checked.device, |tuned, subject| tuned.put(subject, question.class(), offer));
        checked.decoded.remember(question.nearby(), ready.choice.clone());
        key.into_iter().for_each(|key| checked.decoded.cache(key, ready.clone()));
        Ok(ready)
    }
}

/// Measures runs on the host, or on a stream by events.
enum Clock {
    Host,
    Cuda { stream: Arc<CudaStream>, cold: CudaSlice<u8> },
}

impl Clock {
    fn new(checked: &Checked, targets: &[Target], stream: Option<&Arc<CudaStream>>) -> Result<Clock> {
        debug_assert!(targets.iter().all(|t| matches!(t.place, TargetPlace::Host) != stream.is_some()));
        match (&checked.device.kind, stream) {
            (DeviceKind::Cuda(device), Some(stream)) => Ok(Clock::Cuda { cold: Self::flush_memory(device, stream)?, stream: stream.clone() }),
            _ => Ok(Clock::Host),
        }
    }
    /// Memory whose filling leaves nothing else in the L2 cache.
    fn flush_memory(device: &CudaDevice, stream: &Arc<CudaStream>) -> Result<CudaSlice<u8>> {
        let l2 = device.context().attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).unwrap_or(0).max(1 << 20) as usize;
        // SAFETY: it is only ever filled
        unsafe { stream.alloc(2 * l2) }.map_err(|e| device.allocation_error(e, 2 * l2))
    }
    fn median(&mut self, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
        run()?;
        let start = Instant::now();
        let mut times = vec![];
        while times.len() < RUNS && (times.is_empty() || start.elapsed() < PATIENCE) {
            times.push(self.time(&mut run)?)
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
    fn time(&mut self, run: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        match self {
            Clock::Host => {
                let start = Instant::now();
                run()?;
                Ok(start.elapsed().as_secs_f64())
            }
            Clock::Cuda { stream, cold } => {
                let timing = || "timing a launch".to_string();
                let event = || stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).doing(timing);
                stream.memset_zeros(cold).doing(timing)?;
                let start = event()?;
                run()?;
                let end = event()?;
                Ok(start.elapsed_ms(&end).doing(timing)? as f64 * 1e-3)
            }
        }
    }
}
