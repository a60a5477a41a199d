//! What the language says, run through the macro, the build script and the executor: each kernel against loops written by hand.
use cleave::{Device, Element, Error, Tensor, bf16, f16};

/// Numbers from -1 to 1 without a pattern.
fn tensor<T: Element>(seed: usize, shape: &[usize]) -> Tensor<T> {
    Tensor::from_fn(shape, |i| T::from_f32((i.iter().fold(seed * 101 + 11, |s, i| s * 37 + i) as f32 * 0.71).sin())).unwrap()
}

fn values<T: Element>(t: &Tensor<T>) -> Vec<f64> {
    t.to_vec().unwrap().into_iter().map(|x| x.to_f32() as f64).collect()
}

fn assert_close<T: Element>(got: &Tensor<T>, want: impl IntoIterator<Item = f64>, bound: f64) {
    let (got, want): (Vec<f64>, Vec<f64>) = (values(got), want.into_iter().collect());
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        assert!(g == w || (g - w).abs() <= bound * w.abs().max(1.0), "element {i} is {g} instead of {w}")
    }
}

/// Which keys of a sequence a query sees: those of its own block, every third before it, and the first ones.
#[cleave::kernel]
fn blocks(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, first: i32) -> (Tensor<f32, M>, Tensor<f32, M>) {
    const BLOCK: i32 = 4;
    let own = index::<M>() / BLOCK == index::<N>() / BLOCK;
    let strided = (index::<N>() - index::<M>()) % 3 == 0 && index::<N>() <= index::<M>();
    let s = mask(sum::<D>(q * k), own || strided || index::<N>() < first);
    (logsumexp::<N>(s), mean::<N>(s))
}

#[test]
fn quotients_and_remainders_round_down_in_conditions() {
    let (m, n, d) = (19, 23, 3);
    let (q, k) = (tensor::<f32>(1, &[m, d]), tensor::<f32>(2, &[n, d]));
    let (lse, mean) = blocks(&q, &k, 2).run().unwrap();
    let (q, k) = (values(&q), values(&k));
    let row = |i: usize| -> Vec<f64> {
        let seen = |j: &usize| i / 4 == j / 4 || (*j as i64 - i as i64).rem_euclid(3) == 0 && *j <= i || *j < 2;
        (0..n).filter(seen).map(|j| (0..d).map(|c| q[i * d + c] * k[j * d + c]).sum()).collect()
    };
    assert_close(&lse, (0..m).map(|i| row(i).iter().map(|s| s.exp()).sum::<f64>().ln()), 1e-5);
    assert_close(&mean, (0..m).map(|i| row(i).iter().sum::<f64>() / row(i).len() as f64), 1e-5);
}

/// RMSNorm of each head: the length of a head is told by an argument.
#[cleave::kernel]
fn head_norm(x: Tensor<f32, M, (H, D)>, head: Extent<D>, most: i32) -> Tensor<f32, M, (H, D)> {
    assert!(head % 2 == 0, "heads are cut in pairs");
    assert!(extent::<H>() <= most);
    x * rsqrt(sum::<D>(x * x) / head + 1e-5)
}

#[test]
fn an_argument_tells_the_factors_of_a_stored_axis() {
    let x = tensor::<f32>(3, &[3, 12]);
    let y = head_norm(&x, 4, 3).run().unwrap();
    let v = values(&x);
    assert_close(&y, (0..36).map(|i| v[i] / ((v[i / 4 * 4..][..4].iter().map(|x| x * x).sum::<f64>() / 4.0 + 1e-5).sqrt())), 1e-5);
    let refusal = |head, most| head_norm(&x, head, most).run().err().unwrap().to_string();
    assert_eq!(refusal(3, 9), "`head_norm` asserts `head % 2 == 0` (heads are cut in pairs), but extent::<D>() is 3");
    assert_eq!(refusal(4, 2), "`head_norm` asserts `extent::<H>() <= most`, but extent::<H>() is 3, most is 2");
    assert_eq!(refusal(8, 9), "`head_norm`: dimension 1 of `x` is 12, no multiple of 8 (H * D)");
    assert_eq!(refusal(usize::MAX, 9), "`head_norm`: `head` is larger than any extent");
    assert!(matches!(head_norm(&x, 3, 9).run(), Err(Error::Assertion { .. })));
}

#[cleave::kernel]
fn add_and_norm(x: &mut Tensor<f32, M, C>, h: Tensor<f32, M, J>, w: Tensor<f32, C, J>) -> Tensor<f32, M, C> {
    *x += sum::<J>(h * w);
    rms_norm::<C>(*x, 1.0, 1e-5)
}

