//! Formulas drawn from a grammar of the language, as source text. Values stay of moderate size, so that a comparison in f32 means
//! something: arguments of exp are bounded, what is divided by is at least 1, the greatest of a masked axis has a floor.
use cleave_core::algebra::check::Random;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Names of axes; a value's axes are a set of them.
type Axes = BTreeSet<&'static str>;

const AXES: [&str; 4] = ["A", "B", "C", "D"];
const DEPTH: u32 = 3;

/// A value of the language: text, and the axes at which it varies.
#[derive(Clone)]
struct Value {
    text: String,
    axes: Axes,
}

fn value(text: impl Into<String>, axes: Axes) -> Value {
    Value { text: text.into(), axes }
}

pub struct Grammar {
    random: Random,
    /// The axes that tensors have.
    axes: Vec<&'static str>,
    tensors: Vec<Value>,
    /// The axis of the i32 tensor `len`, if there is one.
    len: Option<&'static str>,
    /// Axes along which something was reduced: a result that has them must have them from elsewhere.
    reduced: Axes,
}

impl Grammar {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
    fn shuffled(&mut self, axes: &Axes) -> Vec<&'static str> {
        let mut list: Vec<&'static str> = axes.iter().copied().collect();
        for i in (1..list.len()).rev() {
            let j = self.below(i + 1);
            list.swap(i, j)
        }
        list
    }
    /// A storage of axes: some order, two of them perhaps in one dimension.
    fn storage(&mut self, axes: &Axes) -> String {
        let list = self.shuffled(axes);
        match list[..] {
            [x, y, ref rest @ ..] if self.one_in(4) => rest.iter().fold(format!(", ({x}, {y})"), |s, a| s + ", " + a),
            _ => list.iter().fold(String::new(), |s, a| s + ", " + a),
        }
    }

    /// An integer: positions, extents, what the caller gives.
    fn integer(&mut self, axes: &[&'static str], depth: u32) -> Value {
        let a = self.pick(axes);
        let leaf = match self.below(6) {
            0 => value("n", Axes::new()),
            1 => value(format!("extent::<{a}>()"), Axes::new()),
            2 if self.len.is_some_and(|l| axes.contains(&l)) => value("len", self.len.into_iter().collect()),
            _ => value(format!("index::<{a}>()"), [a].into()),
        };
        if depth == 0 || self.one_in(2) {
            return leaf;
        }
        match self.below(5) {
            0 => value(format!("({}) / {}", leaf.text, 2 + self.below(3)), leaf.axes),
            1 => value(format!("({}) % {}", leaf.text, 2 + self.below(3)), leaf.axes),
            2 => value(format!("{} * {}", 1 + self.below(3), leaf.text), leaf.axes),
            k => {
                let other = self.integer(axes, depth - 1);
                value(format!("({} {} {})", leaf.text, if k == 3 { '+' } else { '-' }, other.text), &leaf.axes | &other.axes)
            }
        }
    }
    fn condition(&mut self, axes: &[&'static str], depth: u32) -> Value {
        if depth > 0 && self.one_in(3) {
            let x = self.condition(axes, depth - 1);
            if self.one_in(4) {
                return value(format!("!({})", x.text), x.axes);
            }
            let y = self.condition(axes, depth - 1);
            let join = self.pick(&["&&", "||"]);
            return value(format!("({} {join} {})", x.text, y.text), &x.axes | &y.axes);
        }
        let a = self.pick(axes);
        let (x, y) = (self.integer(axes, 1), self.integer(axes, 1));
        let comparison = self.pick(&["<=", "<", ">=", ">", "==", "!="]);
        match self.below(3) {
            // along an axis, as masks are
            0 => value(format!("index::<{a}>() {comparison} {}", y.text), &[a].into() | &y.axes),
            _ => value(format!("{} {comparison} {}", x.text, y.text), &x.axes | &y.axes),
        }
    }

    fn leaf(&mut self) -> Value {
        match self.below(9) {
            0 => value("c", Axes::new()),
            1 => value(self.pick(&["0.5", "1.0", "0.25", "2.0"]), Axes::new()),
            2 => {
                let a = self.pick(&self.axes.clone());
                value(format!("(0.125 * cast::<f32>(index::<{a}>()))"), [a].into())
            }
            _ => self.pick(&self.tensors.clone()),
        }
    }
    fn unary(&mut self, x: Value) -> Value {
        let forms = [
            "-X",
            "exp(0.5 * X)",
            "exp(-X)",
            "tanh(X)",
            "sigmoid(X)",
            "abs(X)",
            "square(X)",
            "sqrt(1 + square(X))",
            "rsqrt(1 + square(X))",
            "recip(1 + abs(X))",
            "log(1 + square(X))",
            "silu(X)",
            "gelu(X)",
            "softcap(X, 2.0)",
            "pow(abs(X), 1.5)",
            "exp2(X)",
            "X * 0.5",
            "(X - 1)",
        ];
        let form = self.pick(&forms);
        // exp of what has been bounded
        let text = if form.contains("exp") { format!("softcap({}, 4.0)", x.text) } else { format!("({})", x.text) };
        value(format!("({})", form.replace('X', &text)), x.axes)
    }
    fn binary(&mut self, x: Value, y: Value) -> Value {
        let axes = &x.axes | &y.axes;
        let (x, y) = (x.text, y.text);
        let text = match self.below(8) {
            0 | 1 => format!("({x} * {y})"),
            2 => format!("({x} + {y})"),
            3 => format!("({x} - {y})"),
            4 => format!("({x} / (1 + square({y})))"),
            5 => format!("max({x}, {y})"),
            6 => format!("min({x}, {y})"),
            _ => format!("(0.25 * {x} + 0.5 * {y})"),
        };
        value(text, axes)
    }
    /// A reduction of `x` along some of its axes, masked perhaps.
    fn reduction(&mut self, x: Value, depth: u32) -> Value {
        let list = self.shuffled(&x.axes);
        let Some(&a) = list.first() else { return x };
        let over: Vec<&str> = if list.len() > 1 && self.one_in(4) { list[..2].to_vec() } else { vec![a] };
        let name = if over.len() == 1 { over[0].to_string() } else { format!("({})", over.join(", ")) };
        let rest: Axes = x.axes.iter().copied().filter(|b| !over.contains(b)).collect();
        self.reduced.extend(&over);
        let (mut kept, mut reduced) = (x.axes.clone(), rest);
        let condition = self.one_in(3).then(|| self.condition(&list, 1));
        let masked = condition.is_some();
        if let Some(c) = &condition {
            let others: Axes = c.axes.iter().copied().filter(|b| !over.contains(b)).collect();
            (kept, reduced) = (&kept | &c.axes, &reduced | &others)
        }
        let present = |x: String| condition.as_ref().map_or(x.clone(), |c| format!("mask({x}, {})", c.text));
        let (body, bounded) = (present(x.text.clone()), present(format!("3 * tanh({})", x.text)));
        match self.below(11) {
            0 | 1 => value(format!("sum::<{name}>({body})"), reduced),
            2 => value(format!("mean::<{name}>({body})"), reduced),
            3 => value(format!("max(max::<{name}>({body}), -4.0)"), reduced),
            4 => value(format!("min(min::<{name}>({body}), 4.0)"), reduced),
            5 => value(format!("max(logsumexp::<{name}>({body}), -4.0)"), reduced),
            6 => value(format!("var::<{name}>({bounded})"), reduced),
            // one value for each element: of what is absent there is none
            7 if !masked => value(format!("softmax::<{name}>({body})"), kept),
            8 if !masked => value(format!("rms_norm::<{name}>({body}, 1.0, 0.125)"), kept),
            9 if !masked => {
                let (g, b) = (self.leaf(), self.leaf());
                value(format!("layer_norm::<{name}>({body}, {}, {}, 0.125)", g.text, b.text), &(&kept | &g.axes) | &b.axes)
            }
            _ => {
                // a softmax and what it weighs
                let v = self.term(depth.saturating_sub(1));
                let rest: Axes = (&kept | &v.axes).into_iter().filter(|b| !over.contains(b)).collect();
                value(format!("sum::<{name}>(softmax::<{name}>({body}) * {})", v.text), rest)
            }
        }
    }
    fn term(&mut self, depth: u32) -> Value {
        if depth == 0 {
            return self.leaf();
        }
        let x = self.term(depth - 1);
        match self.below(10) {
            0 | 1 => self.unary(x),
            2..=4 => {
                let y = self.term(depth - 1);
                self.binary(x, y)
            }
            5 if !x.axes.is_empty() => {
                let y = self.term(depth - 1);
                let axes: Vec<&str> = self.shuffled(&x.axes);
                let c = self.condition(&axes, 1);
                value(format!("(if {} {{ {} }} else {{ {} }})", c.text, x.text, y.text), &(&x.axes | &y.axes) | &c.axes)
            }
            _ => self.reduction(x, depth),
        }
    }
}

/// The text of a kernel, the same for the same seed.
pub fn kernel(seed: u64) -> String {
    let mut g = Grammar { random: Random(seed), axes: vec![], tensors: vec![], len: None, reduced: Axes::new() };
    let count = 2 + g.below(3);
    let axes = &AXES[..2 + g.below(3)];
    let mut arguments = String::new();
    let generic = g.one_in(2);
    for name in &["x", "y", "z", "w"][..count] {
        let own: Axes = axes.iter().copied().filter(|_| g.below(5) < 3).collect();
        let own = if own.is_empty() { [g.pick(axes)].into() } else { own };
        let element = if generic { "T" } else { g.pick(&["f32", "f32", "f16", "bf16"]) };
        let storage = g.storage(&own);
        write!(arguments, "{name}: Tensor<{element}{storage}>, ").unwrap();
        g.tensors.push(value(*name, own))
    }
    let known: Axes = g.tensors.iter().flat_map(|t| t.axes.iter().copied()).collect();
    // an axis that stands only in a dimension of two is told by an argument
    g.axes = known.iter().copied().collect();
    if g.one_in(2) {
        let a = g.pick(&g.axes.clone());
        g.len = Some(a);
        write!(arguments, "len: Tensor<i32, {a}>, ").unwrap()
    }
    for a in &g.axes {
        write!(arguments, "of_{}: Extent<{a}>, ", a.to_lowercase()).unwrap()
    }
    let mut body = String::new();
    for i in 0..g.below(3) {
        let x = g.term(DEPTH - 2);
        writeln!(body, "    let v{i} = {};", x.text).unwrap();
        g.tensors.push(value(format!("v{i}"), x.axes))
    }
    let outputs: Vec<Value> = (0..1 + g.below(2)).map(|_| g.term(DEPTH)).collect();
    let mut types = vec![];
    for o in &outputs {
        // an axis that a result has and the formula lacks repeats the value
        let more: Axes = g.axes.clone().into_iter().filter(|a| !g.reduced.contains(a) && g.one_in(4)).collect();
        let element = g.pick(&["f32", "f32", if generic { "T" } else { "bf16" }]);
        let storage = g.storage(&(&o.axes | &more));
        types.push(format!("Tensor<{element}{storage}>"))
    }
    let texts: Vec<&str> = outputs.iter().map(|o| o.text.as_str()).collect();
    let (result, types) = match &texts[..] {
        [one] => (one.to_string(), types[0].clone()),
        all => (format!("({})", all.join(",\n     ")), format!("({})", types.join(", "))),
    };
    let dtypes = match (generic, g.below(3)) {
        (false, _) => String::new(),
        (true, 0) => "(dtypes(T = f16))".into(),
        (true, 1) => "(dtypes(T = bf16))".into(),
        _ => "(dtypes(T = f32))".into(),
    };
    let parameter = if generic { "<T>" } else { "" };
    format!("#[kernel{dtypes}]\nfn drawn{parameter}({arguments}n: i32, c: f32) -> {types} {{\n{body}    {result}\n}}\n")
}
