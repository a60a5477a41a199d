/// Each row's exponentials over their sum.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn softmax_rows<T>(x: Tensor<T, M, N>) -> Tensor<T, M, N> {
    softmax::<N>(x)
}
