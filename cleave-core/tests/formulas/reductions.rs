//! What a softmax is made of, alone.
//= one pass over N
//= line output[M] = log(t0)
#[kernel]
fn total(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    logsumexp::<N>(x)
}
//= passes N 2
#[kernel]
fn weights(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    softmax::<N>(x)
}
//= one pass over N
#[kernel]
fn entropy(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    -sum::<N>(softmax::<N>(x) * log_softmax::<N>(x))
}
//= one pass over N
#[kernel]
fn variance(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    var::<N>(x)
}
