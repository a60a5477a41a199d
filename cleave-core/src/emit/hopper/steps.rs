//! The operations of one step of a part's loop, from its statements: tiles that are copied, products, and the other work with the values
//! that its text reads and writes.
pub use super::memory::{Memory, Operand, Ring};
use super::pipeline::{Kind, Operation, Value};
use super::wgmma::{self, Instruction};
use super::{Shape, maps};
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

/// A product of two operands.
#[derive(Clone)]
pub struct Term {
    pub left: Left,
    pub right: usize,
    /// The contracted dim is in the rows of the right operand.
    pub by_rows: bool,
    /// Of the contracted dim.
    pub depth: u32,
}

/// Products into one accumulator.
#[derive(Clone)]
pub struct Product {
    /// What the accumulator holds: the one product, or the sum of all.
    pub node: NodeId,
    pub terms: Vec<Term>,
    /// Of a warpgroup, which may be a part of the right operand's.
    pub columns: u32,
    pub shared_out: bool,
    /// Accumulates over the steps of the loop, else starts at 0 in each.
    pub carried: bool,
}

/// What an operation does.
#[derive(Clone)]
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
    pub(super) shape: Shape,
    pub l: &'a Loop,
    /// The position of the loop in the part's body.
    pub at: usize,
    pub operands: Vec<Operand>,
    pub operations: Vec<Operation>,
    pub work: Vec<Work>,
    /// Declarations of packed operands.
    pub packed: Vec<String>,
    pub(super) packed_registers: u32,
    /// Steps that are laid out as one.
    pub unrolled: u32,
    pub bounds: crate::emit::bounds::Bounds,
    /// The lines that declare the bounds.
    pub bounds_code: Code,
    pub guards: Vec<Guard>,
    pub instructions: BTreeSet<Instruction>,
    pub(super) accumulators: u32,
    pub(super) limits: u32,
    /// Registers of what is computed before a frame moves and read after it, beside what it was computed from.
    pub(super) held: u32,
}

pub(super) struct Builder<'w, 'a> {
    pub(super) w: &'w mut Writer<'a>,
    pub(super) shape: Shape,
    pub(super) l: &'a Loop,
    pub(super) names: HashMap<String, Value>,
    /// The names of values with columns.
    pub(super) fragments: HashSet<String>,
    pub(super) operands: Vec<Operand>,
    pub(super) operations: Vec<Operation>,
    pub(super) work: Vec<Work>,
    pub(super) packed: Vec<String>,
    pub(super) packed_registers: u32,
    guards: Vec<Guard>,
    instructions: BTreeSet<Instruction>,
    accumulators: u32,
    /// Left operands that are the same in every step, packed before the loop.
    before: Code,
    /// Terms of sums of products of which others follow, with what they read and how they are called.
    terms: HashMap<NodeId, Vec<(Term, BTreeSet<Value>, String)>>,
    /// Registers of values with columns that maps give.
    maps: Vec<(Value, u32)>,
    /// And of values of a step's columns that come from global memory, which are asked for at its start.
    asked: u32,
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
    // its sums would be fragments that the register rule knows nothing of
    if part.body.iter().any(|s| matches!(s, Statement::Reduce { node, .. } if part.contraction(*node).is_some())) {
        return Err("a product outside of the loop".into());
    }
    let mut bounds_code = Code::at(3);
    let bounds = w.cx.loop_bounds(&mut bounds_code, l, true);
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
        before: Code::at(2),
        terms: HashMap::new(),
        maps: vec![],
        asked: 0,
    };
    // what precedes the loop and is no operand is written where it stands; its values are there for the loop
    for s in &part.body[..at] {
        match s {
            Statement::Load { node, .. } if b.w.is_operand(*node) => b.operand(*node, false)?,
            s => b.w.statement(s)?,
        }
    }
    if part.split && bounds.intervals.len() == 2 {
        return Err("a split of a mask of two intervals".into());
    }
    b.w.before_split = false;
    b.w.reset(l, true)?;
    for n in l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node))) {
        let name = b.w.cx.value_name(n);
        b.value(&name);
    }
    let before = std::mem::replace(&mut b.w.code, Code::at(4));
    b.w.loops.push((l.dim, bounds.clone(), true));
    for s in &l.body {
        b.statement(s)?
    }
    b.w.loops.pop();
    b.w.code = before;
    b.w.code.append(&b.before);
    b.prune();
    let unrolled = if l.domain.is_empty() && b.makes_operands() { shape.unroll } else { 1 };
    b.unroll(unrolled);
    let held = b.held() + b.asked;
    let Builder { operands, operations, work, packed, packed_registers, guards, instructions, accumulators, .. } = b;
    let limits = w.limits.borrow().len() as u32;
    Ok(Steps {
        cx: w.cx,
        shape,
        limits,
        l,
        at,
        operands,
        operations,
        work,
        packed,
        packed_registers,
        unrolled,
        bounds,
        bounds_code,
        guards,
        instructions,
        accumulators,
        held,
    })
}

