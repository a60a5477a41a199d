//! Composites: functions of the language written in the language. A call is replaced by the body, so that nothing after the
//! front end can tell a composite from its expansion.
use super::message;
use super::parse::Parser;
use super::report::Errors;
use super::shared::Shared;
use super::syntax::Function;
use std::collections::BTreeSet;

/// Helpers as a kernel might have them, by name.
const TABLE: [(&str, &str); 10] = [
    ("softmax", "fn softmax<A>(x: Value) -> Value { let e = exp(x - max::<A>(x)); e / sum::<A>(e) }"),
    ("log_softmax", "fn log_softmax<A>(x: Value) -> Value { x - logsumexp::<A>(x) }"),
    ("logsumexp", "fn logsumexp<A>(x: Value) -> Value { let m = max::<A>(x); log(sum::<A>(exp(x - m))) + m }"),
    ("rms_norm", "fn rms_norm<A>(x: Value, weight: Value, epsilon: Value) -> Value { x * rsqrt(mean::<A>(square(x)) + epsilon) * weight }"),
    (
        "layer_norm",
        "fn layer_norm<A>(x: Value, weight: Value, bias: Value, epsilon: Value) -> Value {
            let centred = x - mean::<A>(x);
            centred * rsqrt(mean::<A>(square(centred)) + epsilon) * weight + bias
        }",
    ),
    ("var", "fn var<A>(x: Value) -> Value { mean::<A>(square(x - mean::<A>(x))) }"),
    ("silu", "fn silu(x: Value) -> Value { x * sigmoid(x) }"),
    ("gelu", "fn gelu(x: Value) -> Value { 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) }"),
    ("softcap", "fn softcap(x: Value, cap: Value) -> Value { cap * tanh(x / cap) }"),
    ("exp2", "fn exp2(x: Value) -> Value { exp(x * log(2)) }"),
];

/// Every name.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|c| c.0)
}

/// The composites and the crate's helpers that a parsed kernel needs, those that they call themselves too. Parsing them all would take
/// longer than most kernels. Beside them the names of helpers that are at fault.
pub fn library(kernel: &mut Parser, shared: &Shared) -> (Vec<Function>, Vec<String>) {
    let mut called = kernel.called.clone();
    let (mut library, mut faulty) = (vec![], vec![]);
    let mut seen = BTreeSet::new();
    while let Some((name, place)) = called.iter().find(|c| !seen.contains(c.0)).map(|(n, p)| (n.clone(), *p)) {
        let mut errors = Errors::default();
        let mut parser = Parser::new(&mut errors);
        let helpers = shared.named(&name);
        let function = match (&helpers[..], TABLE.iter().find(|c| c.0 == name)) {
            ([one], _) => parser.function(one).map(|f| Function { shared: true, ..f }),
            ([], Some((_, text))) => syn::parse_str(text).ok().and_then(|f| parser.function(&f)),
            _ => None,
        };
        for c in parser.called.into_keys() {
            called.entry(c).or_insert(place);
        }
        if helpers.len() > 1 {
            kernel.errors.push(place, message::ambiguous_helper(&name))
        } else if !helpers.is_empty() && !errors.is_empty() {
            kernel.errors.push(place, message::faulty_helper(&name))
        }
        if function.is_none() && !helpers.is_empty() {
            faulty.push(name.clone())
        }
        library.extend(function);
        seen.insert(name);
    }
    (library, faulty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_composite_parses() {
        let mut errors = Errors::default();
        let mut kernel = Parser::new(&mut errors);
        kernel.called = names().map(|n| (n.to_string(), proc_macro2::Span::call_site().into())).collect();
        assert_eq!(library(&mut kernel, &Shared::default()).0.len(), TABLE.len())
    }
}
