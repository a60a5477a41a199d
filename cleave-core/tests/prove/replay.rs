//! Every algorithm of the corpus equals its source by normal forms.
#[path = "../algebra/formula.rs"]
mod formula;
#[path = "../algebra/workloads.rs"]
#[expect(dead_code, reason = "all of them are in one list")]
mod workloads;

use cleave_core::algebra::rules::TABLE;
use cleave_core::algebra::schema::{Axes, Row, Term};
use cleave_core::algebra::{CAP, search, search_with};
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::prove::chain::{Fault, check};
use cleave_core::prove::page::page;
use cleave_core::prove::replay::replay;

/// The kernels of the algebra's tests and those of the front end's.
fn corpus() -> Vec<(String, Kernel)> {
    let mut all: Vec<(String, Kernel)> = workloads::all().into_iter().map(|(name, k)| (name.to_string(), k)).collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/pass");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    for file in files {
        let kernels = frontend::from_source(&std::fs::read_to_string(&file).unwrap()).unwrap_or_default();
        assert!(!kernels.is_empty(), "{}", file.display());
        all.extend(kernels.into_iter().map(|k| (format!("{} of {}", k.name, file.display()), k)))
    }
    all
}

#[test]
fn every_algorithm_of_the_corpus_and_every_step_to_it_is_shown_anew() {
    let (mut algorithms, mut steps, mut gaps) = (0, 0, vec![]);
    for (name, kernel) in corpus() {
        let found = search(&kernel);
        for (a, chain) in found.algorithms.iter().zip(&found.chains).skip(1) {
            match replay(&kernel.graph, &a.graph) {
                Ok(()) => algorithms += 1,
                // equal where the data are as assumed, which normal forms do not know
                Err(_) if !a.assumptions.is_empty() => {}
                Err(e) => gaps.push(format!("{name}, {}: {e}", a.name)),
            }
            for (applied, step) in chain.iter().zip(a.derivation.iter().filter(|s| !s.assumed)) {
                match check(applied) {
                    Ok(()) => steps += 1,
                    Err(e) => gaps.push(format!("{name}, {}, {}: {} = {}: {e}", a.name, applied.row, step.before, step.after)),
                }
            }
        }
    }
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
    assert!(algorithms > 30 && steps > 200, "{algorithms} algorithms, {steps} steps")
}

/// The table with one row changed.
fn changed(name: &str, change: impl Fn(&mut Row)) -> Vec<Row> {
    let mut rows = TABLE.to_vec();
    change(rows.iter_mut().find(|r| r.name == name).unwrap());
    rows
}

#[test]
fn a_wrong_row_is_found_at_its_step_and_a_wrong_algorithm_at_its_output() {
    const LOST: Term = Term::Sum(Axes::Is('A'), &Term::Sum(Axes::Is('B'), &Term::Any('x')));
    let rows = changed("contract first", |r| r.right = LOST);
    let kernel = workloads::matmul_rowsum();
    let right = search(&kernel);
    let wrong = search_with(&kernel, &rows, CAP);
    assert!(!wrong.rejected.is_empty());
    // the numeric check took the algorithms away; a wrong one is made by exchanging two
    let other = search(&workloads::matmul_matmul());
    assert!(replay(&kernel.graph, &right.algorithms[1].graph).is_ok());
    assert!(replay(&kernel.graph, &other.algorithms[1].graph).is_err());
    // and a wrong step by giving a right one another right side
    let mut applied = right.chains[1].iter().find(|a| a.row.name == "contract first").unwrap().clone();
    assert!(check(&applied).is_ok());
    applied.after = applied.graph.number(cleave_core::rational::Rational::ONE);
    assert!(matches!(check(&applied), Err(Fault::Sides(_))))
}

#[test]
fn a_guard_that_was_dropped_is_missed_at_its_step() {
    let with_guards = TABLE.iter().find(|r| r.name == "factor out").unwrap();
    let mut found = vec![];
    for (_, kernel) in workloads::all() {
        for applied in search(&kernel).chains.iter().flatten().filter(|a| a.row.name == "factor out") {
            // the same application under a guard that does not hold
            let row = Row { guards: &[cleave_core::algebra::schema::Guard::Negative('k'), cleave_core::algebra::schema::Guard::NonZero('x')], ..*with_guards };
            let mut applied = applied.clone();
            applied.row = row;
            found.push(check(&applied))
        }
    }
    assert!(found.iter().any(|f| matches!(f, Err(Fault::Guard { .. }))))
}

#[test]
fn the_page_of_a_kernel_tells_every_step_with_its_substitution_conditions_and_proof() {
    let kernel = workloads::matmul_rowsum();
    let text = page(&kernel, &search(&kernel).algorithms);
    for part in [
        "algorithm `w over N first`, chain ",
        "step 2, contract first (proved for all ranks and extents; this instance checked)",
        "= sum_{K} x[M,K] * (sum_{N} w[K,N])",
        "      B is {N}",
        "      and B and F(r) are disjoint: {N}, {M,K}",
        "equal to the source for all extents, by normal forms",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}")
    }
    // a chain that the search does not find is said to be another's
    let mut other = search(&kernel).algorithms;
    other[1].derivation[0].rule = "of the crate".into();
    assert!(page(&kernel, &other).contains("by a rule of the crate's own"))
}
