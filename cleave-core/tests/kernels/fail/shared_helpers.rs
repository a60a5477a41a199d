#[cleave::kernel]
pub fn shared(x: Tensor<f32, M>, y: Tensor<f32, N>) -> Tensor<f32, M> {
    twice(x) + broken(x) + folded::<N>(x) + outer(x) + recursive(x) + unmarked(x)
}
#[cleave::function]
fn twice(x: Value) -> Value { 2.0 * x }
mod other {
    #[cleave::function]
    fn twice(x: Value) -> Value { x + x }
}
#[cleave::function]
fn broken(x: Value) -> Value { x.exp() }
#[cleave::function]
fn folded<A>(x: Value) -> Value { sum::<A>(x) + y }
#[cleave::function]
fn outer(x: Value) -> Value { fn inner(x: Value) -> Value { x && true } inner(x) }
#[cleave::function]
fn recursive(x: Value) -> Value { recursive(x) }
fn unmarked(x: Value) -> Value { x }
