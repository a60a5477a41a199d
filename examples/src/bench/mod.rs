//! Workloads and how they are timed: the same formulas, extents and protocol as the scripts in `peers/`, under the same names.
pub mod kernels;
pub mod overhead;
pub mod report;
pub mod timing;
pub mod workloads;

use anyhow::Result;
use cleave::{Device, Plan, Stream};

type Make = Box<dyn Fn(&Device) -> Result<Job>>;
type Step = Box<dyn FnMut(Action) -> Result<Option<Plan>>>;

/// What a job is asked to do.
pub enum Action<'a> {
    /// Run once: on a stream of a CUDA device, or on the CPU.
    Run(Option<&'a Stream>),
    /// Time the candidates and keep the fastest.
    Tune,
}

/// A formula on given extents.
pub struct Workload {
    pub name: String,
    /// Operations of the formula as written, a multiplication and an addition being two.
    pub flop: f64,
    /// What must be read and written once.
    pub bytes: f64,
    pub timed: Timed,
    make: Make,
}

/// Which time is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// Of a call, on the device.
    Device,
    /// Of a call whose plan is known, on the host.
    Call,
    /// Of calls each of which needs a new plan, on the host.
    FirstCall,
}

impl Workload {
    /// Allocates the operands on `device`.
    pub fn job(&self, device: &Device) -> Result<Job> {
        (self.make)(device)
    }
}

/// A call that can be repeated.
pub struct Job {
    pub plan: Plan,
    step: Step,
}

impl Job {
    /// Runs once: on the stream of a CUDA device, or on the CPU.
    pub fn run(&mut self, stream: Option<&Stream>) -> Result<()> {
        (self.step)(Action::Run(stream)).map(|_| ())
    }
    /// Replaces the plan by the fastest of those that the cost model ranks first.
    pub fn tune(&mut self) -> Result<()> {
        if let Some(plan) = (self.step)(Action::Tune)? {
            self.plan = plan
        }
        Ok(())
    }
}
