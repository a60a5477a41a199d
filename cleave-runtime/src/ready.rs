//! A choice made ready to run: what the plan cache holds.
use crate::cpu;
use crate::cuda::{Loaded, Scratch, Usable};
use crate::device::{Device, DeviceKind};
use crate::embedded::{Decoded, Embedded};
use crate::error::{Error, Result};
use crate::plan::Plan;
use cleave_core::choose::{Choice, Facts, Refusal, Request, choose};
use cleave_core::plan::{Entry, PlanFile, TensorRef};
use cudarc::driver::CudaStream;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub(crate) struct Ready {
    pub instance: usize,
    pub choice: Choice,
    pub extents: Vec<i64>,
    pub code: Code,
}

pub(crate) enum Code {
    Cpu(Arc<cpu::Decoded>),
    Cuda {
        loaded: Loaded,
        /// Scratch memory of calls that bring none, by stream; a stream is kept alive with its memory.
        scratch: Mutex<HashMap<usize, (Arc<CudaStream>, Scratch)>>,
    },
}

impl Ready {
    pub fn new(
        kernel: &'static Embedded,
        decoded: &Decoded,
        instance: usize,
        extents: &[i64],
        facts: &dyn Fn(TensorRef) -> Facts,
        pieces: Option<u32>,
        device: &Device,
    ) -> Result<Ready> {
        let file = &decoded.file;
        let choice = select(file, instance, extents, facts, pieces, device)?;
        let entry = &file.instances[instance].entries[choice.entry];
        let code = match &device.kind {
            DeviceKind::Cpu => Code::Cpu(decoded.program(instance, entry.program)?),
            DeviceKind::Cuda(cuda) => {
                Code::Cuda { loaded: Loaded::new(cuda, file, kernel.record(), instance, entry, &choice.pieces, extents)?, scratch: Mutex::default() }
            }
        };
        let ready = Ready { instance, choice, extents: extents.to_vec(), code };
        crate::log::log(|| ready.plan(file, device).to_string());
        Ok(ready)
    }
    pub fn entry<'a>(&self, file: &'a PlanFile) -> &'a Entry {
        &file.instances[self.instance].entries[self.choice.entry]
    }
    pub fn plan(&self, file: &PlanFile, device: &Device) -> Plan {
        Plan::new(file, &file.instances[self.instance].entries, &self.choice, &self.extents, device)
    }
}

/// The choice for a device of this process.
pub(crate) fn select(
    file: &PlanFile,
    instance: usize,
    extents: &[i64],
    facts: &dyn Fn(TensorRef) -> Facts,
    pieces: Option<u32>,
    device: &Device,
) -> Result<Choice> {
    let modules = &file.instances[instance].modules;
    let usable = |entry: &Entry| match &device.kind {
        DeviceKind::Cpu => true,
        DeviceKind::Cuda(c) => entry.launches.iter().all(|l| modules.get(l.module as usize).is_some_and(|m| c.usable(m) != Usable::No)),
    };
    let request = Request { instance, extents, facts, pieces, usable: &usable };
    choose(file, &request, device.model()).map_err(|refusal| match (refusal, &device.kind) {
        (Refusal::NoCode, DeviceKind::Cuda(c)) => c.no_code(&file.kernel.name, &file.instances[instance]),
        (Refusal::Damaged, _) => Error::Plan { kernel: file.kernel.name.clone() },
        (reason, _) => Error::NoEntry {
            kernel: file.kernel.name.clone(),
            extents: file.kernel.graph.axes.iter().zip(extents).map(|(a, n)| format!("{}={n}", a.name)).collect::<Vec<_>>().join(" "),
            reason: reason.to_string(),
        },
    })
}
