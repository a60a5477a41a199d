//! What kernels mean: the front end's graphs, evaluated by the oracle, against loops written by hand.
#![cfg(feature = "compiler")]
use cleave_core::extent;
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::oracle::{self, Tensor};

fn kernel(text: &str) -> Kernel {
    frontend::from_source(text).unwrap_or_else(|e| panic!("{}", e.render(text))).remove(0)
}

/// Evaluates with inputs by name.
fn run(kernel: &Kernel, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let graph = &kernel.graph;
    let values: Vec<Tensor> =
        graph.inputs.iter().map(|i| inputs.iter().find(|x| x.0 == i.name).unwrap_or_else(|| panic!("no `{}`", i.name)).1.clone()).collect();
    let shapes: Vec<_> = values.iter().map(|v| (!v.shape.is_empty()).then(|| v.shape.clone())).collect();
    oracle::evaluate(graph, &extent::solve(graph, &shapes).unwrap(), &values)
}

/// Values without a pattern between -1 and 1.
fn tensor<const N: usize>(seed: usize, shape: [usize; N]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::new(shape.iter().map(|s| *s as i64).collect(), (0..n).map(|i| ((i * 37 + seed * 101 + 11) as f64 * 0.71).sin()).collect())
}

fn integers<const N: usize>(values: [i64; N]) -> Tensor {
    Tensor::new(vec![N as i64], values.map(|v| v as f64).to_vec())
}

/// Equal up to rounding; infinities must match.
fn assert_close(got: &Tensor, want: &[f64]) {
    assert_eq!(got.values.len(), want.len());
    for (i, (g, w)) in got.values.iter().zip(want).enumerate() {
        assert!(g == w || (g - w).abs() <= 1e-12 * w.abs().max(1.0), "element {i}: {g} is not {w}")
    }
}

#[test]
fn attention_reads_grouped_heads_and_sees_the_filled_past() {
    let (b, k, g, m, n, d, e) = (2, 2, 3, 2, 5, 3, 2);
    let [q, key, value] = [tensor(1, [b, k * g, m, d]), tensor(2, [b, k, n, d]), tensor(3, [b, k, n, e])];
    let len = [4usize, 0];
    let scale = 0.8;
    let inputs = [("q", q.clone()), ("k", key.clone()), ("v", value.clone()), ("len", integers([4, 0])), ("scale", Tensor::scalar(scale))];
    let outputs = run(&kernel(include_str!("kernels/pass/attention.rs")), &inputs);
    let (mut o, mut lse) = (vec![], vec![]);
    for (batch, head, row) in (0..b).flat_map(|b| (0..k * g).flat_map(move |h| (0..m).map(move |r| (b, h, r)))) {
        let kv = head / g;
        let seen = |c: usize| (c as i64 - len[batch] as i64) <= row as i64 - m as i64;
        let score = |c: usize| {
            scale * (0..d).map(|x| q.values[((batch * k * g + head) * m + row) * d + x] * key.values[((batch * k + kv) * n + c) * d + x]).sum::<f64>()
        };
        let total: f64 = (0..n).filter(|c| seen(*c)).map(|c| score(c).exp()).sum();
        for x in 0..e {
            let sum: f64 = (0..n).filter(|c| seen(*c)).map(|c| score(c).exp() * value.values[((batch * k + kv) * n + c) * e + x]).sum();
            o.push(if total == 0.0 { 0.0 } else { sum / total })
        }
        lse.push(total.ln())
    }
    assert!(lse.contains(&f64::NEG_INFINITY), "a row of the empty cache sees nothing");
    assert_close(&outputs[0], &o);
    assert_close(&outputs[1], &lse);
}

