//! What a build script does with a package: which files it writes, and when it does nothing.
#![cfg(feature = "compiler")]
use cleave_core::build::settings::Settings;
use cleave_core::build::{Report, build};
use cleave_core::plan::PlanFile;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A package in a directory of its own, removed at the end.
struct Package(PathBuf);

impl Package {
    fn new(name: &str, files: &[(&str, &str)]) -> Package {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let package = Package(directory);
        files.iter().for_each(|(path, text)| package.write(path, text));
        package
    }
    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap()
    }
    fn build(&self, out: &str, cache: bool) -> Report {
        build(&Settings {
            manifest: self.0.clone(),
            out: self.0.join(out),
            cache: cache.then(|| self.0.join("cache")),
            archs: vec![],
            jobs: 2,
            proofs: false,
            log: false,
        })
    }
    /// The plan files that were written, by name.
    fn plans(&self, out: &str) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.0.join(out)).unwrap().map(|e| e.unwrap().path());
        files.filter(|p| p.extension().is_some_and(|e| e == "plan")).map(|p| (p.file_name().unwrap().to_string_lossy().into(), fs::read(p).unwrap())).collect()
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rows(name: &str) -> String {
    format!("#[cleave::kernel(dtypes(T = f32))]\npub fn {name}<T>(x: Tensor<T, M, N>) -> Tensor<f32, M> {{ sum::<N>(x) }}\n")
}

const SOFTMAX: &str = "#[cleave::kernel(dtypes(T = f16, f32))]\npub fn weights<T>(x: Tensor<T, M, N>) -> Tensor<T, M, N> { softmax::<N>(x) }\n";

fn names(report: &Report) -> Vec<&str> {
    report.kernels.iter().map(|k| k.name.as_str()).collect()
}

#[test]
fn kernels_are_found_in_every_kind_of_target() {
    let files =
        [("src/deep/a.rs", rows("a")), ("tests/b.rs", rows("b")), ("benches/c.rs", rows("c")), ("examples/d/main.rs", rows("d")), ("other/e.rs", rows("e"))];
    let package = Package::new("targets", &files.each_ref().map(|(p, t)| (*p, t.as_str())));
    let report = package.build("out", false);
    assert_eq!(names(&report), ["a", "b", "c", "d"]);
    assert_eq!(report.warnings, [""; 0]);
    for (name, bytes) in package.plans("out") {
        let file = PlanFile::from_bytes(&bytes).unwrap();
        assert_eq!(name, format!("{:016x}.plan", file.key));
        assert!(file.instances.iter().all(|i| !i.entries.is_empty()))
    }
}

#[test]
fn two_builds_write_the_same_bytes() {
    let package = Package::new("bytes", &[("src/lib.rs", SOFTMAX)]);
    package.build("one", false);
    package.build("two", false);
    assert_eq!(package.plans("one").len(), 1);
    assert!(package.plans("one") == package.plans("two"))
}

#[test]
fn only_a_changed_kernel_is_compiled_again() {
    let package = Package::new("cache", &[("src/lib.rs", &(rows("a") + &rows("b")))]);
    let cached = |report: &Report| report.kernels.iter().map(|k| k.cached).collect::<Vec<_>>();
    assert_eq!(cached(&package.build("out", true)), [false, false]);
    let before = package.plans("out");
    assert_eq!(cached(&package.build("out", true)), [true, true]);
    assert!(package.plans("out") == before);
    // a comment changes the text, not the kernel
    package.write("src/lib.rs", &(String::from("// a comment\n") + &rows("a") + &rows("b").replace("sum", "max")));
    assert_eq!(cached(&package.build("out", true)), [true, false]);
    assert_eq!(package.plans("out").len(), 2, "the old plan of `b` is removed")
}

#[test]
fn a_fault_in_a_kernel_spoils_no_other() {
    let package =
        Package::new("fault", &[("src/lib.rs", &(rows("good") + &rows("bad").replace("sum::<N>", "sum::<Q>"))), ("src/torn.rs", "#[cleave::kernel] fn (")]);
    let report = package.build("out", false);
    assert_eq!(names(&report), ["good"]);
    assert_eq!(report.warnings, [""; 0], "the macro reports faults")
}

#[test]
fn the_table_of_times_has_a_line_for_every_kernel() {
    let package = Package::new("table", &[("src/lib.rs", &rows("a"))]);
    let table = package.build("out", false).table();
    assert!(table.contains("search") && table.contains("nvcc") && table.lines().any(|l| l.starts_with("a ")), "{table}")
}
