//! Masks of partial tiles: for each row where a predicate holds along it. Affine atoms give intervals; a predicate that is no interval
//! along the row (a union, a table or a packed dim along it) is evaluated element by element.
use super::block::Block;
use super::expression::Group;
use cleave_core::axis::AxisId;
use cleave_core::domain::index_at;
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

/// The masks of a group at the row at hand.
pub struct Rows<'a> {
    masks: Vec<Mask<'a>>,
    dims: Vec<DimId>,
    position: Vec<usize>,
}

struct Mask<'a> {
    predicate: &'a Predicate,
    held: bool,
    row: RowMask,
}

impl<'a> Rows<'a> {
    pub fn none() -> Self {
        Rows { masks: vec![], dims: vec![], position: vec![] }
    }
    pub fn new(block: &Block<'a, '_>, group: &'a Group, dims: &[DimId]) -> Self {
        let graph = block.part().graph();
        let masks = group.masks.iter().map(|(node, p)| Mask { predicate: graph.predicate(*p), held: block.held[node.index()], row: RowMask::All });
        Rows { masks: masks.collect(), dims: dims.to_vec(), position: vec![0; dims.len()] }
    }
    /// Moves to the row at `position`.
    pub fn start(&mut self, block: &Block, position: &[usize]) {
        if self.masks.is_empty() {
            return;
        }
        self.position.copy_from_slice(position);
        for i in 0..self.masks.len() {
            if !self.masks[i].held {
                self.masks[i].row = self.row(block, self.masks[i].predicate)
            }
        }
    }
    fn index(&self, block: &Block, axis: AxisId, along: usize) -> i64 {
        let part = &block.part().source;
        let Some(dim) = part.dim_of(axis) else { return 0 };
        let offset = match self.dims.iter().position(|d| *d == dim) {
            Some(i) if i + 1 == self.dims.len() => along,
            Some(i) => self.position[i],
            None => 0,
        };
        index_at(&part.dim(dim).axes, axis, block.span(dim).start + offset as i64, &|a| block.context.extents[a.0 as usize])
    }
    fn row(&self, block: &Block, predicate: &Predicate) -> RowMask {
        let Some(inner) = self.dims.last() else { return RowMask::Mixed };
        let length = block.length(*inner);
        match &predicate.clauses[..] {
            [] => RowMask::Nothing,
            [clause] => {
                let (mut from, mut to) = (0i64, length as i64);
                for atom in clause {
                    let Some((base, slope)) = self.affine(block, atom, *inner) else { return RowMask::Mixed };
                    match slope {
                        0 if base < 0 => return RowMask::Nothing,
                        0 => {}
                        // base + slope * i >= 0
                        k if k > 0 => from = from.max(-base.div_euclid(k)),
                        k => to = to.min(base.div_euclid(-k) + 1),
                    }
                }
                interval(from, to, length)
            }
            _ => RowMask::Mixed,
        }
    }
    /// An atom along the row as `base + slope * position`.
    fn affine(&self, block: &Block, atom: &Atom, inner: DimId) -> Option<(i64, i64)> {
        let part = &block.part().source;
        let long: Vec<AxisId> = part.dim(inner).axes.iter().copied().filter(|a| block.context.extents[a.0 as usize] > 1).collect();
        let varies = |a: AxisId| long.contains(&a);
        let quotients = atom.quotients.iter().any(|(q, _)| q.of.free().iter().any(varies));
        if quotients || atom.tables.iter().any(|(t, _)| t.access.axes().iter().any(varies)) {
            return None;
        }
        let slope = match atom.indices.iter().find(|(a, _)| varies(*a)) {
            None => 0,
            Some(_) if long.len() > 1 => return None,
            Some((_, k)) => *k,
        };
        let base = atom.value(&|a| self.index(block, a, 0), &|a| block.context.extents[a.0 as usize], &|t| block.table(t, &|a| self.index(block, a, 0)));
        Some((base, slope))
    }
    /// Where a mask holds in positions `start..start + n`, from `start` on.
    pub fn chunk(&self, mask: u16, start: usize, n: usize) -> RowMask {
        match self.masks[mask as usize].row {
            RowMask::Interval(from, to) => interval(from as i64 - start as i64, to as i64 - start as i64, n),
            other => other,
        }
    }
    /// 1 where a mask holds, else 0.
    pub fn fill(&self, block: &Block, mask: u16, start: usize, line: &mut [f32]) {
        let m = &self.masks[mask as usize];
        match self.chunk(mask, start, line.len()) {
            RowMask::All => line.fill(1.0),
            RowMask::Nothing => line.fill(0.0),
            RowMask::Interval(from, to) => {
                line.fill(0.0);
                line[from..to].fill(1.0)
            }
            RowMask::Mixed => {
                for (i, x) in line.iter_mut().enumerate() {
                    let index = |a: AxisId| self.index(block, a, start + i);
                    let holds = m.predicate.holds(&index, &|a| block.context.extents[a.0 as usize], &|t| block.table(t, &index));
                    *x = holds as u8 as f32
                }
            }
        }
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
