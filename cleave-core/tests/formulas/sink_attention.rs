//! A learned logit for each head that takes weight and gives nothing.
//= one pass over N
//= one launch
#[kernel(bound(D <= 64, E <= 64))]
fn sink(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, s: Tensor<f32, H>) -> Tensor<f32, H, M, E> {
    let x = sum::<D>(q * k);
    let m = max(max::<N>(x), s);
    let e = exp(x - m);
    sum::<N>(e * v) / (sum::<N>(e) + exp(s - m))
}
