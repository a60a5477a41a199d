//! The table of the language's own functions. Everything else that a kernel may call is written in the language: its helpers,
//! and the composites of [`composite`](super::composite).
use super::term::Reduction;
use crate::graph::Function;

/// What a function of the language does.
#[derive(Clone, Copy, Debug)]
pub enum Builtin {
    Apply(Function),
    /// A power, in halves.
    Power(i8),
    /// `pow(x, 1.5)`
    Pow,
    Max,
    Min,
    Reduce(Reduction),
    Mask,
    Index,
    Extent,
    Part,
    Stack,
    Reverse,
    Rename,
    /// `cast::<f16>(x)`: its axis argument is a type.
    Cast,
}

pub struct Row {
    pub name: &'static str,
    /// Axes between `::<` and `>`.
    pub axes: usize,
    pub arguments: usize,
    pub builtin: Builtin,
}

const fn row(name: &'static str, axes: usize, arguments: usize, builtin: Builtin) -> Row {
    Row { name, axes, arguments, builtin }
}

/// `max` and `min` stand twice: along an axis, and of two values.
pub const TABLE: [Row; 24] = [
    row("sum", 1, 1, Builtin::Reduce(Reduction::Sum)),
    row("mean", 1, 1, Builtin::Reduce(Reduction::Mean)),
    row("max", 1, 1, Builtin::Reduce(Reduction::Max)),
    row("min", 1, 1, Builtin::Reduce(Reduction::Min)),
    row("max", 0, 2, Builtin::Max),
    row("min", 0, 2, Builtin::Min),
    row("exp", 0, 1, Builtin::Apply(Function::Exp)),
    row("log", 0, 1, Builtin::Apply(Function::Log)),
    row("tanh", 0, 1, Builtin::Apply(Function::Tanh)),
    row("sigmoid", 0, 1, Builtin::Apply(Function::Sigmoid)),
    row("abs", 0, 1, Builtin::Apply(Function::Abs)),
    row("sqrt", 0, 1, Builtin::Power(1)),
    row("rsqrt", 0, 1, Builtin::Power(-1)),
    row("recip", 0, 1, Builtin::Power(-2)),
    row("square", 0, 1, Builtin::Power(4)),
    row("pow", 0, 2, Builtin::Pow),
    row("mask", 0, 2, Builtin::Mask),
    row("index", 1, 0, Builtin::Index),
    row("extent", 1, 0, Builtin::Extent),
    row("part", 1, 2, Builtin::Part),
    row("stack", 1, 1, Builtin::Stack),
    row("reverse", 1, 1, Builtin::Reverse),
    row("rename", 2, 1, Builtin::Rename),
    row("cast", 1, 1, Builtin::Cast),
];

/// The row of a name; of two, the one that suits whether axes are given.
pub fn find(name: &str, axes: bool) -> Option<&'static Row> {
    let rows = || TABLE.iter().filter(|r| r.name == name);
    rows().find(|r| (r.axes > 0) == axes).or_else(|| rows().next())
}

/// What other languages call it, and how it is written here.
pub const FOREIGN: [(&str, &str); 35] = [
    ("matmul", "`sum::<D>(q * k)`"),
    ("einsum", "`sum::<D>(q * k)`"),
    ("dot", "`sum::<D>(q * k)`"),
    ("bmm", "`sum::<D>(q * k)`"),
    ("mm", "`sum::<D>(q * k)`"),
    ("linear", "`sum::<K>(x * w)`"),
    ("transpose", "axes align by name, so there is nothing to transpose"),
    ("permute", "axes align by name, so there is nothing to permute"),
    ("reshape", "name the factors in the argument's type: `Tensor<T, (H, D)>`"),
    ("view", "name the factors in the argument's type: `Tensor<T, (H, D)>`"),
    ("broadcast", "axes align by name, so values broadcast by themselves"),
    ("expand", "axes align by name, so values broadcast by themselves"),
    ("unsqueeze", "axes align by name, so values broadcast by themselves"),
    ("where", "`if c { a } else { b }`"),
    ("select", "`if c { a } else { b }`"),
    ("relu", "`max(x, 0.0)`"),
    ("clamp", "`min(max(x, low), high)`"),
    ("std", "`sqrt(var::<N>(x))`"),
    ("argmax", "indices are no results; `max::<N>(x)` gives the value"),
    ("cumsum", "`sum::<N>(mask(x, index::<N>() <= index::<M>()))`"),
    ("variance", "`var::<N>(x)`"),
    ("swish", "`silu(x)`"),
    ("ln", "`log(x)`"),
    ("log2", "`log(x) / log(2)`"),
    ("powi", "`pow(x, 2)`"),
    ("powf", "`pow(x, 1.5)`"),
    ("maximum", "`max(x, y)` of two values, `max::<N>(x)` along an axis"),
    ("minimum", "`min(x, y)` of two values, `min::<N>(x)` along an axis"),
    ("norm", "`sqrt(sum::<N>(x * x))`"),
    ("len", "`extent::<N>()`"),
    ("arange", "`index::<N>()`"),
    ("size", "`extent::<N>()`"),
    ("count", "`sum::<N>(if c { 1.0 } else { 0.0 })`"),
    ("concat", "an output of its own for each part; `stack::<P>((a, b))` joins parts of a constant factor"),
    ("attention", "`sum::<N>(softmax::<N>(sum::<D>(q * k) * scale) * v)`"),
];
