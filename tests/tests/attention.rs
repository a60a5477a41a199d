//! Attention from its formula to numbers: through the macro, the build script's plan file, the choice of a plan and the executor,
//! against a plain f64 evaluation of the formula.
use cleave::{Device, Element, Error, Tensor, bf16, f16};

/// Causal grouped-query attention over a cache of which `len[b]` rows are filled.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention<T>(
    q: Tensor<T, B, (K, G), M, D>,
    k: Tensor<T, B, K, N, D>,
    v: Tensor<T, B, K, N, E>,
    len: Tensor<i32, B>,
    scale: f32,
) -> (Tensor<T, B, (K, G), M, E>, Tensor<f32, B, (K, G), M>) {
    let visible = index::<N>() - len <= index::<M>() - extent::<M>();
    let s = mask(sum::<D>(q * k) * scale, visible);
    (sum::<N>(softmax::<N>(s) * v), logsumexp::<N>(s))
}

#[derive(Clone, Copy)]
struct Shape {
    b: usize,
    k: usize,
    g: usize,
    m: usize,
    n: usize,
    d: usize,
    e: usize,
}

struct Inputs<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    len: Tensor<i32>,
    scale: f32,
}

/// Numbers from -1 to 1 that look random and are the same everywhere.
fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Random inputs; the rows of the cache beyond `len` hold NaN.
fn inputs<T: Element>(s: Shape, len: &[i32]) -> Inputs<T> {
    let mut random = noise(7);
    let mut draw = |shape: &[usize], used: &dyn Fn(&[usize]) -> bool| {
        Tensor::from_fn(shape, |i| {
            let x = random();
            T::from_f32(if used(i) { x } else { f32::NAN })
        })
        .unwrap()
    };
    let filled = |i: &[usize]| (i[2] as i32) < len[i[0]];
    Inputs {
        q: draw(&[s.b, s.k * s.g, s.m, s.d], &|_| true),
        k: draw(&[s.b, s.k, s.n, s.d], &filled),
        v: draw(&[s.b, s.k, s.n, s.e], &filled),
        len: Tensor::from_slice(len, &[s.b]).unwrap(),
        scale: 1.0 / (s.d as f32).sqrt(),
    }
}

/// The formula in f64, and the log-sum-exp.
fn expected<T: Element>(s: Shape, x: &Inputs<T>) -> (Vec<f64>, Vec<f64>) {
    let values = |t: &Tensor<T>| t.to_vec().unwrap().into_iter().map(|v| v.to_f32() as f64).collect::<Vec<_>>();
    let (q, k, v, len) = (values(&x.q), values(&x.k), values(&x.v), x.len.to_vec().unwrap());
    let (mut out, mut lse) = (vec![], vec![]);
    for b in 0..s.b {
        for h in 0..s.k * s.g {
            for m in 0..s.m {
                let q = &q[((b * s.k * s.g + h) * s.m + m) * s.d..][..s.d];
                let row = |n: usize| (b * s.k + h / s.g) * s.n + n;
                let visible: Vec<usize> = (0..s.n).filter(|&n| n as i64 - len[b] as i64 <= m as i64 - s.m as i64).collect();
                let scores: Vec<f64> = visible.iter().map(|&n| q.iter().zip(&k[row(n) * s.d..]).map(|(a, b)| a * b).sum::<f64>() * x.scale as f64).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                out.extend(
                    (0..s.e).map(|e| visible.iter().zip(&weights).map(|(&n, w)| if total > 0.0 { w / total * v[row(n) * s.e + e] } else { 0.0 }).sum::<f64>()),
                );
                lse.push(if visible.is_empty() { f64::NEG_INFINITY } else { most + total.ln() })
            }
        }
    }
    (out, lse)
}

fn check<T: Element>(found: &Tensor<T>, expected: &[f64], bound: f64) {
    let found = found.to_vec().unwrap();
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let f = f.to_f32() as f64;
        assert!(f == *e || (f - e).abs() <= bound, "element {i} is {f} instead of {e}")
    }
}

fn runs<T: Element>(s: Shape, len: &[i32], splits: Option<u32>, bound: f64) {
    let x = inputs::<T>(s, len);
    let call = attention(&x.q, &x.k, &x.v, &x.len, x.scale);
    let call = if let Some(n) = splits { call.splits(n) } else { call };
    let (out, lse) = call.run().unwrap();
    let (want, want_lse) = expected(s, &x);
    check(&out, &want, bound);
    check(&lse, &want_lse, bound.max(1e-5))
}

