//! The statements of a body: maps, reductions, products of matrices, and the frames that states move to.
use super::*;
use crate::tile::Member;

impl Writer<'_> {
    pub(in crate::emit) fn statement(&mut self, s: &Statement) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        match s {
            Statement::Load { node, .. } => {
                let Op::Input { input, access } = g.op(*node) else { return Err(format!("t{} is loaded but no input", node.0)) };
                if access.dims.is_empty() {
                    return if self.cx.dtype(TensorRef::Input(*input)) == DType::I32 {
                        self.define(*node, |w, _| w.cx.direct(&Lane { writer: w, class: Class::Scalar }, *input, access))
                    } else {
                        Ok(())
                    };
                }
                if self.tiles.contains_key(node) {
                    // streamed: the ring has it
                    return if self.mapped.contains(node) { self.registers_of_tile(*node) } else { Ok(()) };
                }
                if self.is_operand(*node) {
                    let t = self.new_tile(*node, self.shared, false)?;
                    self.shared += self.tile_bytes(&t);
                    let (kind, name) = (self.tile_type(&t), self.tile_name(*node));
                    self.code.line(format!("const {kind} {name} = {{{}}};", t.at));
                    self.tiles.insert(*node, t);
                    let mut code = Code::at(self.code.depth());
                    self.fill_tile(&mut code, *node, &name, None);
                    self.code.append(&code);
                    self.code.line("cleave::copy_commit();");
                    self.pending = true;
                    if self.mapped.contains(node) {
                        self.settle();
                        self.registers_of_tile(*node)?
                    }
                    return Ok(());
                }
                self.define(*node, |w, class| w.cx.direct(&Lane { writer: w, class }, *input, access))
            }
            // a predicate is tested where it selects
            Statement::Map { node } if matches!(g.op(*node), Op::Predicate(_)) => Ok(()),
            Statement::Map { node } => self.define(*node, |w, class| w.cx.operation(&Lane { writer: w, class }, *node)),
            Statement::Reduce { node, over } => {
                let class = self.class(*node)?;
                self.declare(*node, class);
                let (name, identity) = (self.cx.value_name(*node), self.identity(*node));
                self.code.line(format!("cleave::fill({name}, {identity});"));
                self.registers.insert(*node);
                if self.accumulate(*node, *over)? {
                    let op = self.join(*node);
                    self.code.line(format!("cleave::join_lanes({name}, {op});"))
                }
                Ok(())
            }
            Statement::Fold { node, over } => {
                if self.accumulate(*node, *over)? && !self.open_folds.contains(node) {
                    self.open_folds.push(*node)
                }
                Ok(())
            }
            Statement::Rebase { frame } => self.rebase(*frame),
            Statement::Store { output, store, first } => self.store(*output, *store, *first),
            Statement::Loop(_) => Err("a loop in a loop".into()),
            Statement::Recall { .. } => Err("a tile is kept for a later loop".into()),
        }
    }
    pub(in crate::emit) fn identity(&self, node: NodeId) -> &'static str {
        if matches!(self.cx.part.graph.op(node), Op::Maximum(_)) { "-cleave::infinity()" } else { "0.0f" }
    }
    pub(in crate::emit) fn join(&self, node: NodeId) -> &'static str {
        if matches!(self.cx.part.graph.op(node), Op::Maximum(_)) { "cleave::Greatest()" } else { "cleave::Sum()" }
    }
    /// Whether a column of a dim counts; `None` if every column does.
    pub(in crate::emit) fn counts(&self, class: Class, dim: DimId) -> Option<String> {
        let position = Lane { writer: self, class }.position(dim);
        if self.cx.part.grid.contains(&dim) {
            return None;
        }
        match self.loops.iter().rfind(|l| l.0 == dim) {
            Some((_, b, masks)) => {
                let low = if b.left { format!("{position} >= {} && ", b.low) } else { String::new() };
                let test = format!("{low}{position} < {}", b.high);
                Some(if *masks { format!("(!partial || ({test}))") } else { format!("({test})") })
            }
            None => Some(format!("{position} < {}", self.cx.size(dim))),
        }
    }
    /// Adds the reduction of a tile to registers that hold its identity or a running value. Whether the lanes of a row hold
    /// shares of it afterwards.
    pub(in crate::emit) fn accumulate(&mut self, node: NodeId, over: DimSet) -> Result<bool, Refusal> {
        if let Some((x, y)) = self.cx.part.contraction(node) {
            return self.product(node, over, x, y).map(|()| false);
        }
        let g = &self.cx.part.graph;
        let (class, operands) = (self.class(node)?, g.operands(node).to_vec());
        let wide = self.cx.wide_of(over);
        let inner = self.class_of(self.cx.wide(node).union(wide.iter().copied().collect()))?;
        let maximum = matches!(g.op(node), Op::Maximum(_));
        let x = self.element(inner, operands[0]);
        let mut conditions: Vec<String> = operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class: inner }, *p))).collect();
        let name = self.cx.value_name(node);
        if let [d] = wide[..] {
            let limited = operands[1..].iter().any(|p| self.limits(*p, d)) || (!maximum && self.vanishes(operands[0], d));
            if !limited {
                conditions.extend(self.counts(inner, d))
            }
        } else if !wide.is_empty() {
            return Err("a reduction over two dims".into());
        }
        if wide.contains(&self.shape.row) {
            return Err("a reduction over the rows".into());
        }
        let x = if conditions.is_empty() { x } else { format!("{} ? {x} : {}", conditions.join(" & "), self.identity(node)) };
        match wide[..] {
            [d] => self.code.line(format!(
                "cleave::fold_columns<{}>({name}, {}, [&]({}) {{ return {x}; }});",
                self.local(d),
                self.join(node),
                Self::indices(inner)
            )),
            _ => {
                let old = self.element(class, node);
                let new = if maximum { format!("cleave::greater({old}, {x})") } else { format!("{old} + ({x})") };
                self.code.line(format!("cleave::each({name}, [&]({}) {{ return {new}; }});", Self::indices(class)))
            }
        }
        Ok(!wide.is_empty())
    }
    /// node += a product of matrices.
    pub(in crate::emit) fn product(&mut self, node: NodeId, over: DimSet, x: NodeId, y: NodeId) -> Result<(), Refusal> {
        let row = self.shape.row;
        let (a, b) = if self.cx.part.of(x).contains(row) { (x, y) } else { (y, x) };
        let wide = self.cx.wide_of(over);
        let [k] = wide[..] else { return Err("a product over other than one dim".into()) };
        let Class::Fragment(c) = self.class(node)? else { return Err("a product that is no fragment".into()) };
        let Some(b_tile) = self.tiles.get(&b).cloned() else { return Err(format!("t{}, the right operand of a product, is computed", b.0)) };
        let steps = if b_tile.dtype == DType::F32 { 8 } else { 16 };
        if !self.local(k).is_multiple_of(steps) || !self.local(c).is_multiple_of(steps) {
            return Err("a product narrower than the instruction".into());
        }
        let b_transposed = match (b_tile.outer, b_tile.inner) {
            (Some(o), i) if o == c && i == k => false,
            (Some(o), i) if o == k && i == c => true,
            _ => return Err("the right operand has other dims".into()),
        };
        let (name, b_name, t, depth) = (self.cx.value_name(node), self.tile_name(b), c_type(b_tile.dtype), self.local(k));
        let (k_at, c_at) = (self.offset(k), self.offset(c));
        match self.tiles.get(&a).cloned() {
            Some(a_tile) if a_tile.dtype == b_tile.dtype && !self.registers.contains(&a) => {
                if !a_tile.ring {
                    self.settle_resident()
                }
                if !b_tile.ring {
                    self.settle_resident()
                }
                let a_name = self.tile_name(a);
                self.code.line(format!(
                    "cleave::multiply_tiles<{}, {b_transposed}, {depth}>({name}, {a_name}, warp_row, {k_at}, {b_name}, {k_at}, {c_at});",
                    a_tile.inner == row
                ))
            }
            a_tile => {
                // TF32 holds the 16 bits of a left operand as it was read, not what is computed of it
                let exact = a_tile.as_ref().is_some_and(|t| t.dtype.bytes() == 2);
                let mixed = b_tile.dtype == DType::F32 && exact && self.cx.is_narrow();
                if let Some(t) = a_tile
                    && t.dtype == DType::F32
                    && b_tile.dtype != DType::F32
                    && !matches!(self.cx.part.graph.op(a), Op::Input { input, .. } if self.cx.part.graph.input(*input).workspace.is_some())
                {
                    return Err("an f32 operand with a narrower one".into());
                }
                if self.tiles.contains_key(&a) && !self.registers.contains(&a) {
                    self.registers_of_tile(a)?
                }
                self.settle_resident();
                let class = Class::Fragment(k);
                let mut x = self.element(class, a);
                // beyond the range of k the other operand is 0, but this one may be anything
                let loaded = matches!(self.cx.part.graph.op(a), Op::Input { .. });
                if !loaded
                    && !self.vanishes(a, k)
                    && let Some(counts) = self.counts(class, k)
                {
                    x = format!("{counts} ? {x} : 0.0f")
                }
                let packed = self.cx.name(&format!("packed {} {t}", a.0), &format!("{}_packed", self.cx.value_name(a)));
                let key = format!("packed {} {t}", a.0);
                if self.packed.insert(key) {
                    self.code.line(format!("cleave::Packed<{t}, {}, {depth}> {packed};", self.shape.blocks));
                    self.code.line(format!("cleave::pack_fragment({packed}, [&](int i, int j, int c) {{ return {x}; }});"))
                }
                self.code.line(format!("cleave::multiply_packed<{b_transposed}, {depth}, {mixed}>({name}, {packed}, {b_name}, {k_at}, {c_at});"))
            }
        }
        Ok(())
    }
    pub(in crate::emit) fn settle_resident(&mut self) {
        if self.loops.is_empty() {
            self.settle()
        }
    }
    pub(in crate::emit) fn row(&self, frame: NodeId) -> Frame {
        match self.cx.part.graph.op(frame) {
            Op::Frame(row, _) => *row,
            _ => unreachable!("a state's frame is a frame"),
        }
    }
    pub(in crate::emit) fn rebase(&mut self, frame: NodeId) -> Result<(), Refusal> {
        let (from, to) = self.merge_frame(frame)?;
        self.steps(frame, &from, &to)?;
        self.moved(frame)?.into_iter().try_for_each(|m| self.move_member(frame, &from, m))
    }
    /// Merges a frame with that of the tile at hand: the names of the frame before, and after.
    pub(in crate::emit) fn merge_frame(&mut self, frame: NodeId) -> Result<(String, String), Refusal> {
        let g = &self.cx.part.graph;
        let Op::Frame(row, axes) = g.op(frame) else { return Err(format!("t{} is no frame", frame.0)) };
        let row = *row;
        let class = self.class(frame)?;
        if class != Class::Rows {
            return Err("a frame that is not by row".into());
        }
        let wide = self.cx.wide_of(self.cx.part.dims_of(*axes));
        let operands = g.operands(frame).to_vec();
        let name = self.cx.value_name(frame);
        let (of_tile, before) = (
            self.cx.name(&format!("of tile {}", frame.0), &format!("{name}_of_tile")),
            self.cx.name(&format!("before {}", frame.0), &format!("{name}_before")),
        );
        let kind = self.type_of(class);
        self.code.line(format!("{kind} {of_tile};"));
        match wide[..] {
            [d] if d != self.shape.row => {
                let inner = Class::Fragment(d);
                let mut conditions: Vec<String> =
                    operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class: inner }, *p))).collect();
                if !operands[1..].iter().any(|p| self.limits(*p, d)) {
                    conditions.extend(self.counts(inner, d))
                }
                let counts = if conditions.is_empty() { "true".into() } else { conditions.join(" & ") };
                let (verb, value) = match row.statistic {
                    Statistic::Mean => ("mean".to_string(), self.element(inner, operands[0])),
                    Statistic::Greatest => match self.cx.scaled(&Lane { writer: self, class: inner }, operands[0]) {
                        Some((_, scale, x)) if self.signed => (format!("scaled {scale}"), self.element(inner, x)),
                        Some((number, scale, x)) if number >= 0.0 => (format!("scaled_up {scale}"), self.element(inner, x)),
                        _ => ("greatest".to_string(), self.element(inner, operands[0])),
                    },
                };
                let (function, scale) = match verb.split_once(' ') {
                    Some((verb, scale)) => (format!("greatest_{verb}"), format!("{scale}, ")),
                    None => (verb, String::new()),
                };
                self.code.line(format!(
                    "cleave::{function}<{}>({of_tile}, {scale}[&](int i, int j, int c) {{ return {value}; }}, [&](int i, int j, int c) {{ return {counts}; }});",
                    self.local(d)
                ))
            }
            [] => {
                let x = self.element(class, operands[0]);
                let conditions: Vec<String> = operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Lane { writer: self, class }, *p))).collect();
                let x = if conditions.is_empty() { x } else { format!("{} ? {x} : {}", conditions.join(" & "), row.code.nothing) };
                self.code.line(format!("cleave::each({of_tile}, [&](int i, int h) {{ return {x}; }});"))
            }
            _ => return Err("a frame over other than one dim".into()),
        }
        self.code.line(format!("const {kind} {before} = {name};"));
        let merged = (row.code.merge)(&format!("{before}(i, h)"), &(row.code.suited)(&format!("{of_tile}(i, h)")));
        self.code.line(format!("cleave::each({name}, [&](int i, int h) {{ return {merged}; }});"));
        Ok((before, name))
    }
    /// The members of a frame's state in the order in which they move.
    pub(in crate::emit) fn moved(&self, frame: NodeId) -> Result<Vec<Member>, Refusal> {
        let all = self.cx.part.statements();
        let state = all.iter().find_map(|(_, s)| if let Statement::Loop(l) = s { l.states.iter().find(|s| s.frame == Some(frame)) } else { None });
        let Some(state) = state else { return Err(format!("t{} has no state", frame.0)) };
        Ok(state.in_order())
    }
    /// Declares what moves members from one frame to another: the names.
    pub(in crate::emit) fn steps(&mut self, frame: NodeId, from: &str, to: &str) -> Result<Vec<String>, Refusal> {
        let row = self.row(frame);
        let mut names: Vec<String> = vec![];
        for s in Step::of_all(&self.moved(frame)?) {
            let (kind, name) = (self.type_of(Class::Rows), s.name(from));
            let x = s.expression(&row, &format!("{from}(i, h)"), &format!("{to}(i, h)"));
            self.code.line(format!("{kind} {name};"));
            self.code.line(format!("cleave::each({name}, [&](int i, int h) {{ return {x}; }});"));
            names.push(name)
        }
        Ok(names)
    }
    /// Moves a member of a frame's state from the frame named `from`.
    pub(in crate::emit) fn move_member(&mut self, frame: NodeId, from: &str, m: Member) -> Result<(), Refusal> {
        let members = self.moved(frame)?;
        let class = self.class(m.node)?;
        let index = match class {
            Class::Fragment(_) => "(i, c >> 1)",
            Class::Rows => "(i, h)",
            _ => return Err("a member that is not by row".into()),
        };
        let (name, value) = (self.cx.value_name(m.node), Lane { writer: self, class }.value(m.node).unwrap_or_default());
        let lower = |q: i8| {
            let x = members.iter().find(|x| x.tower == m.tower && x.moment == q);
            x.and_then(|x| Lane { writer: self, class }.value(x.node)).unwrap_or("0.0f".into())
        };
        let x = frames::moved(&m, &value, &|s| s.name(from) + index, &lower);
        if x != value {
            self.code.line(format!("cleave::each({name}, [&]({}) {{ return {x}; }});", Self::indices(class)))
        }
        Ok(())
    }
}
