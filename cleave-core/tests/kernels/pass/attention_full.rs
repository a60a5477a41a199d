/// Attention in which every query sees every key.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_full<T>(
    q: Tensor<T, B, H, M, D>,
    k: Tensor<T, B, H, N, D>,
    v: Tensor<T, B, H, N, E>,
    scale: f32,
) -> Tensor<T, B, H, M, E> {
    let s = sum::<D>(q * k) * scale;
    sum::<N>(softmax::<N>(s) * v)
}
