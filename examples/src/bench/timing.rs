//! Times a job as the peers' scripts do. On the CPU: the median of calls for a second and a half. On CUDA: before each call the L2 cache is overwritten, then the
//! device idles while the host runs ahead, so that no launch overhead is timed and a device near its limit of power rests as it does between the peers' calls; then
//! one call between two events; the median of up to two hundred.
//! The host's time of a call is that of a burst that no queue holds up; the median of many bursts.
use super::{Job, Timed};
use anyhow::Result;
use cleave::{Device, Stream};
use cudarc::driver::{CudaEvent, CudaFunction, CudaStream, LaunchConfig, PushKernelArg, sys::CUevent_flags};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Milliseconds of one call.
pub fn milliseconds(job: &mut Job, device: &Device, cuda: bool, timed: Timed) -> Result<f64> {
    match timed {
        Timed::Device if cuda => on_cuda(job, device),
        Timed::Device => on_cpu(job),
        Timed::Call => on_host(job, device, cuda, 50),
        Timed::FirstCall => on_host(job, device, cuda, 1),
    }
}

fn on_host(job: &mut Job, device: &Device, cuda: bool, burst: usize) -> Result<f64> {
    const BURSTS: usize = 400;
    let stream = if cuda { Some(Stream::new(device)?) } else { None };
    let mut times = vec![];
    for _ in 0..BURSTS {
        stream.iter().try_for_each(|s| s.synchronize())?;
        let start = Instant::now();
        for _ in 0..burst {
            job.run(stream.as_ref())?
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / burst as f64)
    }
    stream.iter().try_for_each(|s| s.synchronize())?;
    // what comes first loads code
    Ok(median(times.split_off(BURSTS / 10)))
}

fn on_cpu(job: &mut Job) -> Result<f64> {
    const BUDGET: Duration = Duration::from_millis(1500);
    job.run(None)?;
    let (mut times, begin) = (vec![], Instant::now());
    while begin.elapsed() < BUDGET || times.len() < 5 {
        let start = Instant::now();
        job.run(None)?;
        times.push(start.elapsed().as_secs_f64() * 1e3)
    }
    Ok(median(times))
}

/// One thread that does nothing for so many clock cycles.
struct Idle(CudaFunction);

impl Idle {
    const PTX: &str = r#"
.version 7.0
.target sm_80
.address_size 64
.visible .entry idle(.param .u64 cycles) {
    .reg .u64 %rd<4>;
    .reg .pred %p1;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
wait:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd3, %rd3, %rd2;
    setp.lt.u64 %p1, %rd3, %rd1;
    @%p1 bra wait;
    ret;
}
"#;

    fn new(stream: &CudaStream) -> Result<Idle> {
        Ok(Idle(stream.context().load_module(Ptx::from_src(Self::PTX))?.load_function("idle")?))
    }
    fn run(&self, stream: &Arc<CudaStream>, cycles: u64) -> Result<()> {
        // SAFETY: the kernel takes one number and touches no memory
        unsafe { stream.launch_builder(&self.0).arg(&cycles).launch(LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 }) }?;
        Ok(())
    }
}

fn on_cuda(job: &mut Job, device: &Device) -> Result<f64> {
    const FLUSHED: usize = 256 << 20;
    const CYCLES: u64 = 1_000_000; // about half a millisecond
    const BUDGET: f64 = 300.0;
    let stream = Stream::new(device)?;
    let raw = stream.as_cuda();
    let mut cache = raw.alloc_zeros::<u8>(FLUSHED)?;
    let idle = Idle::new(raw)?;
    for _ in 0..5 {
        job.run(Some(&stream))?
    }
    stream.synchronize()?;
    let start = Instant::now();
    job.run(Some(&stream))?;
    stream.synchronize()?;
    let once = (start.elapsed().as_secs_f64() * 1e3).max(0.02);
    let event = || raw.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
    let mut events: Vec<(CudaEvent, CudaEvent)> = vec![];
    for _ in 0..((BUDGET / once) as usize).clamp(10, 200) {
        raw.memset_zeros(&mut cache)?;
        idle.run(raw, CYCLES)?;
        let begin = event()?;
        job.run(Some(&stream))?;
        events.push((begin, event()?))
    }
    stream.synchronize()?;
    let times = events.iter().map(|(begin, end)| Ok(begin.elapsed_ms(end)? as f64));
    Ok(median(times.collect::<Result<_>>()?))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
