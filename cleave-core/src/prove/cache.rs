//! Which rows were proved, by their content: so that builds without a solver know.
//!
//! A cache is a text of lines `<key> <name>`. The key covers both sides, the guards and what a row's forms mean, but neither its name nor
//! how the search is led; so a proof holds as long as the statement is the same.
use crate::algebra::schema::{Row, Split};
use std::collections::BTreeMap;

/// Of the prover: raised when an old proof no longer counts.
const VERSION: u32 = 1;

/// The proofs of the project's own table, written by `--example prove -- --write`.
pub const OWN: &str = include_str!("proved.txt");

/// The content of a row.
pub fn key(row: &Row) -> u64 {
    // what a family shares decides what its variables stand for
    let shared = if let Split::Shared(v) = row.split { Some(v) } else { None };
    let text = format!("{VERSION} {:?} {:?} {:?} {:?} {shared:?}", row.left, row.replaces, row.right, row.guards);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

/// The keys of a cache's text, with names.
pub fn parse(text: &str) -> BTreeMap<u64, String> {
    let line = |l: &str| {
        let (key, name) = l.split_once(' ')?;
        Some((u64::from_str_radix(key, 16).ok()?, name.to_string()))
    };
    text.lines().filter_map(line).collect()
}

/// A cache that says these rows were proved.
pub fn print<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    rows.into_iter().map(|r| format!("{:016x} {}\n", key(r), r.name)).collect()
}

/// Was a row of the project's own table proved as it stands?
pub fn is_proved(row: &Row) -> bool {
    let key = format!("{:016x} ", key(row));
    OWN.lines().any(|l| l.starts_with(&key))
}