#[test]
fn rotary_projections_turn_neighbouring_channels() {
    let (m, c, h, k, f, j) = (3, 4, 2, 1, 2, 3);
    let [x, gain, wq, wk, wv] = [tensor(1, [m, c]), tensor(2, [c, 1]), tensor(3, [h * f * 2, c]), tensor(4, [k * f * 2, c]), tensor(5, [j, c])];
    let gain = Tensor::new(vec![c as i64], gain.values);
    let [cos, sin] = [tensor(6, [m, f]), tensor(7, [m, f])];
    let epsilon = 0.01;
    let inputs = [
        ("x", x.clone()),
        ("gain", gain.clone()),
        ("wq", wq.clone()),
        ("wk", wk.clone()),
        ("wv", wv.clone()),
        ("cos", cos.clone()),
        ("sin", sin.clone()),
        ("epsilon", Tensor::scalar(epsilon)),
    ];
    let outputs = run(&kernel(include_str!("kernels/pass/norm_qkv.rs")), &inputs);
    let mean = |row: usize| (0..c).map(|i| x.values[row * c + i].powi(2)).sum::<f64>() / c as f64;
    let z = |row: usize, i: usize| x.values[row * c + i] / (mean(row) + epsilon).sqrt() * gain.values[i];
    let project = |w: &Tensor, row: usize, out: usize| (0..c).map(|i| z(row, i) * w.values[out * c + i]).sum::<f64>();
    let rotated = |w: &Tensor, heads: usize| {
        let mut all = vec![];
        for (row, head, pair) in (0..m).flat_map(|r| (0..heads).flat_map(move |h| (0..f).map(move |p| (r, h, p)))) {
            let (a, b) = (project(w, row, (head * f + pair) * 2), project(w, row, (head * f + pair) * 2 + 1));
            let (c, s) = (cos.values[row * f + pair], sin.values[row * f + pair]);
            all.extend([a * c - b * s, b * c + a * s])
        }
        all
    };
    assert_close(&outputs[0], &rotated(&wq, h));
    assert_close(&outputs[1], &rotated(&wk, k));
    assert_close(&outputs[2], &(0..m).flat_map(|r| (0..j).map(move |o| (r, o))).map(|(r, o)| project(&wv, r, o)).collect::<Vec<_>>());
}

#[test]
fn constant_factors_are_taken_apart_and_broadcast() {
    let (m, f) = (2, 3);
    let [x, cos, sin] = [tensor(1, [m, 2 * f]), tensor(2, [m, f]), tensor(3, [m, f])];
    let outputs = run(&kernel(include_str!("kernels/pass/parts.rs")), &[("x", x.clone()), ("cos", cos.clone()), ("sin", sin.clone())]);
    let mut turned = vec![];
    for i in 0..m * f {
        let (a, b) = (x.values[2 * i], x.values[2 * i + 1]);
        turned.extend([a * cos.values[i] - b * sin.values[i], b * cos.values[i] + a * sin.values[i]])
    }
    assert_close(&outputs[0], &turned);
    let norms = x.values.chunks(2 * f).map(|r| r.iter().fold(0.0, |m: f64, v| m.max(v.abs())) + r.iter().map(|v| v * v).sum::<f64>().sqrt());
    assert_close(&outputs[1], &norms.collect::<Vec<_>>());
    let halved = (0..m).flat_map(|r| (0..2).flat_map(move |_| (0..f).map(move |c| (r, c)))).map(|(r, c)| sin.values[r * f + c] / 2.0);
    assert_close(&outputs[2], &halved.collect::<Vec<_>>());
}

#[test]
fn reductions_leave_masked_elements_out() {
    let (a, b, c) = (3, 4, 2);
    let x = tensor(1, [a, b, c]);
    let filled = [2usize, 4, 0];
    let outputs = run(&kernel(include_str!("kernels/pass/reductions.rs")), &[("x", x.clone()), ("n", integers([2, 4, 0]))]);
    let of_row = |r: usize| x.values[r * b * c..][..filled[r] * c].to_vec();
    let sums: Vec<f64> = (0..a).map(|r| of_row(r).iter().sum()).collect();
    assert_close(&outputs[0], &sums);
    assert_close(&outputs[1], &(0..a).map(|r| if filled[r] == 0 { 0.0 } else { sums[r] / (filled[r] * c) as f64 }).collect::<Vec<_>>());
    assert_close(&outputs[2], &x.values.chunks(c).map(|v| v[0].min(v[1])).collect::<Vec<_>>());
    assert_close(&outputs[3], &(0..b).map(|p| filled.iter().filter(|n| p < **n).count() as f64).collect::<Vec<_>>());
}

