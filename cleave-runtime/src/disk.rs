//! What outlives the process: files in a folder of the user's caches. None is ever needed; one that is damaged or foreign is ignored by who reads it.
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What `variable` says, else `cleave/name` in the user's folder of caches; without either nothing outlives the process.
pub(crate) fn folder(variable: &str, name: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let caches = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    set(variable).or_else(|| Some(caches()?.join("cleave").join(name)))
}

/// Writes a file beside `path` and moves it there, so that nobody reads half of it.
pub(crate) fn replace(path: &Path, contents: &str) -> io::Result<()> {
    let unfinished = path.with_extension(std::process::id().to_string());
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&unfinished, contents)?;
    fs::rename(&unfinished, path)
}

/// FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf29ce484222325, |h, b| (h ^ *b as u64).wrapping_mul(0x100000001b3))
}
