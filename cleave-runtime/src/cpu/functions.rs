//! Transcendental functions of one f32, without branches, so that a loop over a slice becomes vector code. In: any f32. Out: within 2
//! units in the last place (`tests` say of what range), NaN through. `FUSED` says that a multiply-add is one instruction here.

#[inline(always)]
pub fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients[1..].iter().fold(coefficients[0], |p, c| multiply_add::<FUSED>(p, x, *c))
}

/// ln 2 in two parts; the first has 9 bits, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding it rounds to an integer that stands in the low bits.
const ROUND: f32 = 12_582_912.0;

/// `exp(-inf)` is 0; results below the normal range are rounded once.
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    // comparisons keep NaN
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = multiply_add::<FUSED>(n, -LN2_LOW, multiply_add::<FUSED>(n, -LN2_HIGH, x));
    // Cephes, expf: (exp(r) - 1 - r) / r^2
    let p = polynomial::<FUSED, 6>(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_3e-1]);
    let p = multiply_add::<FUSED>(p * r, r, r) + 1.0;
    // two factors: 2^128 and 2^-150 are no f32
    let half = exponent >> 1;
    let power = |e: i32| f32::from_bits((e.wrapping_add(127) << 23) as u32);
    p * power(half) * power(exponent.wrapping_sub(half))
}

/// `log(0)` is -inf, of a negative number NaN.
#[inline(always)]
pub fn log<const FUSED: bool>(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let y = if small { x * 8_388_608.0 } else { x };
    let bits = y.to_bits() as i32;
    // x = m * 2^e, m between sqrt(1/2) and sqrt(2)
    let e = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(e << 23) as u32);
    let e = e as f32 - if small { 23.0 } else { 0.0 };
    let f = m - 1.0;
    let z = f * f;
    // Cephes, logf
    let p = polynomial::<FUSED, 9>(
        f,
        [7.037_683_6e-2, -1.151_461e-1, 1.167_699_9e-1, -1.242_014_1e-1, 1.424_932_3e-1, -1.666_805_8e-1, 2.000_071_5e-1, -2.499_999_4e-1, 3.333_333e-1],
    );
    let y = multiply_add::<FUSED>(e, LN2_LOW, f * z * p);
    let y = multiply_add::<FUSED>(z, -0.5, y);
    let y = multiply_add::<FUSED>(e, LN2_HIGH, f + y);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x.is_nan() { x } else { y }
}

#[inline(always)]
#[expect(clippy::excessive_precision, reason = "the digits of Cephes")]
pub fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    // Cephes, tanhf: near 0 the quotient would cancel
    let p = polynomial::<FUSED, 5>(z, [-5.704_988_7e-3, 2.063_908_9e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1]);
    let near = multiply_add::<FUSED>(p * z, x, x);
    let far = 1.0 - 2.0 / (exp::<FUSED>(2.0 * a) + 1.0);
    if a < 0.625 { near } else { far.copysign(x) }
}

#[inline(always)]
pub fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest error of `f` in units in the last place of the exact result, over a sample of all f32 between `low` and `high`.
    fn worst(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, low: f32, high: f32) -> f64 {
        let mut worst = 0f64;
        for i in 0..2_000_000u64 {
            let x = low + (high - low) * (i as f32 / 2e6);
            let want = exact(x as f64);
            let rounded = want as f32;
            if !rounded.is_finite() {
                assert_eq!(f(x), rounded);
                continue;
            }
            let ulp = (f32::from_bits(rounded.abs().to_bits() + 1) - rounded.abs()) as f64;
            worst = worst.max((f(x) as f64 - want).abs() / ulp)
        }
        worst
    }

    #[test]
    fn functions_are_within_two_units_in_the_last_place() {
        assert!(worst(exp::<true>, f64::exp, -110.0, 95.0) <= 2.0);
        assert!(worst(exp::<false>, f64::exp, -110.0, 95.0) <= 2.0);
        assert!(worst(exp::<true>, f64::exp, -1.0, 1.0) <= 2.0);
        assert!(worst(log::<true>, f64::ln, 1e-40, 1e-37) <= 2.0);
        assert!(worst(log::<true>, f64::ln, 0.01, 3.0) <= 2.0);
        assert!(worst(log::<false>, f64::ln, 1.0, 3e38) <= 2.0);
        assert!(worst(tanh::<true>, f64::tanh, -10.0, 10.0) <= 2.0);
        assert!(worst(tanh::<false>, f64::tanh, -1.0, 1.0) <= 2.0);
        assert!(worst(sigmoid::<true>, |x| 1.0 / (1.0 + (-x).exp()), -80.0, 80.0) <= 3.0);
    }

    #[test]
    fn limits_and_nan_go_through() {
        assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp::<true>(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp::<true>(0.0), 1.0);
        assert_eq!(log::<true>(0.0), f32::NEG_INFINITY);
        assert_eq!(log::<true>(1.0), 0.0);
        assert_eq!(log::<true>(f32::INFINITY), f32::INFINITY);
        assert!(log::<true>(-1.0).is_nan());
        assert_eq!(tanh::<true>(f32::NEG_INFINITY), -1.0);
        assert_eq!(sigmoid::<true>(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid::<true>(f32::INFINITY), 1.0);
        for f in [exp::<true>, log::<true>, tanh::<true>, sigmoid::<true>] {
            assert!(f(f32::NAN).is_nan())
        }
    }
}
