/// The loss of a language model over `V` words, without its logits in memory: `target[m]` is the word that came.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn cross_entropy<T>(x: Tensor<T, M, C>, w: Tensor<T, V, C>, target: Tensor<i32, M>) -> Tensor<f32, M> {
    let logits = sum::<C>(x * w);
    let hit = if index::<V>() == target { logits } else { 0.0 };
    logsumexp::<V>(logits) - sum::<V>(hit)
}
