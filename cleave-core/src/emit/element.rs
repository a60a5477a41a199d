//! The expression of one element of a node: its operation on elements of its operands, with what is held in place of what can be
//! computed, and exponentials folded to one multiply-add.
use super::code::literal;
use super::part::{Context, Site};
use crate::absence::overruled;
use crate::dtype::DType;
use crate::graph::{Access, Function, InputId, NodeId, Op};
use crate::tile::{DimId, DimSet};

impl Context<'_> {
    /// One element of a node: the value held for it, else its operation.
    pub fn element(&self, site: &dyn Site, node: NodeId) -> String {
        match site.value(node) {
            Some(text) => match self.part.graph.op(node) {
                Op::Frame(row, _) => (row.code.usable)(&text),
                _ => text,
            },
            None => self.operation(site, node),
        }
    }
    /// The operation of a node on elements of its operands.
    pub fn operation(&self, site: &dyn Site, node: NodeId) -> String {
        let g = &self.part.graph;
        let operands = g.operands(node);
        let element = |n: &NodeId| self.element(site, *n);
        match g.op(node) {
            Op::Number(r) => literal(r.to_f64()),
            Op::Size(a) => format!("(float){}", self.extent(*a)),
            Op::Index(a) => site.float_index(*a).unwrap_or_else(|| format!("(float)({})", self.index(site, *a))),
            Op::Predicate(_) => format!("({} ? 1.0f : 0.0f)", self.condition(site, node)),
            Op::Input { input, access } => self.direct(site, *input, access),
            Op::Apply(Function::Exp) => self.exponential(site, operands[0]),
            Op::Apply(Function::Round(to)) => match to.resolve(self.types) {
                DType::F16 => format!("cleave::to_float(cleave::to_f16({}))", element(&operands[0])),
                DType::BF16 => format!("cleave::to_float(cleave::to_bf16({}))", element(&operands[0])),
                DType::F32 | DType::I32 => element(&operands[0]),
            },
            Op::Apply(f) => {
                let name = match f {
                    Function::Log => "log",
                    Function::Tanh => "tanh",
                    Function::Sigmoid => "sigmoid",
                    Function::Abs => "absolute",
                    Function::Exp | Function::Round(_) => unreachable!("matched above"),
                };
                format!("cleave::{name}({})", element(&operands[0]))
            }
            Op::Product(exponents) => self.product(site, operands, exponents),
            Op::Linear(k, c) => {
                let mut s = String::new();
                for (x, k) in operands.iter().zip(k) {
                    let (x, k) = (element(x), k.to_f64());
                    s += &match (s.is_empty(), k) {
                        (true, 1.0) => x,
                        (true, _) => format!("{} * {x}", literal(k)),
                        (false, 1.0) => format!(" + {x}"),
                        (false, -1.0) => format!(" - {x}"),
                        (false, _) => format!(" + {} * {x}", literal(k)),
                    }
                }
                match c.to_f64() {
                    0.0 => format!("({s})"),
                    c if s.is_empty() => literal(c),
                    c => format!("({s} + {})", literal(c)),
                }
            }
            Op::Greatest => operands[1..].iter().fold(element(&operands[0]), |s, x| format!("cleave::greater({s}, {})", element(x))),
            Op::Sum(_) | Op::Maximum(_) | Op::Frame(..) => format!("/* no value of t{} */ cleave::not_a_number()", node.0),
        }
    }
    fn product(&self, site: &dyn Site, operands: &[NodeId], exponents: &[i8]) -> String {
        let power = |x: String, e: i8| -> String {
            let x = match e % 2 {
                0 => x,
                _ => format!("cleave::square_root({x})"),
            };
            let n = if e % 2 == 0 { e / 2 } else { e };
            vec![x; n as usize].join(" * ")
        };
        let factors: Vec<(NodeId, i8)> = operands.iter().copied().zip(exponents.iter().copied()).collect();
        let overruled = overruled(&self.part.graph, &self.known, &factors);
        let (mut conditions, mut numerator, mut infinite, mut denominator) = (vec![], vec![], vec![], vec![]);
        for ((x, e), overruled) in factors.iter().zip(overruled) {
            if matches!(self.part.graph.op(*x), Op::Predicate(_)) && *e > 0 && site.value(*x).is_none() {
                conditions.push(format!("({})", self.condition(site, *x)))
            } else if *e > 0 {
                if overruled { &mut infinite } else { &mut numerator }.push(power(self.element(site, *x), *e))
            } else if *e == -1 {
                denominator.push(format!("cleave::reciprocal_root({})", self.element(site, *x)))
            } else {
                denominator.push(format!("(1.0f / ({}))", power(self.element(site, *x), -e)))
            }
        }
        let join = |v: Vec<String>| match v.len() {
            0 => "1.0f".to_string(),
            1 => v[0].clone(),
            _ => format!("({})", v.join(" * ")),
        };
        // what is 0 wins over all that follows: first what is a number, then what may be infinite, last reciprocals
        let parts: Vec<String> = [numerator, infinite, denominator].into_iter().filter(|v| !v.is_empty()).map(join).collect();
        let product = parts.into_iter().rev().reduce(|rest, x| format!("cleave::quotient({x}, {rest})")).unwrap_or("1.0f".into());
        if conditions.is_empty() { product } else { format!("({} ? {product} : 0.0f)", conditions.join(" && ")) }
    }
    /// A linear form over the terms of an expression: `(numbers and scalars, the other factor)`, and a constant. Looks through
    /// scaled terms only if what is below them is held here.
    fn terms(&self, site: &dyn Site, node: NodeId, scale: f64, factors: &[String], out: &mut Vec<(f64, Vec<String>, NodeId)>, constant: &mut f64) {
        let g = &self.part.graph;
        let held = |n: &NodeId| site.value(*n).is_some() || matches!(g.op(*n), Op::Linear(..) | Op::Product(_) | Op::Number(_));
        match g.op(node) {
            Op::Linear(k, c) if g.operands(node).iter().all(held) && (c.is_zero() || factors.is_empty()) => {
                *constant += scale * c.to_f64();
                for (x, k) in g.operands(node).iter().zip(k) {
                    self.terms(site, *x, scale * k.to_f64(), factors, out, constant)
                }
            }
            Op::Product(e) if e.iter().all(|e| *e == 2) && g.operands(node).iter().all(held) => {
                let (scalars, rest): (Vec<NodeId>, Vec<NodeId>) = g.operands(node).iter().partition(|x| self.wide(**x).is_empty() && site.value(**x).is_some());
                match rest[..] {
                    [x] => {
                        let all: Vec<String> = factors.iter().cloned().chain(scalars.iter().map(|s| self.element(site, *s))).collect();
                        self.terms(site, x, scale, &all, out, constant)
                    }
                    _ => out.push((scale, factors.to_vec(), node)),
                }
            }
            _ => out.push((scale, factors.to_vec(), node)),
        }
    }
    /// `(number, factor text, node)` if a node is one held value times a number and scalars.
    pub fn scaled(&self, site: &dyn Site, node: NodeId) -> Option<(f64, String, NodeId)> {
        let (mut terms, mut constant) = (vec![], 0.0);
        self.terms(site, node, 1.0, &[], &mut terms, &mut constant);
        match &terms[..] {
            [(k, factors, x)] if constant == 0.0 && *x != node && site.value(*x).is_some() => Some((*k, factor_text(*k, factors), *x)),
            _ => None,
        }
    }
    /// exp of a node: a multiply-add and one base-2 exponential where one term varies at every element and the rest by row.
    fn exponential(&self, site: &dyn Site, node: NodeId) -> String {
        let plain = || format!("cleave::exp({})", self.element(site, node));
        if !site.folds() {
            return plain();
        }
        let (mut terms, mut constant) = (vec![], 0.0);
        self.terms(site, node, 1.0, &[], &mut terms, &mut constant);
        let rank = terms.iter().map(|t| self.wide(t.2).len()).max().unwrap_or(0);
        let (full, rest): (Vec<_>, Vec<_>) = terms.into_iter().partition(|t| self.wide(t.2).len() == rank);
        let [(k, factors, x)] = &full[..] else { return plain() };
        let mut row: Vec<String> =
            rest.iter().map(|(k, f, x)| format!("{} * {}", factor_text(*k * std::f64::consts::LOG2_E, f), self.element(site, *x))).collect();
        if constant != 0.0 {
            row.push(literal(constant * std::f64::consts::LOG2_E))
        }
        let slope = factor_text(*k * std::f64::consts::LOG2_E, factors);
        let x = self.element(site, *x);
        if row.is_empty() { format!("cleave::exp2({x} * {slope})") } else { format!("cleave::exp2(cleave::multiply_add({x}, {slope}, {}))", row.join(" + ")) }
    }
    /// An element read from memory, 0 where a position is outside.
    pub fn direct(&self, site: &dyn Site, input: InputId, access: &Access) -> String {
        if access.dims.is_empty() {
            let s = self.scalar(input);
            return if self.part.graph.input(input).element.resolve(self.types) == DType::I32 { format!("(float){s}") } else { s };
        }
        let tensor = self.input_ref(input);
        let pointer = self.pointer(tensor, false);
        let offset = self.offset_at(site, tensor, access);
        if site.clipped() {
            return format!("cleave::to_float({pointer}[{offset}])");
        }
        let inside = self.inside(self.part.dims_of(access.axes()), &|d| site.position(d));
        format!("({inside} ? cleave::to_float({pointer}[{offset}]) : 0.0f)")
    }
    /// Whether positions are inside the extents of dims.
    pub fn inside(&self, dims: DimSet, position: &dyn Fn(DimId) -> String) -> String {
        let all: Vec<String> = dims.iter().map(|d| format!("{} < {}", position(d), self.size(d))).collect();
        if all.is_empty() { "true".into() } else { all.join(" && ") }
    }
}

fn factor_text(k: f64, factors: &[String]) -> String {
    if factors.is_empty() { literal(k) } else { format!("({} * {})", literal(k), factors.join(" * ")) }
}
