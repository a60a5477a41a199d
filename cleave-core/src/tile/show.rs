//! Tile programs as text. A map that one statement uses is printed where it is used.
//!
//! ```text
//! grid b:1, k:1, (g m):Bgm  on chip d e  split
//!   resident q[b k (g m) d]
//!   loop n:Bn in visit [p0] carry {shift m9; t14^2 t16^2}
//!     stream   k[b k n d]
//!     fold     t14[b k (g m)] <- sum_{n} t12
//!   store    lse[b k (g m)] = log(t14) + m9
//! ```
use super::{DimId, DimSet, Loop, Part, Program, Role, Statement};
use crate::graph::{Access, Factor, NodeId, Op, PredicateId};
use std::fmt;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let graph = self.launches.iter().flatten().map(|p| &p.graph).next();
        write!(f, "program {}", self.name)?;
        for (axis, bound) in &self.bounds {
            let name = graph.map_or("?", |g| g.axis(*axis));
            write!(f, "{}{name} <= {bound}", if self.bounds[0].0 == *axis { "  where " } else { ", " })?
        }
        writeln!(f)?;
        for (i, launch) in self.launches.iter().enumerate() {
            if self.launches.len() > 1 {
                writeln!(f, "launch {i}")?
            }
            for part in launch {
                write!(f, "{part}")?
            }
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let printer = Printer { part: self, inline: inline(self) };
        let grid: Vec<String> = self.grid.iter().map(|d| printer.tile(*d)).collect();
        write!(f, "grid {}", grid.join(", "))?;
        let chip: Vec<String> = self.dims.iter().enumerate().filter(|d| d.1.role == Role::Chip).map(|d| printer.dim(DimId(d.0 as u8))).collect();
        if !chip.is_empty() {
            write!(f, "  on chip {}", chip.join(" "))?
        }
        writeln!(f, "{}", if self.split { "  split" } else { "" })?;
        for p in predicates(self) {
            writeln!(f, "  where p{} = {}", p.0, crate::show::predicate(&self.graph, self.graph.predicate(p)))?
        }
        printer.body(&self.body, 1, f)
    }
}

/// The maps that have one use, in the statement that uses them.
fn inline(part: &Part) -> Vec<bool> {
    let mut uses = vec![0; part.graph.nodes.len()];
    let mut maps = vec![false; part.graph.nodes.len()];
    for (_, s) in part.statements() {
        match s {
            Statement::Map { node } => {
                maps[node.index()] = true;
                part.graph.operands(*node).iter().for_each(|o| uses[o.index()] += 1)
            }
            Statement::Reduce { node, .. } | Statement::Fold { node, .. } => match part.contraction(*node) {
                Some((x, y)) => [x, y].iter().for_each(|o| uses[o.index()] += 1),
                None => part.graph.operands(*node).iter().for_each(|o| uses[o.index()] += 1),
            },
            Statement::Rebase { frame } => part.graph.operands(*frame).iter().for_each(|o| uses[o.index()] += 2),
            Statement::Store { output, store, .. } => uses[part.graph.outputs[*output as usize].stores[*store as usize].node.index()] += 1,
            Statement::Recall { node, .. } => uses[node.index()] += 2,
            Statement::Loop(l) => l.keep.iter().for_each(|n| uses[n.index()] += 2),
            Statement::Load { .. } => {}
        }
    }
    (0..maps.len()).map(|n| maps[n] && (uses[n] == 1 || part.graph.nodes[n].operands.is_empty())).collect()
}

/// The predicates that a part uses.
fn predicates(part: &Part) -> Vec<PredicateId> {
    let mut used: Vec<PredicateId> = part.graph.nodes.iter().filter_map(|n| if let Op::Predicate(p) = n.op { Some(p) } else { None }).collect();
    used.sort();
    used
}

struct Printer<'a> {
    part: &'a Part,
    inline: Vec<bool>,
}

