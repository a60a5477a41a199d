//! The operations of one step of a part's loop, from its statements: tiles that are copied, products, and the other work with the values
//! that its text reads and writes.
use super::maps;
pub use super::memory::{Memory, Operand, Ring};
use super::pipeline::{Kind, Operation, Value};
use super::wgmma::{self, Instruction};
use super::{Shape, multiplies};
use crate::emit::code::{Code, identifier};
use crate::emit::fragment::{Class, Writer};
use crate::emit::part::{Context, Refusal};
use crate::graph::{NodeId, Op};
use crate::plan::Guard;
use crate::tile::{DimId, DimSet, Loop, Statement};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How the left operand of a product comes.
#[derive(Clone)]
pub enum Left {
    Shared(usize),
    /// The name of a packed value.
    Packed(String),
}

pub struct Product {
    pub node: NodeId,
    pub left: Left,
    pub right: usize,
    /// Of the contracted dim.
    pub depth: u32,
    pub columns: u32,
    /// Accumulates over the steps of the loop, else starts at 0 in each.
    pub carried: bool,
}

/// What an operation does.
pub enum Work {
    Product(Product),
    Text(Code),
    /// The value of a streamed operand's tile in registers: what it is declared as, and its name.
    Read {
        operand: usize,
        declaration: String,
        name: String,
    },
}

pub struct Steps<'a> {
    pub(super) cx: &'a Context<'a>,
    pub l: &'a Loop,
    /// The position of the loop in the part's body.
    pub at: usize,
    pub operands: Vec<Operand>,
    pub operations: Vec<Operation>,
    pub work: Vec<Work>,
    /// Declarations of packed operands.
    pub packed: Vec<String>,
    pub(super) packed_registers: u32,
    pub bounds: crate::emit::bounds::Bounds,
    /// The lines that declare the bounds.
    pub bounds_code: Code,
    pub guards: Vec<Guard>,
    pub instructions: BTreeSet<Instruction>,
    pub(super) accumulators: u32,
    pub(super) limits: u32,
    dtype: &'static str,
}

struct Builder<'w, 'a> {
    w: &'w mut Writer<'a>,
    shape: Shape,
    l: &'a Loop,
    names: HashMap<String, Value>,
    /// The names of values with columns.
    fragments: HashSet<String>,
    operands: Vec<Operand>,
    operations: Vec<Operation>,
    work: Vec<Work>,
    packed: Vec<String>,
    packed_registers: u32,
    guards: Vec<Guard>,
    instructions: BTreeSet<Instruction>,
    accumulators: u32,
    dtype: &'static str,
}

