#[cleave::kernel]
pub fn helper_generics(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    fn a<const L: usize>(x: Value) -> Value { x }
    fn b<'a>(x: Value) -> Value { x }
    fn c<A: Copy>(x: Value) -> Value { x }
    fn d(x: f32, y: Tensor<f32, M>) -> Value { x }
    fn e(self) -> Value { x }
    fn f(x: Value) { x }
    fn g(mut x: Value) -> Value { x }
    sum::<N>(a(b(c(d(e(f(g(x))))))))
}
