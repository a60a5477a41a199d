//! The loss over a vocabulary whose logits are never stored, and the probability of the word that was meant.
//= one pass over V
//= stores nothing over V
#[kernel(bound(C <= 128))]
fn cross_entropy(x: Tensor<f32, M, C>, w: Tensor<f32, V, C>, word: Tensor<i32, M>) -> (Tensor<f32, M>, Tensor<f32, M>) {
    let logits = sum::<C>(x * w);
    let meant = sum::<V>(if index::<V>() == word { logits } else { 0.0 });
    let loss = logsumexp::<V>(logits) - meant;
    (loss, exp(-loss))
}
