#[cleave::kernel(dtypes(T = f32))]
pub fn names<T>(x: Tensor<T, M, N>, scale: f32) -> Tensor<T, M> {
    let total = sum::<Nn>(x);
    let other = sofmax::<N>(x) + banana(x);
    let third = totl + M + EPSILON + softmax;
    sum::<N>(scal * x)
}
