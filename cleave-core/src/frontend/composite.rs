//! Composites: functions of the language written in the language. A call is replaced by the body, so that nothing after the
//! front end can tell a composite from its expansion.
use super::parse::Parser;
use super::report::Errors;
use super::syntax::Function;

/// One helper each, in the syntax of a kernel's own helpers.
pub const LIBRARY: &str = "
fn softmax<A>(x: Value) -> Value {
    let e = exp(x - max::<A>(x));
    e / sum::<A>(e)
}
fn log_softmax<A>(x: Value) -> Value {
    x - logsumexp::<A>(x)
}
fn logsumexp<A>(x: Value) -> Value {
    let m = max::<A>(x);
    log(sum::<A>(exp(x - m))) + m
}
fn rms_norm<A>(x: Value, weight: Value, epsilon: Value) -> Value {
    x * rsqrt(mean::<A>(square(x)) + epsilon) * weight
}
fn layer_norm<A>(x: Value, weight: Value, bias: Value, epsilon: Value) -> Value {
    let centred = x - mean::<A>(x);
    centred * rsqrt(mean::<A>(square(centred)) + epsilon) * weight + bias
}
fn var<A>(x: Value) -> Value {
    mean::<A>(square(x - mean::<A>(x)))
}
fn silu(x: Value) -> Value {
    x * sigmoid(x)
}
fn gelu(x: Value) -> Value {
    0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
}
fn softcap(x: Value, cap: Value) -> Value {
    cap * tanh(x / cap)
}
fn exp2(x: Value) -> Value {
    exp(x * log(2))
}
";

/// The library, parsed.
pub fn library() -> Vec<Function> {
    let mut errors = Errors::default();
    let file = syn::parse_file(LIBRARY).map(|f| f.items).unwrap_or_default();
    let mut parser = Parser::new(&mut errors);
    file.iter().filter_map(|item| if let syn::Item::Fn(f) = item { parser.function(f) } else { None }).collect()
}
