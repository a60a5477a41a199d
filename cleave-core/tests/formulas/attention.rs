//! Attention whose source subtracts the maximum, and attention whose source does not: the same algorithms.
//= one pass over N
//= line output[H,M,E] = t3 / t2
//= one launch
#[kernel(bound(D <= 128, E <= 128))]
fn attention(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, scale: f32) -> Tensor<f32, H, M, E> {
    sum::<N>(softmax::<N>(sum::<D>(q * k) * scale) * v)
}
//= one pass over N
//= one launch
//= same algorithms as attention
#[kernel(bound(D <= 128, E <= 128))]
fn attention_unsafe(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, scale: f32) -> Tensor<f32, H, M, E> {
    let e = exp(sum::<D>(q * k) * scale);
    sum::<N>(e / sum::<N>(e) * v)
}
