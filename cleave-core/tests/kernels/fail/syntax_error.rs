#[cleave::kernel(dtypes(T = f32))]
pub fn syntax_error<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    x +
}
