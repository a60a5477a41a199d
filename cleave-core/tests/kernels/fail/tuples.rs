#[cleave::kernel(dtypes(T = f32))]
pub fn tuples<T>(x: Tensor<T, M>) -> Tensor<T, M> {
    let (a, b) = x;
    let (c, d) = (x, x, x);
    let e = (x, x) + 1.0;
    let x = x(2.0);
    a + c
}
