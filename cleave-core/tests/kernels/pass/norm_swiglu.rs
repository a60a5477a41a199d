/// RMSNorm and the gated half of an MLP.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_swiglu<T>(
    x: Tensor<T, M, C>,
    gain: Tensor<T, C>,
    gate: Tensor<T, J, C>,
    up: Tensor<T, J, C>,
    epsilon: f32,
) -> Tensor<T, M, J> {
    let z = rms_norm::<C>(x, gain, epsilon);
    silu(sum::<C>(z * gate)) * sum::<C>(z * up)
}
