//! Exact coefficients. Arithmetic is checked: a result that does not fit is `None`, and the caller leaves its term as it is.
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reduced fraction with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Rational {
    numerator: i64,
    denominator: i64,
}

#[expect(clippy::should_implement_trait, reason = "checked: the results are options")]
impl Rational {
    pub const ZERO: Rational = Rational { numerator: 0, denominator: 1 };
    pub const ONE: Rational = Rational { numerator: 1, denominator: 1 };
    pub const MINUS_ONE: Rational = Rational { numerator: -1, denominator: 1 };

    /// `None` if the denominator is 0 or the reduced fraction does not fit 64 bits.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let (mut a, mut b) = (numerator.unsigned_abs(), denominator.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b)
        }
        let divisor = a.max(1) as i128 * denominator.signum();
        Some(Rational { numerator: i64::try_from(numerator / divisor).ok()?, denominator: i64::try_from(denominator / divisor).ok()? })
    }
    pub fn integer(n: i64) -> Self {
        Rational { numerator: n, denominator: 1 }
    }
    /// A decimal literal as written: `1e-5`, `0.044715`, `3`. `None` if it is no number or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (m, e.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent - fraction.len() as i32;
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        if exponent < 0 { Self::new(digits, power) } else { Self::new(digits.checked_mul(power)?, 1) }
    }
    pub fn numerator(self) -> i64 {
        self.numerator
    }
    pub fn denominator(self) -> i64 {
        self.denominator
    }
    pub fn is_zero(self) -> bool {
        self.numerator == 0
    }
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }
    pub fn is_negative(self) -> bool {
        self.numerator < 0
    }
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
    pub fn add(self, other: Self) -> Option<Self> {
        let (a, b, c, d) = (self.numerator as i128, self.denominator as i128, other.numerator as i128, other.denominator as i128);
        Self::new((a * d).checked_add(c * b)?, b * d)
    }
    pub fn mul(self, other: Self) -> Option<Self> {
        Self::new(self.numerator as i128 * other.numerator as i128, self.denominator as i128 * other.denominator as i128)
    }
    pub fn neg(self) -> Option<Self> {
        self.mul(Self::MINUS_ONE)
    }
    /// An integer power; `None` for a negative power of 0.
    pub fn pow(self, exponent: i32) -> Option<Self> {
        let base = if exponent < 0 { Self::new(self.denominator as i128, self.numerator as i128)? } else { self };
        (0..exponent.abs()).try_fold(Self::ONE, |p, _| p.mul(base))
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.denominator == 1 { write!(f, "{}", self.numerator) } else { write!(f, "{}/{}", self.numerator, self.denominator) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_literals_are_exact() {
        assert_eq!(Rational::parse("1e-5"), Rational::new(1, 100_000));
        assert_eq!(Rational::parse("0.044715"), Rational::new(44_715, 1_000_000));
        assert_eq!(Rational::parse("2.50e1"), Some(Rational::integer(25)));
        assert_eq!(Rational::parse("1e-30"), None);
    }

    #[test]
    fn overflow_is_none() {
        let big = Rational::integer(i64::MAX);
        assert_eq!(big.mul(big), None);
        assert_eq!(big.add(Rational::ONE), None);
        assert_eq!(Rational::ZERO.pow(-1), None);
    }
}
