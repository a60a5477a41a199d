//! The kernels of the language model, and of the other examples. Weights are stored as the model's file stores them, a row for each output channel.
#![allow(clippy::too_many_arguments)]

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

/// Attention of one new token a sequence, over a cache of which `len[b]` rows are filled and over the token itself: its key and value, which are not in the
/// cache yet, are one more term of both sums, as an attention sink is of one. Scores are taken less the token's own, whose weight is then 1.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_step<T>(
    q: Tensor<T, B, (K, G), D>,
    k: Tensor<T, B, K, N, D>,
    v: Tensor<T, B, K, N, E>,
    own_k: Tensor<T, B, K, D>,
    own_v: Tensor<T, B, K, E>,
    len: Tensor<i32, B>,
    scale: f32,
) -> Tensor<T, B, (K, G), E> {
    let own = sum::<D>(q * own_k) * scale;
    let cached = exp(mask(sum::<D>(q * k) * scale - own, index::<N>() < len));
    (sum::<N>(cached * v) + own_v) / (sum::<N>(cached) + 1.0)
}

/// New rows of every layer's keys and values, put where they are to stay.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn append<T>(keys: Tensor<T, L, M, J>, values: Tensor<T, L, M, J>) -> (Tensor<T, L, M, J>, Tensor<T, L, M, J>) {
    (keys, values)
}

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

/// A projection back to the residual stream: of the attention's heads, or of an MLP's hidden channels.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn project_add<T>(x: Tensor<T, M, J>, w: Tensor<T, C, J>, residual: Tensor<T, M, C>) -> Tensor<T, M, C> {
    residual + sum::<J>(x * w)
}

/// RMSNorm and the gated half of an MLP.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_swiglu<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, gate: Tensor<T, J, C>, up: Tensor<T, J, C>, epsilon: f32) -> Tensor<T, M, J> {
    let z = rms_norm::<C>(x, gain, epsilon);
    silu(sum::<C>(z * gate)) * sum::<C>(z * up)
}

/// The last RMSNorm of a language model, and its logits: a score for each of `V` words, in f32.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_logits<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, w: Tensor<T, V, C>, epsilon: f32) -> Tensor<f32, M, V> {
    sum::<C>(rms_norm::<C>(x, gain, epsilon) * w)
}

/// Attention in which every query sees every key.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_full<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let s = sum::<D>(q * k) * scale;
    sum::<N>(softmax::<N>(s) * v)
}

/// `x` times the transpose of `w`, which is stored as weights are: a row for each output.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul<T>(x: Tensor<T, M, K>, w: Tensor<T, J, K>) -> Tensor<T, M, J> {
    sum::<K>(x * w)
}

/// A chain of two matrix products: which one comes first depends on the extents.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul_matmul<T>(x: Tensor<T, M, K>, a: Tensor<T, R, K>, b: Tensor<T, J, R>) -> Tensor<T, M, J> {
    sum::<R>(sum::<K>(x * a) * b)
}

/// The sums of a matrix product's rows, which need no matrix product.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul_rowsum<T>(x: Tensor<T, M, K>, w: Tensor<T, J, K>) -> Tensor<f32, M> {
    sum::<J>(sum::<K>(x * w))
}

/// Each row's exponentials over their sum.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn softmax_rows<T>(x: Tensor<T, M, N>) -> Tensor<T, M, N> {
    softmax::<N>(x)
}

/// The logarithm of each row's sum of exponentials.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn logsumexp_rows<T>(x: Tensor<T, M, N>) -> Tensor<f32, M> {
    logsumexp::<N>(x)
}

/// Each row divided by its root mean square.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn rms_norm_rows<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, epsilon: f32) -> Tensor<T, M, C> {
    rms_norm::<C>(x, gain, epsilon)
}
