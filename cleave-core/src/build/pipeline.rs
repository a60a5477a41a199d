//! One kernel through all stages but nvcc. In: a checked kernel. Out: its plan file with sources and without images, and the time of
//! each stage.
use super::screen;
use crate::algebra::check::Unequal;
use crate::algebra::schema::Row;
use crate::algebra::{CAP, rules, search_with};
use crate::algebra::{Search, Unused};
use crate::device::Target;
use crate::kernel::Kernel;
use crate::plan::{Instance, Module, PlanFile, VERSION};
use crate::{algebra, emit, frontend, schedule};
use std::time::{Duration, Instant};

/// The stages whose times are told.
pub const STAGES: [&str; 5] = ["search", "schedule", "screen", "emit", "nvcc"];

/// The time of each of [`STAGES`].
pub type Times = [Duration; STAGES.len()];

fn timed<T>(time: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *time += start.elapsed();
    result
}

/// A kernel's plan, and what there is to say of its making.
pub struct Planned {
    pub file: PlanFile,
    pub times: Times,
    /// Algorithms that a wrong rule led to; they are not in the file.
    pub rejected: Vec<Unequal>,
    pub unused: Vec<Unused>,
    /// The search gave up, and the source is the only algorithm.
    pub unfinished: bool,
}

/// The plan file of a kernel, and the time of each stage. `own`: the package's rules, beside those of the table; a search
/// that they keep from ending is done without them.
pub fn plan(kernel: &Kernel, own: &[Row]) -> Planned {
    let mut times = Times::default();
    let Search { algorithms: found, rejected, unused, statistics, .. } = timed(&mut times[0], || {
        let found = search_with(kernel, &[rules::TABLE, own].concat(), CAP);
        if own.is_empty() || found.statistics.saturated && found.rejected.is_empty() { found } else { algebra::search(kernel) }
    });
    let unfinished = !statistics.saturated && found.len() == 1;
    let scheduled: Vec<_> = timed(&mut times[1], || found.iter().map(|a| schedule::programs(0, &a.graph, &kernel.bounds)).collect());
    let kept = timed(&mut times[2], || screen::admissible(kernel, &found, &scheduled));
    let (mut algorithms, mut programs) = (vec![], vec![]);
    for ((algorithm, scheduled), _) in found.into_iter().zip(scheduled).zip(&kept).filter(|(_, kept)| **kept) {
        let index = algorithms.len() as u32;
        algorithms.push(algorithm);
        programs.extend(scheduled.into_iter().map(|mut p| {
            p.algorithm = index;
            p
        }))
    }
    let instances = timed(&mut times[3], || {
        let instance = |types: Vec<crate::dtype::DType>| {
            let (mut entries, mut modules) = (emit::cpu::entries(&programs), vec![]);
            for target in [Target::Portable, Target::Hopper] {
                let (new, sources) = emit::instance(kernel, &types, &programs, target);
                let first = modules.len() as u32;
                entries.extend(new.into_iter().map(|mut entry| {
                    entry.launches.iter_mut().for_each(|l| l.module += first);
                    entry
                }));
                modules.extend(sources.into_iter().map(|(target, source)| Module { target, source, images: vec![] }))
            }
            Instance { types, entries, modules }
        };
        kernel.instances().into_iter().map(instance).collect()
    });
    let file = PlanFile { version: VERSION, key: frontend::key(kernel), kernel: kernel.clone(), algorithms, programs, instances };
    Planned { file, times, rejected, unused, unfinished }
}
