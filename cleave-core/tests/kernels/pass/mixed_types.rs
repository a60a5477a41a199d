/// bf16 in, f32 out, and a product of which one operand is rounded as if it had been stored.
#[cleave::kernel(dtypes(T = f16, f32))]
pub fn mixed_types<T>(x: Tensor<bf16, M, K>, w: Tensor<T, K, N>, bias: Tensor<f32, N>) -> (Tensor<f32, M, N>, Tensor<bf16, M>) {
    let hidden = cast::<T>(silu(x));
    (sum::<K>(hidden * w) + bias, sum::<K>(cast::<bf16>(cast::<f32>(x) * 0.3)))
}
