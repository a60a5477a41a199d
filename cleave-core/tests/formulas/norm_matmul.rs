//! A norm before a projection, with gain and bias: its scale moves behind the contraction, so both run along one loop.
//= one pass over C
#[kernel]
fn rms(x: Tensor<f32, M, C>, gain: Tensor<f32, C>, w: Tensor<f32, J, C>, bias: Tensor<f32, J>) -> Tensor<f32, M, J> {
    sum::<C>(rms_norm::<C>(x, gain, 1e-5) * w) + bias
}
//= one pass over C
#[kernel]
fn layer(x: Tensor<f32, M, C>, gain: Tensor<f32, C>, shift: Tensor<f32, C>, w: Tensor<f32, J, C>, bias: Tensor<f32, J>) -> Tensor<f32, M, J> {
    sum::<C>(layer_norm::<C>(x, gain, shift, 1e-5) * w) + bias
}
//= passes C 1
#[kernel(bound(J <= 128))]
fn residual(x: Tensor<f32, M, C>, h: Tensor<f32, M, J>, up: Tensor<f32, C, J>, gain: Tensor<f32, C>, w: Tensor<f32, K, C>) -> (Tensor<f32, M, C>, Tensor<f32, M, K>) {
    let y = x + sum::<J>(h * up);
    (y, sum::<C>(rms_norm::<C>(y, gain, 1e-5) * w))
}
