//! XLA's rules, and those beyond its vocabulary.
use cleave_core::algebra::schema::{Guard, Row};
use cleave_core::prove::instance::trial;
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
fn what_is_proved_for_extents_of_0_holds_there_and_everything_holds_at_small_ones() {
    let mut solver = Solver::start(PATIENCE).unwrap();
    for (_, text, row) in rows().unwrap() {
        let proof = judge(&row, &mut solver).unwrap();
        let some = trial(&row, 1000, false).unwrap();
        assert!(some.admitted > 0 && some.counterexample.is_none(), "{text}: {some:?}");
        let none = trial(&row, 1000, true).unwrap();
        // of maxima of maxima over nothing less is proved than is true
        assert!(none.counterexample.is_none() || !proof.empty, "{text}: {none:?}")
    }
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
