//! PTX that NVRTC made, kept on disk, so that the next process need not compile the same source again. A file holds what it was made from, whole:
//! it is used for that alone.
use crate::disk;
use crate::log::log;
use once_cell::sync::Lazy;
use std::path::{Path, PathBuf};

/// `CLEAVE_COMPILED`, else `cleave/compiled` in the user's folder of caches.
static FOLDER: Lazy<Option<PathBuf>> = Lazy::new(|| disk::folder("CLEAVE_COMPILED", "compiled"));

/// What PTX is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// No text of it holds a NUL.
    pub source: &'a str,
    pub flags: &'a [String],
    /// NVRTC's version.
    pub compiler: (i32, i32),
}

impl Origin<'_> {
    fn header(&self) -> String {
        format!("cleave compiled 1 nvrtc {}.{} {}", self.compiler.0, self.compiler.1, self.flags.join(" "))
    }
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:016x}.ptx", disk::hash((self.header() + self.source).as_bytes())))
    }
    /// What the disk has.
    pub fn load(&self) -> Option<String> {
        self.load_from(FOLDER.as_deref()?)
    }
    fn load_from(&self, folder: &Path) -> Option<String> {
        let path = self.path(folder);
        let text = std::fs::read_to_string(&path).ok()?;
        let found = self.parse(&text);
        if found.is_none() {
            log(|| format!("{} is damaged or foreign and ignored", path.display()))
        }
        found.map(str::to_owned)
    }
    fn parse<'t>(&self, text: &'t str) -> Option<&'t str> {
        let [header, source, ptx, hash] = text.split('\0').collect::<Vec<_>>()[..] else { return None };
        (header == self.header() && source == self.source && hash == Self::check(ptx)).then_some(ptx)
    }
    fn check(ptx: &str) -> String {
        format!("{:016x}", disk::hash(ptx.as_bytes()))
    }
    pub fn keep(&self, ptx: &str) {
        if let Some(folder) = FOLDER.as_deref() {
            self.keep_in(folder, ptx)
        }
    }
    fn keep_in(&self, folder: &Path, ptx: &str) {
        let path = self.path(folder);
        let text = [&self.header(), self.source, ptx, &Self::check(ptx)].join("\0");
        if let Err(e) = disk::replace(&path, &text) {
            log(|| format!("compiled code is not kept: {}: {e}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compiled_is_used_for_the_same_source_flags_and_compiler_alone() {
        let folder = std::env::temp_dir().join(format!("cleave-compiled-{}", std::process::id()));
        let flags = ["--gpu-architecture=compute_90".to_string()];
        let origin = Origin { source: "__global__ void f() {}", flags: &flags, compiler: (13, 0) };
        assert_eq!(origin.load_from(&folder), None);
        origin.keep_in(&folder, ".version 9.0");
        let others = [Origin { compiler: (12, 9), ..origin }, Origin { flags: &[], ..origin }, Origin { source: "", ..origin }];
        let (found, foreign) = (origin.load_from(&folder), others.map(|o| o.load_from(&folder)));
        let path = origin.path(&folder);
        // a file in the place of another's, and damaged ones
        let whole = std::fs::read_to_string(&path).unwrap();
        let damaged = [whole.replace("void f", "void g"), whole.replace("9.0", "9.1"), whole[..whole.len() - 3].to_string(), String::new()];
        let read = damaged.map(|text| {
            std::fs::write(&path, text).unwrap();
            origin.load_from(&folder)
        });
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.as_deref(), Some(".version 9.0"));
        assert_eq!(foreign, [None, None, None]);
        assert_eq!(read, [None, None, None, None])
    }
}
