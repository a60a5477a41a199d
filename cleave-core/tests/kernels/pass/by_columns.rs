/// A product with weights that are stored by columns of the output, and its row's norm in the same loop.
#[cleave::kernel(dtypes(T = bf16, f32))]
pub fn product_by_columns<T>(x: Tensor<T, M, K>, w: Tensor<T, K, J>, epsilon: f32) -> Tensor<T, M, J> {
    sum::<K>(x * w) * rsqrt(mean::<K>(x * x) + epsilon)
}

/// Exponentials over their sum along the outer dimension.
#[cleave::kernel(dtypes(T = bf16))]
pub fn softmax_columns<T>(x: Tensor<T, M, N>) -> Tensor<T, M, N> {
    softmax::<M>(x)
}
