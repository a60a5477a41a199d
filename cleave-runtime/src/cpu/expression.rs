//! Fused elementwise code: a [`Group`] is a run of maps, reductions and stores over the same dims, as a list of instructions over
//! registers of [`CHUNK`] elements of the innermost dim, so that what lives between two maps never leaves the first cache.
//!
//! In: the graph's nodes in the order of statements. Out: instructions in that order; a register is reused after its last use.
use cleave_core::absence::{Absence, absences, overruled};
use cleave_core::axis::AxisId;
use cleave_core::dtype::{DType, Element};
use cleave_core::graph::{Function, Graph, NodeId, Op, PredicateId};
use cleave_core::tile::{DimId, DimSet};
use std::collections::HashMap;

use super::vector::{Binary, Total, Unary};

/// Elements of a register.
pub const CHUNK: usize = 2048;

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    Register(u16),
    /// Memory: an index into [`Group::slots`].
    Slot(u16),
    Number(f32),
    /// The extent of an axis.
    Size(AxisId),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Unary(Unary),
    Binary(Binary),
    /// The first operand where the mask holds, else 0.
    Select(u16),
    /// 1 where the mask holds, else 0.
    Indicator(u16),
    /// The position along an axis.
    Position(AxisId),
    /// Adds the first operand to a slot, or keeps the greatest, where the masks hold.
    Reduce {
        total: Total,
        masks: Vec<u16>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    pub work: Work,
    pub target: Place,
    pub operands: [Place; 2],
}

/// A tile in memory that a group reads or writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Slot {
    /// A node's value, read, or written by this group.
    Read(NodeId),
    Write(NodeId),
    /// A reduction's result within the tile.
    Tile(NodeId),
    /// How many elements a frame's mean has.
    Count(NodeId),
    Output {
        output: u32,
        store: u32,
        first: DimSet,
    },
}

/// One way to run a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Code {
    pub instructions: Vec<Instruction>,
    pub registers: u16,
}

#[derive(Clone, Debug)]
pub struct Group {
    /// Outermost first.
    pub dims: Vec<DimId>,
    pub slots: Vec<Slot>,
    pub masks: Vec<(NodeId, PredicateId)>,
    /// With masks, and for tiles throughout which all of them hold.
    pub masked: Code,
    pub whole: Code,
}

impl Group {
    /// Whether no instruction from the one that writes slot `write` on reads slot `read`.
    pub fn reads_before_it_writes(&self, read: usize, write: usize) -> bool {
        let is = |p: &Place, slot: usize| *p == Place::Slot(slot as u16);
        let holds = |code: &Code| {
            let first = code.instructions.iter().position(|i| is(&i.target, write)).unwrap_or(code.instructions.len());
            !code.instructions[first..].iter().any(|i| i.operands.iter().any(|p| is(p, read)))
        };
        holds(&self.masked) && holds(&self.whole)
    }
}

/// What a group computes.
#[derive(Clone, Debug)]
pub enum Item {
    Map {
        node: NodeId,
        keep: bool,
    },
    /// A sum or maximum of a body within a tile.
    Reduce {
        node: NodeId,
        body: NodeId,
        total: Total,
        predicates: Vec<NodeId>,
    },
    /// The number of elements at which the predicates hold.
    Count {
        node: NodeId,
        predicates: Vec<NodeId>,
    },
    Store {
        node: NodeId,
        output: u32,
        store: u32,
        first: DimSet,
    },
}

/// Compiles items; `computed` says whether a node is a value that some statement made.
pub fn compile(graph: &Graph, dims: Vec<DimId>, items: &[Item], computed: &dyn Fn(NodeId) -> bool) -> Group {
    let mut compiler =
        Compiler { graph, known: absences(graph), computed, slots: vec![], masks: vec![], code: vec![], places: HashMap::new(), next: 0, masked: true };
    let masked = compiler.run(items);
    // the slots stay as they are: both versions address them alike
    compiler.masked = false;
    let whole = if compiler.masks.is_empty() { masked.clone() } else { compiler.run(items) };
    Group { dims, slots: compiler.slots, masks: compiler.masks, masked, whole }
}

