//! The table of rules is data: rows can be taken out or changed, and that changes the search.
use crate::workloads;
use cleave_core::algebra::rules::TABLE;
use cleave_core::algebra::schema::{Axes, Row, Term};
use cleave_core::algebra::{CAP, search_with};
use cleave_core::graph::Function;
use cleave_core::kernel::Kernel;

fn algorithms(kernel: &Kernel, rows: &[Row]) -> Vec<String> {
    search_with(kernel, rows, CAP).algorithms.iter().map(|a| format!("{}\n{}", a.name, a.graph)).collect()
}

fn without(name: &str) -> Vec<Row> {
    let rows: Vec<Row> = TABLE.iter().filter(|r| r.name != name).copied().collect();
    assert_eq!(rows.len() + 1, TABLE.len(), "`{name}` is a row");
    rows
}

#[test]
fn names_of_rows_are_unique() {
    for r in TABLE {
        without(r.name);
    }
}

#[test]
fn every_row_changes_the_algorithms_of_some_kernel() {
    let kernels = workloads::for_rows();
    let all: Vec<Vec<String>> = kernels.iter().map(|k| algorithms(&k.1, TABLE)).collect();
    let mut idle = vec![];
    for row in TABLE {
        let rows = without(row.name);
        if kernels.iter().zip(&all).all(|((_, k), all)| algorithms(k, &rows) == *all) {
            idle.push(row.name)
        }
    }
    assert_eq!(idle, Vec::<&str>::new());
}

/// The table with one row changed.
fn changed(name: &str, change: impl Fn(&mut Row)) -> Vec<Row> {
    let mut rows = TABLE.to_vec();
    change(rows.iter_mut().find(|r| r.name == name).expect("a row"));
    rows
}

fn rejection(kernel: &Kernel, name: &str, change: impl Fn(&mut Row)) -> String {
    assert_eq!(search_with(kernel, TABLE, CAP).rejected, []);
    let found = search_with(kernel, &changed(name, change), CAP);
    found.rejected.first().expect("a rejected algorithm").to_string()
}

#[test]
fn a_wrong_row_is_rejected_by_the_check_with_the_name_of_the_algorithm() {
    // the factors that are not contracted first are lost
    const LOST: Term = Term::Sum(Axes::Is('A'), &Term::Sum(Axes::Is('B'), &Term::Any('x')));
    let message = rejection(&workloads::matmul_rowsum(), "contract first", |r| r.right = LOST);
    assert!(message.starts_with("algorithm `w over K,N first` of kernel `matmul_rowsum` is not equal to its source"), "{message}");
    // the other one makes the form on which the wrong row is tried
    assert!(message.ends_with("one of the rules `sum of sums`, `contract first` is wrong"), "{message}");
}

#[test]
fn a_masked_sum_may_be_zero_and_does_not_cancel() {
    // 0/0 is 0 over an empty domain, and cancelled it would be 1
    let kernel = workloads::masked_total();
    let message = rejection(&kernel, "cancel", |r| r.guards = &[]);
    assert!(message.contains("is 1 instead of 0"), "{message}");
}

#[test]
fn the_maximum_of_exponentials_over_an_empty_domain_is_no_exponential() {
    // exp(-inf) is 0, the greatest of nothing is -inf
    const MASKED: Term = Term::Maximum(Axes::Is('A'), &Term::Apply(Function::Exp, &Term::Any('x')), Some('p'));
    const RIGHT: Term = Term::Apply(Function::Exp, &Term::Maximum(Axes::Is('A'), &Term::Any('x'), Some('p')));
    let message = rejection(&workloads::masked_maximum_of_exponentials(), "maximum of an exp", |r| (r.left, r.right) = (MASKED, RIGHT));
    assert!(message.contains("is 0 instead of -inf"), "{message}");
}

/// `UPDATE=1` rewrites the pinned table.
#[test]
fn the_table_reads_as_pinned() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/algebra/rules.txt");
    let got: String = TABLE.iter().map(|r| format!("{r}\n")).collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &got).unwrap()
    }
    assert_eq!(got, std::fs::read_to_string(&path).unwrap_or_default());
}
