//! Kernels as the algebra hands them to the scheduler, built by hand: the algorithm that is scheduled and, where it differs, the
//! textbook form that it equals.
use cleave_core::axis::{AxisId, AxisSet};
use cleave_core::dtype::{DType, Element};
use cleave_core::graph::{Access, Factor, Function, Graph, InputId, NodeId, Store};
use cleave_core::predicate::{Atom, Predicate, Table};
use cleave_core::rational::Rational;

pub struct Kernel {
    pub name: &'static str,
    pub graph: Graph,
    pub reference: Option<Graph>,
    pub bounds: Vec<(AxisId, usize)>,
    /// Extents of the main case.
    pub extents: Vec<i64>,
    /// Of a second case, in which small tiles are many and do not divide.
    pub larger: Vec<i64>,
}

const T: Element = Element::Param(0);
const F32: Element = Element::Type(DType::F32);

/// Graphs under construction, by the names of axes: `t.read("x", "b m k")`.
pub struct Terms {
    pub g: Graph,
}

impl Terms {
    pub fn new(axes: &str) -> Self {
        let mut g = Graph::default();
        for a in axes.split(' ') {
            g.add_axis(a);
        }
        Terms { g }
    }
    fn axis(&self, name: &str) -> AxisId {
        self.g.all_axes().find(|a| self.g.axis(*a) == name).expect("a declared axis")
    }
    fn set(&self, names: &str) -> AxisSet {
        names.split(' ').filter(|n| !n.is_empty()).map(|n| self.axis(n)).collect()
    }
    /// `b (k g) m (2.0 f)`: dimensions, packed ones in brackets; `2.1` is index 1 of a constant factor 2.
    fn access(&self, text: &str) -> Access {
        let mut dims: Vec<Vec<Factor>> = vec![];
        let mut open = false;
        for word in text.replace('(', "( ").replace(')', " )").split(' ').filter(|w| !w.is_empty()) {
            let factor = match word {
                "(" => {
                    dims.push(vec![]);
                    open = true;
                    continue;
                }
                ")" => {
                    open = false;
                    continue;
                }
                w => match w.split_once('.') {
                    Some((of, index)) => Factor::Part { index: index.parse().expect("an index"), of: of.parse().expect("a factor") },
                    None => Factor::Axis(self.axis(w)),
                },
            };
            if open { dims.last_mut().expect("an open dimension").push(factor) } else { dims.push(vec![factor]) }
        }
        Access { dims }
    }
    pub fn input(&mut self, name: &str, storage: &str) -> NodeId {
        let access = self.access(storage);
        let input = self.g.add_input(name, if access.dims.is_empty() { F32 } else { T }, access.clone());
        self.g.read(input, access)
    }
    /// An i32 input, for tables.
    pub fn table(&mut self, name: &str, storage: &str) -> Table {
        let access = self.access(storage);
        Table { input: self.g.add_input(name, Element::Type(DType::I32), access.clone()), access }
    }
    pub fn read(&mut self, input: &str, access: &str) -> NodeId {
        let position = self.g.inputs.iter().position(|i| i.name == input).expect("an input");
        let access = self.access(access);
        self.g.read(InputId(position as u32), access)
    }
    /// An output, with a store for each `(node, access)`.
    pub fn output(&mut self, name: &str, stores: &[(NodeId, &str)]) {
        let storage = self.access(stores[0].1);
        let stores = stores.iter().map(|s| Store { node: s.0, access: self.access(s.1) }).collect();
        self.g.add_output(name, T, storage, stores)
    }
    pub fn sum(&mut self, axes: &str, factors: &[NodeId]) -> NodeId {
        let x = self.g.mul(factors);
        let axes = self.set(axes);
        self.g.sum(axes, x)
    }
    pub fn max(&mut self, axes: &str, x: NodeId, guards: &[NodeId]) -> NodeId {
        let axes = self.set(axes);
        self.g.maximum(axes, x, guards)
    }
    pub fn exp(&mut self, x: NodeId) -> NodeId {
        self.g.apply(Function::Exp, x)
    }
    pub fn log(&mut self, x: NodeId) -> NodeId {
        self.g.apply(Function::Log, x)
    }
    pub fn div(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.g.product(&[(x, 2), (y, -2)])
    }
    pub fn sub(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.g.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, y)], Rational::ZERO)
    }
    pub fn add(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.g.linear(&[(Rational::ONE, x), (Rational::ONE, y)], Rational::ZERO)
    }
    /// `1/sqrt(mean x^2 + 1e-5)`.
    pub fn inverse_rms(&mut self, x: NodeId, axis: &str) -> NodeId {
        let square = self.g.product(&[(x, 4)]);
        let axes = self.set(axis);
        let total = self.g.sum(axes, square);
        let size = self.axis(axis);
        let size = self.g.size(size);
        let mean = self.div(total, size);
        let shifted = self.g.linear(&[(Rational::ONE, mean)], Rational::parse("1e-5").expect("a number"));
        self.g.product(&[(shifted, -1)])
    }
    fn atom(&self, indices: &[(&str, i64)], tables: &[(Table, i64)], extents: &[(&str, i64)], constant: i64) -> Atom {
        let named = |list: &[(&str, i64)]| {
            let mut l: Vec<(AxisId, i64)> = list.iter().map(|(a, k)| (self.axis(a), *k)).collect();
            l.sort();
            l
        };
        Atom { indices: named(indices), tables: tables.to_vec(), extents: named(extents), constant, ..Atom::default() }
    }
    fn predicate(&mut self, atoms: Vec<Atom>) -> NodeId {
        self.g.holds(Predicate { clauses: vec![atoms] })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mask {
    None,
    /// Causal, over a cache of which `len[b]` rows are filled.
    Causal,
}

/// Grouped-query attention with its log-sum-exp. One pass: unnormalised, divided at the end; else the textbook's three.
fn attention(mask: Mask, one_pass: bool) -> Graph {
    let mut t = Terms::new("b k g m n d e");
    let (q, k, v) = (t.input("q", "b (k g) m d"), t.input("k", "b k n d"), t.input("v", "b k n e"));
    let guard = (mask == Mask::Causal).then(|| {
        let len = t.table("len", "b");
        let atom = t.atom(&[("m", 1), ("n", -1)], &[(len, 1)], &[("m", -1)], 0);
        t.predicate(vec![atom])
    });
    let scale = t.input("scale", "");
    let s = t.sum("d", &[q, k]);
    let s = t.g.mul(&[s, scale]);
    let guards: Vec<NodeId> = guard.into_iter().collect();
    let under = |x: &[NodeId]| [guards.as_slice(), x].concat();
    let (o, lse) = if one_pass {
        let e = t.exp(s);
        let (z, o) = (t.sum("n", &under(&[e])), t.sum("n", &under(&[e, v])));
        (t.div(o, z), t.log(z))
    } else {
        let greatest = t.max("n", s, &guards);
        let moved = t.sub(s, greatest);
        let e = t.exp(moved);
        let z = t.sum("n", &under(&[e]));
        let weight = t.g.product(&under(&[e]).iter().map(|x| (*x, 2)).chain([(z, -2)]).collect::<Vec<_>>());
        let log = t.log(z);
        (t.sum("n", &[weight, v]), t.add(log, greatest))
    };
    t.output("o", &[(o, "b (k g) m e")]);
    t.output("lse", &[(lse, "b (k g) m")]);
    t.g
}

fn matmul() -> Graph {
    let mut t = Terms::new("b m k j");
    let (x, w) = (t.input("x", "b m k"), t.input("w", "j k"));
    let y = t.sum("k", &[x, w]);
    t.output("y", &[(y, "b m j")]);
    t.g
}

/// RMSNorm, three projections, rotary embedding on two of them. `f` is half a head.
fn norm_qkv() -> Graph {
    let mut t = Terms::new("b m c k g f e");
    let (x, gain) = (t.input("x", "b m c"), t.input("gain", "c"));
    let (cos, sin) = (t.input("cos", "m f"), t.input("sin", "m f"));
    t.input("wq", "(k g 2.0 f) c");
    t.input("wk", "(k 2.0 f) c");
    let wv = t.input("wv", "(k e) c");
    let r = t.inverse_rms(x, "c");
    let mut rotated = |name: &str, weight: &str, heads: &str| {
        let halves = [0, 1].map(|i| {
            let w = t.read(weight, &format!("({heads} 2.{i} f) c"));
            let y = t.sum("c", &[x, gain, w]);
            t.g.mul(&[r, y])
        });
        let mut product = |x: NodeId, y: NodeId| t.g.mul(&[x, y]);
        let (ac, bs, bc, as_) = (product(halves[0], cos), product(halves[1], sin), product(halves[1], cos), product(halves[0], sin));
        let (first, second) = (t.sub(ac, bs), t.add(bc, as_));
        let access = |i: u32| format!("b ({heads}) m (2.{i} f)");
        t.output(name, &[(first, &access(0)), (second, &access(1))])
    };
    rotated("q", "wq", "k g");
    rotated("k", "wk", "k");
    let y = t.sum("c", &[x, gain, wv]);
    let y = t.g.mul(&[r, y]);
    t.output("v", &[(y, "b k m e")]);
    t.g
}

/// The output projection of attention, and a residual.
fn project() -> Graph {
    let mut t = Terms::new("b k g m e j");
    let (a, w, x) = (t.input("a", "b (k g) m e"), t.input("w", "j (k g e)"), t.input("x", "b m j"));
    let y = t.sum("k g e", &[a, w]);
    let y = t.add(y, x);
    t.output("y", &[(y, "b m j")]);
    t.g
}

fn norm_swiglu() -> Graph {
    let mut t = Terms::new("b m c h");
    let (x, gain, w1, w3) = (t.input("x", "b m c"), t.input("gain", "c"), t.input("gate", "h c"), t.input("up", "h c"));
    let r = t.inverse_rms(x, "c");
    let (a, u) = (t.sum("c", &[x, gain, w1]), t.sum("c", &[x, gain, w3]));
    let a = t.g.mul(&[r, a]);
    let s = t.g.apply(Function::Sigmoid, a);
    let y = t.g.mul(&[a, s, r, u]);
    t.output("y", &[(y, "b m h")]);
    t.g
}

fn down() -> Graph {
    let mut t = Terms::new("b m h c");
    let (a, w, x) = (t.input("a", "b m h"), t.input("w", "c h"), t.input("x", "b m c"));
    let y = t.sum("h", &[a, w]);
    let y = t.add(y, x);
    t.output("y", &[(y, "b m c")]);
    t.g
}

/// Final norm and logits, with the scale behind the contraction or inside it.
fn norm_logits(inside: bool) -> Graph {
    let mut t = Terms::new("b m c v");
    let (x, gain, w) = (t.input("x", "b m c"), t.input("gain", "c"), t.input("w", "v c"));
    let r = t.inverse_rms(x, "c");
    let y = if inside {
        t.sum("c", &[x, r, gain, w])
    } else {
        let y = t.sum("c", &[x, gain, w]);
        t.g.mul(&[r, y])
    };
    t.output("y", &[(y, "b m v")]);
    t.g
}

fn rms_norm() -> Graph {
    let mut t = Terms::new("b m c");
    let (x, gain) = (t.input("x", "b m c"), t.input("gain", "c"));
    let r = t.inverse_rms(x, "c");
    let y = t.g.mul(&[x, r, gain]);
    t.output("y", &[(y, "b m c")]);
    t.g
}

fn softmax(with_max: bool) -> Graph {
    let mut t = Terms::new("b m n");
    let mut x = t.input("x", "b m n");
    if with_max {
        let greatest = t.max("n", x, &[]);
        x = t.sub(x, greatest)
    }
    let e = t.exp(x);
    let z = t.sum("n", &[e]);
    let y = t.div(e, z);
    t.output("y", &[(y, "b m n")]);
    t.g
}

fn logsumexp() -> Graph {
    let mut t = Terms::new("b m n");
    let x = t.input("x", "b m n");
    let e = t.exp(x);
    let z = t.sum("n", &[e]);
    let y = t.log(z);
    t.output("y", &[(y, "b m")]);
    t.g
}

/// `(q k) v`, or `q (k v)`.
fn two_products(right: bool) -> Graph {
    let mut t = Terms::new("m n d e");
    let (q, k, v) = (t.input("q", "m d"), t.input("k", "n d"), t.input("v", "n e"));
    let y = if right {
        let s = t.sum("n", &[k, v]);
        t.sum("d", &[q, s])
    } else {
        let s = t.sum("d", &[q, k]);
        t.sum("n", &[s, v])
    };
    t.output("y", &[(y, "m e")]);
    t.g
}

/// `sum_j x w`, or `x . rowsum(w)`.
fn row_sum(source: bool) -> Graph {
    let mut t = Terms::new("m k j");
    let (x, w) = (t.input("x", "m k"), t.input("w", "k j"));
    let y = if source {
        let y = t.sum("k", &[x, w]);
        t.sum("j", &[y])
    } else {
        let r = t.sum("j", &[w]);
        t.sum("k", &[x, r])
    };
    t.output("y", &[(y, "m")]);
    t.g
}

/// A gated layer with its down projection in one formula: a nest of contractions.
fn gated_layer() -> Graph {
    let mut t = Terms::new("m c h j");
    let (x, w1, w3, w2) = (t.input("x", "m c"), t.input("gate", "c h"), t.input("up", "c h"), t.input("down", "h j"));
    let (a, u) = (t.sum("c", &[x, w1]), t.sum("c", &[x, w3]));
    let s = t.g.apply(Function::Sigmoid, a);
    let y = t.sum("h", &[a, s, u, w2]);
    t.output("y", &[(y, "m j")]);
    t.g
}

/// A projection and a low-rank one of the same rows.
fn low_rank() -> Graph {
    let mut t = Terms::new("m c j r");
    let (x, w, a, b) = (t.input("x", "m c"), t.input("w", "c j"), t.input("a", "c r"), t.input("b", "r j"));
    let (y, z) = (t.sum("c", &[x, w]), t.sum("c", &[x, a]));
    let z = t.sum("r", &[z, b]);
    let y = t.add(y, z);
    t.output("y", &[(y, "m j")]);
    t.g
}

/// Two masks over one stream: a sliding window and a prefix, each with a frame of its own, the loop's domain their union.
fn window_and_prefix() -> Graph {
    let mut t = Terms::new("m n d e");
    let (q, k, v) = (t.input("q", "m d"), t.input("k", "n d"), t.input("v", "n e"));
    let atoms = [t.atom(&[("m", 1), ("n", -1)], &[], &[], 0), t.atom(&[("m", -1), ("n", 1)], &[], &[], 3)];
    let window = t.predicate(atoms.to_vec());
    let atom = t.atom(&[("n", -1)], &[], &[], 2);
    let prefix = t.predicate(vec![atom]);
    let s = t.sum("d", &[q, k]);
    let half = t.g.linear(&[(Rational::parse("0.5").expect("a number"), s)], Rational::ZERO);
    for (name, mask, score) in [("local", window, s), ("prefix", prefix, half)] {
        let e = t.exp(score);
        let (z, o) = (t.sum("n", &[mask, e]), t.sum("n", &[mask, e, v]));
        let y = t.div(o, z);
        t.output(name, &[(y, "m e")])
    }
    t.g
}

/// A softmax with a learnt sink in its denominator.
fn sink() -> Graph {
    let mut t = Terms::new("m n e");
    let (x, v, sink) = (t.input("x", "m n"), t.input("v", "n e"), t.input("sink", "m"));
    let (e, s) = (t.exp(x), t.exp(sink));
    let (z, o) = (t.sum("n", &[e]), t.sum("n", &[e, v]));
    let z = t.add(z, s);
    let y = t.div(o, z);
    t.output("y", &[(y, "m e")]);
    t.g
}

/// A softmax over `n` and one more term, which has a value too: a new token that is not in the cache yet.
fn one_more() -> Graph {
    let mut t = Terms::new("m n e");
    let (x, v, sink, own) = (t.input("x", "m n"), t.input("v", "n e"), t.input("sink", "m"), t.input("own", "m e"));
    let (e, s) = (t.exp(x), t.exp(sink));
    let (z, o) = (t.sum("n", &[e]), t.sum("n", &[e, v]));
    let own = t.g.mul(&[s, own]);
    let (z, o) = (t.add(z, s), t.add(o, own));
    let y = t.div(o, z);
    t.output("y", &[(y, "m e")]);
    t.g
}

/// The same over the positions before a row's own: the first row has none, and is what stands beside its empty sums.
fn one_more_masked() -> Graph {
    let mut t = Terms::new("m n e");
    let (x, v, sink, own) = (t.input("x", "m n"), t.input("v", "n e"), t.input("sink", "m"), t.input("own", "m e"));
    let atom = t.atom(&[("m", 1), ("n", -1)], &[], &[], -1);
    let mask = t.predicate(vec![atom]);
    let (e, s) = (t.exp(x), t.exp(sink));
    let (z, o) = (t.sum("n", &[mask, e]), t.sum("n", &[mask, e, v]));
    let own = t.g.mul(&[s, own]);
    let (z, o) = (t.add(z, s), t.add(o, own));
    let (y, lse) = (t.div(o, z), t.log(z));
    t.output("y", &[(y, "m e")]);
    t.output("lse", &[(lse, "m")]);
    t.g
}

/// A log-sum-exp over two axes, of which a mask bounds one: they cannot be packed.
fn two_axes() -> Graph {
    let mut t = Terms::new("m n p");
    let x = t.input("x", "m n p");
    let atom = t.atom(&[("m", 1), ("n", -1)], &[], &[], 0);
    let mask = t.predicate(vec![atom]);
    let e = t.exp(x);
    let z = t.sum("n p", &[mask, e]);
    let y = t.log(z);
    t.output("y", &[(y, "m")]);
    t.g
}

/// `(sum e^2) / (sum e)^2`: members of degree 4 and 2 of one frame.
fn participation() -> Graph {
    let mut t = Terms::new("m n");
    let x = t.input("x", "m n");
    let e = t.exp(x);
    let square = t.g.product(&[(e, 4)]);
    let (z, s) = (t.sum("n", &[e]), t.sum("n", &[square]));
    let y = t.g.product(&[(s, 2), (z, -4)]);
    t.output("y", &[(y, "m")]);
    t.g
}

/// Latent attention: the values are the keys' tensor under another axis.
fn latent() -> Graph {
    let mut t = Terms::new("b h m n c f");
    let (q, k) = (t.input("q", "b h m c"), t.input("k", "b n c"));
    let v = t.read("k", "b n f");
    let s = t.sum("c", &[q, k]);
    let e = t.exp(s);
    let (z, o) = (t.sum("n", &[e]), t.sum("n", &[e, v]));
    let y = t.div(o, z);
    t.output("y", &[(y, "b h m f")]);
    t.g
}

/// Every kernel that the tests run.
pub fn all() -> Vec<Kernel> {
    let kernel = |name, graph: Graph, reference, extents: &[i64]| {
        let larger = if extents.len() == 7 { vec![1, 2, 2, 7, 17, 5, 8] } else { extents.iter().map(|n| n * 3 / 2 + 1).collect() };
        Kernel { name, graph, reference, bounds: vec![], extents: extents.to_vec(), larger }
    };
    let heads = [2, 1, 3, 4, 11, 3, 5];
    let bounded = |mut k: Kernel| {
        k.bounds = vec![(AxisId(5), 128), (AxisId(6), 128)];
        k
    };
    vec![
        bounded(kernel("attention", attention(Mask::Causal, true), Some(attention(Mask::Causal, false)), &heads)),
        kernel("attention_source", attention(Mask::Causal, false), None, &heads),
        kernel("attention_unmasked", attention(Mask::None, true), Some(attention(Mask::None, false)), &heads),
        kernel("matmul", matmul(), None, &[2, 5, 13, 7]),
        kernel("norm_qkv", norm_qkv(), None, &[2, 5, 13, 2, 2, 3, 4]),
        kernel("project", project(), None, &[2, 2, 3, 5, 4, 7]),
        kernel("norm_swiglu", norm_swiglu(), None, &[2, 5, 13, 7]),
        kernel("down", down(), None, &[2, 5, 13, 7]),
        kernel("norm_logits", norm_logits(false), Some(norm_logits(true)), &[2, 5, 13, 7]),
        kernel("norm_logits_source", norm_logits(true), None, &[2, 5, 13, 7]),
        kernel("rms_norm", rms_norm(), None, &[2, 5, 13]),
        kernel("softmax", softmax(false), Some(softmax(true)), &[2, 5, 13]),
        kernel("softmax_source", softmax(true), None, &[2, 5, 13]),
        kernel("logsumexp", logsumexp(), None, &[2, 5, 13]),
        kernel("two_products", two_products(false), None, &[5, 13, 7, 6]),
        kernel("two_products_right", two_products(true), Some(two_products(false)), &[5, 13, 7, 6]),
        kernel("row_sum", row_sum(false), Some(row_sum(true)), &[5, 13, 7]),
        kernel("row_sum_source", row_sum(true), None, &[5, 13, 7]),
        kernel("gated_layer", gated_layer(), None, &[5, 7, 6, 4]),
        kernel("low_rank", low_rank(), None, &[5, 13, 7, 2]),
        kernel("window_and_prefix", window_and_prefix(), None, &[7, 11, 3, 2]),
        kernel("sink", sink(), None, &[5, 11, 3]),
        kernel("one_more", one_more(), None, &[5, 11, 3]),
        kernel("one_more_masked", one_more_masked(), None, &[5, 11, 3]),
        kernel("two_axes", two_axes(), None, &[5, 7, 3]),
        kernel("participation", participation(), None, &[5, 13]),
        kernel("latent", latent(), None, &[2, 3, 2, 7, 4, 4]),
    ]
}
