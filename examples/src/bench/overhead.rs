//! What a call costs the host: of calls whose plan is known, on operands so small that the device or the executor has next to nothing to do, and of first calls of
//! new extents, which choose a plan.
use super::{Action, Job, Timed, Workload};
use crate::data::Normal;
use crate::kernels::{attention, attention_full, norm_qkv, softmax_rows};
use anyhow::Result;
use cleave::{Device, Element, Tensor};
use half::bf16;

pub fn workloads(cuda: bool) -> Vec<Workload> {
    if cuda { of_type::<bf16>() } else { of_type::<f32>() }
}

fn of_type<T: Element>() -> Vec<Workload> {
    let workload =
        |name: &str, timed, make: fn(&Device) -> Result<Job>| Workload { name: format!("overhead {name}"), flop: 0.0, bytes: 0.0, timed, make: Box::new(make) };
    vec![
        workload("call softmax", Timed::Call, softmax::<T>),
        workload("call attention", Timed::Call, decode::<T>),
        workload("call attention with tensor maps", Timed::Call, full::<T>),
        workload("call norm_qkv", Timed::Call, projections::<T>),
        workload("first call softmax", Timed::FirstCall, first_softmax::<T>),
        workload("first call attention", Timed::FirstCall, first_attention::<T>),
    ]
}

/// A call and where its results go, built and run at every repetition.
macro_rules! job {
    ($call:expr => $targets:expr) => {{
        let plan = $call.plan()?;
        let step = move |action: Action| -> Result<Option<cleave::Plan>> {
            let stream = if let Action::Run(stream) = action { stream } else { None };
            $call.on(stream).run_into($targets)?;
            Ok(None)
        };
        Ok(Job { plan, step: Box::new(step) })
    }};
}

fn softmax<T: Element>(device: &Device) -> Result<Job> {
    let x = Normal::new(1).tensor::<T>(device, &[2, 16], 1.0)?;
    let mut y = Tensor::<T>::zeros(device, &[2, 16])?;
    job!(softmax_rows(&x) => &mut y)
}

fn decode<T: Element>(device: &Device) -> Result<Job> {
    let mut data = Normal::new(1);
    let mut tensor = |shape: &[usize]| data.tensor::<T>(device, shape, 1.0);
    let (q, k, v) = (tensor(&[1, 2, 1, 64])?, tensor(&[1, 1, 64, 64])?, tensor(&[1, 1, 64, 64])?);
    let len = Tensor::from_slice_on(device, &[1], &[1])?;
    let (mut y, mut log_sum_exp) = (Tensor::<T>::zeros(device, &[1, 2, 1, 64])?, Tensor::<f32>::zeros(device, &[1, 2, 1])?);
    job!(attention(&q, &k, &v, &len, 0.125) => (&mut y, &mut log_sum_exp))
}

fn full<T: Element>(device: &Device) -> Result<Job> {
    let mut data = Normal::new(1);
    // enough that code which reads by tensor maps is chosen
    let shape = if *device == Device::cpu() { [1, 1, 16, 128] } else { [1, 64, 1024, 128] };
    let mut tensor = || data.tensor::<T>(device, &shape, 1.0);
    let (q, k, v) = (tensor()?, tensor()?, tensor()?);
    let mut y = Tensor::<T>::zeros(device, &shape)?;
    job!(attention_full(&q, &k, &v, 0.09) => &mut y)
}

fn projections<T: Element>(device: &Device) -> Result<Job> {
    let mut data = Normal::new(1);
    let mut tensor = |shape: &[usize]| data.tensor::<T>(device, shape, 1.0);
    let (x, gain, w) = (tensor(&[1, 64])?, tensor(&[64])?, tensor(&[64, 64])?);
    let turns = Tensor::<f32>::zeros(device, &[1, 32])?;
    let zeros = || Tensor::<T>::zeros(device, &[1, 64]);
    let (mut q, mut k, mut v) = (zeros()?, zeros()?, zeros()?);
    job!(norm_qkv(&x, &gain, &w, &w, &w, &turns, &turns, 1e-5) => (&mut q, &mut k, &mut v))
}

/// Pairs of extents for which no choice near by serves, as far as there are buckets.
fn extents() -> impl Iterator<Item = (usize, usize)> {
    (0..).map(|i| (1 + i % 16, 100 + (i / 16 * 499 + i * 997) % 16000))
}

fn first_softmax<T: Element>(device: &Device) -> Result<Job> {
    let x = Tensor::<T>::zeros(device, &[16, 16384])?;
    let (plan, mut extents) = (softmax_rows(&x).plan()?, extents());
    let step = move |_: Action| -> Result<Option<cleave::Plan>> {
        let (rows, n) = extents.next().unwrap_or_default();
        softmax_rows(x.slice(0, 0..rows)?.slice(1, 0..n)?).prepare()?;
        Ok(None)
    };
    Ok(Job { plan, step: Box::new(step) })
}

fn first_attention<T: Element>(device: &Device) -> Result<Job> {
    let (q, keys) = (Tensor::<T>::zeros(device, &[1, 16, 1, 128])?, Tensor::<T>::zeros(device, &[1, 16, 16384, 128])?);
    let len = Tensor::from_slice_on(device, &[1], &[1])?;
    let (plan, mut extents) = (attention(&q, &keys, &keys, &len, 0.09).plan()?, extents());
    let step = move |_: Action| -> Result<Option<cleave::Plan>> {
        let (heads, n) = extents.next().unwrap_or_default();
        let keys = keys.slice(1, 0..heads)?.slice(2, 0..n)?;
        attention(q.slice(1, 0..heads)?, &keys, &keys, &len, 0.09).prepare()?;
        Ok(None)
    };
    Ok(Job { plan, step: Box::new(step) })
}
