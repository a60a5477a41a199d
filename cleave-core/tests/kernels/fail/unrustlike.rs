#[cleave::kernel(dtypes(T = f32))]
pub fn unrustlike<T>(x: Tensor<T, M, N>, y: &Tensor<T, M>, mut z: f32, h: half::f16, e: Extent<M>) -> Tensor<T, M> {
    let mut total = 0.0;
    for i in 0..4 {
        total += x[i];
    }
    let a: Value = x.exp();
    let b = &x + x as f32;
    let c = 1.0f32 + 3 % 2;
    let d = |v| v;
    let e = match c { _ => x };
    println!("{x}");
    struct Unit;
    if true { x };
    cleave::dsl::sum::<N>(x);
    total
}
