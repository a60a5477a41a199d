//! Gated projections share one loop; a norm before them joins it.
//= one pass over C
//= one launch
#[kernel]
fn swiglu(x: Tensor<f32, M, C>, gain: Tensor<f32, C>, gate: Tensor<f32, J, C>, up: Tensor<f32, J, C>) -> Tensor<f32, M, J> {
    let z = rms_norm::<C>(x, gain, 1e-5);
    silu(sum::<C>(z * gate)) * sum::<C>(z * up)
}
//= one pass over C
//= one launch
#[kernel]
fn geglu(x: Tensor<f32, M, C>, gate: Tensor<f32, J, C>, up: Tensor<f32, J, C>, a: Tensor<f32, J>, b: Tensor<f32, J>) -> Tensor<f32, M, J> {
    gelu(sum::<C>(x * gate) + a) * (sum::<C>(x * up) + b)
}
//= one pass over C
//= one launch
#[kernel]
fn qkv(
    x: Tensor<f32, M, C>,
    gain: Tensor<f32, C>,
    wq: Tensor<f32, Q, C>,
    wk: Tensor<f32, K, C>,
    wv: Tensor<f32, V, C>,
) -> (Tensor<f32, M, Q>, Tensor<f32, M, K>, Tensor<f32, M, V>) {
    let z = rms_norm::<C>(x, gain, 1e-5);
    (sum::<C>(z * wq), sum::<C>(z * wk), sum::<C>(z * wv))
}
