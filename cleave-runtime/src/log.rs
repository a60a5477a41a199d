//! `CLEAVE_LOG=1`: what was chosen and why, on standard error.
use once_cell::sync::Lazy;

static ENABLED: Lazy<bool> = Lazy::new(|| std::env::var_os("CLEAVE_LOG").is_some_and(|v| !v.is_empty() && v != "0"));

/// Prints what `message` says, if asked to; else it costs a load.
pub(crate) fn log(message: impl FnOnce() -> String) {
    if *ENABLED {
        for line in message().lines() {
            eprintln!("cleave: {line}")
        }
    }
}
