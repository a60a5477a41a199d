/// A projection added to the residual stream in place, and the norm of the new stream.
#[cleave::kernel(dtypes(T = f32))]
pub fn in_place<T>(x: &mut Tensor<T, M, C>, h: Tensor<T, M, J>, w: Tensor<T, C, J>, gain: Tensor<T, C>) -> Tensor<T, M, C> {
    *x += sum::<J>(h * w);
    rms_norm::<C>(*x, gain, 1e-5)
}

/// Two halves of each pair change places: both are read before either is written.
#[cleave::kernel(factor(P = 2))]
pub fn swap(x: &mut Tensor<f32, M, (F, P)>) {
    *x = reverse::<P>(*x);
    *x = *x * 2.0;
}
