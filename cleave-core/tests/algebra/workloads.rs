//! Kernels whose algorithms are known.
use super::formula::Formula;
use cleave_core::graph::NodeId;
use cleave_core::kernel::Kernel;

fn scores(f: &mut Formula) -> NodeId {
    f.bound("D", 256);
    f.bound("E", 256);
    let q = f.read("q", "B (K G) M D");
    let k = f.read("k", "B K N D");
    let scale = f.read("scale", "");
    let s = f.dot("D", &[q, k]);
    f.mul(&[s, scale])
}

/// `N - len <= M - |M|`.
fn causal(f: &mut Formula) -> NodeId {
    f.at_least_zero(&[("M", 1), ("N", -1)], &[("len", "B", 1)], &[("M", -1)], 0)
}

/// Grouped-query attention: output and log-sum-exp.
pub fn attention(masked: bool, max: bool) -> Kernel {
    let mut f = Formula::default();
    let s = scores(&mut f);
    let predicates = if masked { vec![causal(&mut f)] } else { vec![] };
    let v = f.read("v", "B K N E");
    let (e, m) = if max {
        f.shifted_exp("N", s, &predicates)
    } else {
        let e = f.exp(s);
        let zero = f.number("0");
        (f.mul(&[predicates.as_slice(), &[e]].concat()), zero)
    };
    let z = f.sum("N", e);
    let p = f.div(e, z);
    let o = f.dot("N", &[p, v]);
    let log = f.log(z);
    let lse = f.add(log, m);
    f.store("out", "B (K G) M E", o);
    f.store("lse", "B (K G) M", lse);
    f.kernel("attention")
}

pub fn matmul() -> Kernel {
    let mut f = Formula::default();
    let (x, w) = (f.read("x", "M K"), f.read("w", "K N"));
    let y = f.dot("K", &[x, w]);
    f.store("y", "M N", y);
    f.kernel("matmul")
}

pub fn matmul_matmul() -> Kernel {
    let mut f = Formula::default();
    let (q, k, v) = (f.read("q", "M D"), f.read("k", "N D"), f.read("v", "N E"));
    let s = f.dot("D", &[q, k]);
    let o = f.dot("N", &[s, v]);
    f.store("out", "M E", o);
    f.kernel("matmul_matmul")
}

pub fn matmul_rowsum() -> Kernel {
    let mut f = Formula::default();
    let (x, w) = (f.read("x", "M K"), f.read("w", "K N"));
    let y = f.dot("K", &[x, w]);
    let o = f.sum("N", y);
    f.store("out", "M", o);
    f.kernel("matmul_rowsum")
}

pub fn softmax() -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M N");
    let y = f.softmax("N", x, &[]);
    f.store("y", "M N", y);
    f.kernel("softmax")
}

/// Where N < len perhaps: log 0 of nothing.
pub fn logsumexp(masked: bool) -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M N");
    let predicates = if masked { vec![f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], -1)] } else { vec![] };
    let y = f.logsumexp("N", x, &predicates);
    f.store("y", "M", y);
    f.kernel("logsumexp")
}

/// RMSNorm with a gain, and three projections.
pub fn rms_norm_projections() -> Kernel {
    let mut f = Formula::default();
    let (x, g) = (f.read("x", "M K"), f.read("g", "K"));
    let n = f.rms_norm("K", x);
    let n = f.mul(&[n, g]);
    for (name, axes, out, axis) in [("wq", "K I", "q", "M I"), ("wk", "K J", "k", "M J"), ("wv", "K L", "v", "M L")] {
        let w = f.read(name, axes);
        let y = f.dot("K", &[n, w]);
        f.store(out, axis, y)
    }
    f.kernel("rms_norm_projections")
}

/// RMSNorm, then the gated product of two projections.
pub fn rms_norm_swiglu() -> Kernel {
    let mut f = Formula::default();
    let (x, g) = (f.read("x", "M K"), f.read("g", "K"));
    let n = f.rms_norm("K", x);
    let n = f.mul(&[n, g]);
    let (w1, w2) = (f.read("w1", "K F"), f.read("w2", "K F"));
    let (a, b) = (f.dot("K", &[n, w1]), f.dot("K", &[n, w2]));
    let gate = f.sigmoid(a);
    let y = f.mul(&[a, gate, b]);
    f.store("y", "M F", y);
    f.kernel("rms_norm_swiglu")
}

