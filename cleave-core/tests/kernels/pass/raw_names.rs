/// Names that are words of Rust, and a sum over all of a tensor.
#[cleave::kernel]
pub fn r#loop(r#type: Tensor<f32, M, N>, r#in: f32) -> Tensor<f32> {
    let r#fn = r#type * r#in;
    sum::<(M, N)>(r#fn)
}
