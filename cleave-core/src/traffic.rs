//! What a part computes, moves and holds at concrete extents, tiles and pieces: the numbers that the choice of a plan weighs.
//!
//! In: a [`Part`] and a [`Case`]. Out: a [`Traffic`]. Counts follow the statements exactly, except where a loop's domain depends on the
//! grid: there the first, the last and a middle tile of each dim stand for all, which is exact for a domain whose length is linear
//! in the tile's position, as that of a causal mask.
use crate::axis::AxisId;
use crate::domain::{Domain, Span, Surroundings, index_range};
use crate::dtype::DType;
use crate::graph::{Function, NodeId, Op};
use crate::predicate::Table;
use crate::tile::{DimId, DimSet, Loop, Part, Role, Statement};

/// The concrete case of a part.
pub struct Case<'a> {
    /// By axis.
    pub extents: &'a [i64],
    /// The tile length of each dim; of a dim on chip the bound that memory is laid out for.
    pub tiles: &'a [u32],
    /// In how many pieces the split loop is cut.
    pub pieces: u32,
    /// Whole tiles are computed, as compiled code does: products count what lies beyond the extents too.
    pub padded: bool,
    /// The types of the kernel's generic parameters.
    pub types: &'a [DType],
    /// The range of a table's values, if it is known. An unknown table is taken to be the extent of the axis that it bounds: a full cache.
    pub table: &'a dyn Fn(&Table) -> Option<(i64, i64)>,
}

/// Totals of a part over all its blocks, and what one block holds.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Traffic {
    /// Operations of matrix products: two for each multiplication.
    pub contracted: f64,
    /// Other operations; a transcendental function counts 8.
    pub elementwise: f64,
    /// Elements and bytes that `Load` statements read. Blocks that read the same tile at about the same time share it in a cache, so
    /// this is an upper bound on what leaves the device's memory.
    pub loads: f64,
    pub load_bytes: f64,
    /// Of these bytes those that a block has read before, in an earlier loop.
    pub again_bytes: f64,
    /// Elements and bytes written.
    pub stores: f64,
    pub store_bytes: f64,
    /// Bytes that a block holds throughout its loops: tiles loaded before them, kept values.
    pub resident: f64,
    /// Bytes that one step of a loop loads: one stage of a ring.
    pub streamed: f64,
    /// Bytes of accumulators and frames, f32: what one piece of a split stores too.
    pub carried: f64,
    /// The most bytes of values that one step of a loop has at a time, f32.
    pub temporary: f64,
    /// Tiles of the grid.
    pub items: f64,
    /// Iterations of all loops of an unsplit block, on average over the grid.
    pub steps: f64,
    /// Tiles of the split loop, on average over the grid: more pieces than these are idle.
    pub trips: f64,
}

/// The traffic of a part.
pub fn traffic(part: &Part, case: &Case) -> Traffic {
    let count = Count { part, case };
    let mut t = Traffic { items: part.grid.iter().map(|d| count.trips(*d)).product(), ..Traffic::default() };
    let split = part.split_loop().filter(|_| part.split);
    for sample in count.samples() {
        let mut walk = Walk::default();
        for (i, s) in part.body.iter().enumerate() {
            let repeats = if split.is_some_and(|l| i < l) { case.pieces.max(1) as f64 } else { 1.0 };
            count.statement(s, &sample, &mut walk, repeats, &mut t);
            if let (true, Statement::Loop(l)) = (part.split_loop() == Some(i), s) {
                t.trips += sample.share * count.visited(l, &sample).1
            }
        }
    }
    let last = part.split_loop().unwrap_or(0);
    for (i, s) in part.body.iter().enumerate() {
        match s {
            Statement::Load { node, view_of: None } if i < last => t.resident += count.bytes(*node),
            Statement::Map { node } | Statement::Reduce { node, .. } if i < last => t.resident += 4.0 * count.held(part.of(*node)),
            Statement::Loop(l) => {
                let step = count.step(l);
                t.resident += step.kept;
                t.streamed = t.streamed.max(step.streamed);
                t.carried = t.carried.max(step.carried);
                t.temporary = t.temporary.max(step.temporary)
            }
            _ => {}
        }
    }
    t
}

