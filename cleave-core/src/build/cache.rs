//! Results by content: a file for each key, outside OUT_DIR so that profiles and clean builds share it. A key covers everything
//! that the result depends on; a file is written whole or not at all.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What has not been used for this long is removed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

pub struct Cache {
    /// `None`: nothing is cached.
    directory: Option<PathBuf>,
}

impl Cache {
    pub fn new(directory: Option<PathBuf>) -> Cache {
        Cache { directory: directory.filter(|d| fs::create_dir_all(d).is_ok()) }
    }
    fn path(&self, key: u64) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{key:016x}.plan")))
    }
    pub fn get(&self, key: u64) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let bytes = fs::read(&path).ok()?;
        // used now; failing to say so only removes it earlier
        let _ = fs::File::options().write(true).open(&path).and_then(|f| f.set_modified(SystemTime::now()));
        Some(bytes)
    }
    /// A cache that cannot be written is a slower build, no error.
    pub fn put(&self, key: u64, bytes: &[u8]) {
        if let Some(path) = self.path(key) {
            let _ = write_whole(&path, bytes);
        }
    }
    /// Removes what has not been used for long.
    pub fn prune(&self) {
        let Some(directory) = &self.directory else { return };
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let used = entry.metadata().and_then(|m| m.modified());
            if used.is_ok_and(|t| t.elapsed().is_ok_and(|age| age > KEPT)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Writes a file in one step: readers see the old or the new. A file that holds the same bytes is left alone, with its time.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

/// A hash that is the same on every machine and in every version of Rust (FNV-1a over 64-bit words, with a final mix).
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    let mut step = |w: u64| {
        h = (h ^ w).wrapping_mul(0x0000_0100_0000_01b3);
        h ^= h >> 29
    };
    for part in parts {
        step(part.len() as u64);
        let (words, rest) = part.as_chunks::<8>();
        // no iterator: build scripts are compiled without optimisation, and this runs over tens of megabytes
        let mut i = 0;
        while i < words.len() {
            step(u64::from_le_bytes(words[i]));
            i += 1
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        step(u64::from_le_bytes(last))
    }
    h = (h ^ h >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ h >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_where_one_part_ends() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a"]), hash(&[b"a\0"]));
        assert_eq!(hash(&[b"attention", b"1"]), hash(&[b"attention", b"1"]));
    }

    #[test]
    fn what_was_put_is_got_and_nothing_else() {
        let directory = std::env::temp_dir().join(format!("cleave-cache-test-{}", std::process::id()));
        let cache = Cache::new(Some(directory.clone()));
        cache.put(7, b"plan");
        assert_eq!((cache.get(7), cache.get(8)), (Some(b"plan".to_vec()), None));
        cache.prune();
        assert!(cache.get(7).is_some());
        let _ = fs::remove_dir_all(directory);
        assert_eq!(Cache::new(None).get(7), None);
    }
}
