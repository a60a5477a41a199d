/// The factors of a stored axis, told by an argument: RMSNorm of each head.
#[cleave::kernel(dtypes(T = f32))]
pub fn extents<T>(x: Tensor<T, M, (H, D)>, gain: Tensor<T, (H, D)>, head: Extent<D>, most: i32) -> Tensor<T, M, (H, D)> {
    assert!(head % 2 == 0, "heads are cut in pairs");
    assert!(extent::<H>() <= most || (head + 1) / 2 < 3);
    let scale = 1.0 / head;
    x * rsqrt(sum::<D>(x * x) * scale + 1e-5) * gain
}
