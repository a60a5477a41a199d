#[cleave::kernel(dtypes(T = f32))]
pub fn in_place<T>(x: &mut Tensor<T, M, N>, y: &Tensor<T, N>, z: &mut Tensor<T, M>, n: &mut Tensor<i32, M>, s: &mut f32) -> Tensor<T, M> {
    *x += x;
    x = *x;
    *y = y;
    *w = y;
    y += 2.0;
    let a = {
        *x = y;
        y
    };
    fn helper(v: Value) -> Value { v + *x }
    *x = sum::<M>(*x) + helper(a);
    *x -= sum::<N>(*x);
    &x
}
#[cleave::kernel]
pub fn lost(x: &mut Tensor<f32, M>, y: &mut Tensor<f32, M, N>) {
    *y = mask(*x, index::<M>() < 2);
    *x
}
#[cleave::kernel]
pub fn unwritten(x: &mut Tensor<f32, M>, y: &mut Tensor<f32, M>) {
    *x = sum::<M>(*x);
}
