#[cleave::kernel]
pub fn statements(x: Tensor<f32, M, N>, y: Tensor<32, M>, z: Tensor<(f32, f16), M>) -> Tensor<f32, M> {
    let a;
    let Some(b) = x;
    let [c, d] = x;
    let &e = x;
    let (ref f, g @ h) = (x, x);
    exp(x);
    x[0] + x.0 + (exp)(x) + (if true { exp } else { log })(x) + x?;
    let i = 'label: { x };
    let j = unsafe { x };
    let k = || x;
    let l = x..x;
    let m = &mut x;
    let n = [x, x];
    let o = Pair { a: x };
    let p = while true {};
    let q = return x;
    let r = x.await;
    let s = if let 1 = x { x } else { x };
    use std::f32;
    static S: f32 = 1.0;
    const T: u8 = 1;
    const U: f32 = x;
    const V: i32 = 0.5;
    mod w {}
    sum::<M>(x)
}
