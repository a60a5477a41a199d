/// Causal grouped-query attention over a cache of which `len[b]` rows are filled: `G` query heads share each of `K` key heads,
/// and the last query stands at the last filled row. Gives the log-sum-exp of the scores too.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention<T>(
    q: Tensor<T, B, (K, G), M, D>,
    k: Tensor<T, B, K, N, D>,
    v: Tensor<T, B, K, N, E>,
    len: Tensor<i32, B>,
    scale: f32,
) -> (Tensor<T, B, (K, G), M, E>, Tensor<f32, B, (K, G), M>) {
    let visible = index::<N>() - len <= index::<M>() - extent::<M>();
    let s = mask(sum::<D>(q * k) * scale, visible);
    (sum::<N>(softmax::<N>(s) * v), logsumexp::<N>(s))
}