pub fn swiglu() -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M K");
    let (w1, w2, w3) = (f.read("w1", "K F"), f.read("w2", "K F"), f.read("w3", "F J"));
    let (a, b) = (f.dot("K", &[x, w1]), f.dot("K", &[x, w2]));
    let gate = f.sigmoid(a);
    let h = f.mul(&[a, gate, b]);
    let y = f.dot("F", &[h, w3]);
    f.store("y", "M J", y);
    f.kernel("swiglu")
}

/// Multi-head latent attention in decode: keys and values are projections of one latent.
pub fn mla() -> Kernel {
    let mut f = Formula::default();
    for axis in ["D", "E", "R"] {
        f.bound(axis, 128)
    }
    f.bound("C", 512);
    let (q, wk, c) = (f.read("q", "H M D"), f.read("wk", "H D C"), f.read("c", "N C"));
    let (qr, kr, wv) = (f.read("qr", "H M R"), f.read("kr", "N R"), f.read("wv", "H E C"));
    let k = f.dot("C", &[wk, c]);
    let (a, b) = (f.dot("D", &[q, k]), f.dot("R", &[qr, kr]));
    let s = f.add(a, b);
    let scale = f.read("scale", "");
    let s = f.mul(&[s, scale]);
    let p = f.softmax("N", s, &[]);
    let v = f.dot("C", &[wv, c]);
    let o = f.dot("N", &[p, v]);
    f.store("out", "H M E", o);
    f.kernel("mla")
}

pub fn lora() -> Kernel {
    let mut f = Formula::default();
    f.bound("R", 64);
    let (x, w, a, b) = (f.read("x", "M K"), f.read("w", "K J"), f.read("a", "K R"), f.read("b", "R J"));
    let base = f.dot("K", &[x, w]);
    let low = f.dot("K", &[x, a]);
    let low = f.dot("R", &[low, b]);
    let y = f.add(base, low);
    f.store("y", "M J", y);
    f.kernel("lora")
}

pub fn layer_norm_matmul() -> Kernel {
    let mut f = Formula::default();
    let (x, g, b, w) = (f.read("x", "M K"), f.read("g", "K"), f.read("b", "K"), f.read("w", "K J"));
    let n = f.layer_norm("K", x);
    let n = f.mul(&[n, g]);
    let n = f.add(n, b);
    let y = f.dot("K", &[n, w]);
    f.store("y", "M J", y);
    f.kernel("layer_norm_matmul")
}

/// -sum_V y log softmax(h w).
pub fn cross_entropy() -> Kernel {
    let mut f = Formula::default();
    let (h, w, y) = (f.read("h", "M D"), f.read("w", "D V"), f.read("y", "M V"));
    let z = f.dot("D", &[h, w]);
    let p = f.softmax("V", z, &[]);
    let log = f.log(p);
    let loss = f.dot("V", &[y, log]);
    let loss = f.neg(loss);
    f.store("loss", "M", loss);
    f.kernel("cross_entropy")
}

/// Attention with normalised queries and keys.
pub fn qk_norm_attention() -> Kernel {
    let mut f = Formula::default();
    f.bound("D", 256);
    f.bound("E", 256);
    let (q, k, v) = (f.read("q", "M D"), f.read("k", "N D"), f.read("v", "N E"));
    let (gq, gk) = (f.read("gq", "D"), f.read("gk", "D"));
    let (qn, kn) = (f.rms_norm("D", q), f.rms_norm("D", k));
    let s = f.dot("D", &[qn, gq, kn, gk]);
    let p = f.softmax("N", s, &[]);
    let o = f.dot("N", &[p, v]);
    f.store("out", "M E", o);
    f.kernel("qk_norm_attention")
}

/// A bias linear in the distance: its part in the row leaves the softmax.
pub fn alibi_attention() -> Kernel {
    let mut f = Formula::default();
    let s = scores(&mut f);
    let slope = f.read("slope", "K");
    let (m, n) = (f.axis("M"), f.axis("N"));
    let (i, j) = (f.graph.index(m), f.graph.index(n));
    let distance = f.sub(j, i);
    let bias = f.mul(&[slope, distance]);
    let s = f.add(s, bias);
    let mask = causal(&mut f);
    let v = f.read("v", "B K N E");
    let p = f.softmax("N", s, &[mask]);
    let o = f.dot("N", &[p, v]);
    f.store("out", "B (K G) M E", o);
    f.kernel("alibi_attention")
}

