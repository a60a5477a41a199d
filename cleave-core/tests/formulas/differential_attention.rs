//! The difference of two attentions over one value.
//= one pass over N
#[kernel(bound(D <= 64, E <= 64))]
fn differential(
    q1: Tensor<f32, M, D>,
    q2: Tensor<f32, M, D>,
    k1: Tensor<f32, N, D>,
    k2: Tensor<f32, N, D>,
    v: Tensor<f32, N, E>,
    lambda: f32,
) -> Tensor<f32, M, E> {
    let a = softmax::<N>(sum::<D>(q1 * k1));
    let b = softmax::<N>(sum::<D>(q2 * k2));
    sum::<N>((a - lambda * b) * v)
}
