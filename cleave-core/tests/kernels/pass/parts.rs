/// Everything that takes a constant factor apart: a rotation written by `reverse` and a sign that depends on the part, a
/// reduction over the factor, and an output that lacks it and broadcasts.
#[cleave::kernel(factor(P = 2))]
pub fn parts(
    x: Tensor<f32, M, (F, P)>,
    cos: Tensor<f32, M, F>,
    sin: Tensor<f32, M, F>,
) -> (Tensor<f32, M, (F, P)>, Tensor<f32, M>, Tensor<f32, (M, P), F>) {
    let sign = if index::<P>() == 0 { -1.0 } else { 1.0 };
    let turned = x * cos + sign * reverse::<P>(x) * sin;
    (turned, max::<(F, P)>(abs(x)) + sqrt(sum::<(F, P)>(square(x))), sin / extent::<P>())
}