#[cleave::kernel(factor(P = 2))]
fn swap(x: &mut Tensor<f32, M, (F, P)>) {
    *x = reverse::<P>(*x);
    *x = *x * 2.0;
}

#[cleave::kernel]
fn norm_in_place(x: &mut Tensor<f32, M, C>) -> Tensor<f32, M> {
    let old = *x;
    *x = rms_norm::<C>(*x, 1.0, 1e-5);
    sum::<C>(old * *x)
}

/// Each element is read for all others of its column, whose blocks may write before.
#[cleave::kernel]
fn less_column_mean(x: &mut Tensor<f32, M, C>) -> Tensor<f32, C, M> {
    let old = *x;
    *x = *x - mean::<M>(*x);
    old
}

#[test]
fn an_argument_is_written_over_after_all_of_it_is_read() {
    let (m, c, j) = (70, 130, 5);
    let (x, h, w) = (tensor::<f32>(1, &[m, c]), tensor::<f32>(2, &[m, j]), tensor::<f32>(3, &[c, j]));
    let (old, h64, w64) = (values(&x), values(&h), values(&w));
    let copy = || Tensor::from_slice(&x.to_vec().unwrap(), &[m, c]).unwrap();
    let row_norm = |v: &[f64], i: usize| v[i] / (v[i / c * c..][..c].iter().map(|x| x * x).sum::<f64>() / c as f64 + 1e-5).sqrt();

    let mut y = copy();
    let normed = add_and_norm(&mut y, &h, &w).run().unwrap();
    let new: Vec<f64> = (0..m * c).map(|i| old[i] + (0..j).map(|k| h64[i / c * j + k] * w64[i % c * j + k]).sum::<f64>()).collect();
    assert_close(&y, new.clone(), 1e-5);
    assert_close(&normed, (0..m * c).map(|i| row_norm(&new, i)), 1e-5);

    let mut y = copy();
    swap(&mut y).run().unwrap();
    assert_close(&y, (0..m * c).map(|i| 2.0 * old[i ^ 1]), 0.0);
    swap(y.view_mut().slice(0, 1..3).unwrap()).run().unwrap();
    assert_close(&y, (0..m * c).map(|i| if (c..3 * c).contains(&i) { 4.0 * old[i] } else { 2.0 * old[i ^ 1] }), 0.0);

    let mut y = copy();
    let dots = norm_in_place(&mut y).run().unwrap();
    assert_close(&y, (0..m * c).map(|i| row_norm(&old, i)), 1e-5);
    assert_close(&dots, (0..m).map(|r| (0..c).map(|k| old[r * c + k] * row_norm(&old, r * c + k)).sum::<f64>()), 1e-4);

    let mut y = copy();
    let mut turned = Tensor::zeros(&Device::cpu(), &[c, m]).unwrap();
    less_column_mean(&mut y).run_into(&mut turned).unwrap();
    let mean: Vec<f64> = (0..c).map(|k| (0..m).map(|r| old[r * c + k]).sum::<f64>() / m as f64).collect();
    assert_close(&y, (0..m * c).map(|i| old[i] - mean[i % c]), 1e-5);
    assert_close(&turned, (0..m * c).map(|i| old[i % m * c + i / m]), 0.0)
}

#[test]
fn what_is_written_over_is_nothing_else() {
    let x = tensor::<f32>(1, &[4, 6]);
    let mut data = x.to_vec().unwrap();
    let pointer = std::ptr::NonNull::new(data.as_mut_ptr()).unwrap();
    // SAFETY: the call is refused before it touches them
    let (over, other) = unsafe {
        (cleave::ViewMut::from_raw_parts(pointer, 24, &[4, 6], &[6, 1]).unwrap(), cleave::View::from_raw_parts(pointer, 24, &[4, 5], &[5, 1]).unwrap())
    };
    let error = add_and_norm(over, other, &tensor::<f32>(3, &[6, 5])).run().err().unwrap();
    assert_eq!(error.to_string(), "`add_and_norm`: output `x` overlaps `h`; give it memory of its own");
    // SAFETY: as above
    let rows = unsafe { cleave::ViewMut::from_raw_parts(pointer, 24, &[4, 6], &[1, 1]).unwrap() };
    let error = swap(rows).run().err().unwrap();
    assert_eq!(error.to_string(), "`swap`: elements of output `x` share addresses (strides [1, 1]); give it memory of its own")
}

/// bf16 in, f32 out, with a rounding in between.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
fn rounded<T>(x: Tensor<bf16, M>, y: Tensor<T, M>) -> (Tensor<f32, M>, Tensor<f16, M>, Tensor<f32, M>) {
    (cast::<T>(x * 0.3), cast::<bf16>(y * 0.7), cast::<f32>(index::<M>()) / 2 + cast::<f32>(extent::<M>()) / extent::<M>())
}