struct Compiler<'a> {
    graph: &'a Graph,
    /// What is known of every node where predicates hold nowhere.
    known: Vec<Absence>,
    computed: &'a dyn Fn(NodeId) -> bool,
    slots: Vec<Slot>,
    masks: Vec<(NodeId, PredicateId)>,
    code: Vec<Instruction>,
    places: HashMap<NodeId, Place>,
    next: u16,
    masked: bool,
}

impl Compiler<'_> {
    fn run(&mut self, items: &[Item]) -> Code {
        self.code.clear();
        self.places.clear();
        self.next = 0;
        for item in items {
            match item {
                Item::Map { node, keep } => {
                    let place = self.compute(*node);
                    let place = if *keep {
                        let slot = self.slot(Slot::Write(*node));
                        self.deliver(place, slot)
                    } else {
                        place
                    };
                    self.places.insert(*node, place);
                }
                Item::Reduce { node, body, total, predicates } => {
                    let x = self.place(*body);
                    let masks = self.masks(predicates);
                    let target = self.slot(Slot::Tile(*node));
                    self.code.push(Instruction { work: Work::Reduce { total: *total, masks }, target, operands: [x, Place::Number(0.0)] })
                }
                Item::Count { node, predicates } => {
                    let masks = self.masks(predicates);
                    let target = self.slot(Slot::Count(*node));
                    let work = Work::Reduce { total: Total::Sum, masks };
                    self.code.push(Instruction { work, target, operands: [Place::Number(1.0), Place::Number(0.0)] })
                }
                Item::Store { node, output, store, first } => {
                    let x = self.place(*node);
                    let target = self.slot(Slot::Output { output: *output, store: *store, first: *first });
                    self.deliver(x, target);
                }
            }
        }
        allocate(without_copies(fused(std::mem::take(&mut self.code))))
    }
    fn masks(&mut self, predicates: &[NodeId]) -> Vec<u16> {
        if self.masked { predicates.iter().map(|p| self.mask(*p)).collect() } else { vec![] }
    }
    fn mask(&mut self, node: NodeId) -> u16 {
        let Op::Predicate(p) = self.graph.op(node) else { return 0 };
        let at = self.masks.iter().position(|m| m.0 == node).unwrap_or_else(|| {
            self.masks.push((node, *p));
            self.masks.len() - 1
        });
        at as u16
    }
    fn slot(&mut self, slot: Slot) -> Place {
        let at = self.slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        });
        Place::Slot(at as u16)
    }
    fn emit(&mut self, work: Work, operands: [Place; 2]) -> Place {
        let target = Place::Register(self.next);
        self.next += 1;
        self.code.push(Instruction { work, target, operands });
        target
    }
    fn unary(&mut self, op: Unary, x: Place) -> Place {
        self.emit(Work::Unary(op), [x, Place::Number(0.0)])
    }
    fn binary(&mut self, op: Binary, x: Place, y: Place) -> Place {
        self.emit(Work::Binary(op), [x, y])
    }
    /// Puts a value in memory.
    fn deliver(&mut self, value: Place, slot: Place) -> Place {
        self.code.push(Instruction { work: Work::Unary(Unary::Copy), target: slot, operands: [value, Place::Number(0.0)] });
        slot
    }
    /// A node's value: made by this group, by another statement, or here and now.
    fn place(&mut self, node: NodeId) -> Place {
        if let Some(p) = self.places.get(&node) {
            return *p;
        }
        match self.graph.op(node) {
            Op::Number(r) => Place::Number(r.to_f64() as f32),
            Op::Size(a) => Place::Size(*a),
            Op::Predicate(_) if !self.masked => Place::Number(1.0),
            Op::Predicate(_) => {
                let mask = self.mask(node);
                let p = self.emit(Work::Indicator(mask), [Place::Number(0.0); 2]);
                self.places.insert(node, p);
                p
            }
            _ if (self.computed)(node) => self.slot(Slot::Read(node)),
            _ => {
                let p = self.compute(node);
                self.places.insert(node, p);
                p
            }
        }
    }
    fn compute(&mut self, node: NodeId) -> Place {
        let graph = self.graph;
        let operands = graph.operands(node);
        match graph.op(node) {
            Op::Apply(f) => {
                let x = self.place(operands[0]);
                let op = match f {
                    Function::Exp => Unary::Exp,
                    Function::Log => Unary::Log,
                    Function::Tanh => Unary::Tanh,
                    Function::Sigmoid => Unary::Sigmoid,
                    Function::Abs => Unary::Abs,
                    Function::Round(to) => match to {
                        Element::Type(DType::F16) => Unary::RoundF16,
                        Element::Type(DType::BF16) => Unary::RoundBf16,
                        _ => return x,
                    },
                };
                self.unary(op, x)
            }
            Op::Product(exponents) => self.product(operands, exponents),
            Op::Linear(coefficients, constant) => {
                let mut sum: Option<Place> = None;
                let constant = constant.to_f64() as f32;
                for (x, k) in operands.iter().zip(coefficients) {
                    let x = self.place(*x);
                    let k = k.to_f64() as f32;
                    sum = Some(match sum {
                        None if k == 1.0 && constant == 0.0 => x,
                        None => self.unary(Unary::Affine(k, constant), x),
                        Some(s) if k == 1.0 => self.binary(Binary::Add, s, x),
                        Some(s) if k == -1.0 => self.binary(Binary::Subtract, s, x),
                        Some(s) => self.binary(Binary::MultiplyAdd(k), s, x),
                    })
                }
                sum.unwrap_or(Place::Number(constant))
            }
            Op::Greatest => {
                let mut greatest: Option<Place> = None;
                for x in operands {
                    let x = self.place(*x);
                    greatest = Some(match greatest {
                        None => x,
                        Some(g) => self.binary(Binary::Greatest, g, x),
                    })
                }
                greatest.unwrap_or(Place::Number(f32::NEG_INFINITY))
            }
            Op::Index(a) => self.emit(Work::Position(*a), [Place::Number(0.0); 2]),
            Op::Predicate(_) if self.masked => {
                let mask = self.mask(node);
                self.emit(Work::Indicator(mask), [Place::Number(0.0); 2])
            }
            Op::Predicate(_) => Place::Number(1.0),
            Op::Number(r) => Place::Number(r.to_f64() as f32),
            Op::Size(a) => Place::Size(*a),
            // loads and reductions are statements of their own
            Op::Input { .. } | Op::Sum(_) | Op::Maximum(_) | Op::Frame(..) => self.slot(Slot::Read(node)),
        }
    }
    /// Factors with positive exponents over those with negative ones: a numerator of 0 wins, over what may be infinite too. A predicate selects.
    fn product(&mut self, operands: &[NodeId], exponents: &[i8]) -> Place {
        let factors: Vec<(NodeId, i8)> = operands.iter().copied().zip(exponents.iter().copied()).collect();
        let overruled = overruled(self.graph, &self.known, &factors);
        let [mut above, mut infinite, mut below]: [Option<Place>; 3] = [None; 3];
        let mut masks = vec![];
        for ((x, e), overruled) in factors.into_iter().zip(overruled) {
            if matches!(self.graph.op(x), Op::Predicate(_)) && e > 0 {
                masks.push(x);
                continue;
            }
            let x = self.place(x);
            let power = self.power(x, e.unsigned_abs());
            let side = match (e > 0, overruled) {
                (true, false) => &mut above,
                (true, true) => &mut infinite,
                (false, _) => &mut below,
            };
            *side = self.times(*side, Some(power))
        }
        if let (Some(_), Some(x)) = (above, infinite) {
            let rest = self.over(Some(x), below);
            below = Some(self.unary(Unary::Reciprocal, rest))
        }
        let mut value = self.over(above.or(infinite), below);
        for m in self.masks(&masks) {
            value = self.emit(Work::Select(m), [value, Place::Number(0.0)])
        }
        value
    }
    fn over(&mut self, above: Option<Place>, below: Option<Place>) -> Place {
        match (above, below) {
            (Some(a), Some(b)) => self.binary(Binary::Quotient, a, b),
            (Some(a), None) => a,
            (None, Some(b)) => self.unary(Unary::Reciprocal, b),
            (None, None) => Place::Number(1.0),
        }
    }
    fn times(&mut self, x: Option<Place>, y: Option<Place>) -> Option<Place> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.binary(Binary::Multiply, x, y)),
            _ => x.or(y),
        }
    }
    /// `x` to the power `halves / 2`.
    fn power(&mut self, x: Place, halves: u8) -> Place {
        let (base, n) = if halves.is_multiple_of(2) { (x, halves / 2) } else { (self.unary(Unary::Sqrt, x), halves) };
        (1..n).fold(base, |p, _| self.binary(Binary::Multiply, p, base))
    }
}

