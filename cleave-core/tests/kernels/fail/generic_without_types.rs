#[cleave::kernel]
pub fn generic_without_types<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    x
}
