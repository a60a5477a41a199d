//! How good the estimate's choices are on what a GPU measured: `calibrate <folder of plan files> <log> ..`, where a log is what `CLEAVE_LOG=1 bench --tune`
//! wrote to its standard error. Of each call the candidate of the least estimate is held against the fastest that was measured.
use cleave_core::choose::estimate;
use cleave_core::device::{DeviceModel, Target};
use cleave_core::dtype::DType;
use cleave_core::plan::PlanFile;
use std::collections::BTreeMap;
use std::path::Path;

/// A kernel and its extents.
type Call = (String, Vec<i64>);

/// An entry and a split that were timed.
struct Timed {
    entry: usize,
    split: u32,
    microseconds: f64,
}

/// As its driver describes it.
fn h200() -> DeviceModel {
    DeviceModel {
        name: "NVIDIA H200".into(),
        target: Target::Hopper,
        units: 132,
        chip_bytes: 227 << 10,
        half_flops: 1070e12,
        single_flops: 67e12,
        bandwidth: 4.42e12,
        launch_seconds: 2.4e-6,
        merge_seconds: 1.3e-6,
    }
}

/// `M=3 C=1072` as numbers.
fn extents(text: &str) -> Option<Vec<i64>> {
    text.split(' ').map(|x| x.split_once('=')?.1.parse().ok()).collect()
}

fn read(log: &str, calls: &mut BTreeMap<Call, Vec<Timed>>) {
    let mut at: Option<Call> = None;
    for line in log.lines().filter_map(|l| l.strip_prefix("cleave: ")) {
        if let Some((kernel, rest)) = line.split_once(" at ")
            && let Some(extents) = rest.split_once(" on ").and_then(|(e, _)| extents(e))
        {
            at = Some((kernel.into(), extents))
        } else if let Some((_, rest)) = line.split_once(": entry ")
            && let [entry, "split", split, microseconds, ..] = rest.split([' ', ',', ':']).filter(|w| !w.is_empty()).collect::<Vec<_>>()[..]
            && let (Ok(entry), Ok(split), Ok(microseconds)) = (entry.parse(), split.parse(), microseconds.parse())
            && let Some(call) = &at
        {
            calls.entry(call.clone()).or_default().push(Timed { entry, split, microseconds })
        }
    }
}

/// The files of a folder that are plans, by kernel.
fn plans(folder: &Path) -> std::io::Result<BTreeMap<String, PlanFile>> {
    let files = std::fs::read_dir(folder)?.filter_map(|e| PlanFile::from_bytes(&std::fs::read(e.ok()?.path()).ok()?));
    Ok(files.map(|f| (f.kernel.name.clone(), f)).collect())
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let plans = plans(Path::new(&arguments.next().unwrap_or_default()))?;
    let mut calls = BTreeMap::new();
    for log in arguments {
        read(&std::fs::read_to_string(log)?, &mut calls)
    }
    let device = h200();
    let mut losses: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((kernel, extents), timed) in &calls {
        let Some(file) = plans.get(kernel) else { continue };
        let Some(instance) = file.instances.iter().position(|i| i.types.iter().all(|t| *t == DType::BF16)) else { continue };
        let estimated = timed.iter().filter_map(|t| Some((estimate(file, instance, t.entry, t.split, extents, &device)? * 1e6, t)));
        let estimated: Vec<(f64, &Timed)> = estimated.collect();
        let Some(chosen) = estimated.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let fastest = timed.iter().min_by(|a, b| a.microseconds.total_cmp(&b.microseconds)).unwrap_or(chosen.1);
        let loss = chosen.1.microseconds / fastest.microseconds;
        losses.entry(kernel).or_default().push(loss);
        if loss > 1.15 {
            println!("{loss:.2} {kernel} {extents:?}");
            for (e, t) in &estimated {
                let mark = if std::ptr::eq(*t, chosen.1) { "chosen" } else { "" };
                println!("    entry {:3} split {:3}: {:8.1} us, estimated {e:8.1} {mark}", t.entry, t.split, t.microseconds)
            }
        }
    }
    for (kernel, mut losses) in losses {
        losses.sort_by(f64::total_cmp);
        println!("{kernel}: {} calls, median {:.3}, worst {:.3}", losses.len(), losses[losses.len() / 2], losses[losses.len() - 1])
    }
    Ok(())
}
