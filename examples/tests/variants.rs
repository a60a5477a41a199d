//! The ten variants of attention run, and each is what the oracle says.
use std::process::Command;

#[test]
fn every_variant_of_attention_equals_the_oracle() {
    let out = Command::new(env!("CARGO_BIN_EXE_variants")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(text.matches("greatest difference from the oracle").count(), 10, "{text}");
}
