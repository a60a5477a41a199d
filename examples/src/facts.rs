//! A kernel with something that is known of its data.

/// Projects the columns of `x` twice. A projection that was done is not done again.
#[cleave::kernel]
pub fn project_twice(p: Tensor<f32, M, N>, x: Tensor<f32, N, C>) -> Tensor<f32, M, C> {
    let outer = rename::<N, K>(p);
    let inner = rename::<M, K>(p);
    assume!(sum::<K>(outer * inner) == p, "p is a projection");
    sum::<K>(outer * sum::<N>(inner * x))
}