const DECODE: Shape = Shape { b: 3, k: 2, g: 3, m: 1, n: 300, d: 64, e: 64 };
const PREFILL: Shape = Shape { b: 2, k: 2, g: 2, m: 65, n: 130, d: 40, e: 24 };

#[test]
fn decode_and_prefill_equal_the_formula_in_every_storage_type() {
    for (s, len) in [(DECODE, &[1, 63, 300][..]), (PREFILL, &[130, 70])] {
        runs::<f32>(s, len, None, 1e-5);
        runs::<f16>(s, len, None, 1e-3);
        runs::<bf16>(s, len, None, 8e-3);
    }
}

#[test]
fn splits_give_the_same_result_up_to_rounding() {
    for pieces in [1, 2, 7] {
        runs::<f32>(DECODE, &[1, 65, 300], Some(pieces), 1e-5);
        runs::<f32>(PREFILL, &[130, 66], Some(pieces), 1e-5)
    }
}

#[test]
fn a_wholly_masked_row_is_zero_with_a_log_sum_exp_of_minus_infinity() {
    let s = Shape { b: 2, k: 1, g: 2, m: 3, n: 9, d: 8, e: 5 };
    runs::<f32>(s, &[0, 2], None, 1e-6)
}

#[test]
fn extents_of_one_and_none_are_served() {
    runs::<f32>(Shape { b: 1, k: 1, g: 1, m: 1, n: 1, d: 1, e: 1 }, &[1], None, 1e-6);
    let s = Shape { b: 2, k: 1, g: 1, m: 2, n: 0, d: 4, e: 4 };
    runs::<f32>(s, &[0, 0], None, 1e-6);
    runs::<f32>(Shape { m: 0, ..DECODE }, &[1, 2, 3], None, 1e-6)
}

#[test]
fn strided_views_are_read_and_written_in_place() {
    let s = DECODE;
    let x = inputs::<f32>(s, &[10, 300, 299]);
    // the cache stored as [B, N, K, D], the output as part of a larger tensor
    let turned = |t: &Tensor<f32>| Tensor::from_slice(&t.permute(&[0, 2, 1, 3]).unwrap().to_vec().unwrap(), &[s.b, s.n, s.k, t.shape()[3]]).unwrap();
    let (k, v) = (turned(&x.k), turned(&x.v));
    let mut large = Tensor::<f32>::zeros(&Device::cpu(), &[s.b, s.k * s.g, s.m, s.e + 3]).unwrap();
    let mut lse = Tensor::zeros(&Device::cpu(), &[s.b, s.k * s.g, s.m]).unwrap();
    attention(&x.q, k.permute(&[0, 2, 1, 3]).unwrap(), v.permute(&[0, 2, 1, 3]).unwrap(), &x.len, x.scale)
        .run_into((large.view_mut().slice(3, 1..1 + s.e).unwrap(), &mut lse))
        .unwrap();
    let (want, want_lse) = expected(s, &x);
    let out = large.slice(3, 1..1 + s.e).unwrap();
    check(&out.to_device(&Device::cpu()).unwrap(), &want, 1e-5);
    check(&lse, &want_lse, 1e-5);
    assert!(large.slice(3, 0..1).unwrap().to_vec().unwrap().iter().all(|z| *z == 0.0), "written outside the target")
}

#[test]
fn the_plan_and_its_source_can_be_shown() {
    let x = inputs::<f32>(DECODE, &[300; 3]);
    let call = attention(&x.q, &x.k, &x.v, &x.len, x.scale);
    let plan = call.plan().unwrap();
    assert!(plan.to_string().starts_with("attention at "), "{plan}");
    assert_ne!(plan.algorithm, "source", "{plan}");
    assert!(call.source().unwrap().contains("loop N"), "{}", call.source().unwrap());
}

#[test]
fn a_cached_call_chooses_the_same_plan() {
    let x = inputs::<f32>(DECODE, &[300; 3]);
    let call = || attention(&x.q, &x.k, &x.v, &x.len, x.scale);
    let first = call().plan().unwrap().to_string();
    call().run().unwrap();
    assert_eq!(call().plan().unwrap().to_string(), first)
}

#[test]
fn contradicting_shapes_are_told_with_their_axis() {
    let x = inputs::<f32>(DECODE, &[300; 3]);
    let v = Tensor::<f32>::zeros(&Device::cpu(), &[3, 2, 299, 64]).unwrap();
    let error = attention(&x.q, &x.k, &v, &x.len, x.scale).run().err().unwrap();
    assert!(matches!(error, Error::Extents { .. }));
    assert_eq!(error.to_string(), "`attention`: axis `N` is 300 in `k` and 299 in `v`")
}
