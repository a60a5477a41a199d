//! How long the search takes, for every kernel of files and folders: `search docs/language.md tests/formulas`. CPU time of the thread, so that a
//! busy machine does not show; the checks by the oracle and the screen in f32 apart.
use cleave_core::algebra::{Search, check, search};
use cleave_core::build::screen::admissible;
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::schedule::programs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// CPU time of this thread in milliseconds, where the system tells; else of the clock on the wall.
fn now(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64() * 1e3, |n| n / 1e6)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let before = now(start);
    let result = work();
    (result, now(start) - before)
}

/// The texts of kernels under a path.
fn texts(path: &Path, out: &mut Vec<String>) {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = std::fs::read_dir(path).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
        inside.sort();
        return inside.iter().for_each(|p| texts(p, out));
    }
    let Ok(text) = std::fs::read_to_string(path) else { return };
    match path.extension().and_then(|e| e.to_str()) {
        Some("rs") => out.push(text),
        Some("md") => out.extend(text.split("```rust\n").skip(1).filter_map(|b| Some(b.split("```").next()?.to_string()))),
        _ => {}
    }
}

fn line(kernel: &Kernel) {
    let (Search { algorithms, statistics, .. }, milliseconds) = timed(|| search(kernel));
    let (_, checks) = timed(|| {
        let samples = if algorithms.len() > 1 { check::samples(&kernel.graph, 1) } else { vec![] };
        algorithms.iter().for_each(|a| drop(check::difference(&samples, &a.graph)))
    });
    let (scheduled, schedule) = timed(|| algorithms.iter().map(|a| programs(0, &a.graph, &kernel.bounds)).collect::<Vec<_>>());
    let (kept, screen) = timed(|| admissible(kernel, &algorithms, &scheduled));
    println!(
        "| `{}` | {:.0} | {checks:.0} | {schedule:.0} | {screen:.0} | {} | {} | {} of {} |",
        kernel.name,
        milliseconds - checks,
        statistics.iterations,
        statistics.nodes,
        kept.iter().filter(|k| **k).count(),
        algorithms.len()
    )
}

fn main() {
    println!("| kernel | search ms | checks ms | schedule ms | screen ms | iterations | e-nodes | algorithms kept |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut all = vec![];
    std::env::args().skip(1).for_each(|a| texts(Path::new(&a), &mut all));
    for text in all {
        match frontend::from_source(&text) {
            Ok(kernels) => kernels.iter().for_each(line),
            Err(e) => eprintln!("{}", e.render(&text)),
        }
    }
}
