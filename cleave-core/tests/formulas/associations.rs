//! Chained products in every order that may be cheaper.
//= line t0 = sum_{R} a[C,R] * b[R,J]
#[kernel]
fn low_rank(x: Tensor<f32, M, C>, w: Tensor<f32, C, J>, a: Tensor<f32, C, R>, b: Tensor<f32, R, J>) -> Tensor<f32, M, J> {
    sum::<C>(x * w) + sum::<R>(sum::<C>(x * a) * b)
}
//= line t0 = sum_{J} w[J,C]
#[kernel]
fn row_sum(x: Tensor<f32, M, C>, w: Tensor<f32, J, C>) -> Tensor<f32, M> {
    sum::<J>(sum::<C>(x * w))
}
//= line t4 = sum_{N} t1 * v[N,E]
//= passes N 1 D 1
#[kernel]
fn linear_attention(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>) -> Tensor<f32, M, E> {
    let (fq, fk) = (exp(q), exp(k));
    let s = sum::<D>(fq * fk);
    sum::<N>(s * v) / sum::<N>(s)
}
//= line t0 = sum_{C} a[M,B,C] * b[J,B,C]
#[kernel]
fn block_scaled(a: Tensor<f32, M, (B, C)>, scale_a: Tensor<f32, M, B>, b: Tensor<f32, J, (B, C)>, scale_b: Tensor<f32, J, B>, block: Extent<C>) -> Tensor<f32, M, J> {
    assert!(block % 2 == 0);
    sum::<(B, C)>(a * scale_a * b * scale_b)
}
