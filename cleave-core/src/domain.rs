//! Interval arithmetic on predicates: where along one loop a predicate can hold, and where it must, given ranges of everything else.
//!
//! In: the predicates of a loop's domain, and the box of positions at hand. Out: disjoint ascending [`Span`]s of the loop's
//! positions. Imprecision only ever widens what is visited and narrows what is full, and a tile that is visited and not
//! full is masked: an imprecise answer costs time, never a wrong value.
use crate::axis::AxisId;
use crate::graph::{Graph, NodeId, Op};
use crate::predicate::{Atom, Predicate, Table};
use crate::tile::{Loop, Part};

/// Positions `start..end` along a dim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    pub start: i64,
    pub end: i64,
}

impl Span {
    pub fn new(start: i64, end: i64) -> Self {
        Span { start, end }
    }
    pub fn len(self) -> i64 {
        (self.end - self.start).max(0)
    }
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
    pub fn intersection(self, other: Self) -> Self {
        Span { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// The union of spans as disjoint ascending spans that do not touch.
pub fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|s| !s.is_empty());
    spans.sort_by_key(|s| s.start);
    let mut out: Vec<Span> = vec![];
    for s in spans {
        match out.last_mut() {
            Some(last) if s.start <= last.end => last.end = last.end.max(s.end),
            _ => out.push(s),
        }
    }
    out
}

/// The intersection of two unions.
pub fn intersection(a: &[Span], b: &[Span]) -> Vec<Span> {
    union(a.iter().flat_map(|x| b.iter().map(move |y| x.intersection(*y))).collect())
}

/// What is known where a loop starts. Ranges are inclusive; an axis that is not bound yet has its whole range.
pub struct Surroundings<'a> {
    pub index: &'a dyn Fn(AxisId) -> (i64, i64),
    pub extent: &'a dyn Fn(AxisId) -> i64,
    /// The range of a table's values over the box; `None` if nothing is known.
    pub table: &'a dyn Fn(&Table) -> Option<(i64, i64)>,
}

/// Where a predicate can hold somewhere in the box, and where it holds throughout the box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    pub visit: Vec<Span>,
    pub full: Vec<Span>,
}

/// The reach of a predicate along `axis`, of which positions `0..extent` are asked for.
pub fn reach(predicate: &Predicate, axis: AxisId, extent: i64, around: &Surroundings) -> Reach {
    let whole = Span::new(0, extent);
    let (mut visit, mut full) = (vec![], vec![]);
    for clause in &predicate.clauses {
        let (v, f) = clause.iter().map(|a| solve(a, axis, around)).fold((whole, whole), |s, r| (s.0.intersection(r.0), s.1.intersection(r.1)));
        visit.push(v);
        full.push(f);
    }
    Reach { visit: union(visit), full: union(full) }
}

/// Everywhere a loop can be, and nowhere.
const EVERYWHERE: Span = Span { start: i64::MIN / 4, end: i64::MAX / 4 };
const NOWHERE: Span = Span { start: 0, end: 0 };

/// Solves `coefficient * index(axis) + rest >= 0` for the index, where `rest` is an interval.
fn solve(atom: &Atom, axis: AxisId, around: &Surroundings) -> (Span, Span) {
    // a quotient that cannot be multiplied out, or a table of which nothing is known: no bound
    let Some(mut rest) = atom.solvable(axis) else { return (EVERYWHERE, NOWHERE) };
    let coefficient: i128 = rest.indices.iter().filter(|i| i.0 == axis).map(|i| i.1 as i128).sum();
    rest.indices.retain(|i| i.0 != axis);
    let Some((low, high)) = range(&rest, around) else { return (EVERYWHERE, NOWHERE) };
    let bound = |x: i128| x.div_euclid(coefficient.abs().max(1)).clamp(EVERYWHERE.start as i128, EVERYWHERE.end as i128) as i64;
    match coefficient {
        0 => (if high >= 0 { EVERYWHERE } else { NOWHERE }, if low >= 0 { EVERYWHERE } else { NOWHERE }),
        c if c > 0 => (Span { start: -bound(high), ..EVERYWHERE }, Span { start: -bound(low), ..EVERYWHERE }),
        _ => (Span { end: bound(high) + 1, ..EVERYWHERE }, Span { end: bound(low) + 1, ..EVERYWHERE }),
    }
}

