//! What a part moves and computes at concrete extents, tiles and pieces: the numbers behind the cost model. Elements, not bytes.
use crate::tile::{DimId, DimSet, Part, Role, Statement};

/// Totals of a part, but for the volumes on chip, which are those of one block.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Traffic {
    pub flops: f64,
    /// Elements moved from and to the device's memory.
    pub loads: f64,
    pub stores: f64,
    /// Elements on chip: throughout, one step of a loop at a time, as states of loops, and between statements of a loop.
    pub resident: f64,
    pub streamed: f64,
    pub carried: f64,
    pub temporary: f64,
    /// Blocks, if no loop is split.
    pub items: f64,
    /// Iterations of all loops of one unsplit block.
    pub steps: f64,
}

struct Walk<'a> {
    part: &'a Part,
    extents: &'a [i64],
    tiles: &'a [u32],
    pieces: u32,
    total: Traffic,
}

/// Of one part: `tiles` by dim, `pieces` of the loop that a split cuts.
pub fn traffic(part: &Part, extents: &[i64], tiles: &[u32], pieces: u32) -> Traffic {
    let mut walk = Walk { part, extents, tiles, pieces, total: Traffic::default() };
    walk.total.items = part.grid.iter().map(|d| walk.trips(*d)).product();
    let grid: DimSet = part.grid.iter().copied().collect();
    let last = part.split_loop();
    for (i, s) in part.body.iter().enumerate() {
        walk.statements(std::slice::from_ref(s), grid, None, last.is_some_and(|l| i < l))
    }
    walk.total
}

impl Walk<'_> {
    fn extent(&self, d: DimId) -> f64 {
        self.part.extent(d, self.extents).max(0) as f64
    }
    fn tile(&self, d: DimId) -> f64 {
        let extent = self.extent(d).max(1.0);
        if self.part.dim(d).role == Role::Chip { extent } else { (self.tiles[d.0 as usize].max(1) as f64).min(extent) }
    }
    fn trips(&self, d: DimId) -> f64 {
        (self.extent(d) / self.tile(d)).ceil()
    }
    fn volume(&self, dims: DimSet) -> f64 {
        dims.iter().map(|d| self.tile(d)).product()
    }
    fn statements(&mut self, body: &[Statement], path: DimSet, inside: Option<DimId>, repeated: bool) {
        for s in body {
            let whole = |w: &Self, dims: DimSet| {
                dims.iter().map(|d| w.extent(d)).product::<f64>()
                    * path.difference(dims).iter().map(|d| w.trips(d)).product::<f64>()
                    * if repeated { w.pieces as f64 } else { 1.0 }
            };
            match s {
                Statement::Load { node, view_of: None } => {
                    let dims = self.part.of(*node);
                    self.total.loads += whole(self, dims);
                    let tile = self.volume(dims);
                    *if inside.is_some() { &mut self.total.streamed } else { &mut self.total.resident } += tile
                }
                Statement::Map { node } => {
                    let dims = self.part.of(*node);
                    self.total.flops += whole(self, dims) * self.part.graph.operands(*node).len().max(1) as f64;
                    let tile = self.volume(dims);
                    *if inside.is_some() { &mut self.total.temporary } else { &mut self.total.resident } += tile
                }
                Statement::Reduce { node, over } | Statement::Fold { node, over } => {
                    let dims = match self.part.contraction(*node) {
                        Some((x, y)) => self.part.of(x).union(self.part.of(y)),
                        None => self.part.of(self.part.body_of(*node)),
                    };
                    self.total.flops += 2.0 * whole(self, over.union(dims))
                }
                Statement::Loop(l) => {
                    for state in &l.states {
                        for n in state.members.iter().map(|m| m.node).chain(state.frame) {
                            self.total.carried += self.volume(self.part.of(n))
                        }
                    }
                    for n in &l.keep {
                        let along = |d: DimId| if d == l.dim { self.extent(d).max(1.0) } else { self.tile(d) };
                        self.total.resident += self.part.of(*n).iter().map(along).product::<f64>()
                    }
                    let path = path.union(DimSet::of(l.dim));
                    let grid: DimSet = self.part.grid.iter().copied().collect();
                    self.total.steps += path.difference(grid).iter().map(|d| self.trips(d)).product::<f64>() * if repeated { self.pieces as f64 } else { 1.0 };
                    self.statements(&l.body, path, Some(l.dim), repeated)
                }
                Statement::Store { output, store, .. } => {
                    let axes = self.part.graph.outputs[*output as usize].stores[*store as usize].access.axes();
                    self.total.stores += self.part.dims_of(axes).iter().map(|d| self.extent(d)).product::<f64>()
                }
                _ => {}
            }
        }
    }
}