impl<'a> Builder<'_, 'a> {
    pub(super) fn value(&mut self, name: &str) -> Value {
        let next = Value(self.names.len() as u32);
        *self.names.entry(name.into()).or_insert(next)
    }
    pub(super) fn guard(&mut self, guard: Guard) {
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
    /// The values of the loop's states.
    pub(super) fn carried(&self) -> BTreeSet<Value> {
        let nodes = self.l.states.iter().flat_map(|s| s.frame.iter().copied().chain(s.members.iter().map(|m| m.node)));
        nodes.filter_map(|n| self.names.get(&self.w.cx.value_name(n)).copied()).collect()
    }
    fn held(&self) -> u32 {
        let frames = self.l.states.iter().filter_map(|s| self.names.get(&self.w.cx.value_name(s.frame?)));
        let moves = frames.filter_map(|f| self.operations.iter().position(|o| o.writes.contains(f))).max();
        let Some(at) = moves else { return 0 };
        let spans = |v: &Value| self.operations[..at].iter().any(|o| o.writes.contains(v)) && self.operations[at + 1..].iter().any(|o| o.reads.contains(v));
        // what takes the place of a product that nothing else reads needs no registers of its own
        let replaces = |v: &Value| {
            let Some(made) = self.operations.iter().position(|o| o.writes.contains(v)) else { return false };
            let last = |of: &Value| self.operations.iter().rposition(|o| o.reads.contains(of));
            self.operations[..made].iter().any(|o| o.kind == Kind::Product && o.writes.iter().any(|w| !o.reads.contains(w) && last(w) == Some(made)))
        };
        self.maps.iter().filter(|m| spans(&m.0) && !replaces(&m.0)).map(|m| m.1).sum()
    }
    fn only_frames_read(&self, node: NodeId) -> bool {
        let part = self.w.cx.part;
        let users = || (0..part.node_dims.len() as u32).map(NodeId).filter(|n| part.graph.operands(*n).contains(&node));
        users().next().is_some() && users().all(|n| matches!(part.graph.op(n), Op::Frame(..)))
    }
    /// Work that nothing reads is left out.
    fn prune(&mut self) {
        let carried = self.carried();
        while let Some(dead) = (0..self.operations.len()).find(|i| {
            let o = &self.operations[*i];
            o.kind != Kind::Product
                && !o.writes.iter().any(|v| carried.contains(v) || self.operations.iter().enumerate().any(|(j, other)| j != *i && other.reads.contains(v)))
        }) {
            self.operations.remove(dead);
            self.work.remove(dead);
        }
    }
    fn statement(&mut self, s: &Statement) -> Result<(), Refusal> {
        let part = self.w.cx.part;
        match s {
            Statement::Load { node, .. } if self.w.is_operand(*node) => match self.w.class(*node) {
                // what is computed with, too, comes to registers and is multiplied from there
                Ok(Class::Fragment(_)) if self.w.mapped.contains(node) => self.read(*node),
                _ => self.operand(*node, true),
            },
            Statement::Reduce { node, over } | Statement::Fold { node, over } if part.contraction(*node).is_some() => {
                self.product(*node, *over, matches!(s, Statement::Fold { .. }))
            }
            Statement::Rebase { frame } => self.rebase(*frame),
            Statement::Load { node, .. } | Statement::Map { node } | Statement::Reduce { node, .. } | Statement::Fold { node, .. } => {
                if let Statement::Load { .. } = s {
                    match self.w.class(*node)? {
                        Class::Fragment(_) => return self.read(*node),
                        Class::Columns(column) if column == self.l.dim && self.read(*node).is_ok() => return Ok(()),
                        _ => {}
                    }
                }
                // a sum of products that have one accumulator is there already
                if let Statement::Map { .. } = s
                    && self.w.registers.contains(node)
                {
                    return Ok(());
                }
                // what frames alone ask for is computed there: it would fill registers until they are asked
                if let Statement::Map { .. } = s
                    && self.only_frames_read(*node)
                {
                    return Ok(());
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
                    if let (Statement::Map { .. }, Class::Fragment(column)) = (s, self.w.class(*node)?) {
                        let value = self.value(&name);
                        self.maps.push((value, self.w.local(column) / 2))
                    }
                    self.work(Kind::Work, format!("{label} {name}"), &[name], code);
                    // what comes from global memory is asked for first
                    if let Statement::Load { .. } = s {
                        if let Class::Columns(column) = self.w.class(*node)? {
                            self.asked += self.w.local(column) / 4
                        }
                        self.operations.rotate_right(1);
                        self.work.rotate_right(1)
                    }
                }
                Ok(())
            }
            _ => Err("a statement that a step has no place for".into()),
        }
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
        let find = |n: NodeId| self.operands.iter().position(|o| o.node == n && o.multiplied);
        let Some(right) = find(b) else { return Err(format!("t{}, the right operand of a product, is computed", b.0)) };
        let Op::Input { input, access } = cx.part.graph.op(b) else { return Err("the right operand of a product is computed".into()) };
        let dtype = cx.dtype(cx.input_ref(*input));
        let (depth, columns) = (cx.tile(k), self.w.local(c));
        let by_rows = self.w.tile_dims(b, access)?.0 == Some(k);
        if !depth.is_multiple_of(16) || !wgmma::takes(columns) {
            return Err(format!("no instruction multiplies {columns} columns, {depth} deep"));
        }
        let sum = self.sum_of_products(node);
        let (node, count) = sum.unwrap_or((node, 1));
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
        self.instructions.insert(Instruction { columns, dtype, registers: matches!(left, Left::Packed(_)) });
        let left_name = match &left {
            Left::Shared(o) => self.operands[*o].name.clone(),
            Left::Packed(p) => p.clone(),
        };
        let term = format!("{left_name} * {}", self.operands[right].name);
        let mut all = self.terms.remove(&node).unwrap_or_default();
        all.push((Term { left, right, by_rows, depth }, reads, term));
        if all.len() < count {
            self.terms.insert(node, all);
            return Ok(());
        }
        self.fragments.insert(name.clone());
        self.w.registers.insert(node);
        self.accumulators += columns / 2;
        let label = format!("{name} {} {}", if carried { "+=" } else { "=" }, all.iter().map(|t| &*t.2).collect::<Vec<_>>().join(" + "));
        let mut reads: BTreeSet<Value> = all.iter().flat_map(|t| t.1.iter().copied()).collect();
        if carried {
            reads.insert(accumulator);
        }
        let terms = all.into_iter().map(|t| t.0).collect();
        self.operations.push(Operation { kind: Kind::Product, label, reads, writes: BTreeSet::from([accumulator]) });
        let shared_out = columns < cx.tile(c);
        if shared_out && by_rows && !columns.is_multiple_of(maps::COLUMNS) {
            return Err(format!("a warpgroup's {columns} columns are no whole blocks"));
        }
        self.work.push(Work::Product(Product { node, terms, columns, shared_out, carried }));
        Ok(())
    }
    /// The sum that a product of a step is a term of, if all its terms are such, and nothing else asks for any of them; and how many they are.
    fn sum_of_products(&self, node: NodeId) -> Option<(NodeId, usize)> {
        let part = self.w.cx.part;
        let users = |of: NodeId| (0..part.node_dims.len() as u32).map(NodeId).filter(move |n| part.graph.operands(*n).contains(&of));
        let sum = users(node).next()?;
        let Op::Linear(coefficients, constant) = part.graph.op(sum) else { return None };
        let of_step = |n: NodeId| self.l.body.iter().any(|s| matches!(s, Statement::Reduce { node, .. } if *node == n));
        let alone = |n: &NodeId| part.contraction(*n).is_some() && of_step(*n) && users(*n).count() == 1 && part.of(*n) == part.of(sum);
        let terms = part.graph.operands(sum);
        let whole = constant.is_zero() && coefficients.iter().all(|k| k.to_f64() == 1.0) && terms.iter().all(alone);
        (whole && terms.len() > 1).then_some((sum, terms.len()))
    }
    /// The registers of a left operand that was computed; each is packed once.
    fn pack(&mut self, a: NodeId, k: DimId, depth: u32, dtype: crate::dtype::DType) -> Result<String, Refusal> {
        let cx = self.w.cx;
        if self.w.local(k) < depth {
            return Err("an operand whose columns warpgroups share out".into());
        }
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
        let declaration = format!("cleave::Packed<{t}, 1, {depth}> {packed};");
        self.packed_registers += depth / 4;
        if !identifiers(code.text()).any(|w| self.names.contains_key(w) || w == cx.start(self.l.dim) || w == "partial") {
            self.before.line(declaration);
            self.before.append(&code);
            self.before.line(format!("cleave::pin({packed});"));
            self.value(&packed);
            return Ok(packed);
        }
        self.packed.push(declaration);
        self.value(&packed);
        self.work(Kind::Work, format!("pack {packed}"), std::slice::from_ref(&packed), code);
        Ok(packed)
    }
}
