/// Reductions over several axes at once, of masked values, and of values without the mask's axis.
#[cleave::kernel(dtypes(T = bf16))]
pub fn reductions<T>(x: Tensor<T, A, B, C>, n: Tensor<i32, A>) -> (Tensor<f32, A>, Tensor<f32, A>, Tensor<f32, A, B>, Tensor<f32, B>) {
    let filled = mask(x, index::<B>() < n);
    (sum::<(B, C)>(filled), mean::<(B, C)>(filled), min::<C>(x), sum::<A>(mask(1.0, index::<B>() < n)))
}