/// How often each register is read.
fn uses(code: &[Instruction]) -> HashMap<u16, usize> {
    let mut uses: HashMap<u16, usize> = HashMap::new();
    for p in code.iter().flat_map(|i| &i.operands) {
        if let Place::Register(r) = p {
            *uses.entry(*r).or_default() += 1
        }
    }
    uses
}

/// A difference of which nothing but the exponential is wanted is one instruction with it.
fn fused(code: Vec<Instruction>) -> Vec<Instruction> {
    let uses = uses(&code);
    let mut out: Vec<Instruction> = Vec::with_capacity(code.len());
    for mut instruction in code {
        if let (Work::Unary(Unary::Exp), from @ Place::Register(r)) = (&instruction.work, instruction.operands[0])
            && uses[&r] == 1
            && let Some(at) = out.iter().position(|i| i.target == from && i.work == Work::Binary(Binary::Subtract))
        {
            instruction.operands = out.remove(at).operands;
            instruction.work = Work::Binary(Binary::ExpOfDifference)
        }
        out.push(instruction)
    }
    out
}

/// Where a register is only copied to memory, the instruction that makes it writes there.
fn without_copies(code: Vec<Instruction>) -> Vec<Instruction> {
    let uses = uses(&code);
    let mut out: Vec<Instruction> = Vec::with_capacity(code.len());
    for instruction in code {
        if let (Work::Unary(Unary::Copy), Place::Register(r)) = (&instruction.work, instruction.operands[0])
            && uses[&r] == 1
            && let Some(maker) = out.iter_mut().find(|i| i.target == Place::Register(r))
        {
            maker.target = instruction.target
        } else {
            out.push(instruction)
        }
    }
    out
}

