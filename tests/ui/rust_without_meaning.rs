//! Rust that the language does not have.
#[cleave::kernel]
pub fn rust_without_meaning(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let mut total = 0.0;
    for i in 0..4 {
        total += x[i];
    }
    total + x.exp() + (x as f32)
}

fn main() {}
