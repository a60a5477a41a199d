//! Scores with a bias or a bend: a linear bias in the distance, of which the query's part cancels; a soft cap.
//= one pass over N
//= without index(M)
#[kernel(bound(D <= 64, E <= 64))]
fn alibi(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, slope: Tensor<f32, H>) -> Tensor<f32, H, M, E> {
    let s = sum::<D>(q * k) + slope * (index::<N>() - index::<M>());
    sum::<N>(softmax::<N>(mask(s, index::<N>() <= index::<M>())) * v)
}
//= one pass over N
#[kernel(bound(D <= 64, E <= 64))]
fn capped(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, cap: f32) -> Tensor<f32, H, M, E> {
    sum::<N>(softmax::<N>(softcap(sum::<D>(q * k), cap)) * v)
}
