/// How even the weights of causal attention are, over a cache of which `len[b]` rows are filled.
#[cleave::kernel(dtypes(T = bf16, f32), bound(D <= 256))]
pub fn entropy<T>(q: Tensor<T, B, M, D>, k: Tensor<T, B, N, D>, len: Tensor<i32, B>, scale: f32) -> Tensor<f32, B, M> {
    let s = mask(sum::<D>(q * k) * scale, index::<N>() - len <= index::<M>() - extent::<M>());
    -sum::<N>(softmax::<N>(s) * log_softmax::<N>(s))
}

/// Of how many places weights over the first `len[m]` make use: the exponential of their entropy, as it is defined.
#[cleave::kernel]
pub fn perplexity(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> Tensor<f32, M> {
    let p = softmax::<N>(mask(x, index::<N>() < len));
    exp(-sum::<N>(p * log(p)))
}
