#[cleave::kernel]
pub fn too_large(x: Tensor<f32, M>) -> Tensor<f32, M> {
    fn f0(x: Value) -> Value { exp(x) + x }
    fn f1(x: Value) -> Value { f0(x) + f0(x * 1) }
    fn f2(x: Value) -> Value { f1(x) + f1(x * 2) }
    fn f3(x: Value) -> Value { f2(x) + f2(x * 3) }
    fn f4(x: Value) -> Value { f3(x) + f3(x * 4) }
    fn f5(x: Value) -> Value { f4(x) + f4(x * 5) }
    fn f6(x: Value) -> Value { f5(x) + f5(x * 6) }
    fn f7(x: Value) -> Value { f6(x) + f6(x * 7) }
    fn f8(x: Value) -> Value { f7(x) + f7(x * 8) }
    fn f9(x: Value) -> Value { f8(x) + f8(x * 9) }
    fn f10(x: Value) -> Value { f9(x) + f9(x * 10) }
    fn f11(x: Value) -> Value { f10(x) + f10(x * 11) }
    fn f12(x: Value) -> Value { f11(x) + f11(x * 12) }
    fn f13(x: Value) -> Value { f12(x) + f12(x * 13) }
    f13(x)
}
