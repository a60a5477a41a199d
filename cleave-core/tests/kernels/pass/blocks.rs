/// Attention to keys of the query's own block, to every fourth key, and to keys whose document is the query's.
#[cleave::kernel(dtypes(T = f32), bound(D <= 64, E <= 64))]
pub fn blocks<T>(
    q: Tensor<T, M, D>,
    k: Tensor<T, N, D>,
    v: Tensor<T, N, E>,
    document: Tensor<i32, M>,
    sinks: i32,
) -> (Tensor<T, M, E>, Tensor<f32, M>) {
    const BLOCK: i32 = 4;
    let own = index::<M>() / BLOCK == index::<N>() / BLOCK;
    let strided = index::<N>() % 4 == 0 && index::<N>() <= index::<M>();
    let s = mask(sum::<D>(q * k), own || strided || index::<N>() < sinks);
    let halves = if index::<N>() / 2 < document { s } else { s + s };
    (sum::<N>(softmax::<N>(halves) * v), logsumexp::<N>(mask(s, (index::<N>() + 3) / 2 % 3 != document)))
}
