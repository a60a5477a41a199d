//! The language: kernels that are accepted, and what is said of those that are not.
#![cfg(feature = "compiler")]
use cleave_core::frontend;
use std::path::{Path, PathBuf};

/// The kernels of a folder, by file.
fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

/// Compares with the file beside the kernel; `UPDATE=1` rewrites it.
fn snapshot(path: &Path, got: &str) -> Option<String> {
    let path = path.with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    (want != got).then(|| format!("{}: expected\n{want}\ngot\n{got}", path.display()))
}

#[test]
fn accepted_kernels_print_as_pinned() {
    let mut wrong = vec![];
    for (path, text) in texts("pass") {
        match frontend::from_source(&text) {
            Ok(kernels) => {
                let print: Vec<String> = kernels.iter().map(frontend::print).collect();
                assert!(!print.is_empty(), "{}: no kernel", path.display());
                wrong.extend(snapshot(&path, &print.join("\n")))
            }
            Err(e) => wrong.push(format!("{}:\n{}", path.display(), e.render(&text))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn refused_kernels_are_refused_in_the_pinned_words() {
    let mut wrong = vec![];
    for (path, text) in texts("fail") {
        match frontend::from_source(&text) {
            Ok(_) => wrong.push(format!("{}: accepted", path.display())),
            Err(e) => wrong.extend(snapshot(&path, &e.render(&text))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}
