/// Each row less its mean, over its standard deviation; the mean and the variance too.
#[cleave::kernel(dtypes(T = f32, f16))]
pub fn layer_norm_rows<T>(
    x: Tensor<T, M, C>,
    weight: Tensor<T, C>,
    bias: Tensor<T, C>,
) -> (Tensor<T, M, C>, Tensor<f32, M>, Tensor<f32, M>) {
    (layer_norm::<C>(x, weight, bias, 1e-5), mean::<C>(x), var::<C>(x))
}
