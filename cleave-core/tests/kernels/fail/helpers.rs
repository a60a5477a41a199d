#[cleave::kernel(dtypes(T = f32))]
pub fn helpers<T>(x: Tensor<T, M, N>) -> Tensor<T, M> {
    const LOOP: f32 = LOOP + 1.0;
    const HALF: i32 = 0.5;
    const LOG: f32 = log(2.0);
    const TEXT: &str = "2";
    fn again(x: Value) -> Value {
        again(x) + 1.0
    }
    fn promise(x: Value) -> bool {
        x
    }
    fn captures(y: Value) -> Value {
        y + z
    }
    fn typed(y: f32) -> Value {
        y
    }
    fn nothing(y: Value) {}
    let z = 2.0;
    sum::<N>(x * LOOP * HALF * LOG * again(x) * captures(x)) + if promise(x) { 1.0 } else { 0.0 }
}
