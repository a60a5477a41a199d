//! Which buffers a part needs, and from when to when. In: decoded steps. Out: [`Buffer`]s; two whose lifetimes are disjoint may share
//! memory.
use super::decode::{Buffer, Loop, Part, Step};
use super::expression::{Group, Slot};
use cleave_core::graph::NodeId;
use cleave_core::graph::Op;
use cleave_core::tile::DimId;

/// What a buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Holds {
    Value(NodeId),
    Tile(NodeId),
    Count(NodeId),
    States(usize),
}

struct Event {
    holds: Holds,
    position: usize,
    /// The loops around, outermost first, by the positions at which they are entered and left.
    loops: Vec<usize>,
}

struct Survey<'a> {
    part: &'a Part,
    position: usize,
    around: Vec<usize>,
    /// Where each loop is entered and left.
    spans: Vec<(usize, usize)>,
    /// The loops entered so far, with what they carry.
    entered: Vec<&'a Loop>,
    events: Vec<Event>,
    /// Kept values with the dim that they span wholly.
    kept: Vec<(NodeId, DimId, usize)>,
    /// Groups by their position.
    groups: Vec<(usize, &'a Group)>,
}

pub fn assign(part: &mut Part) {
    let mut survey = Survey { part, position: 0, around: vec![], spans: vec![], entered: vec![], events: vec![], kept: vec![], groups: vec![] };
    survey.walk(&part.body);
    let Survey { spans, events, kept, groups, .. } = survey;
    let mut order: Vec<Holds> = vec![];
    for e in &events {
        if !order.contains(&e.holds) {
            order.push(e.holds)
        }
    }
    let mut buffers = vec![];
    let mut places = vec![];
    for holds in order {
        let of: Vec<&Event> = events.iter().filter(|e| e.holds == holds).collect();
        let mut first = of.iter().map(|e| e.position).min().unwrap_or(0);
        let mut last = of.iter().map(|e| e.position).max().unwrap_or(0);
        // the loops that are around every event; alive throughout every other loop that has one of them
        for e in &of {
            for l in e.loops.iter().filter(|l| !of.iter().all(|f| f.loops.contains(l))) {
                first = first.min(spans[*l].0);
                last = last.max(spans[*l].1)
            }
        }
        let keep = kept.iter().find(|k| holds == Holds::Value(k.0));
        if let Some((_, _, l)) = keep {
            first = first.min(spans[*l].0)
        }
        let tiles = match holds {
            Holds::Value(n) | Holds::Tile(n) | Holds::Count(n) => vec![part.layout[n.index()].clone()],
            Holds::States(l) => {
                let mut tiles = vec![];
                with_loop(&part.body, l, &mut |the_loop| tiles = the_loop.carried.iter().map(|(n, _)| part.layout[n.index()].clone()).collect());
                tiles
            }
        };
        places.push(holds);
        buffers.push(Buffer { tiles, whole: keep.map(|k| k.1), first, last, instead_of: None })
    }
    replace(&mut buffers, &places, &groups);
    part.buffers = buffers;
    for (i, holds) in places.into_iter().enumerate() {
        match holds {
            Holds::Value(n) => part.values[n.index()] = Some(i),
            Holds::Tile(n) => part.tiles[n.index()] = Some(i),
            Holds::Count(n) => part.counts[n.index()] = Some(i),
            Holds::States(l) => set_buffer(&mut part.body, l, i),
        }
    }
}

/// Lets what a group writes take the place of a value that it is the last to read, if in the group's code every reading comes before.
fn replace(buffers: &mut [Buffer], places: &[Holds], groups: &[(usize, &Group)]) {
    for &(position, group) in groups {
        // a place is given once
        let mut given: Vec<usize> = vec![];
        for (w, written) in group.slots.iter().enumerate() {
            let Slot::Write(node) = written else { continue };
            let Some(new) = places.iter().position(|p| *p == Holds::Value(*node)) else { continue };
            let fits = |(r, read): (usize, &Slot)| {
                let Slot::Read(node) = read else { return None };
                let old = places.iter().position(|p| *p == Holds::Value(*node))?;
                let alike = buffers[old].tiles == buffers[new].tiles && buffers[old].whole.is_none() && buffers[new].whole.is_none();
                let ends = buffers[old].last == position && buffers[new].first == position && buffers[old].first < position;
                (alike && ends && !given.contains(&old) && group.reads_before_it_writes(r, w)).then_some(old)
            };
            let found = group.slots.iter().enumerate().find_map(fits);
            if let Some(old) = found {
                given.push(old);
                let root = buffers[old].instead_of.unwrap_or(old);
                buffers[new].instead_of = Some(root);
                buffers[root].last = buffers[new].last.max(buffers[root].last)
            }
        }
    }
}

fn with_loop(body: &[Step], index: usize, f: &mut dyn FnMut(&Loop)) {
    for s in body {
        if let Step::Loop(l) = s {
            if l.index == index {
                f(l)
            }
            with_loop(&l.body, index, f)
        }
    }
}

