/// Reductions to rank 0, over several axes at once, and over one axis after the other.
#[cleave::kernel(dtypes(T = f32))]
pub fn totals<T>(x: Tensor<T, M, N>, y: Tensor<T, N, K>, limit: i32) -> (Tensor<f32>, Tensor<f32>, Tensor<f32>, Tensor<f32, K>) {
    let inside = index::<M>() + index::<N>() < limit;
    let total = sum::<(M, N, K)>(x * y);
    (total, max::<(M, N)>(x), mean::<(N, M)>(mask(x, inside)), logsumexp::<(M, N)>(if inside { x * y } else { -x * y }))
}