#[test]
fn a_cast_rounds_to_its_type_and_values_are_f32_in_between() {
    fn check<T: Element>() {
        let (x, y) = (tensor::<bf16>(1, &[50]), tensor::<T>(2, &[50]));
        let (a, b, c) = rounded(&x, &y).run().unwrap();
        let (x, y) = (x.to_vec().unwrap(), y.to_vec().unwrap());
        assert_close(&a, x.iter().map(|x| T::from_f32(x.to_f32() * 0.3).to_f32() as f64), 0.0);
        assert_close(&b, y.iter().map(|y| f16::from_f32(bf16::from_f32(y.to_f32() * 0.7).to_f32()).to_f32() as f64), 0.0);
        assert_close(&c, (0..50).map(|i| i as f64 / 2.0 + 1.0), 0.0);
    }
    check::<f16>();
    check::<bf16>();
    check::<f32>();
}

mod helpers {
    /// A rotation of each pair of `P`.
    #[cleave::function]
    pub fn turned<P>(x: Value, cos: Value, sin: Value) -> Value {
        x * cos + quarter_turn::<P>(x) * sin
    }

    #[cleave::function]
    fn quarter_turn<P>(x: Value) -> Value {
        stack::<P>((-part::<P>(x, 1), part::<P>(x, 0)))
    }

    #[cleave::function]
    pub fn either(c: bool, pair: (Value, Value)) -> (Value, Value) {
        let (a, b) = pair;
        (if c { a } else { b }, if c { b } else { a })
    }
}
use helpers::{either, turned};

#[cleave::kernel(factor(Q = 2))]
fn shared(x: Tensor<f32, M, (F, Q)>, angle: Tensor<f32, M, F>) -> (Tensor<f32, M, (F, Q)>, Tensor<f32, M, F>) {
    // the Taylor series is enough for small angles
    let (cos, sin) = (1.0 - angle * angle / 2.0, angle);
    let (a, b) = either(index::<M>() % 2 == 0, (part::<Q>(x, 0), part::<Q>(x, 1)));
    (turned::<Q>(x, cos, sin), a - 2.0 * b)
}

#[test]
fn helpers_of_the_crate_are_written_out_in_kernels() {
    let (x, angle) = (tensor::<f32>(1, &[3, 8]), tensor::<f32>(2, &[3, 4]));
    let (y, z) = shared(&x, &angle).run().unwrap();
    let (x, angle) = (values(&x), values(&angle));
    let turn = |i: usize| {
        let (a, sign) = (angle[i / 2], if i.is_multiple_of(2) { -1.0 } else { 1.0 });
        x[i] * (1.0 - a * a / 2.0) + sign * x[i ^ 1] * a
    };
    assert_close(&y, (0..24).map(turn), 1e-6);
    assert_close(&z, (0..12).map(|i| if i / 4 % 2 == 0 { x[2 * i] - 2.0 * x[2 * i + 1] } else { x[2 * i + 1] - 2.0 * x[2 * i] }), 1e-6)
}

#[cleave::kernel]
fn sixteen(
    a: Tensor<f32, M>,
    b: Tensor<f32, M>,
    c: Tensor<f32, M>,
    d: Tensor<f32, M>,
    e: Tensor<f32, M>,
    f: Tensor<f32, M>,
    g: Tensor<f32, M>,
    h: Tensor<f32, M>,
    i: Tensor<f32, M>,
    j: Tensor<f32, M>,
    k: Tensor<f32, M>,
    l: Tensor<f32, M>,
    m: Tensor<f32, M>,
) -> (Tensor<f32, M>, Tensor<f32>, Tensor<f32>) {
    (a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + j * 10 + k * 11 + l * 12 + m * 13, sum::<M>(a * m), max::<M>(b))
}

#[test]
fn sixteen_tensors_and_results_without_a_dimension() {
    let t: Vec<Tensor<f32>> = (0..13).map(|s| tensor(s, &[33])).collect();
    let call = sixteen(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8], &t[9], &t[10], &t[11], &t[12]);
    let (weighted, dot, most) = call.run().unwrap();
    let v: Vec<Vec<f64>> = t.iter().map(values).collect();
    assert_close(&weighted, (0..33).map(|i| (0..13).map(|s| (s + 1) as f64 * v[s][i]).sum()), 1e-5);
    assert!(dot.shape().is_empty());
    assert_close(&dot, [(0..33).map(|i| v[0][i] * v[12][i]).sum()], 1e-5);
    assert_close(&most, [v[1].iter().copied().fold(f64::NEG_INFINITY, f64::max)], 0.0)
}
