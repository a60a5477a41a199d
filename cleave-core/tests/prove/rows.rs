//! The table that the search uses is proved, and the proofs agree with evaluation at small extents.
use cleave_core::algebra::rules::TABLE;
use cleave_core::algebra::schema::Row;
use cleave_core::prove::cache;
use cleave_core::prove::instance::trial;
use cleave_core::prove::judge;
use cleave_core::prove::solver::{PATIENCE, Solver};

const TRIES: u64 = 1000;

#[test]
fn every_row_is_proved_for_all_ranks_and_extents() {
    let mut solver = Solver::start(PATIENCE).unwrap();
    for row in TABLE {
        if let Err(e) = judge(row, &mut solver) {
            panic!("{row}: {e}")
        }
    }
    // what builds without a solver rely on
    assert_eq!(cache::OWN, cache::print(TABLE), "run the example `prove` with `-- --write`")
}

#[test]
fn a_proof_holds_for_what_a_row_says_and_not_for_its_name() {
    let row = TABLE.iter().find(|r| r.name == "factor out").unwrap();
    assert_eq!(cache::key(row), cache::key(&Row { name: "other", control: &[], ..*row }));
    assert_ne!(cache::key(row), cache::key(&Row { guards: &[], ..*row }));
    assert!(cache::is_proved(row) && !cache::is_proved(&Row { guards: &[], ..*row }));
}

#[test]
fn what_is_proved_for_extents_of_0_holds_there_and_what_is_not_does_not() {
    let mut solver = Solver::start(PATIENCE).unwrap();
    for row in TABLE {
        let proof = judge(row, &mut solver).unwrap();
        let some = trial(row, TRIES, false).unwrap();
        assert!(some.admitted > 0 && some.counterexample.is_none(), "{row}: {some:?}");
        let none = trial(row, TRIES, true).unwrap();
        assert_eq!(none.counterexample.is_none(), proof.empty, "{row}: {none:?}")
    }
}