fn set_buffer(body: &mut [Step], index: usize, buffer: usize) {
    for s in body {
        if let Step::Loop(l) = s {
            if l.index == index {
                l.buffer = buffer
            }
            set_buffer(&mut l.body, index, buffer)
        }
    }
}

impl<'a> Survey<'a> {
    fn event(&mut self, holds: Holds) {
        self.events.push(Event { holds, position: self.position, loops: self.around.clone() })
    }
    /// The loop that carries a node at this place: the same node may be carried by several, one after the other.
    fn owner(&self, node: NodeId) -> Option<usize> {
        self.entered.iter().rev().find(|l| l.carried.iter().any(|c| c.0 == node)).map(|l| l.index)
    }
    fn carried(&mut self, node: NodeId) {
        if let Some(l) = self.owner(node) {
            self.event(Holds::States(l))
        }
    }
    /// A value is read: it may be a carried one, which lives in its loop's buffer.
    fn read(&mut self, node: NodeId) {
        self.carried(node);
        if self.owner(node).is_none() || matches!(self.part.graph().op(node), Op::Frame(..)) {
            self.event(Holds::Value(node))
        }
    }
    fn walk(&mut self, body: &'a [Step]) {
        for s in body {
            self.position += 1;
            match s {
                // a copy as f32, where one is needed
                Step::Load { node, .. } => self.event(Holds::Value(*node)),
                Step::Recall(node) => self.read(*node),
                Step::Group(g) => self.group(g),
                Step::Contract { node, x, y, fold, .. } => {
                    self.read(*x);
                    self.read(*y);
                    if *fold { self.carried(*node) } else { self.event(Holds::Value(*node)) }
                }
                Step::Fold { node, .. } => {
                    self.event(Holds::Tile(*node));
                    self.carried(*node)
                }
                Step::Rebase { frame, the_loop, .. } => {
                    self.event(Holds::Tile(*frame));
                    if self.part.counts_needed(*frame) {
                        self.event(Holds::Count(*frame))
                    }
                    self.event(Holds::States(*the_loop));
                    self.event(Holds::Value(*frame))
                }
                Step::Settle { frame, .. } => {
                    self.event(Holds::Tile(*frame));
                    if self.part.counts_needed(*frame) {
                        self.event(Holds::Count(*frame))
                    }
                    self.event(Holds::Value(*frame))
                }
                Step::Loop(l) => {
                    let entered = self.position;
                    while self.spans.len() <= l.index {
                        self.spans.push((0, 0))
                    }
                    self.entered.push(l);
                    self.event(Holds::States(l.index));
                    self.around.push(l.index);
                    self.walk(&l.body);
                    self.around.pop();
                    self.position += 1;
                    self.event(Holds::States(l.index));
                    // frames are given to what follows in their usable form
                    for (n, _) in &l.carried {
                        if matches!(self.part.graph().op(*n), Op::Frame(..)) {
                            self.event(Holds::Value(*n))
                        }
                    }
                    self.spans[l.index] = (entered, self.position);
                    for n in &l.source.keep {
                        if !matches!(self.part.graph().op(*n), Op::Input { .. }) {
                            self.kept.push((*n, l.source.dim, l.index))
                        }
                    }
                }
            }
        }
    }
    fn group(&mut self, g: &'a Group) {
        self.groups.push((self.position, g));
        for s in &g.slots {
            match s {
                Slot::Read(n) => self.read(*n),
                Slot::Write(n) => self.event(Holds::Value(*n)),
                // the result of a reduction that is not carried is its value
                Slot::Tile(n) => self.event(if self.part.is_folded(*n) { Holds::Tile(*n) } else { Holds::Value(*n) }),
                Slot::Count(n) => self.event(Holds::Count(*n)),
                Slot::Output { .. } => {}
            }
        }
    }
}

/// Whether a loop carries a node.
fn is_carried(body: &[Step], node: NodeId) -> bool {
    body.iter().any(|s| matches!(s, Step::Loop(l) if l.carried.iter().any(|c| c.0 == node) || is_carried(&l.body, node)))
}

impl Part {
    fn counts_needed(&self, frame: NodeId) -> bool {
        matches!(self.graph().op(frame), Op::Frame(row, _) if row.statistic == cleave_core::frame::Statistic::Mean)
    }
    /// Whether a reduction keeps the greatest element.
    pub fn keeps_greatest(&self, node: NodeId) -> bool {
        matches!(self.graph().op(node), Op::Maximum(_)) || matches!(self.graph().op(node), Op::Frame(..)) && !self.counts_needed(node)
    }
    /// Whether a reduction's result within the tile is added to a carried one, or is a frame's statistic.
    pub fn is_folded(&self, node: NodeId) -> bool {
        is_carried(&self.body, node) || matches!(self.graph().op(node), Op::Frame(..))
    }
}
