/// A chain of two matrix products: which one comes first depends on the extents.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul_matmul<T>(x: Tensor<T, M, K>, a: Tensor<T, R, K>, b: Tensor<T, J, R>) -> Tensor<T, M, J> {
    sum::<R>(sum::<K>(x * a) * b)
}
