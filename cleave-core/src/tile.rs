//! The tile program: an algorithm with roles given to its axes and lifetimes to its values. The one input of every back end.
//! It names no fragment and no shared memory.
//!
//! A [`Program`] is a list of launches, a launch a list of [`Part`]s whose grids are laid end to end. A part runs its body once
//! for each tile of its grid dims, in any order. Values are nodes of the part's graph; a value is a tile over the dims
//! at which its node varies.
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Graph, NodeId, Op};
use serde::{Deserialize, Serialize};

pub mod in_place;
mod show;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Cut in tiles over the grid.
    Grid,
    /// Cut in tiles of a loop.
    Loop,
    /// Whole on chip, up to a bound that the launch predicate checks.
    Chip,
}

/// A dimension of tiles of a part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DimId(pub u8);

/// A set of dims.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct DimSet(pub u64);

impl DimSet {
    pub const EMPTY: DimSet = DimSet(0);
    pub fn of(dim: DimId) -> Self {
        DimSet(1 << dim.0)
    }
    pub fn contains(self, dim: DimId) -> bool {
        self.0 >> dim.0 & 1 == 1
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    pub fn union(self, other: Self) -> Self {
        DimSet(self.0 | other.0)
    }
    pub fn intersection(self, other: Self) -> Self {
        DimSet(self.0 & other.0)
    }
    pub fn difference(self, other: Self) -> Self {
        DimSet(self.0 & !other.0)
    }
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// The dims in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = DimId> {
        (0..64u8).map(DimId).filter(move |d| self.contains(*d))
    }
}

impl FromIterator<DimId> for DimSet {
    fn from_iter<I: IntoIterator<Item = DimId>>(dims: I) -> Self {
        dims.into_iter().fold(DimSet::EMPTY, |s, d| s.union(DimSet::of(d)))
    }
}

/// One axis, or several packed in mixed radix, the left outermost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dim {
    pub axes: Vec<AxisId>,
    pub role: Role,
    /// Every contraction has it on both operands or on neither, or a table bounds a loop by it: its tile is 1.
    pub batch: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Statement {
    /// A tile of an input. In a loop: streamed; outside: resident. A view is another reading of a tile that is already here.
    Load {
        node: NodeId,
        view_of: Option<NodeId>,
    },
    /// A tile that an earlier loop over `dim` kept on chip.
    Recall {
        node: NodeId,
        dim: DimId,
    },
    /// An elementwise operation on tiles.
    Map {
        node: NodeId,
    },
    /// A reduction within a tile; with two operands (see [`Part::contraction`]) a matrix product.
    Reduce {
        node: NodeId,
        over: DimSet,
    },
    /// frame := merge(frame, frame of the key's tile); every member is transported to the new frame.
    Rebase {
        frame: NodeId,
    },
    /// carried value += this tile's reduction (or its maximum).
    Fold {
        node: NodeId,
        over: DimSet,
    },
    Loop(Loop),
    /// Writes `outputs[output].stores[store]`; only where the grid dims of `first` are at their first tile.
    Store {
        output: u32,
        store: u32,
        first: DimSet,
    },
}

/// Visits the tiles of a dim in ascending order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loop {
    pub dim: DimId,
    /// Predicate nodes: a union of conjunctions. A tile that no conjunction can reach is not visited, and loads are clipped to
    /// what can be reached (beyond it memory may hold NaN). Empty: every tile.
    pub domain: Vec<Vec<NodeId>>,
    pub states: Vec<State>,
    /// Values that a later loop over the same dim recalls.
    pub keep: Vec<NodeId>,
    pub body: Vec<Statement>,
}

/// Accumulators that share a frame, or one plain accumulator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    pub frame: Option<NodeId>,
    pub members: Vec<Member>,
}

/// An accumulator: a sum of `weight * exp(halves/2 * (key - frame)) * (key - frame)^moment` (see [`crate::frame`]). Members of one tower
/// have the same weight and halves, and are transported together.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub node: NodeId,
    pub halves: i8,
    pub moment: i8,
    pub tower: u32,
}

