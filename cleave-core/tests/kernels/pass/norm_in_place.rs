/// RMSNorm of each row in place, and the row's product with what it was.
#[cleave::kernel]
pub fn norm_in_place(x: &mut Tensor<f32, M, C>) -> Tensor<f32, M> {
    let old = *x;
    *x = rms_norm::<C>(*x, 1.0, 1e-5);
    sum::<C>(old * *x)
}

/// Each element is read for all others of its column.
#[cleave::kernel]
pub fn less_column_mean(x: &mut Tensor<f32, M, C>) -> Tensor<f32, C, M> {
    let old = *x;
    *x = *x - mean::<M>(*x);
    old
}
