#[cleave::kernel(dtypes(T = f32))]
pub fn reduced_in_output<T>(q: Tensor<T, M, S>, k: Tensor<T, N, S>) -> Tensor<T, M, N, S> {
    sum::<S>(q * k)
}
