#[cleave::kernel]
fn assumptions(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> Tensor<f32, M> {
    assume!(sum::<N>(x) < 1.0);
    assume!(x);
    assume!(x == 1.0, "{x}");
    assume!();
    assume!(len == 3);
    assume!(mask(x, index::<N>() < len) == 0.0);
    assume!(missing == 0.0);
    sum::<N>(x)
}

#[cleave::kernel]
fn nothing(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    assume!(x == x * 1.0);
    assume!(1.0 == 2.0);
    sum::<N>(x)
}
