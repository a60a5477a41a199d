#[cleave::kernel(dtypes(T = f32))]
pub fn rename_faults<T>(x: Tensor<T, M, D>, w: Tensor<T, D, N>) -> Tensor<T, M> {
    let captured = rename::<M, D>(sum::<D>(x * w));
    let present = rename::<M, D>(x);
    let absent = rename::<N, M>(x);
    let several = rename::<(M, D), N>(x);
    sum::<D>(x)
}