/// A name from which others may be made by a suffix: none of the user's begins with it and an underscore.
pub(super) fn base(cx: &Context, wanted: &str) -> String {
    let g = &cx.part.graph;
    let users = || g.inputs.iter().map(|i| &i.name).chain(g.outputs.iter().map(|o| &o.name)).chain(g.axes.iter().map(|a| &a.name)).map(|n| identifier(n));
    let taken = |name: &str| users().any(|u| u.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')));
    let mut name = wanted.to_string();
    while taken(&name) {
        name.push('x')
    }
    name
}

/// The identifiers of a text.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

pub fn of<'a>(w: &mut Writer<'a>, shape: Shape) -> Result<Steps<'a>, Refusal> {
    let part = w.cx.part;
    let loops: Vec<(usize, &'a Loop)> =
        part.body.iter().enumerate().filter_map(|(i, s)| if let Statement::Loop(l) = s { Some((i, l)) } else { None }).collect();
    let [(at, l)] = loops[..] else { return Err("more or fewer loops than one".into()) };
    let mut bounds_code = Code::at(3);
    let bounds = w.cx.loop_bounds(&mut bounds_code, l, true);
    if !l.domain.is_empty() && bounds.held.is_empty() {
        return Err("a mask of several intervals".into());
    }
    let mut b = Builder {
        w,
        shape,
        l,
        names: HashMap::new(),
        fragments: HashSet::new(),
        operands: vec![],
        operations: vec![],
        work: vec![],
        packed: vec![],
        packed_registers: 0,
        guards: vec![],
        instructions: BTreeSet::new(),
        accumulators: 0,
        dtype: "",
    };
    // what precedes the loop and is no operand is written where it stands; its values are there for the loop
    for s in &part.body[..at] {
        match s {
            Statement::Load { node, .. } if b.w.is_operand(*node) => b.operand(*node, false)?,
            s => b.w.statement(s)?,
        }
    }
    b.w.reset(l, true)?;
    for n in l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node))) {
        let name = b.w.cx.value_name(n);
        b.value(&name);
    }
    let before = std::mem::replace(&mut b.w.code, Code::at(4));
    let held = crate::emit::bounds::Bounds {
        low: bounds.low.clone(),
        high: bounds.high.clone(),
        full_low: bounds.full_low.clone(),
        full_high: bounds.full_high.clone(),
        left: bounds.left,
        held: bounds.held.clone(),
    };
    b.w.loops.push((l.dim, held, true));
    for s in &l.body {
        b.statement(s)?
    }
    b.w.loops.pop();
    b.w.code = before;
    b.prune();
    let Builder { operands, operations, work, packed, packed_registers, guards, instructions, accumulators, dtype, .. } = b;
    let limits = w.limits.borrow().len() as u32;
    Ok(Steps { cx: w.cx, limits, l, at, operands, operations, work, packed, packed_registers, bounds, bounds_code, guards, instructions, accumulators, dtype })
}

