//! This file's crate has no build script.
#[cleave::kernel(dtypes(T = f16, bf16, f32))]
pub fn matmul<T>(x: Tensor<T, M, K>, w: Tensor<T, J, K>) -> Tensor<T, M, J> {
    sum::<K>(x * w)
}

fn main() {}