/// cap * tanh(s / cap).
pub fn softcap_attention() -> Kernel {
    let mut f = Formula::default();
    let s = scores(&mut f);
    let cap = f.positive("cap", "");
    let ratio = f.div(s, cap);
    let t = f.tanh(ratio);
    let s = f.mul(&[cap, t]);
    let v = f.read("v", "B K N E");
    let p = f.softmax("N", s, &[]);
    let o = f.dot("N", &[p, v]);
    f.store("out", "B (K G) M E", o);
    f.kernel("softcap_attention")
}

/// The difference of two softmaxes over one set of values.
pub fn differential_attention() -> Kernel {
    let mut f = Formula::default();
    let lambda = f.read("lambda", "");
    let v = f.read("v", "N E");
    let mut p = vec![];
    for (q, k) in [("q1", "k1"), ("q2", "k2")] {
        let (q, k) = (f.read(q, "M D"), f.read(k, "N D"));
        let s = f.dot("D", &[q, k]);
        p.push(f.softmax("N", s, &[]))
    }
    let second = f.mul(&[p[1], lambda]);
    let p = f.sub(p[0], second);
    let o = f.dot("N", &[p, v]);
    f.store("out", "M E", o);
    f.kernel("differential_attention")
}

/// -sum_N p log p, where N <= M perhaps.
pub fn entropy(masked: bool) -> Kernel {
    let mut f = Formula::default();
    let (q, k) = (f.read("q", "M D"), f.read("k", "N D"));
    let s = f.dot("D", &[q, k]);
    let predicates = if masked { vec![f.at_least_zero(&[("M", 1), ("N", -1)], &[], &[], 0)] } else { vec![] };
    let p = f.softmax("N", s, &predicates);
    let log = f.log(p);
    let h = f.dot("N", &[p, log]);
    let h = f.neg(h);
    f.store("h", "M", h);
    f.kernel("entropy")
}

pub fn block_scaled_matmul() -> Kernel {
    let mut f = Formula::default();
    f.bound("S", 32);
    let (a, sa, w, sw) = (f.read("a", "M B S"), f.read("sa", "M B"), f.read("w", "J B S"), f.read("sw", "J B"));
    let y = f.dot("B S", &[a, sa, w, sw]);
    f.store("y", "M J", y);
    f.kernel("block_scaled_matmul")
}

/// y = h + alpha (norm(u) - h), normalised, projected.
pub fn interpolated_norm_step() -> Kernel {
    let mut f = Formula::default();
    let (o, w) = (f.read("o", "M E"), f.read("w", "E K"));
    let (h, alpha, w2) = (f.read("h", "M K"), f.read("alpha", "K"), f.read("w2", "K F"));
    let u = f.dot("E", &[o, w]);
    let norm = |f: &mut Formula, x: NodeId| {
        let square = f.power(x, 4);
        let total = f.sum("K", square);
        let scale = f.power(total, -1);
        f.mul(&[x, scale])
    };
    let a = norm(&mut f, u);
    let step = f.sub(a, h);
    let step = f.mul(&[alpha, step]);
    let y = f.add(h, step);
    let y = norm(&mut f, y);
    let out = f.dot("K", &[y, w2]);
    f.store("out", "M F", out);
    f.kernel("interpolated_norm_step")
}

