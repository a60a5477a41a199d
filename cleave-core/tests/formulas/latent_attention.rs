//! Multi-head latent attention: keys and values are projections of a small cache. They are absorbed: the queries are projected to the
//! cache's space, and the sum over the cache is projected afterwards.
//= one pass over N
//= line t0 = sum_{D} q[H,M,D] * wk[H,D,C]
//= line t3 = sum_{N} c[N,C] * t2
#[kernel(bound(C <= 64, D <= 64, E <= 64))]
fn latent(q: Tensor<f32, H, M, D>, c: Tensor<f32, N, C>, wk: Tensor<f32, H, D, C>, wv: Tensor<f32, H, E, C>, scale: f32) -> Tensor<f32, H, M, E> {
    let k = sum::<C>(c * wk);
    let v = sum::<C>(c * wv);
    sum::<N>(softmax::<N>(sum::<D>(q * k) * scale) * v)
}
