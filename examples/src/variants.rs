//! Ten variants of attention, each as its textbook formula. `docs/variants.md` tells how to write another.
#![allow(clippy::too_many_arguments)]

/// Every query sees the keys up to its own position.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn causal(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, scale: f32) -> Tensor<f32, H, M, E> {
    let s = mask(sum::<D>(q * k) * scale, index::<N>() <= index::<M>());
    sum::<N>(softmax::<N>(s) * v)
}

/// `G` query heads share each of `K` key heads; `len[b]` rows of the cache are filled.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn decode(q: Tensor<f32, B, (K, G), D>, k: Tensor<f32, B, K, N, D>, v: Tensor<f32, B, K, N, E>, len: Tensor<i32, B>) -> Tensor<f32, B, (K, G), E> {
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), index::<N>() < len)) * v)
}

/// A sliding window, and the first keys for all.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn window(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, width: i32, sinks: i32) -> Tensor<f32, H, M, E> {
    let near = index::<M>() - index::<N>() < width || index::<N>() < sinks;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), near && index::<N>() <= index::<M>())) * v)
}

/// A bias that falls with the distance (ALiBi). The part that depends on the query alone cancels, and is not computed.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn alibi(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, slope: Tensor<f32, H>) -> Tensor<f32, H, M, E> {
    let s = sum::<D>(q * k) + slope * (index::<N>() - index::<M>());
    sum::<N>(softmax::<N>(mask(s, index::<N>() <= index::<M>())) * v)
}

/// Scores bent to stay below a cap.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn capped(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, cap: f32) -> Tensor<f32, H, M, E> {
    sum::<N>(softmax::<N>(softcap(sum::<D>(q * k), cap)) * v)
}

/// A learned logit for each head takes weight and gives nothing.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn sink(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>, logit: Tensor<f32, H>) -> Tensor<f32, H, M, E> {
    let e = exp(sum::<D>(q * k));
    sum::<N>(e * v) / (sum::<N>(e) + exp(logit))
}

/// Several documents in one row, each seeing itself alone: `document[m]` is the document of position `m`.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn documents(
    q: Tensor<f32, H, M, D>,
    k: Tensor<f32, H, N, D>,
    v: Tensor<f32, H, N, E>,
    of_query: Tensor<i32, M>,
    of_key: Tensor<i32, N>,
) -> Tensor<f32, H, M, E> {
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), of_query == of_key && index::<N>() <= index::<M>())) * v)
}

/// Blocks of 16 positions see themselves and the last position of every block before.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn strided(q: Tensor<f32, H, M, D>, k: Tensor<f32, H, N, D>, v: Tensor<f32, H, N, E>) -> Tensor<f32, H, M, E> {
    const BLOCK: i32 = 16;
    let own = index::<M>() / BLOCK == index::<N>() / BLOCK;
    let summary = index::<N>() % BLOCK == BLOCK - 1;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), (own || summary) && index::<N>() <= index::<M>())) * v)
}

/// The difference of two attentions over one value.
#[cleave::kernel(bound(D <= 128, E <= 128))]
pub fn differential(q: Tensor<f32, H, (I, M), D>, k: Tensor<f32, H, (I, N), D>, v: Tensor<f32, H, N, E>, weight: Tensor<f32, I>) -> Tensor<f32, H, M, E> {
    sum::<(I, N)>(weight * softmax::<N>(sum::<D>(q * k)) * v)
}

/// Keys and values are projections of a small cache (multi-head latent attention), and queries are normalised.
#[cleave::kernel(bound(C <= 64, D <= 64, E <= 64))]
pub fn latent(
    q: Tensor<f32, H, M, D>,
    cache: Tensor<f32, N, C>,
    up_k: Tensor<f32, H, D, C>,
    up_v: Tensor<f32, H, E, C>,
    gain: Tensor<f32, D>,
) -> Tensor<f32, H, M, E> {
    let (k, v) = (sum::<C>(cache * up_k), sum::<C>(cache * up_v));
    sum::<N>(softmax::<N>(sum::<D>(rms_norm::<D>(q, gain, 1e-6) * k)) * v)
}
