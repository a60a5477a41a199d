//! Finding sources that may hold kernels. In: a package's directory. Out: the Rust files of its targets whose text mentions a
//! kernel or a helper, in a fixed order. Parsing every file of a large crate takes seconds, looking for a word takes milliseconds.
use std::fs;
use std::path::{Path, PathBuf};

/// The directories whose targets see the build script's `OUT_DIR`.
pub const DIRECTORIES: [&str; 4] = ["src", "tests", "benches", "examples"];

pub struct Source {
    pub path: PathBuf,
    pub text: String,
}

/// The files that may hold kernels, sorted by path. What cannot be read is left to rustc to report.
pub fn sources(manifest: &Path) -> Vec<Source> {
    let mut paths = vec![];
    for d in DIRECTORIES {
        walk(&manifest.join(d), &mut paths)
    }
    paths.sort();
    let read = |path: PathBuf| fs::read_to_string(&path).ok().filter(|t| mentions(t)).map(|text| Source { path, text });
    paths.into_iter().filter_map(read).collect()
}

/// The attribute may be imported under its own name, so the word alone counts; the front end tells for sure.
fn mentions(text: &str) -> bool {
    ["kernel", "function", "rule!"].iter().any(|w| text.contains(w)) && text.contains("cleave")
}

fn walk(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.to_string_lossy().starts_with('.');
        match entry.file_type() {
            Ok(t) if t.is_dir() && !hidden && name != "target" => walk(&path, out),
            Ok(t) if !t.is_dir() && path.extension().is_some_and(|e| e == "rs") => out.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_mention_a_kernel_are_parsed() {
        assert!(mentions("#[cleave::kernel]") && mentions("use cleave::kernel;\n#[kernel]"));
        assert!(!mentions("fn main() {}") && !mentions("the kernel of a group"));
    }
}