impl Printer<'_> {
    fn axes(&self, dim: DimId) -> Vec<&str> {
        self.part.dim(dim).axes.iter().map(|a| self.part.graph.axis(*a)).collect()
    }
    fn dim(&self, dim: DimId) -> String {
        let axes = self.axes(dim);
        if axes.len() > 1 { format!("({})", axes.join(" ")) } else { axes.concat() }
    }
    fn tile(&self, dim: DimId) -> String {
        let length = if self.part.dim(dim).batch { "1".into() } else { format!("B{}", self.axes(dim).concat()) };
        format!("{}:{length}", self.dim(dim))
    }
    fn dims(&self, dims: DimSet) -> String {
        dims.iter().map(|d| self.dim(d)).collect::<Vec<_>>().join(" ")
    }
    fn of(&self, node: NodeId) -> String {
        format!("{}[{}]", self.name(node), self.dims(self.part.of(node)))
    }
    /// A tensor read or written: its name, the fixed indices of constant factors, a prime if it is read under other axes.
    fn tensor(&self, name: &str, access: &Access, storage: &Access) -> String {
        let parts: String =
            access.dims.iter().flatten().filter_map(|f| if let Factor::Part { index, .. } = f { Some(format!(".{index}")) } else { None }).collect();
        format!("{name}{parts}{}", if access.axes() == storage.axes() { "" } else { "'" })
    }
    fn name(&self, node: NodeId) -> String {
        let g = &self.part.graph;
        match g.op(node) {
            Op::Input { input, access } => self.tensor(&g.input(*input).name, access, &g.input(*input).storage),
            Op::Number(r) => r.to_string(),
            Op::Size(a) => format!("|{}|", g.axis(*a)),
            Op::Index(a) => format!("index({})", g.axis(*a)),
            Op::Predicate(p) => format!("[p{}]", p.0),
            Op::Frame(..) => format!("m{}", node.0),
            _ => format!("t{}", node.0),
        }
    }
    fn operand(&self, node: NodeId) -> String {
        match self.part.graph.op(node) {
            Op::Linear(k, _) if self.inline[node.index()] && k.len() > 1 => format!("({})", self.expression(node)),
            _ if self.inline[node.index()] => self.expression(node),
            _ => self.name(node),
        }
    }
    fn power(&self, node: NodeId, halves: i8) -> String {
        match halves {
            2 => self.operand(node),
            e => {
                let base = if self.inline[node.index()] && !self.part.graph.operands(node).is_empty() {
                    format!("({})", self.expression(node))
                } else {
                    self.name(node)
                };
                format!("{base}^{}", e as f64 / 2.0)
            }
        }
    }
    fn expression(&self, node: NodeId) -> String {
        let g = &self.part.graph;
        let operands = g.operands(node);
        match g.op(node) {
            Op::Apply(f) => format!("{}({})", f.name(), if self.inline[operands[0].index()] { self.expression(operands[0]) } else { self.name(operands[0]) }),
            Op::Product(exponents) => operands.iter().zip(exponents).map(|(o, e)| self.power(*o, *e)).collect::<Vec<_>>().join("*"),
            Op::Linear(coefficients, constant) => {
                let mut text = String::new();
                for (o, k) in operands.iter().zip(coefficients) {
                    text += match (text.is_empty(), k.is_negative()) {
                        (true, false) => "",
                        (true, true) => "-",
                        (false, false) => " + ",
                        (false, true) => " - ",
                    };
                    let size = if k.is_negative() { k.neg().unwrap_or(*k) } else { *k };
                    if !size.is_one() {
                        text += &format!("{size}*")
                    }
                    text += &self.operand(*o)
                }
                if !constant.is_zero() {
                    text += &format!(" + {constant}")
                }
                text
            }
            Op::Greatest => format!("max({})", operands.iter().map(|o| self.operand(*o)).collect::<Vec<_>>().join(", ")),
            Op::Sum(_) | Op::Maximum(_) => match self.part.contraction(node) {
                Some((x, y)) => format!("{} * {}", self.operand(x), self.operand(y)),
                None => self.operand(operands[0]),
            },
            _ => self.name(node),
        }
    }
    fn guards(&self, node: NodeId) -> String {
        self.part.graph.operands(node).iter().skip(1).map(|p| format!(" where {}", self.name(*p))).collect()
    }
    fn reduction(&self, node: NodeId, over: DimSet) -> String {
        let (operation, guards) = match self.part.graph.op(node) {
            Op::Maximum(_) => ("max", self.guards(node)),
            Op::Frame(row, _) => (row.name, self.guards(node)),
            _ => ("sum", String::new()),
        };
        format!("{operation}_{{{}}} {}{guards}", self.dims(over), self.expression(node))
    }
    fn states(&self, l: &Loop) -> String {
        let state = |s: &super::State| {
            let degree = |m: &super::Member| match (s.frame, m.halves, m.moment) {
                (None, ..) => self.name(m.node),
                (_, 0, moment) => format!("{}^{moment}", self.name(m.node)),
                (_, halves, 0) => format!("{}^{halves}", self.name(m.node)),
                (_, halves, moment) => format!("{}^{halves},{moment}", self.name(m.node)),
            };
            let members = s.members.iter().map(degree).collect::<Vec<_>>().join(" ");
            match s.frame {
                Some(frame) => {
                    let kind = if let Op::Frame(row, _) = self.part.graph.op(frame) { row.name } else { "" };
                    format!(" {{{kind} {}; {members}}}", self.name(frame))
                }
                None => format!(" {{{members}}}"),
            }
        };
        if l.states.is_empty() { String::new() } else { format!(" carry{}", l.states.iter().map(state).collect::<String>()) }
    }
    fn body(&self, body: &[Statement], depth: usize, f: &mut fmt::Formatter) -> fmt::Result {
        let pad = "  ".repeat(depth);
        for s in body {
            match s {
                Statement::Map { node } if self.inline[node.index()] => {}
                Statement::Load { node, view_of } => {
                    let view = view_of.map_or(String::new(), |v| format!(" = view {}", self.name(v)));
                    writeln!(f, "{pad}{} {}{view}", if depth > 1 { "stream  " } else { "resident" }, self.of(*node))?
                }
                Statement::Recall { node, .. } => writeln!(f, "{pad}recall   {}", self.of(*node))?,
                Statement::Map { node } => writeln!(f, "{pad}map      {} = {}", self.of(*node), self.expression(*node))?,
                Statement::Reduce { node, over } => writeln!(f, "{pad}reduce   {} = {}", self.of(*node), self.reduction(*node, *over))?,
                Statement::Rebase { frame } => {
                    let key = self.operand(self.part.graph.operands(*frame)[0]);
                    writeln!(f, "{pad}rebase   {} by {key}{}", self.of(*frame), self.guards(*frame))?
                }
                Statement::Fold { node, over } => writeln!(f, "{pad}fold     {} <- {}", self.of(*node), self.reduction(*node, *over))?,
                Statement::Store { output, store, first } => {
                    let o = &self.part.graph.outputs[*output as usize];
                    let s = &o.stores[*store as usize];
                    let name = self.tensor(&o.name, &s.access, &o.storage);
                    let value = if self.inline[s.node.index()] { self.expression(s.node) } else { self.name(s.node) };
                    let guard = if first.is_empty() { String::new() } else { format!(" if first({})", self.dims(*first)) };
                    writeln!(f, "{pad}store    {name}[{}] = {value}{guard}", self.dims(self.part.dims_of(s.access.axes())))?
                }
                Statement::Loop(l) => {
                    let clause = |c: &Vec<NodeId>| c.iter().map(|p| self.name(*p)).collect::<String>();
                    let domain = match l.domain.is_empty() {
                        true => String::new(),
                        false => format!(" in visit {}", l.domain.iter().map(clause).collect::<Vec<_>>().join(" or ")),
                    };
                    let keep: String = l.keep.iter().map(|n| format!(" keep {}", self.name(*n))).collect();
                    writeln!(f, "{pad}loop {}{domain}{}{keep}", self.tile(l.dim), self.states(l))?;
                    self.body(&l.body, depth + 1, f)?
                }
            }
        }
        Ok(())
    }
}
