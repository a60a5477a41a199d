//! Formulas of the benchmark that the language model has no use for. Operands are stored as PyTorch's functions take them, so that a comparison is one of equals:
//! `x @ w` has its weights `[in, out]`, `linear(x, w)` has them `[out, in]`.

/// `x @ w`.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn product<T>(x: Tensor<T, M, C>, w: Tensor<T, C, J>) -> Tensor<T, M, J> {
    sum::<C>(x * w)
}

/// `(q @ k.mT) @ v`: attention without its softmax.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn product_product<T>(q: Tensor<T, H, M, D>, k: Tensor<T, H, N, D>, v: Tensor<T, H, N, E>) -> Tensor<T, H, M, E> {
    sum::<N>(sum::<D>(q * k) * v)
}

/// `(x @ w).sum(-1)`.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn product_rowsum<T>(x: Tensor<T, M, C>, w: Tensor<T, C, J>) -> Tensor<T, M> {
    sum::<J>(sum::<C>(x * w))
}

/// `silu(x @ gate) * (x @ up)`.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn swiglu<T>(x: Tensor<T, M, C>, gate: Tensor<T, C, J>, up: Tensor<T, C, J>) -> Tensor<T, M, J> {
    silu(sum::<C>(x * gate)) * sum::<C>(x * up)
}

/// `silu(linear(x, gate)) * linear(x, up)`.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn gated_mlp<T>(x: Tensor<T, M, C>, gate: Tensor<T, J, C>, up: Tensor<T, J, C>) -> Tensor<T, M, J> {
    silu(sum::<C>(x * gate)) * sum::<C>(x * up)
}

/// `rms_norm(x) @ w`, without a gain.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_product<T>(x: Tensor<T, M, C>, w: Tensor<T, C, J>, epsilon: f32) -> Tensor<T, M, J> {
    sum::<C>(rms_norm::<C>(x, 1.0, epsilon) * w)
}

/// `linear(rms_norm(x, gain), w)`.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn norm_linear<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, w: Tensor<T, J, C>, epsilon: f32) -> Tensor<T, M, J> {
    sum::<C>(rms_norm::<C>(x, gain, epsilon) * w)
}

/// Attention in which `G` query heads share each key head and every query sees every key.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_grouped<T>(q: Tensor<T, B, (K, G), M, D>, k: Tensor<T, B, K, N, D>, v: Tensor<T, B, K, N, E>, scale: f32) -> Tensor<T, B, (K, G), M, E> {
    sum::<N>(softmax::<N>(sum::<D>(q * k) * scale) * v)
}

/// Each row less its mean, divided by its standard deviation.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn layer_norm_rows<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, bias: Tensor<T, C>, epsilon: f32) -> Tensor<T, M, C> {
    layer_norm::<C>(x, gain, bias, epsilon)
}

/// `linear(x, w) + linear(linear(x, down), up)`: weights and an update of low rank.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(R <= 64))]
pub fn lora<T>(x: Tensor<T, M, C>, w: Tensor<T, J, C>, down: Tensor<T, R, C>, up: Tensor<T, J, R>) -> Tensor<T, M, J> {
    sum::<C>(x * w) + sum::<R>(sum::<C>(x * down) * up)
}

/// Attention over a latent cache (multi-head latent attention, its projections absorbed): all heads share a row of `cache`, which is key and value, and a key for
/// positions.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(C <= 512, R <= 64))]
pub fn attention_latent<T>(
    q: Tensor<T, B, H, C>,
    cache: Tensor<T, B, N, C>,
    q_position: Tensor<T, B, H, R>,
    k_position: Tensor<T, B, N, R>,
    scale: f32,
) -> Tensor<T, B, H, C> {
    let s = (sum::<C>(q * cache) + sum::<R>(q_position * k_position)) * scale;
    sum::<N>(softmax::<N>(s) * cache)
}

/// Grouped attention of queries and keys that are normalised over their channels.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_normalised<T>(
    q: Tensor<T, B, (K, G), M, D>,
    k: Tensor<T, B, K, N, D>,
    v: Tensor<T, B, K, N, E>,
    q_gain: Tensor<T, D>,
    k_gain: Tensor<T, D>,
    scale: f32,
    epsilon: f32,
) -> Tensor<T, B, (K, G), M, E> {
    let s = sum::<D>(rms_norm::<D>(q, q_gain, epsilon) * rms_norm::<D>(k, k_gain, epsilon)) * scale;
    sum::<N>(softmax::<N>(s) * v)
}

/// A query sees itself and the keys before it, 1024 in all.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_window<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() - index::<N>();
    let s = mask(sum::<D>(q * k) * scale, behind >= 0 && behind < 1024);
    sum::<N>(softmax::<N>(s) * v)
}

/// Blocks of 512 positions see themselves.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_blocked<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let s = mask(sum::<D>(q * k) * scale, index::<M>() / 512 == index::<N>() / 512);
    sum::<N>(softmax::<N>(s) * v)
}

/// A window of 256 keys, and before it every 64th.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_strided<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() - index::<N>();
    let s = mask(sum::<D>(q * k) * scale, behind >= 0 && (behind < 256 || behind % 64 == 0));
    sum::<N>(softmax::<N>(s) * v)
}

/// A window of 1024 keys, and the first 64 of all.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_sink<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() - index::<N>();
    let s = mask(sum::<D>(q * k) * scale, behind >= 0 && (index::<N>() < 64 || behind < 1024));
    sum::<N>(softmax::<N>(s) * v)
}

/// 256 keys to both sides (Longformer); the first 64 positions see all and are seen by all.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256, E <= 256))]
pub fn attention_global<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() - index::<N>();
    let near = behind <= 256 && -behind <= 256;
    let s = mask(sum::<D>(q * k) * scale, near || index::<N>() < 64 || index::<M>() < 64);
    sum::<N>(softmax::<N>(s) * v)
}