/// The least and the greatest value of an atom's sum over the box. `None` if nothing is known of a table.
fn range(atom: &Atom, around: &Surroundings) -> Option<(i128, i128)> {
    // i128: no sum of products of 64-bit values that a list of leaves can hold overflows
    let (mut low, mut high) = (atom.constant as i128, atom.constant as i128);
    let mut add = |k: i64, range: (i128, i128)| {
        let (a, b) = (k as i128 * range.0, k as i128 * range.1);
        low += a.min(b);
        high += a.max(b);
    };
    let wide = |r: (i64, i64)| (r.0 as i128, r.1 as i128);
    atom.indices.iter().for_each(|(a, k)| add(*k, wide((around.index)(*a))));
    atom.extents.iter().map(|(a, k)| ((around.extent)(*a), *k)).for_each(|(n, k)| add(k, wide((n, n))));
    for (t, k) in &atom.tables {
        add(*k, wide((around.table)(t)?))
    }
    for (q, k) in &atom.quotients {
        let (least, greatest) = range(&q.of, around)?;
        add(*k, (least.div_euclid(q.by as i128), greatest.div_euclid(q.by as i128)))
    }
    Some((low, high))
}

/// The inclusive range of one axis of a packed dim over the dim's positions `span` (not empty). A range that wraps a radix
/// widens to the whole axis.
pub fn index_range(axes: &[AxisId], axis: AxisId, span: Span, extent: &dyn Fn(AxisId) -> i64) -> (i64, i64) {
    let inner: i64 = axes.iter().skip_while(|a| **a != axis).skip(1).map(|a| extent(*a).max(1)).product();
    let n = extent(axis).max(1);
    let (first, last) = (span.start / inner, (span.end.max(span.start + 1) - 1) / inner);
    if first / n == last / n { (first % n, last % n) } else { (0, n - 1) }
}

/// The position along one axis of a packed dim at the dim's position.
pub fn index_at(axes: &[AxisId], axis: AxisId, position: i64, extent: &dyn Fn(AxisId) -> i64) -> i64 {
    let inner: i64 = axes.iter().skip_while(|a| **a != axis).skip(1).map(|a| extent(*a).max(1)).product();
    position / inner % extent(axis).max(1)
}

/// What a loop visits over the box at hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Disjoint, ascending.
    pub visit: Vec<Span>,
    /// Where each predicate of the loop's domain holds throughout.
    pub full: Vec<(NodeId, Vec<Span>)>,
}

impl Domain {
    /// The domain of `the_loop` of `part`, whose dim has `extent` positions. A packed dim is visited whole.
    pub fn new(part: &Part, the_loop: &Loop, extent: i64, around: &Surroundings) -> Self {
        let whole = vec![Span::new(0, extent)];
        let [axis] = part.dim(the_loop.dim).axes[..] else { return Domain { visit: union(whole), full: vec![] } };
        if the_loop.domain.is_empty() {
            return Domain { visit: union(whole), full: vec![] };
        }
        let (mut visit, mut full): (Vec<Span>, Vec<(NodeId, Vec<Span>)>) = (vec![], vec![]);
        for conjunction in &the_loop.domain {
            let mut both = whole.clone();
            for &node in conjunction {
                let r = node_reach(&part.graph, node, axis, extent, around);
                both = intersection(&both, &r.visit);
                if full.iter().all(|f| f.0 != node) {
                    full.push((node, r.full))
                }
            }
            visit.extend(both)
        }
        Domain { visit: union(visit), full }
    }
    /// Positions visited.
    pub fn len(&self) -> i64 {
        self.visit.iter().map(|s| s.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.visit.is_empty()
    }
    /// The visited part of every tile `i*tile..(i+1)*tile`, ascending: loads are clipped to it, since what lies beyond may be NaN. A
    /// tile with a gap in it gives two.
    pub fn tiles(&self, tile: i64) -> impl Iterator<Item = Span> + '_ {
        let tile = tile.max(1);
        self.visit.iter().flat_map(move |s| (s.start / tile..(s.end + tile - 1) / tile).map(move |i| s.intersection(Span::new(i * tile, (i + 1) * tile))))
    }
    /// Whether `predicate` holds throughout `span`, so that it needs no mask there.
    pub fn holds(&self, predicate: NodeId, span: Span) -> bool {
        self.full.iter().any(|f| f.0 == predicate && f.1.iter().any(|s| s.contains(span)))
    }
    /// Whether every predicate of the domain holds throughout `span`.
    pub fn is_full(&self, span: Span) -> bool {
        self.full.iter().all(|f| f.1.iter().any(|s| s.contains(span)))
    }
}

