//! A step on the sphere (nGPT): the hidden state moves towards the normalised output of a block and is normalised again.
//= passes C 2
#[kernel]
fn step(h: Tensor<f32, M, C>, a: Tensor<f32, M, J>, w: Tensor<f32, C, J>, alpha: Tensor<f32, C>) -> Tensor<f32, M, C> {
    fn unit<A>(x: Value) -> Value {
        x * rsqrt(sum::<A>(x * x))
    }
    let y = unit::<C>(sum::<J>(a * w));
    unit::<C>(h + alpha * (y - h))
}
