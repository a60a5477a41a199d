//! A crate outside this workspace, as a user would write it, built by a cargo of its own.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Crate {
    pub directory: PathBuf,
    target: PathBuf,
}

impl Crate {
    /// A crate that depends on this one; with a build script of one line, if it has one.
    pub fn new(name: &str, script: bool) -> Crate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let foreign = Crate { directory: scratch.join(name), target: scratch.join("foreign-target") };
        foreign.write("Cargo.toml", &Self::manifest(name, script));
        if script {
            foreign.write("build.rs", "fn main() {\n    cleave::build()\n}\n")
        }
        fs::copy(root.join("Cargo.lock"), foreign.directory.join("Cargo.lock")).unwrap();
        foreign
    }
    pub fn manifest(name: &str, script: bool) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().display();
        let package = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\ncleave = {{ path = \"{root}\" }}\n"
        );
        let build = format!("\n[build-dependencies]\ncleave = {{ path = \"{root}\", default-features = false, features = [\"build\"] }}\n");
        if script { package + &build } else { package }
    }
    pub fn write(&self, path: &str, text: &str) {
        let path = self.directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // an unchanged file keeps its time, so that a second run of this test builds nothing anew
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(path, text).unwrap()
        }
    }
    pub fn cargo(&self, arguments: &[&str]) -> Output {
        self.cargo_with(arguments, &[])
    }
    /// With more variables.
    pub fn cargo_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).arg("--offline").current_dir(&self.directory);
        // cargo hands its own variables to tests; a nested cargo must not take them for its own
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG") || text.starts_with("CARGO_MANIFEST") || text == "OUT_DIR" || text.starts_with("CLEAVE_") {
                cargo.env_remove(&name);
            }
        }
        // all of the workspace is compiled once more: without debug information, which takes half of the time
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CARGO_PROFILE_DEV_DEBUG", "0").env("CLEAVE_LOG", "1");
        cargo.envs(variables.iter().copied()).output().unwrap()
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
