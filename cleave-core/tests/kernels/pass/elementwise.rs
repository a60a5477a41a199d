/// Elementwise functions, selection, helpers that take and give tuples and conditions, blocks and shadowing.
#[cleave::kernel]
pub fn elementwise(x: Tensor<f32, M, N>, y: Tensor<f32, N>, flag: Tensor<i32, M>, w: f32) -> (Tensor<f32, M, N>, Tensor<f32, M, N>) {
    const SLOPE: f32 = 1.0 / 8.0;
    fn both(x: Value, c: bool, pair: (Value, Value)) -> (Value, bool) {
        let (a, b) = pair;
        (if c { a + x } else { b }, !c)
    }
    let first = flag != 0 && (index::<N>() + 1 < extent::<N>() || !(flag > 2));
    let (z, rest) = both(x, first, (gelu(y), w));
    let z = {
        let z = max(z, SLOPE * z);
        min(z, 6)
    };
    (silu(z) - pow(abs(x), 1.5) / exp2(tanh(y)), if rest { recip(1 + exp(-x)) } else { sigmoid(x) })
}
