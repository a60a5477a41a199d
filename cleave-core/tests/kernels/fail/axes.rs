#[cleave::kernel(dtypes(T = f32))]
pub fn axes<T>(x: Tensor<T, M, M, (N, N)>, y: Tensor<T, M, [f32; 2], &N>, z: Tensor<f32, f32>) -> Tensor<T, T> {
    sum::<(N, N)>(x) + sum::<2>(x)
}
