//! The soak test itself, where there is no GPU: its calls and its expectations on the CPU.
use std::process::Command;

#[test]
fn on_the_cpu_every_case_is_as_expected() {
    let output = Command::new(env!("CARGO_BIN_EXE_soak")).args(["--device", "cpu", "--rounds", "2"]).output().expect("the program starts");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && table.lines().count() == 12, "{table}");
    assert!(table.lines().all(|l| l.contains(" ok ")), "{table}");
}
