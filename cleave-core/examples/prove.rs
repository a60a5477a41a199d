//! Proves every rule that the search uses, for all ranks and extents; and the lemmas and frames behind them. A line each: what, how
//! many obligations, milliseconds, verdict. The exit code is 0 only if all of it is proved.
//!
//!     Z3_BIN="$(tests/z3)" cargo run -p cleave-core --features compiler --example prove
//!
//! XLA's rules are counted by category beside those that TensorRight proves. With `-- --write` the names of the proved rules are written to `src/prove/proved.txt`, by which builds without a solver know them.
use cleave_core::algebra::rules::TABLE;
use cleave_core::prove::cache;
use cleave_core::prove::report::prove_all;
use cleave_core::prove::solver::PATIENCE;
use cleave_core::prove::xla;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let start = Instant::now();
    let (mut lines, mut obligations) = (0, 0);
    let proved = prove_all(TABLE, PATIENCE, |line| {
        lines += 1;
        obligations += line.obligations;
        println!("{line}")
    });
    match proved {
        Ok(all) => {
            println!("XLA's rules by category, and how many TensorRight proves there:");
            for c in xla::CATEGORIES {
                println!("  {:32} {:>3} {:>4}", c.name, c.rules.len(), c.tensorright)
            }
            println!(
                "{lines} statements, {obligations} obligations, {:.1} s: {}",
                start.elapsed().as_secs_f64(),
                if all { "all proved" } else { "NOT ALL PROVED" }
            );
            if all && std::env::args().any(|a| a == "--write") {
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/prove/proved.txt");
                if let Err(e) = std::fs::write(path, cache::print(TABLE)) {
                    eprintln!("{path}: {e}");
                    return ExitCode::FAILURE;
                }
            }
            if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