pub fn all() -> Vec<(&'static str, Kernel)> {
    vec![
        ("attention", attention(true, true)),
        ("attention without max", attention(true, false)),
        ("attention without mask", attention(false, true)),
        ("attention without mask, max", attention(false, false)),
        ("matmul", matmul()),
        ("matmul + matmul", matmul_matmul()),
        ("matmul + rowsum", matmul_rowsum()),
        ("softmax", softmax()),
        ("logsumexp", logsumexp(false)),
        ("masked logsumexp", logsumexp(true)),
        ("rms_norm + 3 projections", rms_norm_projections()),
        ("rms_norm + swiglu up", rms_norm_swiglu()),
        ("swiglu", swiglu()),
        ("mla", mla()),
        ("lora", lora()),
        ("layer_norm + matmul", layer_norm_matmul()),
        ("cross entropy", cross_entropy()),
        ("qk norm attention", qk_norm_attention()),
        ("alibi attention", alibi_attention()),
        ("softcap attention", softcap_attention()),
        ("differential attention", differential_attention()),
        ("entropy", entropy(false)),
        ("masked entropy", entropy(true)),
        ("block-scaled matmul", block_scaled_matmul()),
        ("interpolated norm step", interpolated_norm_step()),
    ]
}

/// Small kernels that show every row of the table between them.
pub fn for_rows() -> Vec<(&'static str, Kernel)> {
    vec![
        ("matmul + matmul", matmul_matmul()),
        ("matmul + rowsum", matmul_rowsum()),
        ("logsumexp", logsumexp(false)),
        ("masked logsumexp", logsumexp(true)),
        ("lora", lora()),
        ("layer_norm + matmul", layer_norm_matmul()),
        ("sigmoid of a logarithm", sigmoid_of_a_logarithm()),
        ("broadcast sum", broadcast_sum()),
        ("broadcast maximum", broadcast_maximum()),
        ("shifted maximum", shifted_maximum()),
        ("scaled maximum", scaled_maximum()),
        ("maximum of exponentials", maximum_of_exponentials()),
        ("exponential of a logarithm", exponential_of_a_logarithm()),
        ("common weights", common_weights()),
        ("logarithm within a difference", logarithm_within_a_difference()),
        ("biased sum", biased_sum()),
        ("centred sum", centred(false)),
        ("centred projection", centred(true)),
        ("tempered softmax", tempered_softmax()),
        ("linear bias", linear_bias()),
        ("masked entropy", entropy(true)),
    ]
}

/// sigmoid(log x) = x / (1 + x).
pub fn sigmoid_of_a_logarithm() -> Kernel {
    let mut f = Formula::default();
    let x = f.positive("x", "M");
    let log = f.log(x);
    let y = f.sigmoid(log);
    f.store("y", "M", y);
    f.kernel("sigmoid_of_a_logarithm")
}

pub fn broadcast_sum() -> Kernel {
    let mut f = Formula::default();
    let (x, w) = (f.read("x", "M"), f.read("w", "K"));
    let p = f.mul(&[x, w]);
    let y = f.sum("N K", p);
    f.store("y", "M", y);
    f.kernel("broadcast_sum")
}

pub fn broadcast_maximum() -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M K");
    let y = f.maximum("N K", x, &[]);
    f.store("y", "M", y);
    f.kernel("broadcast_maximum")
}

/// max_N (a_n + b) - b under a mask.
pub fn shifted_maximum() -> Kernel {
    let mut f = Formula::default();
    let (a, b) = (f.read("a", "M N"), f.read("b", "M"));
    let mask = f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], 0);
    let s = f.add(a, b);
    let m = f.maximum("N", s, &[mask]);
    let y = f.sub(m, b);
    f.store("y", "M", y);
    f.kernel("shifted_maximum")
}

/// max_N (2 c a_n) / c for a positive c.
pub fn scaled_maximum() -> Kernel {
    let mut f = Formula::default();
    let (a, c) = (f.read("a", "M N"), f.positive("c", "M"));
    let s = f.mul(&[a, c]);
    let s = f.add(s, s);
    let m = f.maximum("N", s, &[]);
    let y = f.div(m, c);
    f.store("y", "M", y);
    f.kernel("scaled_maximum")
}

/// log max_N exp a_n.
pub fn maximum_of_exponentials() -> Kernel {
    let mut f = Formula::default();
    let a = f.read("a", "M N");
    let e = f.exp(a);
    let m = f.maximum("N", e, &[]);
    let y = f.log(m);
    f.store("y", "M", y);
    f.kernel("maximum_of_exponentials")
}

/// exp(log x + y) for a positive x.
pub fn exponential_of_a_logarithm() -> Kernel {
    let mut f = Formula::default();
    let (x, y) = (f.positive("x", "M N"), f.read("y", "M"));
    let log = f.log(x);
    let s = f.add(log, y);
    let e = f.exp(s);
    let z = f.sum("N", e);
    f.store("z", "M", z);
    f.kernel("exponential_of_a_logarithm")
}

