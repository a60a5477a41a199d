#[cleave::kernel(dtypes(T = f32), factor(P = 2))]
pub fn shared_helper<T>(x: Tensor<T, M, (F, P)>, cos: Tensor<f32, M, F>, sin: Tensor<f32, M, F>) -> Tensor<T, M, (F, P)> {
    turned::<P>(x, cos, sin)
}

/// A rotation of each pair.
#[cleave::function]
fn turned<A>(x: Value, cos: Value, sin: Value) -> Value {
    x * cos + quarter_turn::<A>(x) * sin
}

#[cleave::function]
fn quarter_turn<A>(x: Value) -> Value {
    stack::<A>((-part::<A>(x, 1), part::<A>(x, 0)))
}
