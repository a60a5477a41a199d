#[cleave::kernel]
pub fn results(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) {
    sum::<N>(x)
}
#[cleave::kernel]
pub fn three(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) {
    (sum::<N>(x), sum::<M>(x), x)
}
#[cleave::kernel]
pub fn nested(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) {
    (sum::<N>(x), (sum::<M>(x), x))
}
#[cleave::kernel]
pub fn condition(x: Tensor<f32, M>) -> Tensor<f32, M> {
    index::<M>() < 2
}
#[cleave::kernel]
pub fn scalar_result(x: Tensor<f32, M>) -> f32 {
    sum::<M>(x)
}
#[cleave::kernel]
pub fn unknown_axis(x: Tensor<f32, Rows, Columns>) -> Tensor<f32, Row, Colums> {
    x
}
#[cleave::kernel]
pub fn nothing(x: Tensor<f32, M>) {
    let y = x;
}
#[cleave::kernel]
pub fn unit(x: Tensor<f32, M>) -> () {
    x
}
