//! Several query heads share a key head; in the extreme all of them share one. The log-sum-exp goes out too.
//= one pass over N
//= program packed (G M)
#[kernel(bound(D <= 128, E <= 128))]
fn grouped(
    q: Tensor<f32, (K, G), M, D>,
    k: Tensor<f32, K, N, D>,
    v: Tensor<f32, K, N, E>,
) -> (Tensor<f32, (K, G), M, E>, Tensor<f32, (K, G), M>) {
    let s = mask(sum::<D>(q * k), index::<N>() <= index::<M>());
    (sum::<N>(softmax::<N>(s) * v), logsumexp::<N>(s))
}
//= one pass over N
//= program packed (H M)
#[kernel(bound(D <= 128, E <= 128))]
fn multi_query(q: Tensor<f32, H, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>) -> Tensor<f32, H, M, E> {
    sum::<N>(softmax::<N>(sum::<D>(q * k)) * v)
}
