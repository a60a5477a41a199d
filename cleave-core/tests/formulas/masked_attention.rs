//! Which keys a query sees: a window before it, a prefix that everyone sees, documents packed in one row.
//= one pass over N
//= program loop N:BN in
#[kernel(bound(D <= 64, E <= 64))]
fn window(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>, width: i32) -> Tensor<f32, M, E> {
    let visible = index::<N>() <= index::<M>() && index::<M>() - index::<N>() < width;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), visible)) * v)
}
//= one pass over N
//= program loop N:BN in
#[kernel(bound(D <= 64, E <= 64))]
fn prefix(q: Tensor<f32, B, M, D>, k: Tensor<f32, B, N, D>, v: Tensor<f32, B, N, E>, seen: Tensor<i32, B>) -> Tensor<f32, B, M, E> {
    let visible = index::<N>() <= index::<M>() || index::<N>() < seen;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), visible)) * v)
}
//= one pass over N
//= program loop N:BN in
#[kernel(bound(D <= 64, E <= 64))]
fn documents(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>, first: Tensor<i32, M>) -> Tensor<f32, M, E> {
    let visible = index::<N>() >= first && index::<N>() <= index::<M>();
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), visible)) * v)
}
