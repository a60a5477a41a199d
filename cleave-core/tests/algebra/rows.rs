//! The table of rules is data: rows can be taken out or changed, and that changes the search.
use crate::workloads;
use cleave_core::algebra::rules::TABLE;
use cleave_core::algebra::schema::{Guard, Row};
use cleave_core::algebra::{CAP, search_with};
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
        let changed: Vec<&str> = kernels.iter().zip(&all).filter(|((_, k), all)| algorithms(k, &rows) != **all).map(|(k, _)| k.0).collect();
        println!("{:34} {}", row.name, changed.join(", "));
        if changed.is_empty() {
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

#[test]
fn a_wrong_row_is_rejected_by_the_check_with_the_name_of_the_algorithm() {
    // without its guard, a factor that varies over the summed axis leaves the sum
    let rows = changed("merge contractions", |r| r.guards = &[]);
    let found = search_with(&workloads::captured(), &rows, CAP);
    assert!(!found.rejected.is_empty());
    let message = found.rejected[0].to_string();
    assert!(message.starts_with("algorithm `") && message.contains("kernel `captured`"), "{message}");
    assert!(search_with(&workloads::captured(), TABLE, CAP).rejected.is_empty());
}

#[test]
fn an_exponential_of_a_masked_maximum_does_not_become_a_maximum() {
    // exp(-inf) is 0, the greatest of nothing is -inf: the row is about whole domains only
    let row = TABLE.iter().find(|r| r.name == "maximum of an exp").expect("a row");
    assert!(matches!(row.left, cleave_core::algebra::schema::Term::Maximum(_, _, None)));
    let guards = TABLE.iter().find(|r| r.name == "cancel").expect("a row").guards;
    assert_eq!(guards, [Guard::NonZero('x')]);
}
