//! Queries and keys are divided by their root mean squares: the scales move behind the contraction.
//= passes D 1 N 1
#[kernel(bound(D <= 64, E <= 64))]
fn qk_norm(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>, gain: Tensor<f32, D>) -> Tensor<f32, M, E> {
    let s = sum::<D>(rms_norm::<D>(q, gain, 1e-6) * rms_norm::<D>(k, gain, 1e-6));
    sum::<N>(softmax::<N>(s) * v)
}
