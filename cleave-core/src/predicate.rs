//! Predicates over positions: unions of conjunctions of affine atoms. One source of truth for the bounds of a loop,
//! for the tiles that need no mask, and for the mask in those that do.
use crate::{axis::AxisId, axis::AxisSet, graph::Access, graph::InputId};
use serde::{Deserialize, Serialize};

/// An integer input read at axes: `len[b]`, or a scalar (an access without dimensions).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Table {
    pub input: InputId,
    pub access: Access,
}

/// The greatest integer not above `of / by`, where `of` stands for its sum; `by` is positive.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Quotient {
    pub of: Atom,
    pub by: i64,
}

/// `sum coefficient*index + sum coefficient*table + sum coefficient*extent + sum coefficient*quotient + constant >= 0`. Each list is
/// sorted, without zero coefficients.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Atom {
    pub indices: Vec<(AxisId, i64)>,
    pub tables: Vec<(Table, i64)>,
    pub extents: Vec<(AxisId, i64)>,
    pub quotients: Vec<(Quotient, i64)>,
    pub constant: i64,
}

impl Atom {
    /// The axes at which the atom varies.
    pub fn free(&self) -> AxisSet {
        let tables = self.tables.iter().fold(AxisSet::EMPTY, |s, (t, _)| s.union(t.access.axes()));
        let quotients = self.quotients.iter().fold(tables, |s, (q, _)| s.union(q.of.free()));
        self.indices.iter().map(|(a, _)| *a).collect::<AxisSet>().union(quotients)
    }
    /// The tables that it reads, those within quotients too.
    pub fn all_tables(&self) -> Vec<&Table> {
        self.tables.iter().map(|t| &t.0).chain(self.quotients.iter().flat_map(|q| q.0.of.all_tables())).collect()
    }
    /// The axes whose extents it reads, within quotients too.
    pub fn all_extents(&self) -> Vec<AxisId> {
        self.extents.iter().map(|e| e.0).chain(self.quotients.iter().flat_map(|q| q.0.of.all_extents())).collect()
    }
    /// `k` times the sum; `None` if a coefficient does not fit.
    pub fn scaled(&self, k: i64) -> Option<Atom> {
        fn each<L: Clone>(list: &[(L, i64)], k: i64) -> Option<Vec<(L, i64)>> {
            list.iter().filter(|_| k != 0).map(|(leaf, c)| Some((leaf.clone(), c.checked_mul(k)?))).collect()
        }
        Some(Atom {
            indices: each(&self.indices, k)?,
            tables: each(&self.tables, k)?,
            extents: each(&self.extents, k)?,
            quotients: each(&self.quotients, k)?,
            constant: self.constant.checked_mul(k)?,
        })
    }
    /// The sum of two; `None` if a coefficient does not fit.
    pub fn plus(&self, other: &Atom) -> Option<Atom> {
        fn join<L: Clone + Ord>(a: &[(L, i64)], b: &[(L, i64)]) -> Option<Vec<(L, i64)>> {
            let mut all: std::collections::BTreeMap<L, i64> = a.iter().cloned().collect();
            for (leaf, c) in b {
                let sum = all.entry(leaf.clone()).or_insert(0);
                *sum = sum.checked_add(*c)?
            }
            Some(all.into_iter().filter(|x| x.1 != 0).collect())
        }
        Some(Atom {
            indices: join(&self.indices, &other.indices)?,
            tables: join(&self.tables, &other.tables)?,
            extents: join(&self.extents, &other.extents)?,
            quotients: join(&self.quotients, &other.quotients)?,
            constant: self.constant.checked_add(other.constant)?,
        })
    }
    /// An equal atom without a quotient whose coefficient is 1 or -1: `floor(x/d) + r >= 0` is `x + d*r >= 0`, and
    /// `r - floor(x/d) >= 0` is `d*r + d - 1 - x >= 0`. `None` if its coefficient is another, or a new one does not fit.
    fn without(&self, quotient: usize) -> Option<Atom> {
        let mut rest = self.clone();
        let (Quotient { of, by }, k) = rest.quotients.remove(quotient);
        let rest = rest.scaled(by)?;
        match k {
            1 => rest.plus(&of),
            -1 => rest.plus(&of.scaled(-1)?)?.plus(&Atom { constant: by - 1, ..Atom::default() }),
            _ => None,
        }
    }
    /// An equal atom that is affine if it can be: its only quotient multiplied out.
    pub fn simplified(self) -> Atom {
        match self.quotients.len() {
            1 => self.without(0).map_or(self, Atom::simplified),
            _ => self,
        }
    }
    /// An equal atom in which no quotient varies along `axis`, so that it can be solved for the index. `None` if there is none.
    pub fn solvable(&self, axis: AxisId) -> Option<Atom> {
        let varies: Vec<usize> = (0..self.quotients.len()).filter(|i| self.quotients[*i].0.of.free().contains(axis)).collect();
        match varies[..] {
            [] => Some(self.clone()),
            [one] => self.without(one)?.solvable(axis),
            _ => None,
        }
    }
    /// `not (x >= 0)` is `-x - 1 >= 0`.
    pub fn negate(&self) -> Atom {
        let mut n = self.clone();
        n.indices.iter_mut().for_each(|x| x.1 = -x.1);
        n.tables.iter_mut().for_each(|x| x.1 = -x.1);
        n.extents.iter_mut().for_each(|x| x.1 = -x.1);
        n.quotients.iter_mut().for_each(|x| x.1 = -x.1);
        n.constant = -n.constant - 1;
        n
    }
    /// The value at a position; `index`, `extent` and `table` give the leaves.
    pub fn value(&self, index: &dyn Fn(AxisId) -> i64, extent: &dyn Fn(AxisId) -> i64, table: &dyn Fn(&Table) -> i64) -> i64 {
        self.constant
            + self.indices.iter().map(|(a, k)| k * index(*a)).sum::<i64>()
            + self.extents.iter().map(|(a, k)| k * extent(*a)).sum::<i64>()
            + self.tables.iter().map(|(t, k)| k * table(t)).sum::<i64>()
            + self.quotients.iter().map(|(q, k)| k * q.of.value(index, extent, table).div_euclid(q.by)).sum::<i64>()
    }
}

