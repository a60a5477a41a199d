#[cleave::kernel]
pub fn fractions(x: Tensor<f32, M, N>, n: i32) -> Tensor<f32, M> {
    const HALF: f32 = 0.5;
    const THIRD: i32 = 2;
    let a = mask(x, index::<N>() * HALF < n);
    let b = mask(x, index::<N>() < 2.5);
    let c = mask(x, index::<N>() * index::<M>() < 4);
    let d = mask(x, THIRD * index::<N>() < 1e3);
    let e = mask(x, abs(index::<N>() - index::<M>()) < n);
    let f = mask(x, max(index::<N>(), n) < 2);
    sum::<N>(x)
}
#[cleave::kernel]
pub fn coefficients(x: Tensor<f32, M, N>, n: i32) -> Tensor<f32, M> {
    let a = mask(x, index::<N>() * 9000000000000000000 * 4 < n);
    sum::<N>(a)
}
