/// Attention over the positions at least three before a row's own, and over one more term with a weight of its own; the first rows have no other.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 128, E <= 128))]
pub fn own_term<T>(
    q: Tensor<T, K, M, D>,
    k: Tensor<T, K, N, D>,
    v: Tensor<T, K, N, E>,
    own: Tensor<f32, K, M>,
    own_v: Tensor<T, K, M, E>,
) -> (Tensor<T, K, M, E>, Tensor<f32, K, M>) {
    let e = exp(mask(sum::<D>(q * k), index::<N>() + 3 <= index::<M>()));
    let weight = exp(1000.0 * own);
    let all = sum::<N>(e) + weight;
    ((sum::<N>(e * v) + weight * own_v) / all, log(all))
}
