//! Times Cleave's kernels on the workloads of the scripts in `peers/`: compare the figures of one machine only.
use anyhow::{Context, Result};
use clap::Parser;
use examples::bench::report::{self, Row};
use examples::bench::{Timed, Workload, overhead, timing, workloads};
use examples::device::{Kind, open};
use std::io::Write;
use std::path::PathBuf;

/// Times Cleave's kernels on the workloads of the scripts in peers/.
#[derive(Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "cpu")]
    device: Kind,
    /// Only workloads whose names begin with one of these, separated by commas: `prefill,decode`. `overhead` is what calls cost the host.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// One JSON object a line: workload, ms, gflops, gbps, algorithm, split; with --tune also tuned_ms.
    #[arg(long)]
    json: bool,
    /// Times the candidates of each workload too, and tells how much better the best of them is than the plan of the first call.
    #[arg(long)]
    tune: bool,
    /// In place of the peers' workloads so many of each family with extents that nobody chose.
    #[arg(long, value_name = "COUNT")]
    fresh: Option<usize>,
    /// Of which these are drawn.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// What a script of peers/ printed on the same machine.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Writes a page with the ratios to the peers and the roofline.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = open(options.device)?;
    let cuda = options.device == Kind::Cuda;
    let mut all = match options.fresh {
        Some(count) => workloads::fresh(options.seed, count),
        None if cuda => workloads::cuda(),
        None => workloads::cpu(),
    };
    if options.fresh.is_none() {
        all.extend(overhead::workloads(cuda))
    }
    let peers = match &options.peers {
        Some(file) => report::peers(&std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?),
        None => vec![],
    };
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| name.starts_with(o.as_str()));
    let mut out = std::io::stdout().lock();
    let mut rows = vec![];
    for workload in all.iter().filter(|w| wanted(&w.name)) {
        let timed = time(workload, &device, cuda, options.tune);
        match (timed, options.json) {
            (Ok(row), json) => {
                if json {
                    writeln!(out, "{}", row.json())?
                } else {
                    writeln!(out, "{row}")?
                }
                rows.push(row)
            }
            // a workload that fails is a finding: the others are still timed
            (Err(e), true) => writeln!(out, "{}", serde_json::json!({"workload": workload.name, "error": format!("{e:#}")}))?,
            (Err(e), false) => writeln!(out, "{:48} {e:#}", workload.name)?,
        }
    }
    if options.tune
        && let Some((median, worst)) = report::choice(&rows)
        && !options.json
    {
        writeln!(out, "the first call's plan takes {median:.3} times as long as the best that was timed in the median, {worst:.3} at worst")?
    }
    if let Some(file) = &options.report {
        let page = report::page(&rows, &peers, device.model());
        std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?
    }
    Ok(())
}

fn time(workload: &Workload, device: &cleave::Device, cuda: bool, tune: bool) -> Result<Row> {
    let mut job = workload.job(device)?;
    let ms = timing::milliseconds(&mut job, device, cuda, workload.timed)?;
    let plan = job.plan.clone();
    let tuned_ms = match tune {
        true if workload.timed == Timed::Device => {
            job.tune()?;
            // the plan that was chosen is a candidate: what is slower by chance is not kept
            Some(timing::milliseconds(&mut job, device, cuda, workload.timed)?.min(ms))
        }
        _ => None,
    };
    Ok(Row {
        workload: workload.name.clone(),
        flop: workload.flop,
        bytes: workload.bytes,
        ms,
        tuned_ms,
        algorithm: plan.algorithm.clone(),
        split: plan.split(),
    })
}
