//! Masks of partial tiles: for each row where a predicate holds along it. Affine atoms give intervals, whose ends move evenly from row to row; a
//! predicate that is no interval along the row (a union, a table or a packed dim along it) is evaluated element by element.
use super::block::Block;
use super::expression::Group;
use cleave_core::axis::AxisId;
use cleave_core::domain::index_at;
use cleave_core::graph::NodeId;
use cleave_core::predicate::{Atom, Predicate};
use cleave_core::tile::DimId;

/// Where a mask holds in a row, or in a chunk of one: positions `from..to`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowMask {
    All,
    Nothing,
    Interval(usize, usize),
    Mixed,
}

impl RowMask {
    /// Where both hold.
    pub fn and(self, other: RowMask) -> RowMask {
        match (self, other) {
            (x, RowMask::All) | (RowMask::All, x) => x,
            (RowMask::Nothing, _) | (_, RowMask::Nothing) => RowMask::Nothing,
            (RowMask::Interval(a, b), RowMask::Interval(c, d)) if a.max(c) < b.min(d) => RowMask::Interval(a.max(c), b.min(d)),
            (RowMask::Interval(..), RowMask::Interval(..)) => RowMask::Nothing,
            _ => RowMask::Mixed,
        }
    }
}

/// The masks of a group at the rows at hand.
pub struct Rows<'a> {
    masks: Vec<Mask<'a>>,
    dims: Vec<DimId>,
    position: Vec<usize>,
}

struct Mask<'a> {
    predicate: &'a Predicate,
    held: bool,
    rows: Vec<RowMask>,
}

/// An atom along row `r`: `base + step * r + slope * position`.
#[derive(Clone, Copy)]
struct Affine {
    base: i64,
    step: i64,
    slope: i64,
}