/// Holds where every atom of any clause holds. No clause: never; an empty clause: always.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Predicate {
    pub clauses: Vec<Vec<Atom>>,
}

impl Predicate {
    pub fn atom(atom: Atom) -> Self {
        Predicate { clauses: vec![vec![atom]] }
    }
    pub fn and(&self, other: &Self) -> Self {
        let clauses = self.clauses.iter().flat_map(|a| other.clauses.iter().map(move |b| [a.as_slice(), b].concat())).collect();
        Predicate { clauses }.normal()
    }
    pub fn or(&self, other: &Self) -> Self {
        Predicate { clauses: [self.clauses.as_slice(), &other.clauses].concat() }.normal()
    }
    pub fn negate(&self) -> Self {
        let always = Predicate { clauses: vec![vec![]] };
        self.clauses.iter().fold(always, |p, clause| {
            let any = Predicate { clauses: clause.iter().map(|a| vec![a.negate()]).collect() };
            p.and(&any)
        })
    }
    /// Without what holds always or never, and without repetitions.
    pub fn normal(mut self) -> Self {
        let fixed = |a: &Atom, holds: bool| *a == Atom { constant: a.constant, ..Atom::default() } && (a.constant >= 0) == holds;
        self.clauses.retain(|c| !c.iter().any(|a| fixed(a, false)));
        for c in &mut self.clauses {
            c.retain(|a| !fixed(a, true));
            c.sort();
            c.dedup();
        }
        if self.clauses.iter().any(|c| c.is_empty()) {
            return Predicate { clauses: vec![vec![]] };
        }
        self.clauses.sort();
        self.clauses.dedup();
        self
    }
    pub fn free(&self) -> AxisSet {
        self.clauses.iter().flatten().fold(AxisSet::EMPTY, |s, a| s.union(a.free()))
    }
    pub fn holds(&self, index: &dyn Fn(AxisId) -> i64, extent: &dyn Fn(AxisId) -> i64, table: &dyn Fn(&Table) -> i64) -> bool {
        self.clauses.iter().any(|c| c.iter().all(|a| a.value(index, extent, table) >= 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_multiplied_out_holds_at_the_same_positions() {
        let (m, n) = (AxisId(0), AxisId(1));
        let part = |axis, plus, by| Quotient { of: Atom { indices: vec![(axis, 1)], constant: plus, ..Atom::default() }, by };
        for (k, l, constant, by) in [(1, -1, 0, 4), (-1, 1, 0, 4), (1, -2, 3, 3), (-1, 0, 2, 5), (2, -1, -1, 2)] {
            let mut quotients = vec![(part(m, -2, by), k), (part(n, 1, 3), l)];
            quotients.retain(|q| q.1 != 0);
            let atom = Atom { quotients, constant, ..Atom::default() };
            for axis in [m, n] {
                let Some(solved) = atom.solvable(axis) else { continue };
                assert!(solved.quotients.iter().all(|q| !q.0.of.free().contains(axis)));
                for (i, j) in (-20..20).flat_map(|i| (-20..20).map(move |j| (i, j))) {
                    let value = |a: &Atom| a.value(&|x| if x == m { i } else { j }, &|_| 0, &|_| 0) >= 0;
                    assert_eq!(value(&atom), value(&solved), "{atom:?} at {i} {j}");
                    assert_eq!(value(&atom), value(&atom.clone().simplified()));
                }
            }
        }
    }
}
