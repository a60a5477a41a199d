//! Rules and assumptions of a crate outside this workspace, through cargo and rustc: what is proved is used and named, what is false fails
//! the build at its place, a committed proof serves where there is no solver, and what is assumed is looked at in debug builds.
mod foreign;

use foreign::{Crate, text};
use std::fs;
use std::process::Output;

const RULE: &str = "cleave::rule!(magnitude: abs(x * y) == abs(x) * abs(y));\n";

const KERNEL: &str = r#"
#[cleave::kernel]
pub fn reach(x: Tensor<f32, M>, y: Tensor<f32, N>) -> Tensor<f32, M> {
    sum::<N>(abs(x * y))
}
"#;

const MAIN: &str = r#"
fn main() -> cleave::Result<()> {
    let x = cleave::Tensor::<f32>::from_fn(&[300], |i| i[0] as f32 - 2.0)?;
    let y = cleave::Tensor::<f32>::from_fn(&[400], |i| 1.0 - (i[0] % 3) as f32)?;
    println!("{}\n{}", NAME::reach(&x, &y).file()?, NAME::reach(&x, &y).plan()?);
    println!("{:?}", &NAME::reach(&x, &y).run()?.to_vec()?[..4]);
    Ok(())
}
"#;

/// A variable that names no solver.
const NO_SOLVER: (&str, &str) = ("Z3_BIN", "/nowhere");

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

fn failed(output: Output) -> String {
    assert!(!output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn a_proved_rule_is_used_and_named_and_a_false_one_fails_the_build_at_its_place() {
    let ruled = Crate::new("ruled", true);
    ruled.write("src/lib.rs", &format!("{RULE}{KERNEL}"));
    ruled.write("src/main.rs", &MAIN.replace("NAME", "ruled"));
    let said = succeeded(ruled.cargo(&["run", "--bin", "ruled"]));
    // the file with the steps, the plan of the call, and the right numbers: |x| * (134 + 133)
    for part in ["magnitude\n    abs(x[M] * y[N])\n    = abs(x[M]) * abs(y[N])", "\n  by magnitude, factor out (chain ", "[534.0, 267.0, 0.0, 267.0]"] {
        assert!(said.contains(part), "no `{part}` in {said}")
    }

    ruled.write("src/bin/false_rule.rs", "cleave::rule!(moved: exp(sum::<A>(x)) == sum::<A>(exp(x)));\n\nfn main() {}\n");
    let said = failed(ruled.cargo(&["build", "--bin", "false_rule"]));
    fs::remove_file(ruled.directory.join("src/bin/false_rule.rs")).unwrap();
    for part in ["error: rule `moved` is false: with extents ", "A = {", "x = [", "the left side is ", "the right side ", "src/bin/false_rule.rs:1:22"] {
        assert!(said.contains(part), "no `{part}` in {said}")
    }
}

#[test]
fn without_a_solver_only_a_committed_proof_serves() {
    let unsolved = Crate::new("unsolved", true);
    let _ = fs::remove_file(unsolved.directory.join("cleave.proofs")); // of an earlier run of this test
    unsolved.write("src/lib.rs", &format!("{RULE}{KERNEL}"));
    let said = failed(unsolved.cargo_with(&["build"], &[NO_SOLVER]));
    for part in ["error: rule `magnitude` is not proved: there is no solver", "CLEAVE_PROOFS=write cargo build", "src/lib.rs:1:26"] {
        assert!(said.contains(part), "no `{part}` in {said}")
    }
    // where there is one
    let author = Crate::new("author", true);
    let _ = fs::remove_file(author.directory.join("cleave.proofs"));
    author.write("src/lib.rs", &format!("{RULE}{KERNEL}"));
    succeeded(author.cargo_with(&["build"], &[("CLEAVE_PROOFS", "write")]));
    let proofs = fs::read_to_string(author.directory.join("cleave.proofs")).unwrap();
    assert!(proofs.ends_with(" magnitude\n"), "{proofs}");
    // committed, and fetched by the other
    unsolved.write("cleave.proofs", &proofs);
    unsolved.write("src/main.rs", &MAIN.replace("NAME", "unsolved"));
    let said = succeeded(unsolved.cargo_with(&["run"], &[NO_SOLVER]));
    assert!(said.contains("by magnitude") && said.contains("[534.0, 267.0, 0.0, 267.0]"), "{said}");
    // it is a proof of that statement and of no other
    unsolved.write("src/lib.rs", &format!("{}{KERNEL}", RULE.replace("x * y)", "x / y)").replace("* abs", "/ abs")));
    let said = failed(unsolved.cargo_with(&["build"], &[NO_SOLVER]));
    assert!(said.contains("there is no solver"), "{said}")
}

/// Projecting twice is projecting once, if that is what the matrix does.
const ASSUMING: &str = r#"
#[cleave::kernel]
pub fn twice(p: Tensor<f32, M, N>, x: Tensor<f32, N, C>) -> Tensor<f32, M, C> {
    assume!(sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p, "p is a projection");
    sum::<K>(rename::<N, K>(p) * sum::<N>(rename::<M, K>(p) * x))
}

fn main() -> cleave::Result<()> {
    let n = 8;
    // onto a vector of length 1, or one of length 2
    let along = |length: f32| cleave::Tensor::<f32>::from_fn(&[n, n], |_| length * length / n as f32);
    let x = cleave::Tensor::<f32>::from_fn(&[n, 3], |i| i[0] as f32)?;
    println!("{}\n{}", twice(&along(1.0)?, &x).file()?, twice(&along(1.0)?, &x).plan()?);
    println!("{:?}", &twice(&along(1.0)?, &x).run()?.to_vec()?[..3]);
    match twice(&along(2.0)?, &x).run() {
        Ok(y) => println!("not looked at: {:?}", &y.to_vec()?[..3]),
        Err(e) => println!("{e}"),
    }
    Ok(())
}
"#;

#[test]
fn what_is_assumed_is_named_and_looked_at_in_debug_builds_alone() {
    let assuming = Crate::new("assuming", true);
    assuming.write("src/main.rs", ASSUMING);
    let said = succeeded(assuming.cargo(&["run"]));
    for part in [
        "step 1, assumption `p is a projection`\n    sum_{K} p[M,K] * p[K,N]\n    = p[M,N]",
        "\n  assuming sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p (p is a projection)\n",
        "[3.5, 3.5, 3.5]",
        "`twice` assumes `sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p (p is a projection)`, but at N = 0, M = 1 the left side is 2 and the right side 0.5",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}")
    }
    // as in a release build, which would take long
    assuming.write("Cargo.toml", &(Crate::manifest("assuming", true) + "\n[profile.dev.package.assuming]\ndebug-assertions = false\n"));
    let said = succeeded(assuming.cargo(&["run"]));
    assuming.write("Cargo.toml", &Crate::manifest("assuming", true));
    assert!(said.contains("[3.5, 3.5, 3.5]") && said.contains("not looked at: [14.0, 14.0, 14.0]"), "{said}")
}
