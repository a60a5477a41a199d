#[cleave::kernel(dtypes(T = f32))]
pub fn assertions<T>(x: Tensor<T, M, N>, len: Tensor<i32, M>, n: i32) -> Tensor<T, M> {
    assert!();
    assert!(extent::<M>());
    assert!(extent::<M>() < len);
    assert!(index::<N>() < n, "inside");
    assert!(extent::<M>() > n, "at least {n}");
    assert!(extent::<M>() > n, "at least {}", n);
    assert!(n > 0, 3);
    assert!(x > 0.0);
    assert!(extent::<M>() ==);
    debug_assert!(n > 0);
    assert_eq!(n, 2);
    sum::<N>(x)
}
#[cleave::kernel]
pub fn never(x: Tensor<f32, M>) -> Tensor<f32, M> {
    assert!(3 < 2);
    assert!(extent::<M>() == 4 && false, "never");
    x
}
