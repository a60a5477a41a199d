//! Every algorithm of the corpus equals its source by normal forms.
#[path = "../algebra/formula.rs"]
mod formula;
#[path = "../algebra/workloads.rs"]
mod workloads;

use cleave_core::algebra::search;
use cleave_core::prove::chain::check;
use cleave_core::prove::replay::replay;

#[test]
fn every_algorithm_of_the_known_kernels_equals_its_source_by_normal_form() {
    let (mut shown, mut gaps) = (0, vec![]);
    for (name, kernel) in workloads::all() {
        for a in &search(&kernel).algorithms[1..] {
            match replay(&kernel.graph, &a.graph) {
                Ok(()) => shown += 1,
                Err(e) => gaps.push(format!("{name}, {}: {e}", a.name)),
            }
        }
    }
    println!("{shown} shown");
    assert!(gaps.is_empty(), "{}", gaps.join("\n"))
}

#[test]
fn every_application_of_every_chain_is_an_equality_whose_guards_follow() {
    let (mut checked, mut faults) = (0, vec![]);
    for (name, kernel) in workloads::all() {
        for applied in search(&kernel).chains.iter().flatten() {
            match check(applied) {
                Ok(()) => checked += 1,
                Err(e) => faults.push(format!("{name}, {}: {} = {}: {e}", applied.row, applied.step().before, applied.step().after)),
            }
        }
    }
    println!("{checked} checked");
    assert!(faults.is_empty(), "{}", faults.join("\n"))
}
