#[cleave::kernel(dtypes(T = f16, f64, U = f32, T = f32), bound(D <= 0, Q <= 8), factor(P = 16), fast)]
pub async fn signature<T: Copy, V, 'a, const L: usize>(
    x: Tensor<T, M, 64>,
    y: Tensor<M, N>,
    z: Tensor<f32, M, (M, K)>,
    w: Vec<f32>,
    n: u32,
    v: Tensor,
    (a, b): f32,
    o: Tensor<T, T>,
) -> (Tensor<i32, M>, f32)
where
    T: Clone,
{
    x
}
