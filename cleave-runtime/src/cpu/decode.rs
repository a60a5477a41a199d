//! A tile program as the executor runs it, made once for a program and its types.
//!
//! In: a [`Program`]. Out: for each part the statements as [`Step`]s: maps, reductions and stores fused to [`Group`]s, contractions, frames,
//! loops; and the buffers with their lifetimes, so that tiles that are not alive together share memory. Nothing here depends on
//! extents.
use super::ExecuteError;
use super::expression::{self, Group, Item};
use super::vector::Total;
use cleave_core::axis::AxisSet;
use cleave_core::cost::Polynomial;
use cleave_core::dtype::{DType, Element};
use cleave_core::frame::{Frame, Statistic};
use cleave_core::graph::{Factor, Function, Graph, InputId, NodeId, Op};
use cleave_core::tile::{self, DimId, DimSet, Statement};
use std::collections::HashMap;

/// Dims that a part may have.
pub const MAX_DIMS: usize = 16;

/// A part, decoded.
#[derive(Debug)]
pub struct Part {
    pub source: tile::Part,
    /// The dims of each node, outermost first: how its tile lies in memory.
    pub layout: Vec<Vec<DimId>>,
    pub body: Vec<Step>,
    pub buffers: Vec<Buffer>,
    /// The buffer of each node's tile, of a reduction's result within the tile, and of the count of a frame's mean.
    pub values: Vec<Option<usize>>,
    pub tiles: Vec<Option<usize>>,
    pub counts: Vec<Option<usize>>,
    /// Loads with the input that they read.
    pub loads: Vec<(NodeId, InputId)>,
    /// Elementary operations of the whole part, roughly: an element that comes from memory counts one, a multiply-add of a contraction 1/16.
    pub work: Polynomial,
}

/// Memory for tiles, aligned to a cache line. Positions count steps in their order, loops entered and left among them.
#[derive(Debug)]
pub struct Buffer {
    /// One or more tiles side by side: the members of a loop's states are one buffer.
    pub tiles: Vec<Vec<DimId>>,
    /// The dim that it spans wholly, though a loop runs along it.
    pub whole: Option<DimId>,
    pub first: usize,
    pub last: usize,
    /// The buffer whose place it takes: the group that writes it is the last to read that one, element by element.
    pub instead_of: Option<usize>,
}

#[derive(Debug)]
pub enum Step {
    Load {
        node: NodeId,
        /// A view of a tile that is here already.
        again: bool,
    },
    Recall(NodeId),
    Group(Group),
    Contract {
        node: NodeId,
        x: NodeId,
        y: NodeId,
        /// The dims of both operands, outermost first in the result; those summed come last.
        order: Vec<DimId>,
        over: DimSet,
        fold: bool,
    },
    /// Adds the tile's reduction to what is carried, or keeps the greater.
    Fold {
        node: NodeId,
        maximum: bool,
    },
    Rebase {
        frame: NodeId,
        row: Frame,
        the_loop: usize,
        state: usize,
    },
    /// The value of a frame that is whole within a tile.
    Settle {
        frame: NodeId,
        row: Frame,
    },
    Loop(Loop),
}

#[derive(Debug)]
pub struct Loop {
    pub source: tile::Loop,
    /// Counts the loops of the part, outer before inner.
    pub index: usize,
    /// The buffer of its states, and each carried node with its place in it: frames and members in order.
    pub buffer: usize,
    pub carried: Vec<(NodeId, usize)>,
    pub body: Vec<Step>,
    pub is_split: bool,
}

