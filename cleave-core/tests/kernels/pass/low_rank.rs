/// A linear layer with an update of low rank: of `down` a second state of the one loop over `C` is made, `up` multiplies it after.
#[cleave::kernel(dtypes(T = f16, bf16, f32), bound(R <= 64))]
pub fn low_rank<T>(x: Tensor<T, M, C>, w: Tensor<T, J, C>, down: Tensor<T, R, C>, up: Tensor<T, J, R>) -> Tensor<T, M, J> {
    sum::<C>(x * w) + sum::<R>(sum::<C>(x * down) * up)
}
