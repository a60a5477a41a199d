//! Types that are none of a kernel's.
#[cleave::kernel(dtypes(T = f16, f64), bound(Q <= 64))]
pub fn signature<T>(x: Tensor<T, M, 64>, y: Vec<f32>, n: usize, z: Tensor<T, M, (K, G)>) -> Tensor<T, M> {
    sum::<(K, G)>(z)
}

fn main() {}
