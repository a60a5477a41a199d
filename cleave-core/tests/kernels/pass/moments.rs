/// The variance of each row, and a projected LayerNorm: one pass each, under a translation.
#[cleave::kernel(dtypes(T = bf16, f32))]
pub fn moments<T>(x: Tensor<T, M, C>) -> (Tensor<f32, M>, Tensor<f32, M>) {
    let mu = mean::<C>(x);
    (mean::<C>(x * x) - mu * mu, mu)
}

#[cleave::kernel(dtypes(T = bf16, f32))]
pub fn norm_project<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, shift: Tensor<T, C>, w: Tensor<T, J, C>) -> Tensor<f32, M, J> {
    sum::<C>(layer_norm::<C>(x, gain, shift, 1e-5) * w)
}
