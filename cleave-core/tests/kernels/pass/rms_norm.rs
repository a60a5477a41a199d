/// Each row divided by its root mean square.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn rms_norm_rows<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, epsilon: f32) -> Tensor<T, M, C> {
    rms_norm::<C>(x, gain, epsilon)
}
