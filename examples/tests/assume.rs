//! The example of an assumption runs one product, which is right, and refuses data that are not as assumed.
use std::process::Command;

#[test]
fn an_assumption_leads_to_one_product_and_is_looked_at() {
    let out = Command::new(env!("CARGO_BIN_EXE_assume")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    let mut parts = vec!["assuming sum::<K>(outer * inner) == p (p is a projection)", "greatest difference from both products"];
    if cfg!(debug_assertions) {
        parts.push("of a matrix that is no projection: `project_twice` assumes")
    }
    for part in parts {
        assert!(text.contains(part), "no `{part}` in {text}")
    }
}
