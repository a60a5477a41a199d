//! What the compiler shows for kernels that are refused: every fault at the user's own tokens, and no further error at their
//! callers. The words themselves are pinned by cleave-core's `kernels/fail`.

#[test]
fn faults_stand_at_the_users_own_tokens() {
    trybuild::TestCases::new().compile_fail("ui/*.rs")
}
