#[cleave::kernel(dtypes(T = f32))]
pub fn unsolvable<T>(x: Tensor<T, M, (K, G)>, y: Tensor<T, (K, G)>) -> Tensor<T, M> {
    sum::<(K, G)>(x * y)
}
