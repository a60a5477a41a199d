/// A projection back to the residual stream: of the attention's heads, or of an MLP's hidden channels.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn project_add<T>(x: Tensor<T, M, J>, w: Tensor<T, C, J>, residual: Tensor<T, M, C>) -> Tensor<T, M, C> {
    residual + sum::<J>(x * w)
}
