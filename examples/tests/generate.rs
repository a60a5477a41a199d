//! The program itself.
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Fetched once, so that no run of the program tells of it.
static WEIGHTS: LazyLock<PathBuf> = LazyLock::new(|| examples::fetch::gguf().expect("the weights can be fetched"));

fn generate(arguments: &[&str]) -> Output {
    LazyLock::force(&WEIGHTS);
    Command::new(env!("CARGO_BIN_EXE_generate")).args(arguments).env_remove("RUST_BACKTRACE").output().expect("the program starts")
}

#[test]
fn the_text_goes_to_standard_output_and_the_rates_to_standard_error() {
    let output = generate(&["The capital of France is", "--tokens", "12"]);
    let rates = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "The capital of France is Paris.\n\nThe answer is: 201\n");
    assert!(rates.contains("prompt: 5 tokens, ") && rates.contains("decode: 12 tokens, ") && rates.trim_end().ends_with("tokens/s"), "{rates}");
}

#[test]
fn what_cannot_be_done_is_said_in_a_line() {
    let message = |arguments: &[&str]| {
        let output = generate(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(message(&["--prompt-file", "no/such/file"]), "Error: cannot read no/such/file");
    assert_eq!(message(&["", "--tokens", "1"]), "Error: the prompt is empty");
    assert_eq!(message(&["Hello", "--tokens", "9000"]), "Error: a prompt of 1 tokens leaves room for 8191 of the 8192 positions");
}

/// On a driver without a device (tests/driver): what it writes means nothing, but how it is run is as on a GPU.
#[test]
fn on_cuda_steps_are_recorded_once_and_replayed() {
    LazyLock::force(&WEIGHTS);
    let built = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/driver/build")).output().expect("the script runs");
    let folder = String::from_utf8(built.stdout).expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_generate"));
    command
        .args(["The capital of France is", "--tokens", "4", "--device", "cuda"])
        .env("LD_LIBRARY_PATH", folder.trim())
        .env("CLEAVE_COMPILED", folder.trim().to_string() + "/compiled")
        .env_remove("RUST_BACKTRACE");
    let output = command.output().expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("decode: 4 tokens, ") && told.contains("replayed: 3 steps of "), "{told}");
}
