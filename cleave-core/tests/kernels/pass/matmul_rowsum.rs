/// The sums of a matrix product's rows, which need no matrix product.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul_rowsum<T>(x: Tensor<T, M, K>, w: Tensor<T, J, K>) -> Tensor<f32, M> {
    sum::<J>(sum::<K>(x * w))
}
