//! Entries that nothing would choose are not compiled. In: a plan file with the sources of all entries. Out: the same without the CUDA
//! entries that the cost model prefers for no sampled extents on no typical device, and without their modules. Entries that
//! accept what no other accepts stay. A compiled entry costs seconds of every build; the executor's cost nothing, and all stay.
use crate::algebra::check::Random;
use crate::choose::{Facts, Request, choose};
use crate::device::{DeviceModel, Target};
use crate::plan::{Entry, Instance, PlanFile};

/// Extents that axes take in the samples: few, tile-sized, many.
const EXTENTS: [i64; 6] = [1, 8, 64, 128, 1024, 8192];
/// Samples for each device.
const SAMPLES: usize = 12;

/// An A100 and an H100, in round numbers.
fn devices(target: Target) -> [DeviceModel; 2] {
    [(108, 163 << 10, 300e12, 1.5e12), (132, 227 << 10, 900e12, 3e12)].map(|(units, chip_bytes, half_flops, bandwidth)| DeviceModel {
        name: String::new(),
        target,
        units,
        chip_bytes,
        half_flops,
        single_flops: half_flops / 16.0,
        bandwidth,
        launch_seconds: 3e-6,
        merge_seconds: 2e-6,
    })
}

pub fn prune(file: &mut PlanFile) {
    for instance in 0..file.instances.len() {
        for target in [Target::Portable, Target::Hopper] {
            let of_target = |e: &Entry| e.target == target;
            if file.instances[instance].entries.iter().filter(|e| of_target(e)).count() > 1 {
                let wanted = wanted(file, instance, target);
                let mut index = 0;
                file.instances[instance].entries.retain(|e| {
                    index += 1;
                    !of_target(e) || wanted[index - 1]
                })
            }
        }
        drop_modules(&mut file.instances[instance])
    }
}

/// Which entries of a target are chosen somewhere, or are the only ones to accept some extents.
fn wanted(file: &PlanFile, instance: usize, target: Target) -> Vec<bool> {
    let entries = &file.instances[instance].entries;
    let mut wanted = vec![false; entries.len()];
    let mut random = Random(1);
    let axes = file.kernel.graph.axes.len();
    let bound = |axis: usize| file.kernel.bounds.iter().find(|b| b.0.0 as usize == axis).map_or(i64::MAX, |b| b.1 as i64);
    let samples: Vec<Vec<i64>> =
        (0..SAMPLES).map(|_| (0..axes).map(|a| EXTENTS[random.below(EXTENTS.len() as u64) as usize].min(bound(a))).collect()).collect();
    // the best tensors and the worst
    let layouts = [Facts { unit: u64::MAX, aligned: Facts::MOST_ALIGNED }, Facts { unit: 0, aligned: 1 }];
    for device in devices(target) {
        for (i, extents) in samples.iter().enumerate() {
            let facts = layouts[(i % 4 == 3) as usize];
            let request = Request { instance, extents, facts: &|_| facts, pieces: None, usable: &|e| e.target == target };
            if let Ok(choice) = choose(file, &request, &device) {
                wanted[choice.entry] = true
            }
        }
    }
    // what has fewer conditions than all that is chosen serves the rest
    let conditions = |e: &Entry| e.guards.len() + file.programs.get(e.program as usize).map_or(0, |p| p.bounds.len());
    if let Some(most_general) = (0..entries.len()).filter(|i| entries[*i].target == target).min_by_key(|i| conditions(&entries[*i])) {
        let covered = (0..entries.len()).any(|i| wanted[i] && entries[i].target == target && conditions(&entries[i]) == 0);
        wanted[most_general] |= !covered
    }
    wanted
}

/// Drops the modules that no entry names.
fn drop_modules(instance: &mut Instance) {
    let mut used = vec![false; instance.modules.len()];
    for launch in instance.entries.iter().flat_map(|e| &e.launches) {
        if let Some(u) = used.get_mut(launch.module as usize) {
            *u = true
        }
    }
    let place: Vec<u32> = used.iter().scan(0, |n, u| Some(std::mem::replace(n, *n + *u as u32))).collect();
    for launch in instance.entries.iter_mut().flat_map(|e| &mut e.launches) {
        launch.module = place.get(launch.module as usize).copied().unwrap_or(launch.module)
    }
    let mut index = 0;
    instance.modules.retain(|_| {
        index += 1;
        used[index - 1]
    })
}
