#[cleave::kernel(dtypes(T = f32))]
pub fn numbers<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    let a = x * 1e-30 + 1 / 3;
    let b = x / 0.0 + pow(x, 0.3) + pow(x, x) + recip(0);
    let c = x * 9000000000000000000 * (5000000000.0 * 5000000000.0);
    x + "2" + 'c'
}
