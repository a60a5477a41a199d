//! Gates over experts weigh their outputs: the softmax divides once, after the sum over experts.
//= one pass over X
//= one launch
#[kernel(bound(C <= 128))]
fn mixture(x: Tensor<f32, M, C>, router: Tensor<f32, X, C>, y: Tensor<f32, X, M, J>) -> Tensor<f32, M, J> {
    sum::<X>(softmax::<X>(sum::<C>(x * router)) * y)
}
