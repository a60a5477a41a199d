/// RMSNorm and the three projections of an attention layer. Queries (`H` heads) and keys (`K` heads) are turned by their
/// positions: neighbouring channels are the `F` pairs of RoPE, row `m` of the tables belongs to token `m`.
#[cleave::kernel(dtypes(T = f16, bf16, f32), factor(P = 2))]
pub fn norm_qkv<T>(
    x: Tensor<T, M, C>,
    gain: Tensor<T, C>,
    wq: Tensor<T, (H, F, P), C>,
    wk: Tensor<T, (K, F, P), C>,
    wv: Tensor<T, J, C>,
    cos: Tensor<f32, M, F>,
    sin: Tensor<f32, M, F>,
    epsilon: f32,
) -> (Tensor<T, M, (H, F, P)>, Tensor<T, M, (K, F, P)>, Tensor<T, M, J>) {
    fn rotate<P>(x: Value, cos: Value, sin: Value) -> Value {
        let quarter_turn = stack::<P>((-part::<P>(x, 1), part::<P>(x, 0)));
        x * cos + quarter_turn * sin
    }
    let z = rms_norm::<C>(x, gain, epsilon);
    let q = rotate::<P>(sum::<C>(z * wq), cos, sin);
    let k = rotate::<P>(sum::<C>(z * wk), cos, sin);
    (q, k, sum::<C>(z * wv))
}
