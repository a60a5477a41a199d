#[cleave::kernel(factor(P = 2, Q = 3))]
pub fn factors(x: Tensor<f32, M, (F, P)>, y: Tensor<f32, M, F>) -> Tensor<f32, M, (F, P)> {
    let a = part::<F>(x, 0) + part::<P>(x, 2) + part::<P>(x, y) + part::<P>(y, 0);
    let b = stack::<P>((y, y, y)) + stack::<P>((x, y)) + stack::<P>(y) + stack::<F>((y, y));
    let c = max::<P>(mask(x, index::<P>() < 1)) + reverse::<Q>(x) + rename::<P, Q>(x);
    x
}
