//! Shows what a build found for a kernel: the formula, the algorithms equal to it with the rules that lead there and their costs, the tile programs, and the CUDA sources.
use anyhow::{Result, bail};
use clap::Parser;
use cleave::core::algebra::{self, Search};
use cleave::core::kernel::Algorithm;
use cleave::core::plan::PlanFile;
use cleave::core::prove::page::page;
use examples::catalogue::plan_files;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Instant;

/// Shows what a build found for a kernel.
#[derive(Parser)]
struct Options {
    /// The kernel's name; all kernels if not given.
    kernel: Option<String>,
    /// Prints the CUDA sources too, of one choice of types.
    #[arg(long)]
    cuda: bool,
    /// Prints for each algorithm the chain of rules that leads to it, every step with what its variables stand for, its conditions and the
    /// state of its proof, and checks all of it anew.
    #[arg(long)]
    proof: bool,
    /// Only figures: how large the search was, and each algorithm's costs.
    #[arg(long)]
    report: bool,
    /// With --report: one JSON object a line and kernel.
    #[arg(long, requires = "report")]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let all = plan_files()?;
    let wanted = |f: &&&PlanFile| options.kernel.as_ref().is_none_or(|name| f.kernel.name == *name);
    let files: Vec<&PlanFile> = all.iter().filter(wanted).copied().collect();
    if files.is_empty() {
        bail!("there is no such kernel; there are {}", all.iter().map(|f| f.kernel.name.as_str()).collect::<Vec<_>>().join(", "))
    }
    let mut out = io::stdout().lock();
    for file in files {
        if options.proof {
            write!(out, "{}", page(&file.kernel, &file.algorithms))?;
            continue;
        }
        match (options.report, options.json) {
            (true, true) => writeln!(out, "{}", report(file))?,
            (true, false) => table(&mut out, file)?,
            (false, _) => write!(out, "{file}")?,
        }
        if options.cuda {
            sources(&mut out, file)?
        }
    }
    Ok(())
}

/// The search that the build ran, once more: it is deterministic, and its time is no part of a plan file.
fn search(file: &PlanFile) -> (Search, f64) {
    let start = Instant::now();
    let found = algebra::search(&file.kernel);
    (found, start.elapsed().as_secs_f64() * 1e3)
}

/// The axes of the loop that a program of the algorithm may split.
fn splits(file: &PlanFile, algorithm: usize) -> BTreeSet<String> {
    let parts = file.programs.iter().filter(|p| p.algorithm as usize == algorithm).flat_map(|p| p.launches.iter().flatten());
    let split = parts.filter(|part| part.split).filter_map(|part| match &part.body[part.split_loop()?] {
        cleave::core::tile::Statement::Loop(l) => Some(part.dim(l.dim).axes.iter().map(|a| part.graph.axis(*a)).collect::<Vec<_>>().join(" ")),
        _ => None,
    });
    split.collect()
}

fn passes(a: &Algorithm) -> impl Iterator<Item = (&str, u8)> {
    a.cost.passes.iter().map(|(axis, n)| (a.graph.axis(*axis), *n))
}

fn flops(a: &Algorithm) -> String {
    a.cost.flops.show(&|axis| a.graph.axis(axis).to_string())
}

fn report(file: &PlanFile) -> Value {
    let (found, milliseconds) = search(file);
    let algorithms = file.algorithms.iter().enumerate().map(|(i, a)| {
        json!({"name": a.name, "flops": flops(a), "passes": passes(a).map(|(axis, n)| (axis.to_string(), json!(n))).collect::<serde_json::Map<_, _>>(), "splits": splits(file, i)})
    });
    json!({
        "kernel": file.kernel.name,
        "iterations": found.statistics.iterations,
        "enodes": found.statistics.nodes,
        "search_ms": (milliseconds * 100.0).round() / 100.0,
        "algorithms": algorithms.collect::<Vec<_>>(),
    })
}

fn table(out: &mut impl Write, file: &PlanFile) -> io::Result<()> {
    let (found, milliseconds) = search(file);
    let statistics = found.statistics;
    writeln!(out, "{}: {} iterations, {} e-nodes, {milliseconds:.1} ms", file.kernel.name, statistics.iterations, statistics.nodes)?;
    for (i, a) in file.algorithms.iter().enumerate() {
        let passes = passes(a).map(|(axis, n)| format!("{axis}:{n}")).collect::<Vec<_>>().join(" ");
        let splits = splits(file, i).into_iter().collect::<Vec<_>>().join(", ");
        writeln!(out, "  {:32} flops {}; passes {passes}; splits {}", a.name, flops(a), if splits.is_empty() { "none" } else { &splits })?
    }
    Ok(())
}

/// The sources of the first choice of types.
fn sources(out: &mut impl Write, file: &PlanFile) -> io::Result<()> {
    match file.instances.iter().find(|i| !i.modules.is_empty()) {
        Some(instance) => instance.modules.iter().try_for_each(|m| writeln!(out, "// {:?}, {:?}\n{}", m.target, instance.types, m.source)),
        None => writeln!(out, "// no CUDA source was made for this kernel"),
    }
}
