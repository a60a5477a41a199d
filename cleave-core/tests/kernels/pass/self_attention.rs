/// Attention of a sequence to itself, without projections: its positions serve as queries and, by another name, as keys.
#[cleave::kernel(dtypes(T = f16, f32))]
pub fn self_attention<T>(x: Tensor<T, B, M, D>) -> Tensor<T, B, M, D> {
    let y = rename::<M, N>(x);
    let s = mask(sum::<D>(x * y) * rsqrt(extent::<D>()), index::<N>() <= index::<M>());
    sum::<N>(softmax::<N>(s) * y)
}
