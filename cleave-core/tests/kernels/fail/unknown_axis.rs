#[cleave::kernel(dtypes(T = f32))]
pub fn f<T>(x: Tensor<T, M, N>) -> Tensor<T, M> {
    sum::<Nn>(x)
}