impl<'a> Rows<'a> {
    pub fn none() -> Self {
        Rows { masks: vec![], dims: vec![], position: vec![] }
    }
    pub fn new(block: &Block<'a, '_>, group: &'a Group, dims: &[DimId]) -> Self {
        let graph = block.part().graph();
        let mask = |&(node, p): &_| Mask { predicate: graph.predicate(p), held: block.held[NodeId::index(node)], rows: vec![] };
        Rows { masks: group.masks.iter().map(mask).collect(), dims: dims.to_vec(), position: vec![0; dims.len()] }
    }
    /// Moves to the `count` rows from `position` on.
    pub fn start(&mut self, block: &Block, position: &[usize], count: usize) {
        if self.masks.is_empty() {
            return;
        }
        self.position.copy_from_slice(position);
        for i in 0..self.masks.len() {
            let mut rows = std::mem::take(&mut self.masks[i].rows);
            rows.clear();
            if self.masks[i].held {
                rows.resize(count, RowMask::All)
            } else {
                self.fill_rows(block, self.masks[i].predicate, count, &mut rows)
            }
            self.masks[i].rows = rows
        }
    }
    fn index(&self, block: &Block, axis: AxisId, row: usize, along: usize) -> i64 {
        let part = &block.part().source;
        let Some(dim) = part.dim_of(axis) else { return 0 };
        let last = self.dims.len() - 1;
        let offset = match self.dims.iter().position(|d| *d == dim) {
            Some(i) if i == last => along,
            Some(i) if i + 1 == last => self.position[i] + row,
            Some(i) => self.position[i],
            None => 0,
        };
        index_at(&part.dim(dim).axes, axis, block.span(dim).start + offset as i64, &|a| block.context.extents[a.0 as usize])
    }
    fn fill_rows(&self, block: &Block, predicate: &Predicate, count: usize, rows: &mut Vec<RowMask>) {
        let Some(inner) = self.dims.last() else { return rows.resize(count, RowMask::Mixed) };
        let length = block.length(*inner);
        let clause = match &predicate.clauses[..] {
            [] => return rows.resize(count, RowMask::Nothing),
            [clause] => clause,
            _ => return rows.resize(count, RowMask::Mixed),
        };
        rows.resize(count, RowMask::All);
        for atom in clause {
            match self.affine(block, atom, count) {
                Some(a) => rows.iter_mut().enumerate().for_each(|(r, row)| *row = row.and(holds(a.base + a.step * r as i64, a.slope, length))),
                None => {
                    for (r, row) in rows.iter_mut().enumerate() {
                        let here = self.at_row(block, atom, r).map_or(RowMask::Mixed, |(base, slope)| holds(base, slope, length));
                        *row = row.and(here)
                    }
                }
            }
        }
    }
    /// Whether a dim's position is its one axis's index.
    fn is_plain(&self, block: &Block, dim: DimId) -> bool {
        block.part().source.dim(dim).axes.iter().filter(|a| block.context.extents[a.0 as usize] > 1).count() <= 1
    }
    /// An atom over all rows, if it is affine along them.
    fn affine(&self, block: &Block, atom: &Atom, count: usize) -> Option<Affine> {
        let (base, slope) = self.at_row(block, atom, 0)?;
        if count == 1 {
            return Some(Affine { base, step: 0, slope });
        }
        let row_dim = self.dims[self.dims.len().checked_sub(2)?];
        let axes = &block.part().source.dim(row_dim).axes;
        let varies = |a: AxisId| axes.contains(&a);
        let quotients = atom.quotients.iter().any(|(q, _)| q.of.free().iter().any(varies));
        if quotients || !self.is_plain(block, row_dim) || atom.tables.iter().any(|(t, _)| t.access.axes().iter().any(varies)) {
            return None;
        }
        let step = self.at_row(block, atom, 1)?.0 - base;
        Some(Affine { base, step, slope })
    }
    /// An atom along a row as `base + slope * position`.
    fn at_row(&self, block: &Block, atom: &Atom, row: usize) -> Option<(i64, i64)> {
        let inner = *self.dims.last()?;
        let axes = &block.part().source.dim(inner).axes;
        let varies = |a: AxisId| axes.contains(&a) && block.context.extents[a.0 as usize] > 1;
        let quotients = atom.quotients.iter().any(|(q, _)| q.of.free().iter().any(varies));
        if quotients || atom.tables.iter().any(|(t, _)| t.access.axes().iter().any(varies)) {
            return None;
        }
        let slope = match atom.indices.iter().find(|(a, _)| varies(*a)) {
            None => 0,
            Some(_) if !self.is_plain(block, inner) => return None,
            Some((_, k)) => *k,
        };
        let index = |a: AxisId| self.index(block, a, row, 0);
        let base = atom.value(&index, &|a| block.context.extents[a.0 as usize], &|t| block.table(t, &index));
        Some((base, slope))
    }
    /// Where a mask holds in positions `start..start + n` of row `row`, from `start` on.
    pub fn chunk(&self, mask: u16, row: usize, start: usize, n: usize) -> RowMask {
        match self.masks[mask as usize].rows[row] {
            RowMask::Interval(from, to) => interval(from as i64 - start as i64, to as i64 - start as i64, n),
            other => other,
        }
    }
    /// 1 where a mask holds, else 0.
    pub fn fill(&self, block: &Block, mask: u16, row: usize, start: usize, line: &mut [f32]) {
        let m = &self.masks[mask as usize];
        match self.chunk(mask, row, start, line.len()) {
            RowMask::All => line.fill(1.0),
            RowMask::Nothing => line.fill(0.0),
            RowMask::Interval(from, to) => {
                line.fill(0.0);
                line[from..to].fill(1.0)
            }
            RowMask::Mixed => {
                for (i, x) in line.iter_mut().enumerate() {
                    let index = |a: AxisId| self.index(block, a, row, start + i);
                    let holds = m.predicate.holds(&index, &|a| block.context.extents[a.0 as usize], &|t| block.table(t, &index));
                    *x = holds as u8 as f32
                }
            }
        }
    }
}

/// Where `base + slope * position >= 0`.
fn holds(base: i64, slope: i64, length: usize) -> RowMask {
    match slope {
        0 if base < 0 => RowMask::Nothing,
        0 => RowMask::All,
        k if k > 0 => interval(-base.div_euclid(k), length as i64, length),
        k => interval(0, base.div_euclid(-k) + 1, length),
    }
}

fn interval(from: i64, to: i64, length: usize) -> RowMask {
    let (from, to) = (from.max(0), to.min(length as i64));
    if from >= to {
        RowMask::Nothing
    } else if from == 0 && to == length as i64 {
        RowMask::All
    } else {
        RowMask::Interval(from as usize, to as usize)
    }
}
