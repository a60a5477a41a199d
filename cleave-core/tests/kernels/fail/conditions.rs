#[cleave::kernel(dtypes(T = f32))]
pub fn conditions<T>(x: Tensor<T, M, N>, n: Tensor<i32, M>) -> Tensor<T, M> {
    let a = if x > 0.0 { x } else { 0.0 };
    let b = mask(x, n);
    let c = mask(x, index::<N>() * n < 4);
    let d = (index::<N>() < 2) + x;
    let e = x && n < 2;
    let f = if n < 2 { x } else { n < 3 };
    let g = mask(x, index::<N>() / 2 < n);
    sum::<N>(x)
}
