//! What a kernel's body is typed against in the eyes of the compiler and of editors. Nothing here computes: the macro emits the
//! body as a function that is never called, so that names resolve and lints point at the user's own text; the compiler of
//! kernels has read it before.
use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, Sub, SubAssign};

/// A tensor expression over named axes, or a number.
#[derive(Clone, Copy, Debug)]
pub struct Value;

macro_rules! operators {
    ($($operator:ident $function:ident,)*) => {
        $(impl $operator for Value {
            type Output = Value;
            fn $function(self, _: Value) -> Value {
                Value
            }
        })*
    };
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem,);

macro_rules! assignments {
    ($($operator:ident $function:ident,)*) => {
        $(impl $operator for Value {
            fn $function(&mut self, _: Value) {}
        })*
    };
}
assignments!(AddAssign add_assign, SubAssign sub_assign, MulAssign mul_assign, DivAssign div_assign,);

impl Neg for Value {
    type Output = Value;
    fn neg(self) -> Value {
        Value
    }
}
impl PartialEq for Value {
    fn eq(&self, _: &Value) -> bool {
        false
    }
}
impl PartialOrd for Value {
    fn partial_cmp(&self, _: &Value) -> Option<Ordering> {
        None
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident$(<$($axis:ident),+>)?($($argument:ident: $type:ty),*);)*) => {
        $($(#[$doc])*
        pub fn $name$(<$($axis),+>)?($($argument: $type),*) -> Value {
            $(let _ = $argument;)*
            Value
        })*
    };
}

functions! {
    /// The sum along axes: `sum::<N>(x)`, `sum::<(M, N)>(x)`. A contraction is a sum of a product. Masked elements count 0; f32.
    sum<A>(x: Value);
    /// The mean along axes, of those elements that are not masked.
    mean<A>(x: Value);
    /// The greatest along axes, of those elements that are not masked. Of two values: `max(x, y)`.
    max<A>(x: Value);
    /// The least along axes, of those elements that are not masked. Of two values: `min(x, y)`.
    min<A>(x: Value);
    /// `max(x, y)`: the greater of two values, elementwise.
    max_of(x: Value, y: Value);
    /// `min(x, y)`: the lesser of two values, elementwise.
    min_of(x: Value, y: Value);
    /// e to the power of `x`; of a masked element 0.
    exp(x: Value);
    /// 2 to the power of `x`.
    exp2(x: Value);
    /// The natural logarithm.
    log(x: Value);
    /// The hyperbolic tangent.
    tanh(x: Value);
    /// `1 / (1 + exp(-x))`.
    sigmoid(x: Value);
    /// The absolute value.
    abs(x: Value);
    /// The square root.
    sqrt(x: Value);
    /// `1 / sqrt(x)`.
    rsqrt(x: Value);
    /// `1 / x`.
    recip(x: Value);
    /// `x * x`.
    square(x: Value);
    /// A power with a constant exponent, a multiple of 1/2.
    pow(x: Value, exponent: Value);
    /// `x`, absent where the condition is false: a sum leaves it out, a maximum does not see it, `exp` of it is 0.
    mask(x: Value, condition: bool);
    /// The position along an axis, from 0.
    index<A>();
    /// The extent of an axis.
    extent<A>();
    /// One index of a constant factor: `part::<P>(x, 0)`.
    part<P>(x: Value, index: Value);
    /// A value for each index of a constant factor: `stack::<P>((a, b))`.
    stack<P>(parts: impl Sized);
    /// A constant factor read backwards.
    reverse<P>(x: Value);
    /// `x` with its axis `A` called `B`; both have the same extent.
    rename<A, B>(x: Value);
    /// `x` rounded to a storage type, as if it had been stored and read again: `cast::<f16>(x)`. Sums and functions stay f32.
    cast<T>(x: Value);
    /// `exp(x) / sum::<A>(exp(x))`, whatever the size of `x`; where all is masked 0.
    softmax<A>(x: Value);
    /// `x - logsumexp::<A>(x)`.
    log_softmax<A>(x: Value);
    /// `log(sum::<A>(exp(x)))`, whatever the size of `x`; where all is masked minus infinity.
    logsumexp<A>(x: Value);
    /// `x / sqrt(mean::<A>(x * x) + epsilon) * weight`.
    rms_norm<A>(x: Value, weight: Value, epsilon: Value);
    /// `x` less its mean, over its standard deviation (`epsilon` added to the variance), times `weight`, plus `bias`.
    layer_norm<A>(x: Value, weight: Value, bias: Value, epsilon: Value);
    /// The mean of the squared distance from the mean.
    var<A>(x: Value);
    /// `x * sigmoid(x)`.
    silu(x: Value);
    /// The Gaussian error linear unit in its form with tanh.
    gelu(x: Value);
    /// `cap * tanh(x / cap)`.
    softcap(x: Value, cap: Value);
}

pub use half::{bf16, f16};

/// A literal or a constant.
#[doc(hidden)]
pub fn number<T>(_: T) -> Value {
    Value
}

/// The axes of an argument's or a result's type.
#[doc(hidden)]
pub fn axes<A>() {}
