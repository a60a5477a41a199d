//! Axes: names with symbolic extents, and sets of them.
use serde::{Deserialize, Serialize};

/// An axis of a kernel: an index into [`Graph::axes`](crate::graph::Graph::axes).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AxisId(pub u8);

/// Axes that one kernel may have.
pub const MAX_AXES: usize = 64;

/// A set of axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct AxisSet(pub u64);

impl AxisSet {
    pub const EMPTY: AxisSet = AxisSet(0);
    pub fn of(axis: AxisId) -> Self {
        AxisSet(1 << axis.0)
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    pub fn contains(self, axis: AxisId) -> bool {
        self.0 >> axis.0 & 1 == 1
    }
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
    pub fn union(self, other: Self) -> Self {
        AxisSet(self.0 | other.0)
    }
    pub fn intersection(self, other: Self) -> Self {
        AxisSet(self.0 & other.0)
    }
    pub fn difference(self, other: Self) -> Self {
        AxisSet(self.0 & !other.0)
    }
    pub fn insert(&mut self, axis: AxisId) {
        self.0 |= 1 << axis.0
    }
    /// The axes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = AxisId> {
        (0..MAX_AXES as u8).map(AxisId).filter(move |a| self.contains(*a))
    }
}

impl FromIterator<AxisId> for AxisSet {
    fn from_iter<I: IntoIterator<Item = AxisId>>(axes: I) -> Self {
        axes.into_iter().fold(AxisSet::EMPTY, |set, a| set.union(AxisSet::of(a)))
    }
}
