//! Graphs, kernels and algorithms as text: one line for each reduction and each shared term, the rest inlined.
//!
//! ```text
//! t0 = sum_{D} q[B,M,D] * k[B,N,D]
//! t1 = [M - N >= 0] * exp(t0)
//! t2 = sum_{N} t1
//! out[B,M,E] = sum_{N} t1 * v[B,N,E] / t2
//! ```
use crate::axis::AxisSet;
use crate::dtype::Element;
use crate::graph::{Access, Factor, Function, Graph, NodeId, Op};
use crate::kernel::{Algorithm, Kernel};
use crate::plan::PlanFile;
use crate::predicate::{Atom, Predicate, Table};
use crate::rational::Rational;
use std::fmt;

/// How tightly the outermost operation of a text binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Tightness {
    Sum,
    Product,
    Atom,
}

struct Text {
    text: String,
    tightness: Tightness,
}

impl Text {
    fn within(&self, tightness: Tightness) -> String {
        if self.tightness < tightness { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// The names of a set of axes: `M,N`.
pub fn axes(graph: &Graph, set: AxisSet) -> String {
    set.iter().map(|a| graph.axis(a)).collect::<Vec<_>>().join(",")
}

/// An access as written between brackets; a fixed part of a constant factor is its index: `0,F`.
fn access(graph: &Graph, access: &Access) -> String {
    let factor = |f: &Factor| match f {
        Factor::Axis(a) => graph.axis(*a).to_string(),
        Factor::Part { index, .. } => index.to_string(),
    };
    access.dims.iter().flatten().map(factor).collect::<Vec<_>>().join(",")
}

fn indexed(name: &str, inside: String) -> String {
    if inside.is_empty() { name.into() } else { format!("{name}[{inside}]") }
}

fn table(graph: &Graph, t: &Table) -> String {
    indexed(&graph.input(t.input).name, access(graph, &t.access))
}

/// The sum of an atom.
fn affine(graph: &Graph, a: &Atom) -> String {
    let indices = a.indices.iter().map(|(x, k)| (*k, graph.axis(*x).to_string()));
    let tables = a.tables.iter().map(|(t, k)| (*k, table(graph, t)));
    let extents = a.extents.iter().map(|(x, k)| (*k, format!("|{}|", graph.axis(*x))));
    let quotients = a.quotients.iter().map(|(q, k)| (*k, format!("floor(({}) / {})", affine(graph, &q.of), q.by)));
    let addends: Vec<(Rational, String)> = indices.chain(tables).chain(extents).chain(quotients).map(|(k, x)| (Rational::integer(k), x)).collect();
    linear(&addends, Rational::integer(a.constant))
}

fn atom(graph: &Graph, a: &Atom) -> String {
    format!("{} >= 0", affine(graph, a))
}

/// A predicate without its brackets.
pub fn predicate(graph: &Graph, p: &Predicate) -> String {
    let clause = |c: &Vec<Atom>| if c.is_empty() { "true".into() } else { c.iter().map(|a| atom(graph, a)).collect::<Vec<_>>().join(" && ") };
    if p.clauses.is_empty() { "false".into() } else { p.clauses.iter().map(clause).collect::<Vec<_>>().join(" || ") }
}

fn linear(addends: &[(Rational, String)], constant: Rational) -> String {
    let mut text = String::new();
    let mut add = |negative: bool, part: &str| {
        text += match (text.is_empty(), negative) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        text += part
    };
    // a positive addend leads, if there is one
    let (above, below): (Vec<_>, Vec<_>) = addends.iter().partition(|a| !a.0.is_negative());
    for (k, x) in above.into_iter().chain(below) {
        let size = if k.is_negative() { k.neg().unwrap_or(*k) } else { *k };
        add(k.is_negative(), &if size.is_one() { x.clone() } else { format!("{} * {x}", number(size)) })
    }
    if !constant.is_zero() || addends.is_empty() {
        let size = if constant.is_negative() { constant.neg().unwrap_or(constant) } else { constant };
        add(constant.is_negative(), &number(size))
    }
    text
}

/// A fraction as a short decimal where it is one.
fn number(r: Rational) -> String {
    let decimal = format!("{}", r.to_f64());
    if decimal.len() <= 10 && Rational::parse(&decimal) == Some(r) { decimal } else { r.to_string() }
}

/// `x^(e/2)` for a positive `e`.
fn power(x: &Text, e: i8) -> String {
    match e {
        2 => x.within(Tightness::Product),
        1 => format!("sqrt({})", x.text),
        _ if e % 2 == 0 => format!("{}^{}", x.within(Tightness::Atom), e / 2),
        _ => format!("{}^({e}/2)", x.within(Tightness::Atom)),
    }
}

fn product(factors: &[(&Text, i8)]) -> String {
    let above: Vec<String> = factors.iter().filter(|f| f.1 > 0).map(|(x, e)| power(x, *e)).collect();
    let mut text = if above.is_empty() { "1".into() } else { above.join(" * ") };
    for (x, e) in factors.iter().filter(|f| f.1 < 0) {
        let below = if *e == -2 { x.within(Tightness::Atom) } else { power(x, e.saturating_neg()) };
        text += &format!(" / {below}")
    }
    text
}

fn operation(graph: &Graph, id: NodeId, texts: &[Text]) -> Text {
    let operands: Vec<&Text> = graph.operands(id).iter().map(|o| &texts[o.index()]).collect();
    let atom = |text: String| Text { text, tightness: Tightness::Atom };
    let all = || operands.iter().map(|o| o.text.as_str()).collect::<Vec<_>>().join(", ");
    match graph.op(id) {
        Op::Input { input, access: a } => atom(indexed(&graph.input(*input).name, access(graph, a))),
        Op::Number(r) => Text { text: number(*r), tightness: if r.is_negative() { Tightness::Sum } else { Tightness::Atom } },
        Op::Size(a) => atom(format!("|{}|", graph.axis(*a))),
        Op::Index(a) => atom(format!("index({})", graph.axis(*a))),
        Op::Predicate(p) => atom(format!("[{}]", predicate(graph, graph.predicate(*p)))),
        Op::Apply(Function::Round(Element::Type(t))) => atom(format!("round_{t}({})", all())),
        Op::Apply(f) => atom(format!("{}({})", f.name(), all())),
        Op::Greatest => atom(format!("max({})", all())),
        Op::Product(e) => Text { text: product(&operands.into_iter().zip(e.iter().copied()).collect::<Vec<_>>()), tightness: Tightness::Product },
        Op::Linear(k, c) => {
            let addends: Vec<(Rational, String)> = k.iter().zip(&operands).map(|(k, o)| (*k, o.within(Tightness::Product))).collect();
            Text { text: linear(&addends, *c), tightness: if addends.len() == 1 && c.is_zero() { Tightness::Product } else { Tightness::Sum } }
        }
        Op::Sum(a) => Text { text: format!("sum_{{{}}} {}", axes(graph, *a), operands[0].within(Tightness::Product)), tightness: Tightness::Sum },
        Op::Maximum(a) => {
            let guards = operands[1..].iter().map(|p| format!(" where {}", p.text)).collect::<String>();
            Text { text: format!("max_{{{}}} {}{guards}", axes(graph, *a), operands[0].within(Tightness::Product)), tightness: Tightness::Sum }
        }
        Op::Frame(row, a) => {
            let guards = operands[1..].iter().map(|p| format!(" where {}", p.text)).collect::<String>();
            atom(format!("{}_{{{}}}({}{guards})", row.name, axes(graph, *a), operands[0].text))
        }
    }
}

/// The lines of a graph: lets, then one for each store.
pub fn lines(graph: &Graph) -> Vec<String> {
    let mut uses = vec![0usize; graph.nodes.len()];
    let live = graph.cone(graph.stores().map(|s| s.1.node));
    for &n in &live {
        for o in graph.operands(n) {
            uses[o.index()] += 1
        }
    }
    for (_, s) in graph.stores() {
        uses[s.node.index()] += 1
    }
    let mut lines = vec![];
    let mut texts: Vec<Text> = Vec::with_capacity(graph.nodes.len());
    let mut named = 0;
    let mut next = live.iter().peekable();
    for (i, node) in graph.nodes.iter().enumerate() {
        if next.peek().is_none_or(|n| n.index() != i) {
            texts.push(Text { text: String::new(), tightness: Tightness::Atom });
            continue;
        }
        next.next();
        let text = operation(graph, NodeId(i as u32), &texts);
        let reduction = !node.op.reduced().is_empty();
        let stored_only = uses[i] == 1 && graph.stores().any(|s| s.1.node.index() == i);
        texts.push(if !node.operands.is_empty() && !stored_only && (reduction || uses[i] > 1) {
            let name = format!("t{named}");
            named += 1;
            lines.push(format!("{name} = {}", text.text));
            Text { text: name, tightness: Tightness::Atom }
        } else {
            text
        })
    }
    for (o, s) in graph.stores() {
        lines.push(format!("{} = {}", indexed(&graph.outputs[o].name, access(graph, &s.access)), texts[s.node.index()].text))
    }
    lines
}

/// One node in a single line, all of it inlined.
pub fn term(graph: &Graph, id: NodeId) -> String {
    let mut texts: Vec<Text> = vec![];
    for i in 0..=id.index() {
        let text = operation(graph, NodeId(i as u32), &texts);
        texts.push(text)
    }
    texts.pop().map_or(String::new(), |t| t.text)
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        lines(self).iter().try_for_each(|l| writeln!(f, "{l}"))
    }
}

/// A declared storage: `T[B, (K, G), M, D]`.
fn storage(kernel: &Kernel, element: Element, a: &Access) -> String {
    let graph = &kernel.graph;
    let element = match element {
        Element::Type(t) => t.name().to_string(),
        Element::Param(p) => kernel.params[p as usize].name.clone(),
    };
    let factor = |f: &Factor| match f {
        Factor::Axis(a) => graph.axis(*a).to_string(),
        Factor::Part { of, .. } => of.to_string(),
    };
    let dim = |d: &Vec<Factor>| match &d[..] {
        [one] => factor(one),
        many => format!("({})", many.iter().map(factor).collect::<Vec<_>>().join(", ")),
    };
    if a.dims.is_empty() { element } else { format!("{element}[{}]", a.dims.iter().map(dim).collect::<Vec<_>>().join(", ")) }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let g = &self.graph;
        let inputs: Vec<String> = g.inputs.iter().map(|i| format!("{}: {}", i.name, storage(self, i.element, &i.storage))).collect();
        let outputs: Vec<String> = g.outputs.iter().map(|o| format!("{}: {}", o.name, storage(self, o.element, &o.storage))).collect();
        writeln!(f, "kernel {}({}) -> ({})", self.name, inputs.join(", "), outputs.join(", "))?;
        for (axis, bound) in &self.bounds {
            writeln!(f, "  where {} <= {bound}", g.axis(*axis))?
        }
        for a in &self.assumptions {
            writeln!(f, "  assuming {a}")?
        }
        lines(g).iter().try_for_each(|l| writeln!(f, "  {l}"))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = |a| self.graph.axis(a).to_string();
        writeln!(f, "algorithm {}", self.name)?;
        lines(&self.graph).iter().try_for_each(|l| writeln!(f, "  {l}"))?;
        let passes: Vec<String> = self.cost.passes.iter().map(|(a, n)| format!("{n} over {}", name(*a))).collect();
        writeln!(f, "  flops   {}", self.cost.flops.show(&name))?;
        writeln!(f, "  passes  {}", if passes.is_empty() { "none".into() } else { passes.join(", ") })?;
        writeln!(f, "  spills  {}", self.cost.spills.show(&name))?;
        writeln!(f, "  traffic {}", self.cost.compulsory.show(&name))
    }
}

/// The kernel; each algorithm with the steps that lead to it and its tile programs.
impl fmt::Display for PlanFile {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}", self.kernel)?;
        for (i, a) in self.algorithms.iter().enumerate() {
            writeln!(f, "{a}")?;
            for (n, step) in a.derivation.iter().enumerate() {
                writeln!(f, "  step {}, {}\n    {}\n    = {}", n + 1, step.rule, step.before, step.after)?
            }
            for p in self.programs.iter().filter(|p| p.algorithm as usize == i) {
                writeln!(f, "\n{p}")?
            }
        }
        Ok(())
    }
}
