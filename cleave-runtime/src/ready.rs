//! A choice made ready to run: what the plan cache holds.
use crate::cpu;
use crate::cuda::{CudaDevice, Loaded, Usable};
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
    Cpu(Arc<cpu::Decoded>, cpu::Prepared),
    Cuda(Loaded, CudaDevice),
}

impl Ready {
    /// `near`: a choice for extents near by, taken if its conditions hold here.
    pub fn new(kernel: &'static Embedded, decoded: &Decoded, wanted: &Wanted, near: Option<Choice>) -> Result<Ready> {
        let choice = wanted.ask(&decoded.file, |request| {
            let near = near.and_then(|n| adapt(&decoded.file, request, wanted.device.model(), &n));
            near.map_or_else(|| choose(&decoded.file, request, wanted.device.model()), Ok)
        })?;
        Self::of(kernel, decoded, wanted, choice)
    }
    /// A choice that is made.
    pub fn of(kernel: &'static Embedded, decoded: &Decoded, wanted: &Wanted, choice: Choice) -> Result<Ready> {
        let file = &decoded.file;
        let Wanted { instance, extents, device, .. } = *wanted;
        let entry = &file.instances[instance].entries[choice.entry];
        let code = match &device.kind {
            DeviceKind::Cpu => {
                let program = decoded.program(instance, entry.program)?;
                let prepared = program.prepare(&entry.tiles, choice.split() as usize, extents);
                Code::Cpu(program, prepared.map_err(|source| Error::Execute { kernel: file.kernel.name.clone(), source })?)
            }
            DeviceKind::Cuda(cuda) => Code::Cuda(Loaded::new(cuda, file, kernel.record(), instance, entry, &choice.pieces, extents)?, *cuda),
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

impl Wanted<'_> {
    /// Asks for what can run on a device of this process.
    pub fn ask<T>(&self, file: &PlanFile, question: impl FnOnce(&Request) -> Result<T, Refusal>) -> Result<T> {
        let Wanted { instance, extents, facts, pieces, device } = *self;
        let modules = &file.instances[instance].modules;
        let usable = |entry: &Entry| match &device.kind {
            DeviceKind::Cpu => true,
            DeviceKind::Cuda(c) => entry.launches.iter().all(|l| modules.get(l.module as usize).is_some_and(|m| c.usable(m) != Usable::No)),
        };
        question(&Request { instance, extents, facts, pieces, usable: &usable }).map_err(|refusal| match (refusal, &device.kind) {
            (Refusal::NoCode, DeviceKind::Cuda(c)) => c.no_code(&file.kernel.name, &file.instances[instance]),
            (Refusal::Damaged, _) => Error::Plan { kernel: file.kernel.name.clone() },
            (reason, _) => Error::NoEntry {
                kernel: file.kernel.name.clone(),
                extents: file.kernel.graph.axes.iter().zip(extents).map(|(a, n)| format!("{}={n}", a.name)).collect::<Vec<_>>().join(" "),
                reason: reason.to_string(),
            },
        })
    }
}