/// Orders the dims: a dim stands inside another if it does so in the tensors, outputs before inputs.
fn order(part: &tile::Part) -> Vec<DimId> {
    let n = part.dims.len();
    let mut inside = vec![DimSet::EMPTY; n]; // what stands inside a dim, transitively
    let outputs = part.graph.stores().map(|(_, s)| &s.access);
    let inputs = part.graph.nodes.iter().filter_map(|x| if let Op::Input { access, .. } = &x.op { Some(access) } else { None });
    for access in outputs.chain(inputs) {
        let mut dims: Vec<usize> = vec![];
        for f in access.dims.iter().flatten() {
            if let Factor::Axis(a) = f
                && let Some(d) = part.dim_of(*a)
                && !dims.contains(&(d.0 as usize))
            {
                dims.push(d.0 as usize)
            }
        }
        for (i, &outer) in dims.iter().enumerate() {
            for &inner in &dims[i + 1..] {
                // unless an earlier tensor has it the other way round
                if !inside[inner].contains(DimId(outer as u8)) && inner != outer {
                    let more = inside[inner].union(DimSet::of(DimId(inner as u8)));
                    for (d, set) in inside.iter_mut().enumerate() {
                        if d == outer || set.contains(DimId(outer as u8)) {
                            *set = set.union(more)
                        }
                    }
                }
            }
        }
    }
    let mut all: Vec<DimId> = (0..n).map(|d| DimId(d as u8)).collect();
    // a topological order: what has more inside comes first
    all.sort_by_key(|d| std::cmp::Reverse(inside[d.0 as usize].len()));
    all
}

impl Part {
    pub fn new(source: &tile::Part, types: &[DType]) -> Result<Self, ExecuteError> {
        let mut source = source.clone();
        for n in &mut source.graph.nodes {
            if let Op::Apply(Function::Round(to)) = &mut n.op {
                *to = Element::Type(to.resolve(types))
            }
        }
        let source = &source;
        if source.dims.len() > MAX_DIMS {
            return Err(ExecuteError::Dims { found: source.dims.len() });
        }
        let order = order(source);
        let layout: Vec<Vec<DimId>> = source.node_dims.iter().map(|s| order.iter().copied().filter(|d| s.contains(*d)).collect()).collect();
        let mut decoder =
            Decoder { part: source, order, layout, computed: vec![false; source.graph.nodes.len()], operands: vec![false; source.graph.nodes.len()], loops: 0 };
        decoder.survey(&source.body);
        let drafts = decoder.body(&source.body, true, &mut HashMap::new(), &[]);
        let mut needed = vec![false; source.graph.nodes.len()];
        decoder.needs(&drafts, &mut needed);
        let body = decoder.finish(drafts, &needed);
        let mut part = Part {
            source: source.clone(),
            layout: decoder.layout,
            body,
            buffers: vec![],
            values: vec![None; source.graph.nodes.len()],
            tiles: vec![None; source.graph.nodes.len()],
            counts: vec![None; source.graph.nodes.len()],
            loads: vec![],
            work: work(source),
        };
        for (i, n) in source.graph.nodes.iter().enumerate() {
            if let Op::Input { input, .. } = &n.op
                && part.source.statements().iter().any(|s| matches!(s.1, Statement::Load { node, .. } if node.index() == i))
            {
                part.loads.push((NodeId(i as u32), *input))
            }
        }
        super::lifetime::assign(&mut part);
        Ok(part)
    }
    pub fn graph(&self) -> &Graph {
        &self.source.graph
    }
}

/// A step before it is known which values leave their group.
enum Draft {
    Step(Step),
    Group { dims: DimSet, items: Vec<Item> },
    Loop(Loop, Vec<Draft>),
}

struct Decoder<'a> {
    part: &'a tile::Part,
    order: Vec<DimId>,
    layout: Vec<Vec<DimId>>,
    /// Nodes that some statement makes.
    computed: Vec<bool>,
    /// Operands of contractions, and values that a loop keeps for another: they must lie in memory.
    operands: Vec<bool>,
    loops: usize,
}

/// For each node the first draft of the body at hand that may read it.
type Available = HashMap<NodeId, usize>;

