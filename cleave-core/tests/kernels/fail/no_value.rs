#[cleave::kernel(dtypes(T = f32))]
pub fn no_value<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    let y = {
        let z = x;
    };
    x + y;
}
