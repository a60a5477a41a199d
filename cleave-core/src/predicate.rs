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

/// `sum coefficient*index + sum coefficient*table + sum coefficient*extent + constant >= 0`. Each list is sorted, without zero coefficients.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Atom {
    pub indices: Vec<(AxisId, i64)>,
    pub tables: Vec<(Table, i64)>,
    pub extents: Vec<(AxisId, i64)>,
    pub constant: i64,
}

impl Atom {
    /// The axes at which the atom varies.
    pub fn free(&self) -> AxisSet {
        let tables = self.tables.iter().fold(AxisSet::EMPTY, |s, (t, _)| s.union(t.access.axes()));
        self.indices.iter().map(|(a, _)| *a).collect::<AxisSet>().union(tables)
    }
    /// `not (x >= 0)` is `-x - 1 >= 0`.
    pub fn negate(&self) -> Atom {
        let mut n = self.clone();
        n.indices.iter_mut().for_each(|x| x.1 = -x.1);
        n.tables.iter_mut().for_each(|x| x.1 = -x.1);
        n.extents.iter_mut().for_each(|x| x.1 = -x.1);
        n.constant = -n.constant - 1;
        n
    }
    /// The value at a position; `index`, `extent` and `table` give the leaves.
    pub fn value(&self, index: &dyn Fn(AxisId) -> i64, extent: &dyn Fn(AxisId) -> i64, table: &dyn Fn(&Table) -> i64) -> i64 {
        self.constant
            + self.indices.iter().map(|(a, k)| k * index(*a)).sum::<i64>()
            + self.extents.iter().map(|(a, k)| k * extent(*a)).sum::<i64>()
            + self.tables.iter().map(|(t, k)| k * table(t)).sum::<i64>()
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
    fn normal(mut self) -> Self {
        for c in &mut self.clauses {
            c.sort();
            c.dedup();
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
