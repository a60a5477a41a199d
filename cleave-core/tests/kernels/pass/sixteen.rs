/// As many tensors as a kernel may have.
#[cleave::kernel(dtypes(T = f32))]
pub fn sixteen<T>(
    a: Tensor<T, M>, b: Tensor<T, M>, c: Tensor<T, M>, d: Tensor<T, M>, e: Tensor<T, M>, f: Tensor<T, M>, g: Tensor<T, M>,
    h: Tensor<T, M>, i: Tensor<T, M>, j: Tensor<T, M>, k: Tensor<T, M>, l: Tensor<T, M>, m: Tensor<T, M>,
) -> (Tensor<T, M>, Tensor<f32>, Tensor<T, M>) {
    (a * b + c * d + e * f + g * h + i * j + k * l + m, sum::<M>(a - b - c - d), max(max(e, f), min(g, h)))
}
