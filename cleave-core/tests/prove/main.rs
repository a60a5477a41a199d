#![cfg(feature = "compiler")]
use cleave_core::algebra::rules::TABLE;
use cleave_core::prove::{prove, solver::Solver};

#[test]
fn every_row_is_proved() {
    let mut solver = Solver::start().unwrap();
    for row in TABLE {
        match prove(row, &mut solver) {
            Ok(p) => println!("{:30} {:?} {} {:?}", row.name, p.time, p.empty, p.obligations),
            Err(e) => println!("{:30} FALSE {e}", row.name),
        }
    }
}
