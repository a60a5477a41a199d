//! Choices that were timed. In memory by bucket of extents; on disk a text file for each kernel, menu and device, so that the next
//! process starts with them. A file that is damaged or foreign is ignored, with a line in the log; none is ever needed.
use crate::disk;
use crate::key::Key;
use crate::log::log;
use cleave_core::choose::Alternative;
use once_cell::sync::Lazy;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// `CLEAVE_TUNED`, else `cleave/tuned` in the user's folder of caches.
static FOLDER: Lazy<Option<PathBuf>> = Lazy::new(|| disk::folder("CLEAVE_TUNED", "tuned"));

/// `CLEAVE_TUNE=1`: every plan that is not known yet is tuned at its first use.
pub(crate) static ALWAYS: Lazy<bool> = Lazy::new(|| std::env::var_os("CLEAVE_TUNE").is_some_and(|v| !v.is_empty() && v != "0"));

/// What a file is for: it stands in its name and its first line.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub kernel: &'a str,
    /// A hash of the plan file: entries are numbers, which mean nothing in another menu.
    pub menu: u64,
    /// The device's name, without its number.
    pub device: &'a str,
}

/// The tuned choices of one subject.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Tuned {
    choices: BTreeMap<Key, Alternative>,
}

impl Subject<'_> {
    fn header(&self) -> String {
        format!("cleave tuned 1 kernel {} menu {:016x} device {}", self.kernel, self.menu, self.device)
    }
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{:016x}.txt", self.kernel, disk::hash(self.header().as_bytes())))
    }
}

impl Tuned {
    /// What the disk has.
    pub fn load(subject: &Subject) -> Tuned {
        FOLDER.as_deref().map_or_else(Tuned::default, |folder| Self::load_from(folder, subject))
    }
    fn load_from(folder: &Path, subject: &Subject) -> Tuned {
        let path = subject.path(folder);
        let Ok(text) = fs::read_to_string(&path) else { return Tuned::default() };
        Tuned::parse(&text, subject).unwrap_or_else(|| {
            log(|| format!("{} is damaged or foreign and ignored", path.display()));
            Tuned::default()
        })
    }
    pub fn get(&self, key: &Key) -> Option<&Alternative> {
        self.choices.get(key)
    }
    /// Keeps a choice, here and on disk, where others may have added theirs meanwhile.
    pub fn put(&mut self, subject: &Subject, key: Key, choice: Alternative) {
        if let Some(folder) = FOLDER.as_deref() {
            self.put_in(folder, subject, key, choice)
        } else {
            self.choices.insert(key, choice);
        }
    }
    fn put_in(&mut self, folder: &Path, subject: &Subject, key: Key, choice: Alternative) {
        for (key, choice) in Self::load_from(folder, subject).choices {
            self.choices.entry(key).or_insert(choice);
        }
        self.choices.insert(key, choice);
        let path = subject.path(folder);
        if let Err(e) = disk::replace(&path, &self.print(subject)) {
            log(|| format!("tuned choices are not kept: {}: {e}", path.display()))
        }
    }
    fn print(&self, subject: &Subject) -> String {
        let mut text = subject.header() + "\n";
        for (key, choice) in &self.choices {
            let key = key.iter().map(|k| format!("{k:x}")).collect::<Vec<_>>().join(",");
            // writing to a string cannot fail
            let _ = writeln!(text, "{key} entry {} pieces {} seconds {:e}", choice.entry, choice.pieces, choice.seconds);
        }
        text
    }
    fn parse(text: &str, subject: &Subject) -> Option<Tuned> {
        let mut lines = text.lines();
        if lines.next()? != subject.header() {
            return None;
        }
        let line = |line: &str| {
            let [key, "entry", entry, "pieces", pieces, "seconds", seconds] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            let key = key.split(',').map(|k| u64::from_str_radix(k, 16).ok()).collect::<Option<Key>>()?;
            Some((key, Alternative { entry: entry.parse().ok()?, pieces: pieces.parse().ok()?, seconds: seconds.parse().ok()? }))
        };
        Some(Tuned { choices: lines.map(line).collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = Subject { kernel: "attention", menu: 7, device: "a device" };

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cleave-tuned-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_two_processes_found_is_kept() {
        let folder = folder("two");
        let choice = |entry| Alternative { entry, pieces: 4, seconds: 1.5e-5 };
        let (mut one, mut other) = (Tuned::default(), Tuned::default());
        one.put_in(&folder, &SUBJECT, vec![1, 0xff], choice(2));
        other.put_in(&folder, &SUBJECT, vec![3], choice(5));
        let read = Tuned::load_from(&folder, &SUBJECT);
        let foreign = Tuned::load_from(&folder, &Subject { menu: 8, ..SUBJECT });
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((read.get(&vec![1, 0xff]), read.get(&vec![3])), (Some(&choice(2)), Some(&choice(5))));
        assert_eq!(foreign, Tuned::default())
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored() {
        let good = Tuned { choices: BTreeMap::from([(vec![1], Alternative { entry: 0, pieces: 1, seconds: 1.0 })]) }.print(&SUBJECT);
        assert!(Tuned::parse(&good, &SUBJECT).is_some());
        for bad in
            ["", "nonsense", &good.replace("entry", "entrance"), &good.replace("menu", "me"), &good.replace("pieces 1", "pieces -1"), &good[..good.len() - 12]]
        {
            assert_eq!(Tuned::parse(bad, &SUBJECT), None, "{bad:?}")
        }
    }
}
