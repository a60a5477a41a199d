//! How good the estimate's choices are on what a GPU measured: `calibrate <folder of plan files> <log> ..`, where a log is what `CLEAVE_LOG=1 bench --tune`
//! wrote to its standard error. Of each call with dense tensors the candidate of the least estimate is held against the fastest that was timed; where it was
//! not timed itself, the call is counted apart, and the first that was stands for it.
use cleave_core::choose::{Alternative, Facts, Request, candidates};
use cleave_core::device::{DeviceModel, Target};
use cleave_core::dtype::DType;
use cleave_core::plan::PlanFile;
use std::collections::BTreeMap;
use std::path::Path;

/// Calls that lose more are shown, with so many candidates.
const REPORTED: f64 = 1.15;
const SHOWN: usize = 12;

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
        merge_seconds: 0.7e-6,
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
    let mut losses: BTreeMap<&str, (Vec<f64>, usize)> = BTreeMap::new();
    for ((kernel, extents), timed) in &calls {
        let Some(file) = plans.get(kernel) else { continue };
        let Some(instance) = file.instances.iter().position(|i| i.types.iter().all(|t| *t == DType::BF16)) else { continue };
        let dense = |_| Facts { unit: u64::MAX, aligned: Facts::MOST_ALIGNED };
        let request = Request { instance, extents, facts: &dense, pieces: None, usable: &|e| e.target != Target::Cpu };
        let Ok(mut all) = candidates(file, &request, &device) else { continue };
        all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let of = |a: &Alternative| timed.iter().find(|t| (t.entry, t.split) == (a.entry, a.pieces));
        let Some(chosen) = all.iter().find_map(of) else { continue };
        let fastest = timed.iter().map(|t| t.microseconds).fold(f64::INFINITY, f64::min);
        let loss = chosen.microseconds / fastest;
        let blind = all.first().is_some_and(|a| of(a).is_none());
        let of_kernel = losses.entry(kernel).or_default();
        of_kernel.0.push(loss);
        of_kernel.1 += blind as usize;
        if loss > REPORTED || blind {
            println!("{loss:.2} {kernel} {extents:?}");
            for a in all.iter().take(SHOWN) {
                let measured = of(a).map_or("not timed".into(), |t| format!("{:.1} us", t.microseconds));
                println!("    entry {:3} split {:3}: estimated {:8.1} us, {measured}", a.entry, a.pieces, a.seconds * 1e6)
            }
        }
    }
    for (kernel, (mut losses, blind)) in losses {
        losses.sort_by(f64::total_cmp);
        let (calls, median, worst) = (losses.len(), losses[losses.len() / 2], losses[losses.len() - 1]);
        println!("{kernel}: {calls} calls, median {median:.3}, worst {worst:.3}; of {blind} the choice was not timed")
    }
    Ok(())
}
