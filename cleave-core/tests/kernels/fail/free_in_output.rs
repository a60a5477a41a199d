#[cleave::kernel(dtypes(T = f32))]
pub fn free_in_output<T>(q: Tensor<T, M, D>, k: Tensor<T, N, D>) -> (Tensor<T, M>, Tensor<T, Nn>) {
    (sum::<D>(q * k), sum::<D>(k))
}
