#[cleave::kernel(dtypes(T = f32))]
pub fn large_condition<T>(x: Tensor<T, M, N>, n: i32) -> Tensor<T, M> {
    fn either(k: Value, n: Value) -> bool {
        index::<N>() == 10 * n + k || index::<M>() == 10 * n + k
    }
    let a = either(1, n) && either(2, n) && either(3, n) && either(4, n) && either(5, n) && either(6, n) && either(7, n);
    sum::<N>(mask(x, a)) + sum::<N>(mask(x, 9000000000000000000 * index::<N>() < -9000000000000000000 * index::<N>()))
}
