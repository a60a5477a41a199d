//! A scalar about which something is proved: its text in SMT-LIB.
use super::Scalar;

/// A term in SMT-LIB. Of frames that are compared the order is known, as each order is a case of its own: rank 0 is the frame of no
/// elements, which is below all others.
#[derive(Clone, Debug)]
pub struct Term {
    pub text: String,
    pub rank: Option<u8>,
}

impl Term {
    pub fn new(text: impl Into<String>) -> Term {
        Term { text: text.into(), rank: None }
    }
    fn binary(f: &str, a: &Term, b: &Term) -> Term {
        Term::new(format!("({f} {} {})", a.text, b.text))
    }
}

impl Scalar for Term {
    fn number(value: f64) -> Self {
        Term::new(format!("{value:?}"))
    }
    fn plus(&self, other: &Self) -> Self {
        Term::binary("+", self, other)
    }
    fn minus(&self, other: &Self) -> Self {
        Term::binary("-", self, other)
    }
    fn times(&self, other: &Self) -> Self {
        Term::binary("*", self, other)
    }
    fn exp(&self) -> Self {
        Term::new(format!("(e {})", self.text))
    }
    fn greater(&self, other: &Self) -> Self {
        if self.rank >= other.rank { self.clone() } else { other.clone() }
    }
    fn if_equal(&self, other: &Self, then: Self, otherwise: Self) -> Self {
        match (self.rank, other.rank) {
            (Some(x), Some(y)) => {
                if x == y {
                    then
                } else {
                    otherwise
                }
            }
            _ => Term::new(format!("(ite (= {} {}) {} {})", self.text, other.text, then.text, otherwise.text)),
        }
    }
    fn if_nothing(&self, nothing: &Self, then: Self, otherwise: Self) -> Self {
        self.if_equal(nothing, then, otherwise)
    }
}