#[test]
fn windows_sinks_slopes_and_caps_are_as_written() {
    let (b, h, m, n, d, e) = (1, 2, 3, 140, 2, 1);
    let [q, k, v] = [tensor(1, [b, h, m, d]), tensor(2, [b, h, n, d]), tensor(3, [b, h, n, e])];
    let (slope, start) = ([0.01, 0.3], 133);
    let inputs =
        [("q", q.clone()), ("k", k.clone()), ("v", v.clone()), ("slope", Tensor::new(vec![2], slope.to_vec())), ("start", Tensor::scalar(start as f64))];
    let outputs = run(&kernel(include_str!("kernels/pass/alibi_window.rs")), &inputs);
    let mut want = vec![];
    for (head, row) in (0..h).flat_map(|h| (0..m).map(move |r| (h, r))) {
        let (mut sum, mut total) = (0.0, 0.0);
        for c in 0..n {
            let behind = row as i64 + start - c as i64;
            if c as i64 <= row as i64 + start && (behind < 128 || c < 4) {
                let dot: f64 = (0..d).map(|i| q.values[(head * m + row) * d + i] * k.values[(head * n + c) * d + i]).sum();
                let score = 30.0 * (dot / (d as f64).sqrt() / 30.0).tanh() - slope[head] * behind as f64;
                total += score.exp();
                sum += score.exp() * v.values[head * n + c]
            }
        }
        want.push(sum / total)
    }
    assert_close(&outputs[0], &want);
}

#[test]
fn selection_helpers_and_functions_are_as_written() {
    let (m, n) = (4, 3);
    let (x, y, w) = (tensor(1, [m, n]), Tensor::new(vec![3], vec![0.3, -1.2, 2.0]), 0.7);
    let flag = [0i64, 1, 2, 3];
    let outputs =
        run(&kernel(include_str!("kernels/pass/elementwise.rs")), &[("x", x.clone()), ("y", y.clone()), ("flag", integers(flag)), ("w", Tensor::scalar(w))]);
    let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
    let (mut first, mut second) = (vec![], vec![]);
    for (row, col) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
        let (x, y) = (x.values[row * n + col], y.values[col]);
        let gelu = 0.5 * y * (1.0 + (0.7978845608028654 * (y + 0.044715 * y.powi(3))).tanh());
        let chosen = flag[row] != 0 && (col + 1 < n || flag[row] <= 2);
        let z = if chosen { gelu + x } else { w };
        let z = z.max(z / 8.0).min(6.0);
        first.push(z * sigmoid(z) - x.abs().powf(1.5) / y.tanh().exp2());
        second.push(sigmoid(x))
    }
    assert_close(&outputs[0], &first);
    assert_close(&outputs[1], &second);
}

#[test]
fn a_renamed_axis_is_another_reading() {
    let (b, m, d) = (1, 4, 2);
    let x = tensor(1, [b, m, d]);
    let outputs = run(&kernel(include_str!("kernels/pass/self_attention.rs")), &[("x", x.clone())]);
    let at = |r: usize, c: usize| x.values[r * d + c];
    let mut want = vec![];
    for row in 0..m {
        let weight = |c: usize| ((0..d).map(|i| at(row, i) * at(c, i)).sum::<f64>() / (d as f64).sqrt()).exp();
        let total: f64 = (0..=row).map(weight).sum();
        want.extend((0..d).map(|i| (0..=row).map(|c| weight(c) * at(c, i)).sum::<f64>() / total))
    }
    assert_close(&outputs[0], &want);
}

#[test]
fn a_factor_of_0_wins_over_the_logarithm_of_nothing_and_over_what_divides_by_it() {
    let text = "#[kernel] fn totals(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> (Tensor<f32, M>, Tensor<f32, M>, Tensor<f32, M>) {
        let s = mask(x, index::<N>() < len);
        let z = sum::<N>(exp(s));
        (z * log(z), z * log(z) / z, -sum::<N>(softmax::<N>(s) * log_softmax::<N>(s)))
    }";
    let x = tensor(1, [3, 4]);
    let outputs = run(&kernel(text), &[("x", x.clone()), ("len", integers([2, 0, 4]))]);
    let z: Vec<f64> = [2, 0, 4].iter().zip(x.values.chunks(4)).map(|(n, r)| r[..*n].iter().map(|v| v.exp()).sum()).collect();
    let or_0 = |v: f64| if v.is_nan() { 0.0 } else { v };
    assert_close(&outputs[0], &z.iter().map(|z| or_0(z * z.ln())).collect::<Vec<_>>());
    assert_close(&outputs[1], &z.iter().map(|z| or_0(z * z.ln() / z)).collect::<Vec<_>>());
    let entropy = |(n, r, z): (usize, &[f64], f64)| r[..n].iter().map(|v| v.exp() / z).map(|p| -p * p.ln()).sum::<f64>();
    let rows = [2, 0, 4].into_iter().zip(x.values.chunks(4)).zip(&z).map(|((n, r), z)| entropy((n, r, *z)));
    assert_close(&outputs[2], &rows.collect::<Vec<_>>())
}