/// sum_K x w + sum_K y w = sum_K (x + y) w.
pub fn common_weights() -> Kernel {
    let mut f = Formula::default();
    let (x, y, w) = (f.read("x", "M K"), f.read("y", "M K"), f.read("w", "K N"));
    let (a, b) = (f.dot("K", &[x, w]), f.dot("K", &[y, w]));
    let s = f.add(a, b);
    f.store("out", "M N", s);
    f.kernel("common_weights")
}

/// sum_N exp(a - log exp(a + b_m)).
pub fn logarithm_within_a_difference() -> Kernel {
    let mut f = Formula::default();
    let (a, b) = (f.read("a", "M N"), f.read("b", "M"));
    let s = f.add(a, b);
    let e = f.exp(s);
    let log = f.log(e);
    let d = f.sub(a, log);
    let e = f.exp(d);
    let y = f.sum("N", e);
    f.store("y", "M", y);
    f.kernel("logarithm_within_a_difference")
}

/// sum_K (x w + b_m).
pub fn biased_sum() -> Kernel {
    let mut f = Formula::default();
    let (x, w, b) = (f.read("x", "M K"), f.read("w", "K"), f.read("b", "M"));
    let p = f.mul(&[x, w]);
    let s = f.add(p, b);
    let y = f.sum("K", s);
    f.store("y", "M", y);
    f.kernel("biased_sum")
}

/// sum_K (g (x - mean x) + b), or a projection of it.
pub fn centred(projected: bool) -> Kernel {
    let mut f = Formula::default();
    let (x, g, b) = (f.read("x", "M K"), f.read("g", "K"), f.read("b", "K"));
    let mean = f.mean("K", x);
    let c = f.sub(x, mean);
    let c = f.mul(&[g, c]);
    let c = f.add(c, b);
    if projected {
        let w = f.read("w", "K J");
        let y = f.dot("K", &[w, c]);
        f.store("y", "M J", y);
    } else {
        let y = f.sum("K", c);
        f.store("y", "M", y);
    }
    f.kernel("centred")
}

/// A softmax whose temperature comes after the shift.
pub fn tempered_softmax() -> Kernel {
    let mut f = Formula::default();
    let (x, t) = (f.read("x", "M N"), f.read("t", ""));
    let m = f.maximum("N", x, &[]);
    let shifted = f.sub(x, m);
    let scaled = f.mul(&[t, shifted]);
    let e = f.exp(scaled);
    let z = f.sum("N", e);
    let y = f.div(e, z);
    f.store("y", "M N", y);
    f.kernel("tempered_softmax")
}

/// softmax (s + slope (n - m)).
pub fn linear_bias() -> Kernel {
    let mut f = Formula::default();
    let (s, slope) = (f.read("s", "M N"), f.read("slope", ""));
    let (m, n) = (f.axis("M"), f.axis("N"));
    let (i, j) = (f.graph.index(m), f.graph.index(n));
    let distance = f.sub(j, i);
    let bias = f.mul(&[slope, distance]);
    let s = f.add(s, bias);
    let v = f.read("v", "N E");
    let p = f.softmax("N", s, &[]);
    let o = f.dot("N", &[p, v]);
    f.store("o", "M E", o);
    f.kernel("linear_bias")
}

/// sum_N softmax_N x under a mask: 1, or 0 where the domain is empty.
pub fn masked_total() -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M N");
    let mask = f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], -1);
    let e = f.exp(x);
    let e = f.mul(&[mask, e]);
    let z = f.sum("N", e);
    let p = f.div(e, z);
    let y = f.sum("N", p);
    f.store("y", "M", y);
    f.kernel("masked_total")
}

/// max_N exp x under a mask: -inf where the domain is empty.
pub fn masked_maximum_of_exponentials() -> Kernel {
    let mut f = Formula::default();
    let x = f.read("x", "M N");
    let mask = f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], -1);
    let e = f.exp(x);
    let y = f.maximum("N", e, &[mask]);
    f.store("y", "M", y);
    f.kernel("masked_maximum_of_exponentials")
}
