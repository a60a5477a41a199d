/// The logarithm of each row's sum of exponentials.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn logsumexp_rows<T>(x: Tensor<T, M, N>) -> Tensor<f32, M> {
    logsumexp::<N>(x)
}
