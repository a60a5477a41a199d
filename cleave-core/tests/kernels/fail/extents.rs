#[cleave::kernel(dtypes(T = f32), factor(P = 2))]
pub fn extents<T>(x: Tensor<T, M, P>, a: Extent<P>, b: Extent, c: Extent<M, N>, d: Extent<(M, N)>, e: Extent<4>) -> Extent<M> {
    sum::<M>(x * head)
}
#[cleave::kernel]
pub fn unknown(x: Tensor<f32, M>, n: Extent<N>) -> Tensor<f32, M, K> {
    x * extent::<K>() + m
}
