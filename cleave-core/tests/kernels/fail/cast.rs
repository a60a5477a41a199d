#[cleave::kernel(dtypes(T = f32))]
pub fn cast<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    cast(x) + cast::<i32>(x) + cast::<U>(x) + cast::<(T, f32)>(x) + cast::<T, f32>(x) + cast::<T>(x, x) + cast::<f64>(x) + x as f16
}
