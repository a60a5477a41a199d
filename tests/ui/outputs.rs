//! Results: reduced axes, forgotten axes, absent values.
#[cleave::kernel(dtypes(T = f32))]
pub fn outputs<T>(q: Tensor<T, M, D>, k: Tensor<T, N, D>) -> (Tensor<T, M, D>, Tensor<T, M>, Tensor<T, M, N>) {
    let s = sum::<D>(q * k);
    (sum::<(D, N)>(q * k), s, mask(s, index::<N>() <= index::<M>()))
}

fn main() {}
