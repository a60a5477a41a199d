//! Queries and keys are turned by their positions inside the kernel.
//= one pass over N
#[kernel(bound(F <= 64, E <= 64), factor(P = 2))]
fn rope(
    q: Tensor<f32, H, M, (F, P)>,
    k: Tensor<f32, H, N, (F, P)>,
    v: Tensor<f32, H, N, E>,
    cos: Tensor<f32, N, F>,
    sin: Tensor<f32, N, F>,
    cos_q: Tensor<f32, M, F>,
    sin_q: Tensor<f32, M, F>,
) -> Tensor<f32, H, M, E> {
    fn turned<A>(x: Value, cos: Value, sin: Value) -> Value {
        x * cos + stack::<A>((-part::<A>(x, 1), part::<A>(x, 0))) * sin
    }
    let s = sum::<(F, P)>(turned::<P>(q, cos_q, sin_q) * turned::<P>(k, cos, sin));
    sum::<N>(softmax::<N>(mask(s, index::<N>() <= index::<M>())) * v)
}