/// Gives the registers of straight-line code few names: one is free again after its last use. A target never shares the register of
/// an operand, so that loops over both may be vector code.
fn allocate(mut instructions: Vec<Instruction>) -> Code {
    let mut last: HashMap<u16, usize> = HashMap::new();
    for (i, instruction) in instructions.iter().enumerate() {
        for p in instruction.operands.iter().chain([&instruction.target]) {
            if let Place::Register(r) = p {
                last.insert(*r, i);
            }
        }
    }
    let mut names: HashMap<u16, u16> = HashMap::new();
    let (mut free, mut registers): (Vec<u16>, u16) = (vec![], 0);
    for (i, instruction) in instructions.iter_mut().enumerate() {
        let target = instruction.target;
        if let Place::Register(r) = target {
            let name = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            names.insert(r, name);
            instruction.target = Place::Register(name)
        }
        let read: Vec<u16> = instruction.operands.iter().chain([&target]).filter_map(|p| if let Place::Register(r) = p { Some(*r) } else { None }).collect();
        for p in &mut instruction.operands {
            if let Place::Register(r) = p {
                *r = names[r]
            }
        }
        for r in read {
            if last[&r] == i
                && let Some(name) = names.get(&r)
                && !free.contains(name)
            {
                free.push(*name)
            }
        }
    }
    Code { instructions, registers }
}