impl Decoder<'_> {
    fn survey(&mut self, body: &[Statement]) {
        for s in body {
            match s {
                Statement::Load { node, .. } | Statement::Recall { node, .. } | Statement::Map { node } => self.computed[node.index()] = true,
                Statement::Reduce { node, .. } | Statement::Fold { node, .. } => {
                    self.computed[node.index()] = true;
                    if let Some((x, y)) = self.matrices(*node) {
                        self.operands[x.index()] = true;
                        self.operands[y.index()] = true
                    }
                }
                Statement::Rebase { frame } => self.computed[frame.index()] = true,
                Statement::Loop(l) => {
                    l.keep.iter().for_each(|n| self.operands[n.index()] = true);
                    self.survey(&l.body)
                }
                Statement::Store { .. } => {}
            }
        }
    }
    /// The operands of a contraction of which neither is a predicate: that one must select.
    fn matrices(&self, node: NodeId) -> Option<(NodeId, NodeId)> {
        let is_predicate = |n: NodeId| matches!(self.part.graph.op(n), Op::Predicate(_));
        self.part.contraction(node).filter(|(x, y)| !is_predicate(*x) && !is_predicate(*y))
    }
    /// Whether a map is cheaper to compute wherever it is read than to keep: a product or a linear form of values that lie in memory anyway.
    fn is_made_anew(&self, node: NodeId) -> bool {
        let graph = &self.part.graph;
        let is_cheap = match graph.op(node) {
            Op::Linear(k, _) => k.len() <= 2,
            Op::Product(exponents) => exponents.len() <= 3 && exponents.iter().all(|e| matches!(e, 2 | 4)),
            _ => false,
        };
        let lies_in_memory = |n: &NodeId| {
            matches!(graph.op(*n), Op::Input { .. } | Op::Number(_) | Op::Size(_) | Op::Predicate(_) | Op::Sum(_) | Op::Maximum(_) | Op::Frame(..))
        };
        is_cheap && !self.operands[node.index()] && graph.operands(node).iter().all(lies_in_memory)
    }
    fn body(&mut self, body: &[Statement], top: bool, available: &mut Available, states: &[(usize, tile::State)]) -> Vec<Draft> {
        let mut out: Vec<Draft> = vec![];
        // what may be folded before a frame moves, must not
        let mut barrier = 0;
        for (position, statement) in body.iter().enumerate() {
            match statement {
                Statement::Load { node, view_of } => {
                    out.push(Draft::Step(Step::Load { node: *node, again: view_of.is_some() }));
                    available.insert(*node, out.len());
                }
                Statement::Recall { node, .. } => {
                    let step =
                        if matches!(self.part.graph.op(*node), Op::Input { .. }) { Step::Load { node: *node, again: true } } else { Step::Recall(*node) };
                    out.push(Draft::Step(step));
                    available.insert(*node, out.len());
                }
                Statement::Map { node } => {
                    let trivial = match self.part.graph.op(*node) {
                        Op::Number(_) | Op::Size(_) => true,
                        Op::Predicate(_) => !self.operands[node.index()],
                        _ => self.is_made_anew(*node),
                    };
                    if trivial {
                        self.computed[node.index()] = false
                    } else {
                        let at = self.add(&mut out, self.part.of(*node), Item::Map { node: *node, keep: false }, available, 0);
                        available.insert(*node, at);
                    }
                }
                Statement::Reduce { node, over } => {
                    let after = match self.part.graph.op(*node) {
                        Op::Frame(row, _) => {
                            self.statistic(&mut out, *node, *row, available);
                            out.push(Draft::Step(Step::Settle { frame: *node, row: *row }));
                            out.len()
                        }
                        _ => self.reduce(&mut out, *node, *over, false, available, 0) + 1,
                    };
                    available.insert(*node, after);
                }
                Statement::Fold { node, over } => {
                    let maximum = matches!(self.part.graph.op(*node), Op::Maximum(_));
                    if self.matrices(*node).is_none() {
                        self.reduce(&mut out, *node, *over, true, available, barrier);
                        out.push(Draft::Step(Step::Fold { node: *node, maximum }))
                    } else {
                        self.reduce(&mut out, *node, *over, true, available, barrier);
                    }
                }
                Statement::Rebase { frame } => {
                    let Op::Frame(row, _) = self.part.graph.op(*frame) else { continue };
                    self.statistic(&mut out, *frame, *row, available);
                    let found = states.iter().find_map(|(l, s)| (s.frame == Some(*frame)).then_some(*l));
                    let state = found.and_then(|l| states.iter().filter(|s| s.0 == l).position(|s| s.1.frame == Some(*frame)));
                    let (Some(the_loop), Some(state)) = (found, state) else { continue };
                    out.push(Draft::Step(Step::Rebase { frame: *frame, row: *row, the_loop, state }));
                    barrier = out.len();
                    available.insert(*frame, out.len());
                }
                Statement::Loop(l) => {
                    let index = self.loops;
                    self.loops += 1;
                    let mut inner: Available = available.keys().map(|n| (*n, 0)).collect();
                    let mut around = states.to_vec();
                    around.extend(l.states.iter().map(|s| (index, s.clone())));
                    let drafts = self.body(&l.body, false, &mut inner, &around);
                    let carried: Vec<NodeId> = l.states.iter().flat_map(|s| s.frame.into_iter().chain(s.members.iter().map(|m| m.node))).collect();
                    let is_split = top && self.part.split && self.part.split_loop() == Some(position);
                    let carried = carried.into_iter().enumerate().map(|(i, n)| (n, i)).collect::<Vec<_>>();
                    for (n, _) in &carried {
                        self.computed[n.index()] = true;
                        available.insert(*n, out.len() + 1);
                    }
                    out.push(Draft::Loop(Loop { source: l.clone(), index, buffer: 0, carried, body: vec![], is_split }, drafts))
                }
                Statement::Store { output, store, first } => {
                    let s = &self.part.graph.outputs[*output as usize].stores[*store as usize];
                    let dims = self.part.dims_of(s.access.axes()).union(self.part.of(s.node));
                    let item = Item::Store { node: s.node, output: *output, store: *store, first: *first };
                    self.add(&mut out, dims, item, available, 0);
                }
            }
        }
        out
    }

    /// Puts an item in the latest group over its dims that may hold it, or in a new one. Returns where.
    fn add(&self, out: &mut Vec<Draft>, dims: DimSet, item: Item, available: &Available, barrier: usize) -> usize {
        let mut roots = match &item {
            Item::Map { node, .. } => self.part.graph.operands(*node).to_vec(),
            Item::Reduce { body, predicates, .. } => [&[*body], predicates.as_slice()].concat(),
            Item::Count { predicates, .. } => predicates.clone(),
            Item::Store { node, .. } => vec![*node],
        };
        let mut from = barrier;
        while let Some(n) = roots.pop() {
            match available.get(&n) {
                Some(at) => from = from.max(*at),
                // made inline: what it reads must be there
                None => roots.extend(self.part.graph.operands(n)),
            }
        }
        let found = (from..out.len()).rev().find(|&i| matches!(&out[i], Draft::Group { dims: d, .. } if *d == dims));
        match found.map(|i| (i, &mut out[i])) {
            Some((i, Draft::Group { items, .. })) => {
                items.push(item);
                i
            }
            _ => {
                out.push(Draft::Group { dims, items: vec![item] });
                out.len() - 1
            }
        }
    }
    fn reduce(&self, out: &mut Vec<Draft>, node: NodeId, over: DimSet, fold: bool, available: &Available, barrier: usize) -> usize {
        if let Some((x, y)) = self.matrices(node) {
            let dims = self.part.of(x).union(self.part.of(y));
            let summed = dims.difference(self.part.of(node));
            let order = self.layout[node.index()]
                .iter()
                .copied()
                .filter(|d| dims.contains(*d))
                .chain(self.order.iter().copied().filter(|d| summed.contains(*d)))
                .collect();
            out.push(Draft::Step(Step::Contract { node, x, y, order, over, fold }));
            return out.len() - 1;
        }
        let graph = &self.part.graph;
        let body = graph.operands(node)[0];
        let maximum = matches!(graph.op(node), Op::Maximum(_));
        let predicates = if maximum { graph.operands(node)[1..].to_vec() } else { vec![] };
        let below = graph.operands(node).iter().fold(DimSet::EMPTY, |s, o| s.union(self.part.of(*o)));
        let dims = self.part.of(node).union(over).union(below);
        self.add(out, dims, Item::Reduce { node, body, total: if maximum { Total::Greatest } else { Total::Sum }, predicates }, available, barrier)
    }
    /// What the table says a frame takes from a tile.
    fn statistic(&self, out: &mut Vec<Draft>, frame: NodeId, row: Frame, available: &Available) {
        let operands = self.part.graph.operands(frame);
        let (body, predicates) = (operands[0], operands[1..].to_vec());
        let below = operands.iter().fold(DimSet::EMPTY, |s, o| s.union(self.part.of(*o)));
        let dims = self.part.of(frame).union(below);
        let maximum = row.statistic == Statistic::Greatest;
        if !maximum {
            self.add(out, dims, Item::Count { node: frame, predicates: predicates.clone() }, available, 0);
        }
        self.add(out, dims, Item::Reduce { node: frame, body, total: if maximum { Total::GreatestNumber } else { Total::Sum }, predicates }, available, 0);
    }

    /// Marks the values that some other step than the group that makes them reads.
    fn needs(&self, drafts: &[Draft], needed: &mut [bool]) {
        let graph = &self.part.graph;
        for draft in drafts {
            match draft {
                Draft::Step(Step::Contract { x, y, .. }) => [x, y].iter().for_each(|n| needed[n.index()] = true),
                Draft::Step(Step::Recall(node)) => needed[node.index()] = true,
                Draft::Step(_) => {}
                Draft::Loop(l, body) => {
                    l.source.keep.iter().for_each(|n| needed[n.index()] = true);
                    self.needs(body, needed)
                }
                Draft::Group { items, .. } => {
                    let own: Vec<NodeId> = items.iter().filter_map(|i| if let Item::Map { node, .. } = i { Some(*node) } else { None }).collect();
                    let mut todo: Vec<NodeId> = vec![];
                    for i in items {
                        match i {
                            Item::Map { node, .. } => todo.extend(graph.operands(*node)),
                            Item::Reduce { body, .. } => todo.push(*body),
                            Item::Count { .. } => {}
                            Item::Store { node, .. } => todo.push(*node),
                        }
                    }
                    while let Some(n) = todo.pop() {
                        if own.contains(&n) {
                            continue;
                        }
                        if self.computed[n.index()] { needed[n.index()] = true } else { todo.extend(graph.operands(n)) }
                    }
                }
            }
        }
    }
    fn finish(&self, drafts: Vec<Draft>, needed: &[bool]) -> Vec<Step> {
        let steps = drafts.into_iter().map(|draft| match draft {
            Draft::Step(s) => s,
            Draft::Loop(mut l, body) => {
                l.body = self.finish(body, needed);
                Step::Loop(l)
            }
            Draft::Group { dims, mut items } => {
                for i in &mut items {
                    if let Item::Map { node, keep } = i {
                        *keep = needed[node.index()]
                    }
                }
                let dims = self.order.iter().copied().filter(|d| dims.contains(*d)).collect();
                Step::Group(expression::compile(&self.part.graph, dims, &items, &|n| self.computed[n.index()]))
            }
        });
        steps.collect()
    }
}

/// See [`Part::work`].
fn work(part: &tile::Part) -> Polynomial {
    let mut work = Polynomial::default();
    let axes = |dims: DimSet| dims.iter().flat_map(|d| part.dim(d).axes.clone()).collect::<AxisSet>();
    for (_, s) in part.statements() {
        match s {
            // it comes from memory once
            Statement::Load { node, view_of: None } => work.add(axes(part.of(*node)), 1.0),
            Statement::Map { node } => work.add(axes(part.of(*node)), 1.0),
            Statement::Reduce { node, .. } | Statement::Fold { node, .. } => match part.contraction(*node) {
                Some((x, y)) => work.add(axes(part.of(x).union(part.of(y))), 1.0 / 16.0),
                None => work.add(axes(part.of(part.body_of(*node))), 1.0),
            },
            Statement::Store { output, store, .. } => work.add(part.graph.outputs[*output as usize].stores[*store as usize].access.axes(), 1.0),
            _ => {}
        }
    }
    work
}
