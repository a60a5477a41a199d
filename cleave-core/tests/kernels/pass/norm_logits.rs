/// The last RMSNorm of a language model, and its logits: a score for each of `V` words, in f32.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_logits<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, w: Tensor<T, V, C>, epsilon: f32) -> Tensor<f32, M, V> {
    sum::<C>(rms_norm::<C>(x, gain, epsilon) * w)
}
