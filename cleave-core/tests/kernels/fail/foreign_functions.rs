#[cleave::kernel(dtypes(T = f32))]
pub fn foreign_functions<T>(q: Tensor<T, M, D>, k: Tensor<T, N, D>) -> Tensor<T, M, N> {
    let scores = matmul(q, transpose(k));
    relu(scores).softmax()
}
