/// Attention within a window of the last `WINDOW` keys and the first `SINKS`, with a slope for each head (ALiBi) and soft-capped scores.
#[cleave::kernel(dtypes(T = f16, bf16), bound(D <= 128, E <= 128))]
pub fn alibi_window<T>(
    q: Tensor<T, B, H, M, D>,
    k: Tensor<T, B, H, N, D>,
    v: Tensor<T, B, H, N, E>,
    slope: Tensor<f32, H>,
    start: i32,
) -> Tensor<T, B, H, M, E> {
    const WINDOW: i32 = 4 * 32;
    const SINKS: i32 = 4;
    const CAP: f32 = 30.0;
    fn causal<A, B>(start: Value) -> bool {
        index::<B>() <= index::<A>() + start
    }
    let behind = index::<M>() + start - index::<N>();
    let near = behind < WINDOW || index::<N>() < SINKS;
    let s = softcap(sum::<D>(q * k) * rsqrt(extent::<D>()), CAP) - slope * behind;
    sum::<N>(softmax::<N>(mask(s, causal::<M, N>(start) && near)) * v)
}
