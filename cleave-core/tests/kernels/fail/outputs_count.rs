#[cleave::kernel(dtypes(T = f32))]
pub fn outputs_count<T>(x: Tensor<T, M>) -> (Tensor<T, M>, Tensor<T, M>) {
    (x, x, x)
}

#[cleave::kernel(dtypes(T = f32))]
pub fn one_for_two<T>(x: Tensor<T, M>) -> (Tensor<T, M>, Tensor<T, M>) {
    x
}

#[cleave::kernel(dtypes(T = f32))]
pub fn two_for_one<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    (x, x)
}
