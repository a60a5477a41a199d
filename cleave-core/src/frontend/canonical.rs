//! The canonical print of a kernel, and its key. Two texts of a kernel that differ in comments, documentation, layout or the
//! form of their tokens print alike: the macro and the build script, which see other tokens, find each other by it.
use crate::dtype::Element;
use crate::graph::{Access, Factor, Function, Graph, Node, Op};
use crate::kernel::Kernel;
use crate::predicate::{Atom, Predicate};
use crate::rational::Rational;
use std::fmt::Write;

/// Everything that a plan depends on, a line each.
pub fn print(kernel: &Kernel) -> String {
    let g = &kernel.graph;
    let mut out = format!("kernel {}\n", kernel.name);
    // writing to a string cannot fail
    for p in &kernel.params {
        let types: Vec<_> = p.types.iter().map(|t| t.name()).collect();
        let _ = writeln!(out, "type {} = {}", p.name, types.join(", "));
    }
    for (axis, most) in &kernel.bounds {
        let _ = writeln!(out, "bound {} <= {most}", g.axis(*axis));
    }
    for (a, b) in &g.equal {
        let _ = writeln!(out, "equal {} = {}", g.axis(*a), g.axis(*b));
    }
    let element = |e: Element| match e {
        Element::Type(t) => t.name().to_string(),
        Element::Param(i) => kernel.params.get(i as usize).map_or_else(String::new, |p| p.name.clone()),
    };
    for a in &kernel.assertions {
        let _ = writeln!(out, "assert [{}] `{}` {:?}", predicate(g, &a.predicate), a.condition, a.message);
    }
    for i in &g.inputs {
        if let Some(a) = i.extent {
            let _ = writeln!(out, "input {}: extent {}", i.name, g.axis(a));
            continue;
        }
        let _ = writeln!(out, "input {}: {}{}", i.name, element(i.element), storage(g, &i.storage));
    }
    stored(&mut out, g, &element);
    for a in &kernel.assumptions {
        let _ = writeln!(out, "assume `{}` {:?}", a.statement, a.message);
        stored(&mut out, &a.graph, &element)
    }
    out
}

fn stored(out: &mut String, g: &Graph, element: &dyn Fn(Element) -> String) {
    for (i, n) in g.nodes.iter().enumerate() {
        let _ = writeln!(out, "  %{i} = {}", node(g, n));
    }
    for o in &g.outputs {
        let place = o.in_place.map_or(String::new(), |i| format!(" in place of {}", g.input(i).name));
        let _ = writeln!(out, "output {}: {}{}{place}", o.name, element(o.element), storage(g, &o.storage));
        for s in &o.stores {
            let _ = writeln!(out, "  {} = %{}", access(g, &s.access), s.node.0);
        }
    }
}

/// The name of the kernel's plan file: the canonical print, hashed (FNV-1a, 64 bits, the bits mixed at the end as in MurmurHash3).
pub fn key(kernel: &Kernel) -> u64 {
    let mut h = print(kernel).bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
    for multiplier in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        h = (h ^ h >> 33).wrapping_mul(multiplier)
    }
    h ^ h >> 33
}

/// A tensor as read or written: `[M, H*1/2]`.
fn access(g: &Graph, access: &Access) -> String {
    dims(g, access, |index, of| format!("{index}/{of}"))
}

/// A tensor as declared: `[M, H*2]`.
fn storage(g: &Graph, access: &Access) -> String {
    dims(g, access, |_, of| of.to_string())
}

fn dims(g: &Graph, access: &Access, part: impl Fn(u32, u32) -> String) -> String {
    let factor = |f: &Factor| match f {
        Factor::Axis(a) => g.axis(*a).to_string(),
        Factor::Part { index, of } => part(*index, *of),
    };
    let dims: Vec<String> = access.dims.iter().map(|d| d.iter().map(factor).collect::<Vec<_>>().join("*")).collect();
    format!("[{}]", dims.join(", "))
}

