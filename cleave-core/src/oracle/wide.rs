//! f64 with a wide exponent: exp(1e4) is finite, so that formulas without a maximum can be judged at any amplitude.
use crate::rational::Rational;
use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg};

/// `mantissa * 2^exponent`. The mantissa is 0, not finite, or between 2^-512 and 2^512 in magnitude; so most values have
/// exponent 0 and cost what an f64 costs.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    mantissa: f64,
    exponent: i64,
}

const LIMIT: i64 = 512;
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1; // 32 bits, so that its product with an integer below 2^20 is exact
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

impl Wide {
    pub const ZERO: Wide = Wide { mantissa: 0.0, exponent: 0 };
    pub const NEGATIVE_INFINITY: Wide = Wide { mantissa: f64::NEG_INFINITY, exponent: 0 };

    fn new(mantissa: f64, exponent: i64) -> Self {
        let magnitude = mantissa.abs();
        if mantissa == 0.0 || !mantissa.is_finite() {
            return Wide { mantissa, exponent: 0 };
        }
        // the exponent of the mantissa, brought back to 0 where the whole value fits
        let (small, large) = (2f64.powi(-(LIMIT as i32)), 2f64.powi(LIMIT as i32));
        if exponent == 0 && (small..large).contains(&magnitude) {
            return Wide { mantissa, exponent };
        }
        let bits = magnitude.log2().floor() as i64;
        let total = bits + exponent;
        if total.abs() < LIMIT { Wide { mantissa: scale(mantissa, exponent), exponent: 0 } } else { Wide { mantissa: scale(mantissa, -bits), exponent: total } }
    }
    pub fn from_rational(r: Rational) -> Self {
        Self::from(r.to_f64())
    }
    /// The nearest f64; infinite where it does not fit.
    pub fn to_f64(self) -> f64 {
        if self.exponent == 0 { self.mantissa } else { scale(self.mantissa, self.exponent.clamp(-3000, 3000)) }
    }
    pub fn is_zero(self) -> bool {
        self.mantissa == 0.0
    }
    pub fn is_nan(self) -> bool {
        self.mantissa.is_nan()
    }
    pub fn recip(self) -> Self {
        Self::new(1.0 / self.mantissa, -self.exponent)
    }
    pub fn sqrt(self) -> Self {
        if self.exponent % 2 == 0 {
            Self::new(self.mantissa.sqrt(), self.exponent / 2)
        } else {
            Self::new((self.mantissa * 2.0).sqrt(), (self.exponent - 1) / 2)
        }
    }
    /// x to the power `halves / 2`.
    pub fn power(self, halves: i8) -> Self {
        let (base, n) = if halves % 2 == 0 { (self, halves / 2) } else { (self.sqrt(), halves) };
        let p = (0..n.unsigned_abs()).fold(Self::from(1.0), |p, _| p * base);
        if n < 0 { p.recip() } else { p }
    }
    pub fn exp(self) -> Self {
        let x = self.to_f64();
        if !x.is_finite() || x.abs() > 1e15 {
            return Self::new(x.exp(), 0);
        }
        let k = (x / std::f64::consts::LN_2).round();
        Self::new(((x - k * LN2_HIGH) - k * LN2_LOW).exp(), k as i64)
    }
    pub fn ln(self) -> Self {
        Self::from(self.mantissa.ln() + self.exponent as f64 * std::f64::consts::LN_2)
    }
    pub fn abs(self) -> Self {
        Wide { mantissa: self.mantissa.abs(), ..self }
    }
    /// The greater; NaN if either is.
    pub fn max(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() {
            return Self::from(f64::NAN);
        }
        if self.compare(other) == Ordering::Less { other } else { self }
    }
    fn compare(self, other: Self) -> Ordering {
        (self + -other).mantissa.partial_cmp(&0.0).unwrap_or_else(|| self.mantissa.total_cmp(&other.mantissa))
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Self {
        Wide { mantissa: -self.mantissa, ..self }
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Self) -> Self {
        if self.exponent == other.exponent {
            return Self::new(self.mantissa + other.mantissa, self.exponent);
        }
        if self.mantissa == 0.0 || !other.mantissa.is_finite() {
            return other;
        }
        if other.mantissa == 0.0 || !self.mantissa.is_finite() {
            return self;
        }
        let (large, small) = if self.exponent > other.exponent { (self, other) } else { (other, self) };
        let gap = small.exponent - large.exponent;
        Self::new(large.mantissa + scale(small.mantissa, gap.max(-3000)), large.exponent)
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, other: Self) -> Self {
        Self::new(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }
}

impl From<f64> for Wide {
    fn from(x: f64) -> Self {
        Self::new(x, 0)
    }
}

/// `x * 2^n` for any n, in steps that do not overflow on the way.
fn scale(mut x: f64, mut n: i64) -> f64 {
    while n > 1000 {
        x *= 2f64.powi(1000);
        n -= 1000
    }
    while n < -1000 {
        x *= 2f64.powi(-1000);
        n += 1000
    }
    x * 2f64.powi(n as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-13 * b.abs().max(1e-300), "{a} is not {b}")
    }

    #[test]
    fn exponentials_of_large_arguments_cancel() {
        for x in [1e4, -1e4, 700.0, 0.25, -3e5] {
            near(Wide::from(x).exp().ln().to_f64(), x);
            near((Wide::from(x + 1.5).exp() * Wide::from(x).exp().recip()).to_f64(), 1.5f64.exp())
        }
    }

    #[test]
    fn sums_of_unlike_magnitudes_keep_the_larger() {
        let big = Wide::from(1e4).exp();
        near((big + Wide::from(1.0)).ln().to_f64(), 1e4);
        near((big + big).ln().to_f64(), 1e4 + std::f64::consts::LN_2);
        assert_eq!((big + -big).to_f64(), 0.0);
        assert_eq!(Wide::from(-1.0).max(-big).to_f64(), -1.0)
    }

    #[test]
    fn half_powers_are_square_roots() {
        near(Wide::from(4.0).power(-1).to_f64(), 0.5);
        near(Wide::from(2e4).exp().power(1).ln().to_f64(), 1e4);
        near(Wide::from(2e4 + 1.0).exp().power(1).ln().to_f64(), 1e4 + 0.5)
    }

    #[test]
    fn infinities_and_nan_follow_ieee() {
        assert_eq!(Wide::ZERO.ln().to_f64(), f64::NEG_INFINITY);
        assert_eq!(Wide::NEGATIVE_INFINITY.exp().to_f64(), 0.0);
        assert!(Wide::from(f64::NAN).max(Wide::ZERO).is_nan());
        assert!((Wide::NEGATIVE_INFINITY + -Wide::NEGATIVE_INFINITY).is_nan());
        assert!(Wide::NEGATIVE_INFINITY.max(-Wide::from(1e4).exp()).ln().is_nan())
    }
}
