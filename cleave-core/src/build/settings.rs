//! What the environment of a build script asks for. In: cargo's variables and CLEAVE_*. Out: [`Settings`], which tests make themselves.
use super::nvcc::{Arch, DEFAULT};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub struct Settings {
    /// The package whose sources are read.
    pub manifest: PathBuf,
    /// Where plan files go: `OUT_DIR/cleave`.
    pub out: PathBuf,
    /// Where results are kept between builds.
    pub cache: Option<PathBuf>,
    /// What sources are compiled for; none: they are only written.
    pub archs: Vec<Arch>,
    pub jobs: usize,
    /// Write the proofs of the package's own rules beside its manifest.
    pub proofs: bool,
    /// Print the times of all stages.
    pub log: bool,
}

/// The variables whose change reruns the script.
pub const VARIABLES: [&str; 7] = ["CLEAVE_ARCHS", "CLEAVE_CACHE", "CLEAVE_LOG", "CLEAVE_PROOFS", "NVCC", "Z3_BIN", "DOCS_RS"];

impl Settings {
    /// The settings and what is wrong with the variables; `None` outside a build script.
    pub fn from_environment() -> Option<(Settings, Vec<String>)> {
        Self::read(&|name| env::var_os(name))
    }
    fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<(Settings, Vec<String>)> {
        let text = |name: &str| variable(name).map(|v| v.to_string_lossy().into_owned());
        let out_dir = PathBuf::from(variable("OUT_DIR")?);
        let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let mut warnings = vec![];
        let release = text("PROFILE").is_some_and(|p| p == "release") && variable("DOCS_RS").is_none();
        let archs = match text("CLEAVE_ARCHS") {
            None if release => DEFAULT.to_vec(),
            None => vec![],
            Some(list) => list
                .split([',', ' '])
                .filter(|a| !a.is_empty() && *a != "none")
                .filter_map(|a| {
                    let arch = Arch::parse(a);
                    if arch.is_none() {
                        warnings.push(format!("CLEAVE_ARCHS: `{a}` is no architecture from 80 on; write for instance 80,90a"))
                    }
                    arch
                })
                .collect(),
        };
        let cache = variable("CLEAVE_CACHE").map(PathBuf::from).or_else(|| beside_target(&out_dir));
        let jobs = text("NUM_JOBS").and_then(|n| n.parse().ok()).unwrap_or(1);
        let proofs = text("CLEAVE_PROOFS").is_some_and(|v| v == "write");
        let log = text("CLEAVE_LOG").is_some_and(|v| !v.is_empty() && v != "0");
        Some((Settings { manifest, out: out_dir.join("cleave"), cache, archs, jobs, proofs, log }, warnings))
    }
}

/// OUT_DIR is `<target>[/<triple>]/<profile>/build/<package>/out`: the cache lies beside the profiles.
fn beside_target(out_dir: &Path) -> Option<PathBuf> {
    let build = out_dir.ancestors().find(|d| d.file_name().is_some_and(|n| n == "build"))?;
    Some(build.parent()?.parent()?.join("cleave-cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let standard = [("OUT_DIR", "/t/debug/build/p-1/out"), ("CARGO_MANIFEST_DIR", "/p")];
        let find = |name: &str| variables.iter().chain(&standard).find(|v| v.0 == name).map(|v| OsString::from(v.1));
        Settings::read(&find).unwrap()
    }

    #[test]
    fn debug_builds_compile_nothing_unless_told_to() {
        assert_eq!(read(&[("PROFILE", "debug")]).0.archs, []);
        assert_eq!(read(&[("PROFILE", "release")]).0.archs, DEFAULT);
        assert_eq!(read(&[("PROFILE", "release"), ("DOCS_RS", "1")]).0.archs, []);
        assert_eq!(read(&[("PROFILE", "release"), ("CLEAVE_ARCHS", "none")]).0.archs, []);
        assert_eq!(read(&[("PROFILE", "debug"), ("CLEAVE_ARCHS", "sm_86, 90a")]).0.archs.len(), 2);
        assert_eq!(read(&[("CLEAVE_ARCHS", "9000")]).1.len(), 1);
    }

    #[test]
    fn the_cache_lies_in_the_target_directory() {
        assert_eq!(read(&[]).0.cache, Some(PathBuf::from("/t/cleave-cache")));
        assert_eq!(read(&[("CLEAVE_CACHE", "/c")]).0.cache, Some(PathBuf::from("/c")));
    }
}
