//! The proofs of a kernel's algorithms, to be read: what `explain --proof` prints.
use super::{cache, chain, replay};
use crate::algebra::{self, derive::Applied};
use crate::kernel::{Algorithm, Kernel, Step};
use std::fmt::Write;

/// The chain of every algorithm of a plan but the source, with each step's rule, substitution and conditions, the state of its proof, and
/// what checking all of it anew gives. An algorithm that the table alone does not lead to comes from rules of the crate's own: its steps are
/// told as the plan has them. What rests on assumptions says so at its first steps.
pub fn page(kernel: &Kernel, planned: &[Algorithm]) -> String {
    let found = algebra::search(kernel);
    let mut out = format!("{kernel}\n");
    for plan in planned.iter().skip(1) {
        let same = found.algorithms.iter().position(|a| a.chain() == plan.chain() && a.graph == plan.graph);
        let chain = same.and_then(|i| found.chains.get(i));
        // writing to a string cannot fail
        let _ = writeln!(out, "algorithm `{}`, chain {:016x}", plan.name, plan.chain());
        let assumed = plan.derivation.iter().filter(|s| s.assumed).count();
        for (n, step) in plan.derivation.iter().enumerate() {
            let state = match n.checked_sub(assumed) {
                None => "ASSUMED of the data, not proved; looked at in the first calls of debug builds".into(),
                Some(n) => chain.and_then(|c| c.get(n)).map_or("by a rule of the crate's own, proved when it was built".into(), state),
            };
            self::step(&mut out, n + 1, step, &state)
        }
        let _ = match (assumed, replay::replay(&kernel.graph, &plan.graph)) {
            (_, Ok(())) => writeln!(out, "  equal to the source for all extents, by normal forms\n"),
            (0, Err(e)) => writeln!(out, "  NOT SHOWN TO EQUAL THE SOURCE: {e}\n"),
            _ => writeln!(out, "  equal to the source where the data are as assumed: compared at its build on inputs made so\n"),
        };
    }
    out
}

fn state(applied: &Applied) -> String {
    let proved = if cache::is_proved(&applied.row) { "proved for all ranks and extents" } else { "NOT PROVED" };
    match chain::check(applied) {
        Ok(()) => format!("{proved}; this instance checked"),
        Err(e) => format!("{proved}; THIS INSTANCE NOT CHECKED: {e}"),
    }
}

fn step(out: &mut String, n: usize, step: &Step, state: &str) {
    let _ = writeln!(out, "  step {n}, {} ({state})\n    {}\n    = {}", step.rule, step.before, step.after);
    for (v, text) in &step.bindings {
        let _ = writeln!(out, "      {v} is {text}");
    }
    for guard in &step.guards {
        let _ = writeln!(out, "      and {guard}");
    }
}
