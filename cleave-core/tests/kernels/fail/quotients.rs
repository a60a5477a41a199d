#[cleave::kernel(dtypes(T = f32))]
pub fn quotients<T>(x: Tensor<T, M, N>, n: Tensor<i32, M>) -> Tensor<T, M> {
    let a = mask(x, index::<N>() / n < 4);
    let b = mask(x, index::<N>() % extent::<N>() < 4);
    let c = mask(x, index::<N>() / -2 < 4);
    let d = mask(x, index::<N>() % 0 < 4);
    let e = x % 2.0;
    let f = x * (index::<N>() / 2);
    let g = 7 % 2 + 1 / extent::<N>();
    sum::<N>(f)
}
#[cleave::kernel(dtypes(T = f32))]
pub fn quotient_as_value<T>(x: Tensor<T, M, N>) -> Tensor<T, M> {
    sum::<N>(x * (index::<N>() / 2) + index::<N>() % 3)
}