impl State {
    /// The members in the order in which they can be moved one by one: of a tower the highest moment first, as it reads the lower ones.
    pub fn in_order(&self) -> Vec<Member> {
        let mut members = self.members.clone();
        members.sort_by_key(|m| (m.tower, std::cmp::Reverse(m.moment)));
        members
    }
    /// What the move of a member reads: those of its tower from moment 0 to itself.
    pub fn tower_to(&self, member: &Member) -> Vec<Member> {
        let mut tower: Vec<Member> = self.members.iter().filter(|m| m.tower == member.tower && m.moment <= member.moment).copied().collect();
        tower.sort_by_key(|m| m.moment);
        tower
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Part {
    pub graph: Graph,
    pub dims: Vec<Dim>,
    /// The dims at which each node varies.
    pub node_dims: Vec<DimSet>,
    /// The grid dims, outermost first.
    pub grid: Vec<DimId>,
    pub body: Vec<Statement>,
    /// The last top-level loop may be cut in pieces that separate blocks run; the last block to arrive merges the states in
    /// piece order and runs what follows the loop. What precedes it is repeated by every piece.
    pub split: bool,
}

/// A tensor that one launch writes and a later one reads: f32, row-major over the axes of the input that reads it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workspace {
    pub axes: Vec<AxisId>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// What distinguishes it among the programs of its algorithm, in words: `packed (G M), on chip D E`.
    pub name: String,
    /// The algorithm that it runs: an index into the plan file's list.
    pub algorithm: u32,
    pub launches: Vec<Vec<Part>>,
    /// The extents up to which an axis fits on chip.
    pub bounds: Vec<(AxisId, usize)>,
    /// In the parts' graphs, workspace `w` is written by the output named `workspace{w}` and read by the input of that name.
    pub workspaces: Vec<Workspace>,
}

impl Part {
    pub fn dims_of(&self, axes: AxisSet) -> DimSet {
        dims_of(&self.dims, axes)
    }
    pub fn dim(&self, dim: DimId) -> &Dim {
        &self.dims[dim.0 as usize]
    }
    pub fn of(&self, node: NodeId) -> DimSet {
        self.node_dims[node.index()]
    }
    /// The dim of an axis.
    pub fn dim_of(&self, axis: AxisId) -> Option<DimId> {
        self.dims.iter().position(|d| d.axes.contains(&axis)).map(|d| DimId(d as u8))
    }
    /// The two operands of a matrix product, if `node` is one: a sum of a product of two values neither of which has all the
    /// dims of the other.
    pub fn contraction(&self, node: NodeId) -> Option<(NodeId, NodeId)> {
        contraction(&self.graph, &self.node_dims, node)
    }
    /// Whether any statement is a matrix product.
    pub fn multiplies(&self) -> bool {
        self.statements().iter().any(|(_, s)| matches!(s, Statement::Reduce { node, .. } | Statement::Fold { node, .. } if self.contraction(*node).is_some()))
    }
    /// The body of a reduction that is no contraction.
    pub fn body_of(&self, node: NodeId) -> NodeId {
        self.graph.operands(node)[0]
    }
    /// The position in `body` of the loop that a split cuts.
    pub fn split_loop(&self) -> Option<usize> {
        self.body.iter().rposition(|s| matches!(s, Statement::Loop(_)))
    }
    pub fn extent(&self, dim: DimId, extents: &[i64]) -> i64 {
        self.dim(dim).axes.iter().map(|a| extents[a.0 as usize]).product()
    }
    /// The tile lengths at which an interpreter runs, given the asked ones: a dim on chip is whole, a batch is one, every other dim is cut in as many tiles as
    /// asked for, but of about equal length.
    pub fn even_tiles(&self, asked: &[u32], extents: &[i64]) -> Vec<u32> {
        const MULTIPLE: u64 = 16;
        let length = |(d, dim): (usize, &Dim)| {
            let extent = self.extent(DimId(d as u8), extents).clamp(1, u32::MAX as i64) as u64;
            let tile = asked.get(d).map_or(1, |t| *t as u64).clamp(1, extent);
            match dim.role {
                Role::Chip => extent as u32,
                _ if dim.batch => 1,
                _ if tile < 4 * MULTIPLE => tile as u32,
                _ => extent.div_ceil(extent.div_ceil(tile)).next_multiple_of(MULTIPLE).min(tile) as u32,
            }
        };
        self.dims.iter().enumerate().map(length).collect()
    }
    /// Every statement, outer before inner, with its depth of loops.
    pub fn statements(&self) -> Vec<(usize, &Statement)> {
        fn walk<'a>(body: &'a [Statement], depth: usize, out: &mut Vec<(usize, &'a Statement)>) {
            for s in body {
                out.push((depth, s));
                if let Statement::Loop(l) = s {
                    walk(&l.body, depth + 1, out)
                }
            }
        }
        let mut out = vec![];
        walk(&self.body, 0, &mut out);
        out
    }
}

pub fn dims_of(dims: &[Dim], axes: AxisSet) -> DimSet {
    (0..dims.len()).filter(|&d| dims[d].axes.iter().any(|a| axes.contains(*a))).map(|d| DimId(d as u8)).collect()
}

/// See [`Part::contraction`].
pub fn contraction(graph: &Graph, node_dims: &[DimSet], node: NodeId) -> Option<(NodeId, NodeId)> {
    let Op::Sum(_) = graph.op(node) else { return None };
    let body = graph.operands(node)[0];
    match (graph.op(body), graph.operands(body)) {
        (Op::Product(e), &[x, y]) if e[..] == [2, 2] => {
            let (dx, dy) = (node_dims[x.index()], node_dims[y.index()]);
            (!dx.is_subset(dy) && !dy.is_subset(dx)).then_some((x, y))
        }
        _ => None,
    }
}
