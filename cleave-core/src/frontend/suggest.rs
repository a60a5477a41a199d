//! The name that was probably meant.

/// The candidate nearest to `name`, if it is near enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // of a single letter only the case may be a slip
    let limit = match name.chars().count() {
        0 | 1 => 0,
        n => (n / 3).max(1),
    };
    let distances = candidates.into_iter().filter(|c| *c != name).map(|c| (distance(name, c), c));
    distances.filter(|(d, _)| *d <= limit).min().map(|(_, c)| c)
}

/// Insertions, deletions, replacements and exchanges of neighbours that lead from one word to the other; a change of case is none.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]) as usize;
            let mut least = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1)
            }
            row.push(least)
        }
        rows.push(row)
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_foreign_one_is_not() {
        assert_eq!(nearest("Nn", ["M", "N", "D"]), Some("N"));
        assert_eq!(nearest("sofmtax", ["softmax", "logsumexp"]), Some("softmax"));
        assert_eq!(nearest("m", ["M", "N"]), Some("M"));
        assert_eq!(nearest("q", ["M", "N"]), None);
        assert_eq!(nearest("banana", ["softmax", "logsumexp"]), None);
        assert_eq!(distance("ab", "ba"), 1);
    }
}