/// [`reach`] of a predicate node; nodes of another kind are everywhere and nowhere full.
pub fn node_reach(graph: &Graph, node: NodeId, axis: AxisId, extent: i64, around: &Surroundings) -> Reach {
    match graph.op(node) {
        Op::Predicate(p) => reach(graph.predicate(*p), axis, extent, around),
        _ => Reach { visit: union(vec![Span::new(0, extent)]), full: vec![] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Access, InputId};

    /// A small generator, so that the cases are the same in every run.
    struct Random(u64);
    impl Random {
        fn below(&mut self, n: i64) -> i64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) as i64).rem_euclid(n)
        }
        fn between(&mut self, low: i64, high: i64) -> i64 {
            low + self.below(high - low + 1)
        }
    }

    #[test]
    fn a_visited_span_has_every_position_that_holds_and_a_full_one_no_other() {
        let (m, n, b) = (AxisId(0), AxisId(1), AxisId(2));
        let table = Table { input: InputId(0), access: Access::plain([b]) };
        let mut random = Random(7);
        let (mut full_seen, mut skipped_seen) = (0, 0);
        for _ in 0..20_000 {
            let lengths: Vec<i64> = (0..3).map(|_| random.between(0, 12)).collect();
            let mut atom = || {
                let mut a = Atom { constant: random.between(-6, 6), ..Atom::default() };
                for axis in [m, n] {
                    let k = random.between(-3, 3);
                    if k != 0 {
                        a.indices.push((axis, k))
                    }
                }
                if random.below(2) == 0 {
                    a.tables.push((table.clone(), [-1, 1][random.below(2) as usize]))
                }
                if random.below(3) == 0 {
                    a.extents.push((m, random.between(1, 2)))
                }
                a
            };
            let mut clause = |count: usize| (0..count).map(|_| atom()).collect::<Vec<_>>();
            let predicate = Predicate { clauses: vec![clause(2), clause(1)] };
            let (em, en) = (7, 12);
            let rows = (random.below(em), 0);
            let rows = (rows.0, random.between(rows.0, em - 1));
            let batch = (random.below(3), 2);
            let range = (batch.0..=batch.1).map(|i| lengths[i as usize]);
            let range = (range.clone().min().unwrap_or(0), range.max().unwrap_or(0));
            let extent = |a: AxisId| [em, en, 3][a.0 as usize];
            let around = Surroundings { index: &|a| if a == m { rows } else { batch }, extent: &extent, table: &|_| Some(range) };
            let r = reach(&predicate, n, en, &around);
            for j in 0..en {
                let mut any = false;
                let mut all = true;
                for i in rows.0..=rows.1 {
                    for k in batch.0..=batch.1 {
                        let holds = predicate.holds(&|a| if a == m { i } else { j }, &extent, &|_| lengths[k as usize]);
                        any |= holds;
                        all &= holds;
                    }
                }
                let here = Span::new(j, j + 1);
                let visited = r.visit.iter().any(|s| s.contains(here));
                let full = r.full.iter().any(|s| s.contains(here));
                assert!(visited || !any, "{predicate:?} at {j}");
                assert!(all || !full, "{predicate:?} at {j}");
                full_seen += full as i32;
                skipped_seen += !visited as i32;
            }
        }
        assert!(full_seen > 1_000 && skipped_seen > 1_000, "the cases prove nothing: {full_seen} {skipped_seen}");
    }

    #[test]
    fn one_row_and_one_length_are_solved_exactly() {
        // n - len <= m - |M|, a causal mask over a cache of which len rows are filled
        let (m, n, b) = (AxisId(0), AxisId(1), AxisId(2));
        let table = Table { input: InputId(0), access: Access::plain([b]) };
        let atom = Atom { indices: vec![(m, 1), (n, -1)], tables: vec![(table, 1)], extents: vec![(m, -1)], ..Atom::default() };
        let around = Surroundings { index: &|_| (2, 2), extent: &|_| 5, table: &|_| Some((9, 9)) };
        let r = reach(&Predicate::atom(atom.clone()), n, 100, &around);
        assert_eq!(r, Reach { visit: vec![Span::new(0, 7)], full: vec![Span::new(0, 7)] });
        let unknown = Surroundings { table: &|_| None, ..around };
        assert_eq!(reach(&Predicate::atom(atom), n, 100, &unknown), Reach { visit: vec![Span::new(0, 100)], full: vec![] });
    }

    #[test]
    fn tiles_cover_the_visited_spans_once() {
        let d = Domain { visit: vec![Span::new(1, 4), Span::new(6, 13)], full: vec![(NodeId(0), vec![Span::new(0, 4), Span::new(8, 20)])] };
        let tiles: Vec<Span> = d.tiles(4).collect();
        assert_eq!(tiles, [Span::new(1, 4), Span::new(6, 8), Span::new(8, 12), Span::new(12, 13)]);
        assert_eq!(tiles.iter().map(|t| d.is_full(*t)).collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!(tiles.iter().map(|t| t.len()).sum::<i64>(), d.len());
    }

    #[test]
    fn a_packed_range_contains_every_index_of_its_positions() {
        let axes = [AxisId(0), AxisId(1), AxisId(2)];
        let extent = |a: AxisId| [3, 4, 5][a.0 as usize];
        for start in 0..60 {
            for end in start + 1..=60 {
                for axis in axes {
                    let range = index_range(&axes, axis, Span::new(start, end), &extent);
                    assert!((start..end).map(|p| index_at(&axes, axis, p, &extent)).all(|i| range.0 <= i && i <= range.1));
                }
            }
        }
    }
}
