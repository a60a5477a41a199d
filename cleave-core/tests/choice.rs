//! What the first call chooses from the menus of real kernels, on devices made up of numbers.
#![cfg(feature = "compiler")]
mod support;
use cleave_core::build::pipeline;
use cleave_core::choose::{Choice, Facts, Request, choose};
use cleave_core::device::{DeviceModel, Target};
use cleave_core::dtype::DType;
use cleave_core::plan::PlanFile;

fn plan(name: &str) -> PlanFile {
    let kernel = support::corpus().into_iter().find(|k| k.name == name).expect("a kernel of the corpus");
    pipeline::plan(&kernel, &[]).file
}

/// Multiprocessors that each have the share of an H100's.
fn gpu(units: u32) -> DeviceModel {
    let share = units as f64 / 132.0;
    DeviceModel {
        name: format!("{units} multiprocessors"),
        target: Target::Hopper,
        units,
        chip_bytes: 227 << 10,
        half_flops: 900e12 * share,
        single_flops: 60e12 * share,
        bandwidth: 3e12 * share,
        launch_seconds: 3e-6,
        merge_seconds: 2e-6,
    }
}

fn cpu(cores: u32) -> DeviceModel {
    let share = cores as f64;
    DeviceModel {
        name: format!("{cores} cores"),
        target: Target::Cpu,
        units: cores,
        chip_bytes: 1 << 20,
        half_flops: 30e9 * share,
        single_flops: 60e9 * share,
        bandwidth: 20e9,
        launch_seconds: 2e-6,
        merge_seconds: 2e-6,
    }
}

fn chosen(file: &PlanFile, dtype: DType, named: &[(&'static str, i64)], device: &DeviceModel) -> Choice {
    let extents = support::extents(&file.kernel, named);
    let instance = file.instances.iter().position(|i| i.types.first() == Some(&dtype)).expect("an instance of the type");
    let facts = |_| Facts { unit: u64::MAX, aligned: Facts::MOST_ALIGNED };
    let usable = |e: &cleave_core::plan::Entry| (e.target == Target::Cpu) == (device.target == Target::Cpu);
    choose(file, &Request { instance, extents: &extents, facts: &facts, pieces: None, usable: &usable }, device).expect("an entry admits the extents")
}

#[test]
fn chained_products_are_associated_by_extents_on_both_sides_of_the_crossover() {
    let file = plan("matmul_matmul");
    // (x a) b over K -> R -> J: few rows go through the factors, many rows make the product of the factors first
    let low_rank = [("M", 4096), ("K", 4096), ("R", 64), ("J", 4096)];
    let wide_middle = [("M", 4096), ("K", 64), ("R", 4096), ("J", 64)];
    for (device, dtype) in [(gpu(132), DType::BF16), (cpu(8), DType::F32)] {
        let algorithm = |extents| {
            let choice = chosen(&file, dtype, extents, &device);
            let instance = file.instances.iter().find(|i| i.types.first() == Some(&dtype)).unwrap();
            file.algorithms[file.programs[instance.entries[choice.entry].program as usize].algorithm as usize].name.clone()
        };
        assert_eq!(algorithm(&low_rank), file.algorithms[0].name, "{}", device.name);
        assert_ne!(algorithm(&wide_middle), file.algorithms[0].name, "{}", device.name)
    }
}

#[test]
fn decode_is_split_and_prefill_is_not() {
    let file = plan("attention");
    let decode = [("B", 1), ("K", 8), ("G", 4), ("M", 1), ("N", 8192), ("D", 128), ("E", 128)];
    let prefill = [("B", 4), ("K", 8), ("G", 4), ("M", 4096), ("N", 4096), ("D", 128), ("E", 128)];
    assert!(chosen(&file, DType::BF16, &decode, &gpu(132)).split() >= 8);
    assert_eq!(chosen(&file, DType::BF16, &prefill, &gpu(132)).split(), 1)
}

#[test]
fn more_multiprocessors_split_a_decode_step_further() {
    let file = plan("attention");
    let decode = [("B", 1), ("K", 8), ("G", 4), ("M", 1), ("N", 32768), ("D", 128), ("E", 128)];
    let [few, some, many] = [8, 132, 1000].map(|units| chosen(&file, DType::BF16, &decode, &gpu(units)).split());
    assert!(few < some && some < many, "{few} {some} {many}")
}
