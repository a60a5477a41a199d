/// Values that attention weighs, divided by what their filled rows sum to: without such rows that is 0, and so is what divides it.
#[cleave::kernel(dtypes(T = bf16, f32), bound(D <= 256))]
pub fn parted<T>(q: Tensor<T, B, M, D>, k: Tensor<T, B, N, D>, v: Tensor<T, B, N, E>, len: Tensor<i32, B>, scale: f32) -> Tensor<f32, B, M, E> {
    let filled = index::<N>() < len;
    let s = mask(sum::<D>(q * k) * scale, index::<N>() - len <= index::<M>() - extent::<M>());
    sum::<N>(softmax::<N>(s) * v / sum::<N>(mask(1 + square(v), filled)))
}