struct Count<'a> {
    part: &'a Part,
    case: &'a Case<'a>,
}

/// One tile of each grid dim on which a domain depends, and how many tiles it stands for.
struct Sample {
    at: Vec<Option<Span>>,
    weight: f64,
    /// `weight` as a part of the whole.
    share: f64,
}

/// Where the walk over the statements of a block is.
#[derive(Default)]
struct Walk {
    /// The loops around: dim, positions, tiles.
    loops: Vec<(DimId, f64, f64)>,
    /// What has been read.
    read: Vec<NodeId>,
}

/// What one step of a loop holds, in bytes.
#[derive(Default)]
struct Step {
    kept: f64,
    streamed: f64,
    carried: f64,
    temporary: f64,
}

impl Count<'_> {
    fn extent(&self, dim: DimId) -> i64 {
        self.part.extent(dim, self.case.extents)
    }
    fn tile(&self, dim: DimId) -> i64 {
        match self.part.dim(dim) {
            d if d.role == Role::Chip => self.extent(dim).max(1),
            d if d.batch => 1,
            _ => (self.case.tiles[dim.0 as usize] as i64).clamp(1, self.extent(dim).max(1)),
        }
    }
    /// Tiles of a grid dim. An empty one still has a block if a store lacks it.
    fn trips(&self, dim: DimId) -> f64 {
        let extent = self.extent(dim);
        let lacked = self.part.graph.stores().any(|s| !self.part.dims_of(s.1.access.axes()).contains(dim));
        if extent == 0 { lacked as u8 as f64 } else { (extent + self.tile(dim) - 1).div_euclid(self.tile(dim)) as f64 }
    }
    /// Grid dims on which the domain of a loop depends.
    fn relevant(&self) -> DimSet {
        let mut dims = DimSet::EMPTY;
        for (_, s) in self.part.statements() {
            if let Statement::Loop(l) = s {
                dims = l.domain.iter().flatten().fold(dims, |s, p| s.union(self.part.of(*p)))
            }
        }
        dims.intersection(self.part.grid.iter().copied().collect())
    }
    fn samples(&self) -> Vec<Sample> {
        let mut samples = vec![Sample { at: vec![None; self.part.dims.len()], weight: 1.0, share: 1.0 }];
        for dim in self.relevant().iter() {
            let (extent, tile) = (self.extent(dim), self.tile(dim));
            let trips = (extent + tile - 1) / tile;
            let span = |i: i64| Span::new(i * tile, ((i + 1) * tile).min(extent));
            let choices: Vec<(Span, f64)> = match trips {
                0 => vec![(Span::new(0, 0), self.trips(dim))],
                1..=3 => (0..trips).map(|i| (span(i), 1.0)).collect(),
                n => {
                    // an even number of inner tiles has two in the middle
                    let inner = (n - 2) as f64 / 2.0;
                    vec![(span(0), 1.0), (span((n - 1) / 2), inner), (span(n / 2), inner), (span(n - 1), 1.0)]
                }
            };
            let total: f64 = choices.iter().map(|c| c.1).sum();
            samples = samples
                .iter()
                .flat_map(|s| {
                    choices.iter().map(move |(span, weight)| {
                        let mut at = s.at.clone();
                        at[dim.0 as usize] = Some(*span);
                        Sample { at, weight: s.weight * weight, share: s.share * weight / total.max(1.0) }
                    })
                })
                .collect()
        }
        samples
    }
    /// Positions and tiles that a loop visits, where the sample's grid tiles are bound.
    fn visited(&self, l: &Loop, sample: &Sample) -> (f64, f64) {
        let (extent, tile) = (self.extent(l.dim), self.tile(l.dim));
        let dims = self.part.dims.as_slice();
        let size = |a: AxisId| self.case.extents[a.0 as usize];
        let range = |a: AxisId| {
            let bound = self.part.dim_of(a).and_then(|d| Some((d, sample.at[d.0 as usize]?)));
            bound.map_or((0, size(a) - 1), |(d, span)| index_range(&dims[d.0 as usize].axes, a, span, &size))
        };
        let table = |t: &Table| Some((self.case.table)(t).unwrap_or((extent, extent)));
        let domain = Domain::new(self.part, l, extent, &Surroundings { index: &range, extent: &size, table: &table });
        (domain.len() as f64, domain.tiles(tile).count() as f64)
    }
    /// How many elements of a tile over `dims` the statements inside `loops` see in all, over the sample's blocks.
    fn elements(&self, dims: DimSet, sample: &Sample, loops: &[(DimId, f64, f64)]) -> f64 {
        let mut total = sample.weight;
        let mut rest = dims;
        for &d in &self.part.grid {
            let bound = sample.at[d.0 as usize];
            total *= match (rest.contains(d), bound) {
                (true, Some(span)) => span.len() as f64,
                (true, None) => self.extent(d) as f64,
                (false, Some(_)) => 1.0,
                (false, None) => self.trips(d),
            };
            rest = rest.difference(DimSet::of(d))
        }
        for &(d, positions, tiles) in loops {
            total *= if rest.contains(d) { positions } else { tiles };
            rest = rest.difference(DimSet::of(d))
        }
        rest.iter().fold(total, |t, d| t * self.extent(d) as f64)
    }
    /// How much larger whole tiles over `dims` are than the extents.
    fn padding(&self, dims: DimSet) -> f64 {
        let of = |d: DimId| {
            let (extent, tile) = (self.extent(d).max(1) as f64, self.case.tiles[d.0 as usize].max(1) as f64);
            (extent / tile).ceil() * tile / extent
        };
        if self.case.padded { dims.iter().map(of).product() } else { 1.0 }
    }
    fn statement(&self, s: &Statement, sample: &Sample, walk: &mut Walk, repeats: f64, t: &mut Traffic) {
        let part = self.part;
        let loops = &walk.loops;
        match s {
            Statement::Load { node, view_of: None } => {
                let n = repeats * self.elements(part.of(*node), sample, loops);
                t.loads += n;
                let bytes = n * self.element_bytes(*node);
                t.load_bytes += bytes;
                match walk.read.contains(node) {
                    true => t.again_bytes += bytes,
                    false => walk.read.push(*node),
                }
            }
            Statement::Load { .. } | Statement::Recall { .. } => {}
            Statement::Map { node } => t.elementwise += repeats * self.operations(*node) * self.elements(part.of(*node), sample, loops),
            Statement::Reduce { node, over } | Statement::Fold { node, over } => match part.contraction(*node) {
                Some((x, y)) => {
                    let dims = part.of(x).union(part.of(y)).union(*over);
                    t.contracted += 2.0 * repeats * self.padding(dims) * self.elements(dims, sample, loops)
                }
                None => t.elementwise += repeats * self.elements(part.of(part.body_of(*node)).union(*over), sample, loops),
            },
            Statement::Rebase { frame } => {
                // the greatest key, exp of the move, and its product with each member
                let key = part.of(part.body_of(*frame));
                t.elementwise += repeats * self.elements(key, sample, loops);
                t.elementwise += 8.0 * repeats * self.elements(part.of(*frame), sample, loops);
                for m in members(part, *frame) {
                    t.elementwise += repeats * self.elements(part.of(m), sample, loops)
                }
            }
            Statement::Loop(l) => {
                let (positions, tiles) = self.visited(l, sample);
                t.steps += sample.share * walk.loops.iter().map(|l| l.2).product::<f64>() * tiles;
                walk.loops.push((l.dim, positions, tiles));
                l.body.iter().for_each(|s| self.statement(s, sample, walk, repeats, t));
                walk.loops.pop();
            }
            Statement::Store { output, store, .. } => {
                let o = &part.graph.outputs[*output as usize];
                let axes = o.stores[*store as usize].access.axes();
                // once, whatever the grid: counted with the first sample's share of the whole
                let n = sample.share * axes.iter().map(|a| self.case.extents[a.0 as usize] as f64).product::<f64>();
                t.stores += n;
                t.store_bytes += n * o.element.resolve(self.case.types).bytes() as f64
            }
        }
    }
    /// Operations for one element.
    fn operations(&self, node: NodeId) -> f64 {
        match self.part.graph.op(node) {
            Op::Apply(Function::Abs | Function::Round(_)) => 1.0,
            Op::Apply(_) => 8.0,
            Op::Product(exponents) => exponents.iter().map(|e| if *e > 0 && e % 2 == 0 { *e as f64 / 2.0 } else { 4.0 }).sum::<f64>() - 1.0,
            Op::Linear(k, _) => 2.0 * k.len() as f64,
            Op::Predicate(p) => self.part.graph.predicate(*p).clauses.iter().map(|c| c.len() as f64).sum(),
            Op::Greatest => self.part.graph.operands(node).len() as f64,
            _ => 0.0,
        }
    }

    // ---- what a block holds ------------------------------------------------------------------------------------

    fn element_bytes(&self, node: NodeId) -> f64 {
        match self.part.graph.op(node) {
            Op::Input { input, .. } => self.part.graph.input(*input).element.resolve(self.case.types).bytes() as f64,
            _ => 4.0,
        }
    }
    /// Elements of a tile as memory is laid out for it.
    fn held(&self, dims: DimSet) -> f64 {
        // compiled code lays out whole tiles
        let whole = |d: DimId| self.case.padded || self.part.dim(d).role == Role::Chip;
        let length = |d: DimId| if whole(d) { self.case.tiles[d.0 as usize].max(1) as f64 } else { self.tile(d) as f64 };
        dims.iter().map(length).product()
    }
    fn bytes(&self, node: NodeId) -> f64 {
        self.element_bytes(node) * self.held(self.part.of(node))
    }
    fn step(&self, l: &Loop) -> Step {
        let mut step = Step::default();
        for &n in &l.keep {
            let trips = (self.extent(l.dim).max(1) as f64 / self.tile(l.dim) as f64).ceil();
            step.kept += self.bytes(n) * trips
        }
        let carried = l.states.iter().flat_map(|s| s.members.iter().map(|m| m.node).chain(s.frame));
        step.carried = carried.map(|n| 4.0 * self.held(self.part.of(n))).sum();
        let mut live: Vec<(NodeId, f64)> = vec![];
        for (i, s) in l.body.iter().enumerate() {
            let mut inside = 0.0;
            match s {
                Statement::Load { node, view_of: None } => step.streamed += self.bytes(*node),
                Statement::Map { node } | Statement::Reduce { node, .. } if self.part.of(*node).contains(l.dim) => {
                    live.push((*node, 4.0 * self.held(self.part.of(*node))))
                }
                Statement::Loop(inner) => {
                    let below = self.step(inner);
                    step.streamed += below.streamed;
                    step.carried += below.carried;
                    step.kept += below.kept;
                    inside = below.temporary
                }
                _ => {}
            }
            step.temporary = step.temporary.max(inside + live.iter().map(|v| v.1).sum::<f64>());
            live.retain(|v| l.body[i + 1..].iter().any(|s| self.reads(s, v.0)))
        }
        step
    }
    /// Whether a statement reads the tile of `node`.
    fn reads(&self, s: &Statement, node: NodeId) -> bool {
        let operands = |n: &NodeId| self.part.graph.operands(*n).contains(&node);
        match s {
            Statement::Map { node } => operands(node),
            Statement::Reduce { node: r, .. } | Statement::Fold { node: r, .. } | Statement::Rebase { frame: r } => match self.part.contraction(*r) {
                Some((x, y)) => x == node || y == node,
                None => operands(r),
            },
            Statement::Store { output, store, .. } => self.part.graph.outputs[*output as usize].stores[*store as usize].node == node,
            Statement::Loop(l) => l.keep.contains(&node) || l.body.iter().any(|s| self.reads(s, node)),
            Statement::Load { .. } | Statement::Recall { .. } => false,
        }
    }
}

/// The members of a frame's state.
fn members(part: &Part, frame: NodeId) -> Vec<NodeId> {
    let states = part.statements().into_iter().filter_map(|(_, s)| if let Statement::Loop(l) = s { Some(&l.states) } else { None });
    states.flatten().filter(|s| s.frame == Some(frame)).flat_map(|s| s.members.iter().map(|m| m.node)).collect()
}
