//! What the compiler shows for kernels that are refused: every fault at the user's own tokens, and no further error at their
//! callers. The words themselves are pinned by cleave-core's `kernels/fail`.

#[test]
fn faults_stand_at_the_users_own_tokens() {
    // cargo gives this package's OUT_DIR to its tests, and nested builds inherit it; theirs has no build script
    // SAFETY: this is the only test of the process, and nothing else in it reads the environment yet
    unsafe { std::env::remove_var("OUT_DIR") };
    trybuild::TestCases::new().compile_fail("ui/*.rs")
}
