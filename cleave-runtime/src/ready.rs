//! A choice made ready to run: what the plan cache holds.
use crate::cpu;
use crate::cuda::{Loaded, Usable};
use crate::device::{Device, DeviceKind};
use crate::embedded::{Decoded, Embedded};
use crate::error::{Error, Result};
use crate::plan::Plan;
use cleave_core::choose::{Choice, Facts, Refusal, Request, adapt, choose};
use cleave_core::plan::{Entry, PlanFile, TensorRef};
use std::sync::Arc;

pub(crate) struct Ready {
    pub instance: usize,
    pub choice: Choice,
    pub extents: Vec<i64>,
    pub code: Code,
}

pub(crate) enum Code {
    Cpu(Arc<cpu::Decoded>),
    Cuda(Loaded),
}

impl Ready {
    /// `near`: a choice for extents near by, taken if its conditions hold here.
    pub fn new(kernel: &'static Embedded, decoded: &Decoded, wanted: &Wanted, near: Option<Choice>) -> Result<Ready> {
        let file = &decoded.file;
        let Wanted { instance, extents, device, .. } = *wanted;
        let choice = select(file, wanted, near)?;
        let entry = &file.instances[instance].entries[choice.entry];
        let code = match &device.kind {
            DeviceKind::Cpu => Code::Cpu(decoded.program(instance, entry.program)?),
            DeviceKind::Cuda(cuda) => Code::Cuda(Loaded::new(cuda, file, kernel.record(), instance, entry, &choice.pieces, extents)?),
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

/// What a plan is chosen for.
pub(crate) struct Wanted<'a> {
    pub instance: usize,
    pub extents: &'a [i64],
    pub facts: &'a dyn Fn(TensorRef) -> Facts,
    pub pieces: Option<u32>,
    pub device: &'a Device,
}

/// The choice for a device of this process.
fn select(file: &PlanFile, wanted: &Wanted, near: Option<Choice>) -> Result<Choice> {
    let Wanted { instance, extents, facts, pieces, device } = *wanted;
    let modules = &file.instances[instance].modules;
    let usable = |entry: &Entry| match &device.kind {
        DeviceKind::Cpu => true,
        DeviceKind::Cuda(c) => entry.launches.iter().all(|l| modules.get(l.module as usize).is_some_and(|m| c.usable(m) != Usable::No)),
    };
    let request = Request { instance, extents, facts, pieces, usable: &usable };
    if let Some(choice) = near.and_then(|n| adapt(file, &request, device.model(), &n)) {
        return Ok(choice);
    }
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
