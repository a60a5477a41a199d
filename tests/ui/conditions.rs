//! Conditions are of integers.
#[cleave::kernel]
pub fn conditions(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> Tensor<f32, M> {
    let positive = if x > 0.0 { x } else { 0.0 };
    sum::<N>(mask(positive, index::<N>() * len < 4 && len))
}

fn main() {}
