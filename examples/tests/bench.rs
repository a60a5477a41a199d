//! The benchmark's formulas are what they are called: each beside plain loops, in f32 on the CPU.
use cleave::{Device, Tensor};
use examples::bench::kernels::*;
use examples::data::Normal;

struct Operands(Normal);

impl Operands {
    fn tensor(&mut self, shape: &[usize]) -> (Tensor<f32>, Vec<f32>) {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.0.sample()).collect();
        (Tensor::from_slice_on(&Device::cpu(), &values, shape).expect("a tensor"), values)
    }
}

fn assert_close(got: &Tensor<f32>, expected: &[f64]) {
    let got = got.to_vec().expect("values");
    assert_eq!(got.len(), expected.len());
    for (i, (x, y)) in got.iter().zip(expected).enumerate() {
        assert!((*x as f64 - y).abs() < 2e-5 * (1.0 + y.abs()), "{x} for {y} at {i}")
    }
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| *x as f64 * *y as f64).sum()
}

/// The mean of `values`' rows, weighted by the exponentials of `scores`.
fn weighted(scores: &[(usize, f64)], values: &[f32], columns: usize) -> Vec<f64> {
    let greatest = scores.iter().map(|s| s.1).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|s| (s.1 - greatest).exp()).sum();
    (0..columns).map(|c| scores.iter().map(|(n, s)| (s - greatest).exp() * values[n * columns + c] as f64).sum::<f64>() / total).collect()
}

#[test]
fn a_low_rank_update_is_added() {
    let [m, c, j, r] = [3, 33, 17, 5];
    let mut operands = Operands(Normal::new(1));
    let ((x, xs), (w, ws)) = (operands.tensor(&[m, c]), operands.tensor(&[j, c]));
    let ((down, downs), (up, ups)) = (operands.tensor(&[r, c]), operands.tensor(&[j, r]));
    let mut y = Tensor::<f32>::zeros(&Device::cpu(), &[m, j]).unwrap();
    lora(&x, &w, &down, &up).run_into(&mut y).unwrap();
    let row = |t: &[f32], i: usize, n: usize| t[i * n..(i + 1) * n].to_vec();
    let element = |i: usize, k: usize| {
        let low: Vec<f32> = (0..r).map(|r| dot(&row(&xs, i, c), &row(&downs, r, c)) as f32).collect();
        dot(&row(&xs, i, c), &row(&ws, k, c)) + dot(&low, &row(&ups, k, r))
    };
    assert_close(&y, &(0..m * j).map(|at| element(at / j, at % j)).collect::<Vec<_>>())
}

#[test]
fn a_row_of_the_latent_cache_is_key_and_value() {
    let ([b, h, n, c, r], scale) = ([2, 3, 21, 18, 7], 0.2);
    let mut operands = Operands(Normal::new(2));
    let ((q, qs), (cache, caches)) = (operands.tensor(&[b, h, c]), operands.tensor(&[b, n, c]));
    let ((qp, qps), (kp, kps)) = (operands.tensor(&[b, h, r]), operands.tensor(&[b, n, r]));
    let mut y = Tensor::<f32>::zeros(&Device::cpu(), &[b, h, c]).unwrap();
    attention_latent(&q, &cache, &qp, &kp, scale).run_into(&mut y).unwrap();
    let mut expected = vec![];
    for i in 0..b * h {
        let (of, keys, positions) = (i / h, &caches[i / h * n * c..], &kps[i / h * n * r..]);
        assert!(of < b);
        let score = |k: usize| dot(&qs[i * c..(i + 1) * c], &keys[k * c..]) + dot(&qps[i * r..(i + 1) * r], &positions[k * r..]);
        let scores: Vec<(usize, f64)> = (0..n).map(|k| (k, score(k) * scale as f64)).collect();
        expected.extend(weighted(&scores, keys, c))
    }
    assert_close(&y, &expected)
}

#[test]
fn queries_and_keys_are_normalised() {
    let ([b, k, g, m, n, d, e], scale, epsilon) = ([2, 2, 2, 3, 19, 12, 9], 0.5, 1e-6);
    let mut operands = Operands(Normal::new(3));
    let ((q, qs), (keys, ks), (v, vs)) = (operands.tensor(&[b, k * g, m, d]), operands.tensor(&[b, k, n, d]), operands.tensor(&[b, k, n, e]));
    let ((q_gain, q_gains), (k_gain, k_gains)) = (operands.tensor(&[d]), operands.tensor(&[d]));
    let mut y = Tensor::<f32>::zeros(&Device::cpu(), &[b, k * g, m, e]).unwrap();
    attention_normalised(&q, &keys, &v, &q_gain, &k_gain, scale, epsilon).run_into(&mut y).unwrap();
    let normalised = |x: &[f32], gain: &[f32]| -> Vec<f32> {
        let root = (dot(x, x) / d as f64 + epsilon as f64).sqrt();
        x.iter().zip(gain).map(|(x, g)| (*x as f64 * *g as f64 / root) as f32).collect()
    };
    let mut expected = vec![];
    for row in 0..b * k * g * m {
        let head = row / m / g;
        let query = normalised(&qs[row * d..(row + 1) * d], &q_gains);
        let key = |j: usize| normalised(&ks[(head * n + j) * d..(head * n + j + 1) * d], &k_gains);
        let scores: Vec<(usize, f64)> = (0..n).map(|j| (j, dot(&query, &key(j)) * scale as f64)).collect();
        expected.extend(weighted(&scores, &vs[head * n * e..], e))
    }
    assert_close(&y, &expected)
}

#[test]
fn masks_hide_what_they_say() {
    const LENGTH: usize = 1200;
    let (d, scale) = (4, 0.5);
    let mut operands = Operands(Normal::new(4));
    let shape = [1, 1, LENGTH, d];
    let ((q, qs), (k, ks), (v, vs)) = (operands.tensor(&shape), operands.tensor(&shape), operands.tensor(&shape));
    let of = |sees: &dyn Fn(i32, i32) -> bool| -> Vec<f64> {
        let row = |i: usize| {
            let seen = (0..LENGTH).filter(|j| sees(i as i32, *j as i32));
            let scores: Vec<(usize, f64)> = seen.map(|j| (j, dot(&qs[i * d..(i + 1) * d], &ks[j * d..]) * scale as f64)).collect();
            weighted(&scores, &vs, d)
        };
        (0..LENGTH).flat_map(row).collect()
    };
    let mut y = Tensor::<f32>::zeros(&Device::cpu(), &shape).unwrap();
    attention_window(&q, &k, &v, scale).run_into(&mut y).unwrap();
    assert_close(&y, &of(&|i, j| i >= j && i - j < 1024));
    attention_blocked(&q, &k, &v, scale).run_into(&mut y).unwrap();
    assert_close(&y, &of(&|i, j| i / 512 == j / 512));
    attention_strided(&q, &k, &v, scale).run_into(&mut y).unwrap();
    assert_close(&y, &of(&|i, j| i >= j && (i - j < 256 || (i - j) % 64 == 0)));
    attention_sink(&q, &k, &v, scale).run_into(&mut y).unwrap();
    assert_close(&y, &of(&|i, j| i >= j && (j < 64 || i - j < 1024)));
    attention_global(&q, &k, &v, scale).run_into(&mut y).unwrap();
    assert_close(&y, &of(&|i, j| (i - j).abs() <= 256 || j < 64 || i < 64))
}