/// One operation, its operands by number.
fn node(g: &Graph, n: &Node) -> String {
    let operand = |i: usize| n.operands.get(i).map_or_else(String::new, |o| format!("%{}", o.0));
    let all = |from: usize| n.operands.iter().skip(from).map(|o| format!("%{}", o.0)).collect::<Vec<_>>().join(", ");
    let axes = |a: crate::axis::AxisSet| a.iter().map(|a| g.axis(a)).collect::<Vec<_>>().join(" ");
    match &n.op {
        Op::Input { input, access: a } => format!("{}{}", g.input(*input).name, access(g, a)),
        Op::Number(r) => r.to_string(),
        Op::Size(a) => format!("extent {}", g.axis(*a)),
        Op::Index(a) => format!("index {}", g.axis(*a)),
        Op::Predicate(p) => format!("[{}]", predicate(g, g.predicate(*p))),
        Op::Apply(Function::Round(to)) => format!(
            "round({}) to {}",
            operand(0),
            match to {
                Element::Type(t) => t.name().to_string(),
                Element::Param(i) => format!("type {i}"),
            }
        ),
        Op::Apply(f) => format!("{}({})", f.name(), operand(0)),
        Op::Product(exponents) => {
            let power = |(i, e): (usize, &i8)| match e {
                2 => operand(i),
                e if e % 2 == 0 => format!("{}^{}", operand(i), e / 2),
                e => format!("{}^({e}/2)", operand(i)),
            };
            exponents.iter().enumerate().map(power).collect::<Vec<_>>().join(" * ")
        }
        Op::Linear(coefficients, constant) => {
            let term = |(i, k): (usize, &Rational)| if k.is_one() { operand(i) } else { format!("{k} {}", operand(i)) };
            let mut terms: Vec<String> = coefficients.iter().enumerate().map(term).collect();
            if !constant.is_zero() {
                terms.push(constant.to_string())
            }
            terms.join(" + ")
        }
        Op::Greatest => format!("max({})", all(0)),
        Op::Sum(a) => format!("sum[{}] {}", axes(*a), operand(0)),
        Op::Maximum(a) if n.operands.len() == 1 => format!("max[{}] {}", axes(*a), operand(0)),
        Op::Maximum(a) => format!("max[{}] {} where {}", axes(*a), operand(0), all(1)),
        Op::Frame(row, a) => format!("{}[{}] {}", row.name, axes(*a), all(0)),
    }
}

fn predicate(g: &Graph, p: &Predicate) -> String {
    let clause = |c: &Vec<Atom>| c.iter().map(|a| atom(g, a)).collect::<Vec<_>>().join(" && ");
    match p.clauses.as_slice() {
        [] => "never".into(),
        clauses => clauses.iter().map(clause).collect::<Vec<_>>().join(" || "),
    }
}

fn atom(g: &Graph, a: &Atom) -> String {
    format!("{} >= 0", affine(g, a))
}

fn affine(g: &Graph, a: &Atom) -> String {
    let scaled = |k: i64, leaf: String| match k {
        1 => format!("+ {leaf}"),
        -1 => format!("- {leaf}"),
        k if k < 0 => format!("- {} {leaf}", k.unsigned_abs()),
        k => format!("+ {k} {leaf}"),
    };
    let indices = a.indices.iter().map(|(x, k)| scaled(*k, format!("index {}", g.axis(*x))));
    let tables = a.tables.iter().map(|(t, k)| scaled(*k, format!("{}{}", g.input(t.input).name, access(g, &t.access))));
    let extents = a.extents.iter().map(|(x, k)| scaled(*k, format!("extent {}", g.axis(*x))));
    let constant = (a.constant != 0).then(|| if a.constant < 0 { format!("- {}", a.constant.unsigned_abs()) } else { format!("+ {}", a.constant) });
    let quotients = a.quotients.iter().map(|(q, k)| scaled(*k, format!("floor(({}) / {})", affine(g, &q.of), q.by)));
    let text = indices.chain(tables).chain(extents).chain(quotients).chain(constant).collect::<Vec<_>>().join(" ");
    text.strip_prefix("+ ").unwrap_or(&text).to_string()
}
