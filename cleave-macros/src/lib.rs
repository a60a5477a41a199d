//! The attribute `#[cleave::kernel]` and the macro `cleave::rule!`: shells over the front end in `cleave_core`.
use proc_macro::TokenStream;
use std::path::PathBuf;

/// States a rule of this crate's own, which the search for its kernels' algorithms may then use.
///
/// ```text
/// cleave::rule!(reflection: sigmoid(-x) == 1.0 - sigmoid(x));
/// cleave::rule!(scaled: max::<A>(c * x) == c * max::<A>(x), where c > 0.0, independent::<A>(c));
/// ```
///
/// Lower-case names stand for any terms, upper-case ones for any sets of axes; the left side is what is looked for, the right side
/// what it is equal to. The build script proves the rule for all ranks and extents, with z3 or by a committed proof
/// (`cleave.proofs`); a false rule is an error with the extents and values of both sides.
#[proc_macro]
pub fn rule(tokens: TokenStream) -> TokenStream {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    cleave_core::frontend::expand_rule(tokens.into(), out_dir.as_deref()).into()
}

/// Makes a kernel of a function that states a tensor formula over named axes.
///
/// ```text
/// #[cleave::kernel(dtypes(T = f16, bf16, f32), bound(D <= 256))]
/// pub fn matmul<T>(x: Tensor<T, M, D>, w: Tensor<T, N, D>) -> Tensor<T, M, N> {
///     sum::<D>(x * w)
/// }
/// ```
///
/// - `Tensor<T, B, (K, G), M>`: the type of the elements (`f32`, `f16`, `bf16`, `i32`, or a generic type of the function), then
///   an axis for each stored dimension; `(K, G)` is one dimension seen as two axes, the left one outer. Scalars are `f32` or `i32`.
/// - `dtypes(T = f16, f32)`: what a generic type may be. `bound(D <= 256)`: larger extents are not compiled for. `factor(P = 2)`:
///   `P` is a constant factor, as in `Tensor<T, M, (F, P)>`; `part`, `stack` and `reverse` take it apart.
/// - Elementwise operations align axes by name. Reductions name theirs: `sum::<N>(x)`. The functions are those of `cleave::dsl`;
///   helpers (`fn` over `Value`s) and constants stand inside the body.
///
/// The function then takes views of tensors and gives a `Call`. The crate needs a build script that calls `cleave::build()`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    cleave_core::frontend::expand(attribute.into(), item.into(), out_dir.as_deref()).into()
}

/// A helper that the kernels of a crate share, written like one nested in a kernel: its generic parameters are axes.
///
/// ```text
/// #[cleave::function]
/// pub fn rotate<P>(x: Value, cos: Value, sin: Value) -> Value {
///     x * cos + stack::<P>((-part::<P>(x, 1), part::<P>(x, 0))) * sin
/// }
/// ```
///
/// Kernels of the same crate call it by its name, `rotate::<P>(x, cos, sin)`; it is written out where it is called.
#[proc_macro_attribute]
pub fn function(_: TokenStream, item: TokenStream) -> TokenStream {
    cleave_core::frontend::shared::expand(item.into()).into()
}
