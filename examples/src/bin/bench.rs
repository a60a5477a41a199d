//! Times Cleave's kernels on the workloads of the scripts in `peers/`: compare the figures of one machine only.
use anyhow::Result;
use clap::Parser;
use examples::bench::{timing, workloads};
use examples::device::{Kind, open};
use serde_json::json;
use std::io::Write;

/// Times Cleave's kernels on the workloads of the scripts in peers/.
#[derive(Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "cpu")]
    device: Kind,
    /// Only workloads whose names begin with one of these, separated by commas: `prefill,decode`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// One JSON object a line: workload, ms, gflops, gbps, algorithm, split.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = open(options.device)?;
    let cuda = options.device == Kind::Cuda;
    let all = if cuda { workloads::cuda() } else { workloads::cpu() };
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| name.starts_with(o.as_str()));
    let mut out = std::io::stdout().lock();
    for workload in all.iter().filter(|w| wanted(&w.name)) {
        let timed = workload.job(&device).and_then(|mut job| Ok((timing::milliseconds(&mut job, &device, cuda)?, job.plan)));
        match (timed, options.json) {
            (Ok((ms, plan)), json) => {
                let (gflops, gbps) = (workload.flop / ms / 1e6, workload.bytes / ms / 1e6);
                if json {
                    let row = json!({"workload": workload.name, "ms": rounded(ms, 1e5), "gflops": rounded(gflops, 10.0), "gbps": rounded(gbps, 100.0),
                        "algorithm": plan.algorithm, "split": plan.split()});
                    writeln!(out, "{row}")?
                } else {
                    writeln!(out, "{:48} {ms:10.4} ms {gflops:10.1} GFLOP/s {gbps:8.1} GB/s  {}, split {}", workload.name, plan.algorithm, plan.split())?
                }
            }
            // a workload that fails is a finding: the others are still timed
            (Err(e), true) => writeln!(out, "{}", json!({"workload": workload.name, "error": format!("{e:#}")}))?,
            (Err(e), false) => writeln!(out, "{:48} {e:#}", workload.name)?,
        }
    }
    Ok(())
}

/// To the nearest `1 / parts`.
fn rounded(x: f64, parts: f64) -> f64 {
    (x * parts).round() / parts
}
