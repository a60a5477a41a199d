#[cleave::kernel(factor(P = 2))]
pub fn reductions(x: Tensor<f32, M, N>, y: Tensor<f32, N, P>) -> (Tensor<f32, M>, Tensor<f32, N>) {
    let a = sum(x) + softmax(x) + mean::<>(x);
    let b = sum::<N, M>(x) + sum::<(N, N)>(x) + sum::<(N, Q)>(x) + sum::<N>(x, x) + sum::<N>();
    let c = max(x) + max::<N>(x, x) + max::<N>(sum::<N>(x));
    let d = argmax::<N>(x) + cumsum::<N>(x) + topk::<N>(x) + conv(x, x) + norm::<N>(x) + relu(x) + dropout(x);
    let e = exp::<N>(x) + rsqrt(x, x) + rms_norm::<N>(x) + logsumexp::<P>(x) + layer_norm::<N>(x, 1.0, 0.0);
    let f = index::<(M, N)>() + extent() + index::<P>() + extent::<P>();
    let g = sum::<N>(mask(y, index::<N>() < 2)) + max::<P>(mask(y, index::<N>() < 2));
    (sum::<N>(x), x)
}
