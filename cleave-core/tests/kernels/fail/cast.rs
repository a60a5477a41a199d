#[cleave::kernel(dtypes(T = f32))]
pub fn cast_fault<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    cast::<f32>(x)
}
