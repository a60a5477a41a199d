//! A plain interpreter of tile programs, for tests and for the screen of a build. It knows statements and the frame table only.
//!
//! In: a program, extents, inputs, tiles and the number of pieces of a split. Out: the outputs, and counts of what was done.
//! Arithmetic is f64, or f32 by rounding after every operation; inputs and outputs are rounded to their storage types.
use crate::axis::AxisId;
use crate::domain::{Domain, Span, Surroundings, index_at, index_range};
use crate::dtype::DType;
use crate::extent;
use crate::frame::{Frame, SHIFT};
use crate::graph::{Access, Function, Graph, NodeId, Op};
use crate::oracle::Tensor;
use crate::predicate::Table;
use crate::tile::{DimId, DimSet, Loop, Part, Program, Role, State, Statement};
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    Double,
    Single,
}

pub struct Settings<'a> {
    /// The tile length of a dim that is neither a batch (1) nor on chip (whole).
    pub tile: &'a dyn Fn(&Part, DimId) -> i64,
    /// In how many pieces the loop of a part that may be split is cut.
    pub pieces: usize,
    pub arithmetic: Arithmetic,
    /// The types of the kernel's generic parameters; `None`: storage does not round.
    pub types: Option<&'a [DType]>,
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub blocks: u64,
    /// Elements that `Load` statements read.
    pub loads: u64,
    /// Tiles of loops, and those of them in which every predicate of the domain held throughout.
    pub tiles: u64,
    pub full: u64,
}

/// Runs `program` on the extents of every axis and the inputs in order.
pub fn run(program: &Program, extents: &[i64], inputs: &[Tensor], settings: &Settings) -> (Vec<Tensor>, Counts) {
    let mut counts = Counts::default();
    let Some(graph) = program.launches.last().and_then(|l| l.first()).map(|p| &p.graph) else { return (vec![], counts) };
    let stored = |element: crate::dtype::Element, t: &mut Tensor| {
        if let Some(types) = settings.types {
            t.values.iter_mut().for_each(|x| *x = round_to(element.resolve(types), *x))
        }
    };
    let mut tensors = inputs.to_vec();
    tensors.iter_mut().zip(&graph.inputs).for_each(|(t, i)| stored(i.element, t));
    let empty = |storage: &Access| {
        let shape = extent::shape(storage, extents);
        let size = shape.iter().product::<i64>().max(0) as usize;
        Tensor { shape, values: vec![f64::NAN; size] }
    };
    let mut outputs: Vec<Tensor> = graph.outputs.iter().map(|o| empty(&o.storage)).collect();
    let first_workspace = outputs.len() - program.workspaces.len();
    for launch in &program.launches {
        for part in launch {
            let lists: Vec<Vec<usize>> = part.node_dims.iter().map(|d| positions(*d)).collect();
            let mut block = Block {
                part,
                extents,
                tensors: &tensors,
                outputs: &mut outputs,
                settings,
                counts: &mut counts,
                at: vec![None; part.dims.len()],
                values: vec![vec![]; part.graph.nodes.len()],
                held: vec![],
                kept: HashMap::new(),
                lists: &lists,
            };
            block.grid(0)
        }
        // what a launch wrote, the next one reads
        tensors.truncate(inputs.len());
        tensors.extend(outputs[first_workspace..].iter().cloned())
    }
    outputs.truncate(first_workspace);
    outputs.iter_mut().zip(&graph.outputs).for_each(|(t, o)| stored(o.element, t));
    (outputs, counts)
}

/// The nearest value of a storage type, ties to even.
pub fn round_to(dtype: DType, x: f64) -> f64 {
    let (bits, least, greatest) = match dtype {
        DType::F32 => return x as f32 as f64,
        DType::I32 => return x,
        DType::F16 => (10, -14, 65504.0),
        DType::BF16 => (7, -126, 255.0 * 2f64.powi(120)),
    };
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = (((x.abs().to_bits() >> 52) as i32) - 1023).max(least);
    let unit = 2f64.powi(exponent - bits);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() > greatest { f64::INFINITY.copysign(x) } else { rounded }
}

