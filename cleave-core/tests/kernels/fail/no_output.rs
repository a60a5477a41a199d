#[cleave::kernel(dtypes(T = f32))]
pub fn no_output<T>(x: Tensor<T, M>) {
    x
}