impl<'a> Builder<'_, 'a> {
    fn value(&mut self, name: &str) -> Value {
        let next = Value(self.names.len() as u32);
        *self.names.entry(name.into()).or_insert(next)
    }
    fn guard(&mut self, guard: Guard) {
        if !self.guards.contains(&guard) {
            self.guards.push(guard)
        }
    }
    /// Runs `write` and takes what it writes.
    fn captured<R>(&mut self, write: impl FnOnce(&mut Writer<'a>) -> Result<R, Refusal>) -> Result<(R, Code), Refusal> {
        let depth = self.w.code.depth();
        let outer = std::mem::replace(&mut self.w.code, Code::at(depth));
        let result = write(self.w)?;
        Ok((result, std::mem::replace(&mut self.w.code, outer)))
    }
    /// An operation reads the values that its text names.
    fn work(&mut self, kind: Kind, label: String, writes: &[String], code: Code) {
        let reads = identifiers(code.text()).filter_map(|w| self.names.get(w).copied()).collect();
        let writes = writes.iter().map(|n| self.value(n)).collect();
        self.operations.push(Operation { kind, label, reads, writes });
        self.work.push(Work::Text(code))
    }
    /// Work that nothing reads is left out.
    fn prune(&mut self) {
        let carried: BTreeSet<Value> = {
            let nodes = self.l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node)));
            nodes.filter_map(|n| self.names.get(&self.w.cx.value_name(n)).copied()).collect()
        };
        while let Some(dead) = (0..self.operations.len()).find(|i| {
            let o = &self.operations[*i];
            o.kind != Kind::Product
                && !o.writes.iter().any(|v| carried.contains(v) || self.operations.iter().enumerate().any(|(j, other)| j != *i && other.reads.contains(v)))
        }) {
            self.operations.remove(dead);
            self.work.remove(dead);
        }
    }
    /// An operand tile of a load.
    fn operand(&mut self, node: NodeId, streamed: bool) -> Result<(), Refusal> {
        let cx = self.w.cx;
        let Op::Input { input, access } = cx.part.graph.op(node) else { return Err("an operand that is loaded but no input".into()) };
        let tensor = cx.input_ref(*input);
        let name = format!("{}_tile", cx.tensor_name(tensor));
        let name = base(cx, &cx.name(&format!("operand {}", node.0), &name));
        if !multiplies(cx.dtype(tensor)) {
            return Err(format!("`{}` is no 16-bit type", cx.part.graph.input(*input).name));
        }
        if self.w.mapped.contains(&node) {
            return Err(format!("`{}` is an operand and read elsewhere too", cx.part.graph.input(*input).name));
        }
        self.dtype = crate::emit::part::c_type(cx.dtype(tensor));
        let (Some(outer), inner) = self.w.tile_dims(node, access)? else { return Err("an operand of one dim".into()) };
        // the dim that products contract: the one that the result lacks
        let mut contracted = None;
        for (product, over, x, y) in cx.contractions().into_iter().filter(|c| c.2 == node || c.3 == node) {
            let wide = cx.wide_of(over);
            let [k] = wide[..] else { return Err("a product over other than one dim".into()) };
            let left = if cx.part.of(x).contains(self.shape.row) { x } else { y };
            let this = (k, left == node);
            if contracted.is_some_and(|c| c != this) || (k != inner && k != outer) {
                return Err(format!("t{} contracts an operand otherwise", product.0));
            }
            contracted = Some(this)
        }
        let Some((k, left)) = contracted else { return Err("an operand of no product".into()) };
        let boxes = maps::boxes(cx, tensor, access, outer, inner, cx.tile(outer))?;
        boxes.guards.iter().for_each(|g| self.guard(g.clone()));
        let value = self.value(&format!("operand {name}"));
        let cleared = !left && outer == self.l.dim && !self.l.domain.is_empty();
        if !left && inner == self.l.dim && k == inner && !self.l.domain.is_empty() {
            return Err("a masked loop over columns of an operand".into());
        }
        self.operands.push(Operand {
            node,
            name,
            rows: cx.tile(outer),
            columns: cx.tile(inner).next_multiple_of(maps::COLUMNS),
            mn: k == outer,
            is_left: left,
            streamed,
            column_at: cx.start(inner),
            row_at: cx.start(outer),
            boxes,
            value,
            cleared: cleared && k == outer,
        });
        Ok(())
    }
    fn statement(&mut self, s: &Statement) -> Result<(), Refusal> {
        let part = self.w.cx.part;
        match s {
            Statement::Load { node, .. } if self.w.is_operand(*node) => self.operand(*node, true),
            Statement::Reduce { node, over } | Statement::Fold { node, over } if part.contraction(*node).is_some() => {
                self.product(*node, *over, matches!(s, Statement::Fold { .. }))
            }
            Statement::Rebase { frame } => self.rebase(*frame),
            Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } | Statement::Fold { node, .. } => {
                if let Statement::Load { .. } = s
                    && let Class::Fragment(column) = self.w.class(*node)?
                {
                    return self.read(*node, column);
                }
                let ((), code) = self.captured(|w| w.statement(s))?;
                let name = self.w.cx.value_name(*node);
                // what follows from positions alone is computed where it is needed: it would fill registers that accumulators need
                if let Statement::Map { .. } = s
                    && let Class::Fragment(_) | Class::Columns(_) = self.w.class(*node)?
                    && !identifiers(code.text()).any(|w| self.fragments.contains(w))
                {
                    self.w.registers.remove(node);
                    return Ok(());
                }
                let label = match s {
                    Statement::Load { .. } => "load",
                    Statement::Map { .. } => "map",
                    Statement::Reduce { .. } => "reduce",
                    _ => "fold",
                };
                if !code.text().is_empty() {
                    self.value(&name);
                    if let Class::Fragment(_) | Class::Columns(_) = self.w.class(*node)? {
                        self.fragments.insert(name.clone());
                    }
                    self.work(Kind::Work, format!("{label} {name}"), &[name], code);
                    // what comes from global memory is asked for first
                    if let Statement::Load { .. } = s {
                        self.operations.rotate_right(1);
                        self.work.rotate_right(1)
                    }
                }
                Ok(())
            }
            _ => Err("a statement that a step has no place for".into()),
        }
    }
    /// A streamed tile that is read to registers.
    fn read(&mut self, node: NodeId, column: DimId) -> Result<(), Refusal> {
        let cx = self.w.cx;
        let Op::Input { input, access } = cx.part.graph.op(node) else { return Err("a tile that is loaded but no input".into()) };
        let tensor = cx.input_ref(*input);
        let (outer, inner) = self.w.tile_dims(node, access)?;
        if !multiplies(cx.dtype(tensor)) || outer != Some(self.shape.row) || inner != column || cx.tile(column) != maps::COLUMNS {
            return Err(format!("a tile of `{}` cannot be read to registers", cx.part.graph.input(*input).name));
        }
        let rows = cx.tile(self.shape.row);
        let boxes = maps::boxes(cx, tensor, access, self.shape.row, inner, rows)?;
        boxes.guards.iter().for_each(|g| self.guard(g.clone()));
        let name = cx.name(&format!("operand {}", node.0), &format!("{}_shared", cx.tensor_name(tensor)));
        let (tile, value) = (self.value(&format!("operand {name}")), cx.value_name(node));
        let operand = self.operands.len();
        self.operands.push(Operand {
            node,
            name,
            rows,
            columns: maps::COLUMNS,
            mn: false,
            is_left: true,
            streamed: true,
            column_at: cx.start(inner),
            row_at: cx.start(self.shape.row),
            boxes,
            value: tile,
            cleared: false,
        });
        let declaration = format!("{} {value};", self.w.type_of(Class::Fragment(column)));
        let register = self.value(&value);
        self.fragments.insert(value.clone());
        self.w.registers.insert(node);
        self.operations.push(Operation { kind: Kind::Work, label: format!("read {value}"), reads: BTreeSet::from([tile]), writes: BTreeSet::from([register]) });
        self.work.push(Work::Read { operand, declaration, name: value });
        Ok(())
    }
    fn rebase(&mut self, frame: NodeId) -> Result<(), Refusal> {
        self.w.signed = !self.scales_not_negative(frame);
        let ((names, from), code) = self.captured(|w| {
            let (from, to) = w.merge_frame(frame)?;
            let mut names = w.steps(frame, &from, &to)?;
            names.extend([from.clone(), to]);
            Ok((names, from))
        })?;
        let name = self.w.cx.value_name(frame);
        self.work(Kind::Work, format!("frame {name}"), &names, code);
        for m in self.w.moved(frame)? {
            let ((), code) = self.captured(|w| w.move_member(frame, &from, m))?;
            let name = self.w.cx.value_name(m.node);
            if !code.text().is_empty() {
                self.work(Kind::Move, format!("move {name}"), &[name], code)
            }
        }
        Ok(())
    }
    /// Asks that the scalars which scale what a frame follows are not negative. Whether that can be asked.
    fn scales_not_negative(&mut self, frame: NodeId) -> bool {
        let g = &self.w.cx.part.graph;
        let Some(operand) = g.operands(frame).first() else { return false };
        let (mut todo, mut scalars) = (vec![*operand], vec![]);
        while let Some(n) = todo.pop() {
            match g.op(n) {
                Op::Input { input, access } if access.dims.is_empty() => scalars.push(*input),
                Op::Product(_) | Op::Linear(..) => todo.extend(g.operands(n)),
                _ if self.w.cx.part.of(n).is_empty() => return false,
                _ => {}
            }
        }
        scalars.into_iter().for_each(|i| self.guard(Guard::NotNegative(i)));
        true
    }
    fn product(&mut self, node: NodeId, over: DimSet, carried: bool) -> Result<(), Refusal> {
        let cx = self.w.cx;
        let Some((x, y)) = cx.part.contraction(node) else { return Err("no product".into()) };
        let (a, b) = if cx.part.of(x).contains(self.shape.row) { (x, y) } else { (y, x) };
        let wide = cx.wide_of(over);
        let [k] = wide[..] else { return Err("a product over other than one dim".into()) };
        let Class::Fragment(c) = self.w.class(node)? else { return Err("a product that is no fragment".into()) };
        let find = |n: NodeId| self.operands.iter().position(|o| o.node == n);
        let Some(right) = find(b) else { return Err(format!("t{}, the right operand of a product, is computed", b.0)) };
        let dtype = match cx.part.graph.op(b) {
            Op::Input { input, .. } => cx.dtype(cx.input_ref(*input)),
            _ => return Err("the right operand of a product is computed".into()),
        };
        let (depth, columns) = (cx.tile(k), cx.tile(c));
        if !depth.is_multiple_of(16) || !wgmma::takes(columns) {
            return Err(format!("no instruction multiplies {columns} columns, {depth} deep"));
        }
        let name = cx.value_name(node);
        let mut reads = BTreeSet::from([self.operands[right].value]);
        let left = match find(a) {
            Some(o) => {
                let Op::Input { input, .. } = cx.part.graph.op(a) else { return Err("an operand that is no input".into()) };
                if cx.dtype(cx.input_ref(*input)) != dtype {
                    return Err("operands of two types".into());
                }
                reads.insert(self.operands[o].value);
                Left::Shared(o)
            }
            None => Left::Packed(self.pack(a, k, depth, dtype)?),
        };
        if let Left::Packed(p) = &left {
            let p = p.clone();
            reads.insert(self.value(&p));
        }
        let accumulator = self.value(&name);
        self.fragments.insert(name.clone());
        if carried {
            reads.insert(accumulator);
        }
        self.w.registers.insert(node);
        self.accumulators += columns / 2;
        self.instructions.insert(Instruction { columns, dtype, registers: matches!(left, Left::Packed(_)) });
        let left_name = match &left {
            Left::Shared(o) => self.operands[*o].name.clone(),
            Left::Packed(p) => p.clone(),
        };
        let label = format!("{name} {} {left_name} * {}", if carried { "+=" } else { "=" }, self.operands[right].name);
        self.operations.push(Operation { kind: Kind::Product, label, reads, writes: BTreeSet::from([accumulator]) });
        self.work.push(Work::Product(Product { node, left, right, depth, columns, carried }));
        Ok(())
    }
    /// The registers of a left operand that was computed; each is packed once.
    fn pack(&mut self, a: NodeId, k: DimId, depth: u32, dtype: crate::dtype::DType) -> Result<String, Refusal> {
        let cx = self.w.cx;
        let t = crate::emit::part::c_type(dtype);
        let packed = cx.name(&format!("packed {} {t}", a.0), &format!("{}_packed", cx.value_name(a)));
        if self.names.contains_key(&packed) {
            return Ok(packed);
        }
        let class = Class::Fragment(k);
        let mut x = self.w.element(class, a);
        // beyond the range of k the other operand is 0, but this one may be anything
        if !self.w.vanishes(a, k)
            && let Some(counts) = self.w.counts(class, k)
        {
            x = format!("{counts} ? {x} : 0.0f")
        }
        if x.contains("no value of") {
            return Err("an operand that has no value".into());
        }
        let mut code = Code::at(self.w.code.depth());
        code.line(format!("cleave::pack_fragment({packed}, [&](int i, int j, int c) {{ return {x}; }});"));
        self.packed.push(format!("cleave::Packed<{t}, 1, {depth}> {packed};"));
        self.packed_registers += depth / 4;
        self.value(&packed);
        self.work(Kind::Work, format!("pack {packed}"), std::slice::from_ref(&packed), code);
        Ok(packed)
    }
}

impl Steps<'_> {
    pub fn dtype(&self) -> &'static str {
        self.dtype
    }
}
