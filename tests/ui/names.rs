//! All faults at once, each with the name that was probably meant.
#[cleave::kernel(dtypes(T = f32))]
pub fn scores<T>(query: Tensor<T, M, D>, key: Tensor<T, N, D>) -> Tensor<T, M, N> {
    let total = matmul(query, key);
    sum::<Dd>(quary * key) + sofmax::<N>(total)
}

fn main() {
    let x = cleave::Tensor::<f32>::zeros(&cleave::Device::cpu(), &[2, 3]).unwrap();
    let _ = scores(&x, &x).run();
}
