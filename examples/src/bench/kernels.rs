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