/// Carried values: members, and frames under their node.
type Carried = HashMap<NodeId, Vec<f64>>;

struct Block<'a> {
    part: &'a Part,
    extents: &'a [i64],
    tensors: &'a [Tensor],
    outputs: &'a mut [Tensor],
    settings: &'a Settings<'a>,
    counts: &'a mut Counts,
    /// The tile of each dim that is bound.
    at: Vec<Option<Span>>,
    /// The tile of each node: row-major over its dims in ascending order.
    values: Vec<Vec<f64>>,
    /// Predicates that hold throughout the tile at hand.
    held: Vec<NodeId>,
    kept: HashMap<(NodeId, Span), Vec<f64>>,
    /// The dims of each node, as positions.
    lists: &'a [Vec<usize>],
}

impl<'a> Block<'a> {
    fn graph(&self) -> &'a Graph {
        &self.part.graph
    }
    fn round(&self, x: f64) -> f64 {
        if self.settings.arithmetic == Arithmetic::Single { x as f32 as f64 } else { x }
    }
    fn extent(&self, axis: AxisId) -> i64 {
        self.extents[axis.0 as usize]
    }
    fn tile(&self, dim: DimId) -> i64 {
        let extent = self.part.extent(dim, self.extents).max(1);
        match self.part.dim(dim) {
            d if d.role == Role::Chip => extent,
            d if d.batch => 1,
            _ => (self.settings.tile)(self.part, dim).clamp(1, extent),
        }
    }
    fn span(&self, dim: DimId) -> Span {
        self.at[dim.0 as usize].unwrap_or(Span::new(0, 0))
    }

    fn grid(&mut self, position: usize) {
        let part = self.part;
        let Some(&dim) = part.grid.get(position) else {
            for (d, dim) in part.dims.iter().enumerate().filter(|d| d.1.role == Role::Chip) {
                self.at[d] = Some(Span::new(0, dim.axes.iter().map(|a| self.extent(*a)).product()))
            }
            self.counts.blocks += 1;
            return self.body(&part.body, &[], &mut Carried::new(), true);
        };
        let (extent, tile) = (part.extent(dim, self.extents), self.tile(dim));
        for start in (0..extent).step_by(tile as usize) {
            self.at[dim.0 as usize] = Some(Span::new(start, (start + tile).min(extent)));
            self.grid(position + 1)
        }
        // a store that lacks the dim happens though the dim is empty
        if extent == 0 && self.graph().stores().any(|s| !part.dims_of(s.1.access.axes()).contains(dim)) {
            self.at[dim.0 as usize] = Some(Span::new(0, 0));
            self.grid(position + 1)
        }
    }

    // ---- positions -----------------------------------------------------------------------------------------

    /// Calls `f` with the offset in its tile of every dim: those of `dims` run, row-major, the others stay as in `start`.
    fn each(&self, dims: DimSet, start: &[i64], f: &mut dyn FnMut(&[i64])) {
        let list: Vec<(usize, i64)> = dims.iter().map(|d| (d.0 as usize, self.span(d).len())).collect();
        let mut offset = start.to_vec();
        for mut i in 0..list.iter().map(|d| d.1).product::<i64>() {
            for (d, n) in list.iter().rev() {
                offset[*d] = i % n;
                i /= n
            }
            f(&offset)
        }
    }
    fn origin(&self) -> Vec<i64> {
        vec![0; self.at.len()]
    }
    fn value(&self, node: NodeId, offset: &[i64]) -> f64 {
        self.values[node.index()][self.place(node, offset)]
    }
    fn place(&self, node: NodeId, offset: &[i64]) -> usize {
        self.lists[node.index()].iter().fold(0, |p, &d| p * self.at[d].map_or(0, |s| s.end - s.start) + offset[d]) as usize
    }
    fn index(&self, axis: AxisId, offset: &[i64]) -> i64 {
        let Some(d) = self.part.dim_of(axis) else { return 0 };
        index_at(&self.part.dim(d).axes, axis, self.span(d).start + offset[d.0 as usize], &|a| self.extent(a))
    }
    fn element(&self, input: usize, access: &Access, index: &dyn Fn(AxisId) -> i64) -> f64 {
        let tensor = &self.tensors[input];
        tensor.values[access.offset(&Tensor::strides(&tensor.shape), index, &|a| self.extent(a)) as usize]
    }
    /// The range of an axis over the tiles at hand.
    fn range(&self, axis: AxisId) -> (i64, i64) {
        let bound = self.part.dim_of(axis).and_then(|d| Some((d, self.at[d.0 as usize]?)));
        match bound {
            Some((d, span)) => index_range(&self.part.dim(d).axes, axis, span, &|a| self.extent(a)),
            None => (0, self.extent(axis) - 1),
        }
    }
    fn table_range(&self, table: &Table) -> Option<(i64, i64)> {
        let axes: Vec<AxisId> = table.access.axes().iter().collect();
        let ranges: Vec<(i64, i64)> = axes.iter().map(|a| self.range(*a)).collect();
        let mut found: Option<(i64, i64)> = None;
        let mut index = vec![0; self.extents.len()];
        for mut i in 0..ranges.iter().map(|r| r.1 - r.0 + 1).product::<i64>() {
            for (a, r) in axes.iter().zip(&ranges) {
                index[a.0 as usize] = r.0 + i % (r.1 - r.0 + 1);
                i /= r.1 - r.0 + 1
            }
            let x = self.element(table.input.index(), &table.access, &|a| index[a.0 as usize]) as i64;
            found = Some(found.map_or((x, x), |f| (f.0.min(x), f.1.max(x))))
        }
        found
    }
    fn domain(&self, the_loop: &Loop) -> Domain {
        let (index, extent, table) = (|a| self.range(a), |a| self.extent(a), |t: &Table| self.table_range(t));
        Domain::new(self.part, the_loop, self.part.extent(the_loop.dim, self.extents), &Surroundings { index: &index, extent: &extent, table: &table })
    }

    // ---- statements ----------------------------------------------------------------------------------------

    /// `states`: those of the loop around.
    fn body(&mut self, body: &[Statement], states: &[State], carried: &mut Carried, top: bool) {
        for (i, s) in body.iter().enumerate() {
            match s {
                Statement::Load { node, view_of } => {
                    if view_of.is_none() {
                        self.counts.loads += self.part.of(*node).iter().map(|d| self.span(d).len() as u64).product::<u64>()
                    }
                    self.map(*node)
                }
                Statement::Map { node } => self.map(*node),
                Statement::Recall { node, dim } => self.values[node.index()] = self.kept[&(*node, self.span(*dim))].clone(),
                Statement::Reduce { node, over } => self.values[node.index()] = self.reduce(*node, *over),
                Statement::Rebase { frame } => self.rebase(*frame, states, carried),
                Statement::Fold { node, over } => {
                    let tile = self.reduce(*node, *over);
                    let is_maximum = matches!(self.graph().op(*node), Op::Maximum(_));
                    let member = carried.entry(*node).or_default();
                    let single = self.settings.arithmetic == Arithmetic::Single;
                    for (x, y) in member.iter_mut().zip(tile) {
                        *x = match (is_maximum, single) {
                            (true, _) => greater(*x, y),
                            (false, true) => (*x + y) as f32 as f64,
                            (false, false) => *x + y,
                        }
                    }
                }
                Statement::Loop(l) => {
                    let pieces = if top && self.part.split && self.part.split_loop() == Some(i) { self.settings.pieces.max(1) } else { 1 };
                    self.the_loop(l, pieces)
                }
                Statement::Store { output, store, first } => self.store(*output, *store, *first),
            }
        }
    }

    fn store(&mut self, output: u32, store: u32, first: DimSet) {
        if first.iter().any(|d| self.span(d).start != 0) {
            return;
        }
        let s = &self.graph().outputs[output as usize].stores[store as usize];
        let strides = Tensor::strides(&self.outputs[output as usize].shape);
        let mut writes = vec![];
        self.each(self.part.dims_of(s.access.axes()), &self.origin(), &mut |offset| {
            let place = s.access.offset(&strides, &|a| self.index(a, offset), &|a| self.extent(a));
            writes.push((place as usize, self.value(s.node, offset)))
        });
        for (place, x) in writes {
            self.outputs[output as usize].values[place] = x
        }
    }

    /// A load or an elementwise operation.
    fn map(&mut self, node: NodeId) {
        let operands = self.graph().operands(node);
        let mut tile = vec![];
        self.each(self.part.of(node), &self.origin(), &mut |offset| {
            let x = |j: usize| self.value(operands[j], offset);
            tile.push(self.round(match self.graph().op(node) {
                Op::Input { input, access } => self.element(input.index(), access, &|a| self.index(a, offset)),
                Op::Number(r) => r.to_f64(),
                Op::Size(a) => self.extent(*a) as f64,
                Op::Index(a) => self.index(*a, offset) as f64,
                Op::Predicate(_) => self.holds(node, offset) as u8 as f64,
                Op::Apply(Function::Round(to)) => self.settings.types.map_or(x(0), |types| round_to(to.resolve(types), x(0))),
                Op::Apply(f) => f.apply(x(0)),
                Op::Product(exponents) => self.product(operands, exponents, offset),
                Op::Linear(k, constant) => (0..k.len()).fold(constant.to_f64(), |sum, j| self.round(sum + self.round(k[j].to_f64() * x(j)))),
                Op::Greatest => (0..operands.len()).map(x).fold(f64::NEG_INFINITY, greater),
                Op::Sum(_) | Op::Maximum(_) | Op::Frame(..) => f64::NAN,
            }))
        });
        self.values[node.index()] = tile
    }
    fn holds(&self, node: NodeId, offset: &[i64]) -> bool {
        let Op::Predicate(p) = self.graph().op(node) else { return false };
        let index = |a: AxisId| self.index(a, offset);
        let table = |t: &Table| self.element(t.input.index(), &t.access, &index) as i64;
        self.held.contains(&node) || self.graph().predicate(*p).holds(&index, &|a| self.extent(a), &table)
    }
    /// A predicate that is 0 hides the rest; a factor of 0 wins over what is infinite and over the denominator.
    fn product(&self, operands: &[NodeId], exponents: &[i8], offset: &[i64]) -> f64 {
        let hidden = |o: &NodeId| matches!(self.graph().op(*o), Op::Predicate(_)) && self.value(*o, offset) == 0.0;
        if operands.iter().any(hidden) {
            return 0.0;
        }
        let power = |halves: i8, x: f64| {
            let base = if halves % 2 == 0 { x } else { self.round(x.sqrt()) };
            let times = if halves % 2 == 0 { halves / 2 } else { halves };
            (0..times).fold(1.0, |p, _| self.round(p * base))
        };
        let factors = || operands.iter().zip(exponents);
        if factors().any(|(o, e)| *e > 0 && self.value(*o, offset) == 0.0) {
            return 0.0;
        }
        let numerator = factors().filter(|f| *f.1 > 0).fold(1.0, |p, (o, e)| self.round(p * power(*e, self.value(*o, offset))));
        let denominator = factors().filter(|f| *f.1 < 0).fold(1.0, |p, (o, e)| self.round(p * power(-*e, self.value(*o, offset))));
        if exponents.iter().all(|e| *e > 0) {
            numerator
        } else if numerator == 0.0 {
            0.0
        } else {
            self.round(numerator / denominator)
        }
    }

    /// The reduction of a tile. A matrix product multiplies as a matrix unit does: 0 * NaN is NaN.
    fn reduce(&self, node: NodeId, over: DimSet) -> Vec<f64> {
        let operands = self.graph().operands(node);
        let contraction = self.part.contraction(node);
        let is_maximum = matches!(self.graph().op(node), Op::Maximum(_));
        let mut tile = vec![];
        self.each(self.part.of(node), &self.origin(), &mut |kept| {
            let mut result = if is_maximum { f64::NEG_INFINITY } else { 0.0 };
            self.each(over, kept, &mut |offset| {
                if is_maximum {
                    if operands[1..].iter().all(|p| self.value(*p, offset) != 0.0) {
                        result = greater(result, self.value(operands[0], offset))
                    }
                    return;
                }
                let x = match contraction {
                    Some((x, y)) => self.round(self.value(x, offset) * self.value(y, offset)),
                    None => self.value(operands[0], offset),
                };
                result = self.round(result + x)
            });
            tile.push(result)
        });
        tile
    }

    // ---- states --------------------------------------------------------------------------------------------

    fn row(&self, frame: NodeId) -> Frame {
        match self.graph().op(frame) {
            Op::Frame(row, _) => *row,
            _ => Frame(&SHIFT),
        }
    }
    fn usable(&self, frame: NodeId, values: &[f64]) -> Vec<f64> {
        let row = self.row(frame);
        values.iter().map(|x| row.usable(*x)).collect()
    }
    fn frame_of_tile(&self, frame: NodeId) -> Vec<f64> {
        let operands = self.graph().operands(frame);
        let over = self.part.dims_of(self.graph().op(frame).reduced());
        let row = self.row(frame);
        let mut tile = vec![];
        self.each(self.part.of(frame), &self.origin(), &mut |kept| {
            let mut keys = vec![];
            self.each(over, kept, &mut |offset| {
                if operands[1..].iter().all(|p| self.value(*p, offset) != 0.0) {
                    keys.push(self.value(operands[0], offset))
                }
            });
            tile.push(self.round((row.suited)(row.statistic.of(keys.into_iter()))))
        });
        tile
    }
    fn rebase(&mut self, frame: NodeId, states: &[State], carried: &mut Carried) {
        let row = self.row(frame);
        let tile = self.frame_of_tile(frame);
        let to: Vec<f64> = carried[&frame].iter().zip(tile).map(|(x, y)| row.merge(*x, y)).collect();
        if let Some(state) = states.iter().find(|s| s.frame == Some(frame)) {
            self.transport(state, frame, carried, &to)
        }
        self.values[frame.index()] = self.usable(frame, &to)
    }
    /// Moves the members of a state into the frame `to`.
    fn transport(&self, state: &State, frame: NodeId, carried: &mut Carried, to: &[f64]) {
        let row = self.row(frame);
        let before = carried.clone();
        let from = before[&frame].clone();
        for m in &state.members {
            let dims = self.part.of(m.node);
            let tower = state.tower_to(m);
            let mut moved = before[&m.node].clone();
            // a member may lack dims of the frame (a count of degree 0): all of these give it the same value
            self.each(dims.union(self.part.of(frame)), &self.origin(), &mut |offset| {
                let i = self.place(frame, offset);
                let mut values: Vec<f64> = tower.iter().map(|x| before[&x.node][self.place(x.node, offset)]).collect();
                row.transport(from[i], to[i], m.halves, &mut values);
                if let Some(v) = values.last() {
                    moved[self.place(m.node, offset)] = self.round(*v)
                }
            });
            carried.insert(m.node, moved);
        }
        carried.insert(frame, to.to_vec());
    }

    fn fresh(&self, the_loop: &Loop) -> Carried {
        let size = |n: NodeId| self.part.of(n).iter().map(|d| self.span(d).len()).product::<i64>() as usize;
        let mut carried = Carried::new();
        for state in &the_loop.states {
            if let Some(f) = state.frame {
                carried.insert(f, vec![self.row(f).nothing; size(f)]);
            }
            for m in &state.members {
                let identity = if matches!(self.graph().op(m.node), Op::Maximum(_)) { f64::NEG_INFINITY } else { 0.0 };
                carried.insert(m.node, vec![identity; size(m.node)]);
            }
        }
        carried
    }
    /// Adds the states of a later piece to those of earlier ones.
    fn merge(&self, the_loop: &Loop, total: &mut Carried, mut piece: Carried) {
        for state in &the_loop.states {
            if let Some(f) = state.frame {
                let row = self.row(f);
                let to: Vec<f64> = total[&f].iter().zip(&piece[&f]).map(|(x, y)| row.merge(*x, *y)).collect();
                self.transport(state, f, total, &to);
                self.transport(state, f, &mut piece, &to)
            }
            for m in &state.members {
                let is_maximum = matches!(self.graph().op(m.node), Op::Maximum(_));
                let sum: Vec<f64> =
                    total[&m.node].iter().zip(&piece[&m.node]).map(|(x, y)| if is_maximum { greater(*x, *y) } else { self.round(x + y) }).collect();
                total.insert(m.node, sum);
            }
        }
    }
    fn the_loop(&mut self, the_loop: &Loop, pieces: usize) {
        let domain = self.domain(the_loop);
        let tiles: Vec<Span> = domain.tiles(self.tile(the_loop.dim)).collect();
        let mut total: Option<Carried> = None;
        // each piece is a block; the last to arrive merges in index order
        for piece in 0..pieces {
            let mut carried = self.fresh(the_loop);
            for &span in &tiles[tiles.len() * piece / pieces..tiles.len() * (piece + 1) / pieces] {
                self.at[the_loop.dim.0 as usize] = Some(span);
                self.counts.tiles += 1;
                self.counts.full += domain.is_full(span) as u64;
                let outer = self.held.len();
                self.held.extend(domain.full.iter().map(|f| f.0).filter(|p| domain.holds(*p, span)));
                self.body(&the_loop.body, &the_loop.states, &mut carried, false);
                self.held.truncate(outer);
                for &n in &the_loop.keep {
                    self.kept.insert((n, span), self.values[n.index()].clone());
                }
            }
            match &mut total {
                None => total = Some(carried),
                Some(total) => self.merge(the_loop, total, carried),
            }
        }
        self.at[the_loop.dim.0 as usize] = None;
        for (n, values) in total.unwrap_or_default() {
            self.values[n.index()] = if matches!(self.graph().op(n), Op::Frame(..)) { self.usable(n, &values) } else { values }
        }
    }
}

fn positions(dims: DimSet) -> Vec<usize> {
    dims.iter().map(|d| d.0 as usize).collect()
}

/// The greater of two; NaN if either is.
fn greater(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_rounds_to_the_nearest_value_ties_to_even() {
        let unit = 2f64.powi(-10);
        assert_eq!(round_to(DType::F16, 1.0 + 0.5 * unit), 1.0);
        assert_eq!(round_to(DType::F16, 1.0 + 1.5 * unit), 1.0 + 2.0 * unit);
        assert_eq!(round_to(DType::F16, 65519.0), 65504.0);
        assert_eq!(round_to(DType::F16, -65520.0), f64::NEG_INFINITY);
        assert_eq!(round_to(DType::F16, 2f64.powi(-24) * 1.4), 2f64.powi(-24));
        assert_eq!(round_to(DType::F16, 2f64.powi(-26)), 0.0);
        assert_eq!(round_to(DType::BF16, 1.0 + 2f64.powi(-8)), 1.0);
        assert_eq!(round_to(DType::BF16, f32::MAX as f64), f64::INFINITY);
        assert_eq!(round_to(DType::F32, 0.1), 0.1f32 as f64);
    }
}
