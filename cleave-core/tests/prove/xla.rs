//! XLA's rules, and those beyond its vocabulary.
use cleave_core::algebra::schema::{Guard, Row};
use cleave_core::prove::solver::{PATIENCE, Solver};
use cleave_core::prove::xla::rows;
use cleave_core::prove::{Refusal, judge};

#[test]
fn every_rule_of_the_list_is_proved() {
    let mut solver = Solver::start(PATIENCE).unwrap();
    let mut wrong = vec![];
    for (category, text, row) in rows().unwrap() {
        if let Err(e) = judge(&row, &mut solver) {
            wrong.push(format!("{category}: {text}: {e}"))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn without_any_of_its_conditions_a_rule_is_refuted() {
    let mut solver = Solver::start(1000).unwrap();
    let mut spare = vec![];
    for (_, text, row) in rows().unwrap() {
        for i in 0..row.guards.len() {
            let mut guards: Vec<Guard> = row.guards.to_vec();
            let dropped = guards.remove(i);
            match judge(&Row { guards: guards.leak(), ..row }, &mut solver) {
                Err(Refusal::False(_)) => {}
                other => spare.push(format!("{text}: without {dropped}: {}", other.map_or_else(|e| e.to_string(), |_| "true".into()))),
            }
        }
    }
    assert_eq!(spare, [""; 0])
}
