//! The table of messages: what is wrong, and a hint. Lower case, without a full stop, in the user's words. The macro and the
//! build script say the same.
use super::syntax::Shape;
use std::fmt::{self, Display};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub text: String,
    pub hint: Option<String>,
}

impl Message {
    /// With this hint, if there is one and none yet.
    pub fn or_hint(mut self, hint: Option<String>) -> Self {
        self.hint = self.hint.or(hint);
        self
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)?;
        self.hint.as_ref().map_or(Ok(()), |h| write!(f, "\nhint: {h}"))
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Shape::Value => f.write_str("a value"),
            Shape::Truth => f.write_str("a condition"),
            Shape::Tuple(members) => write!(f, "a tuple of {}", members.len()),
        }
    }
}

/// `1 argument`, `2 arguments`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Where a function that is not known may stand.
pub const HELPERS: &str = "a helper is a nested `fn`, or a function of the crate under `#[cleave::function]`";

macro_rules! messages {
    ($($name:ident($($argument:ident),*) => $text:literal $(, $hint:literal)?;)*) => {
        $(pub fn $name($($argument: impl Display),*) -> Message {
            #[allow(unused_mut, unused_assignments)]
            let mut hint = None;
            $(hint = Some(format!($hint));)?
            Message { text: format!($text), hint }
        })*

        /// The text of every message, what it names in braces.
        pub const TEXTS: &[&str] = &[$($text),*];
    };
}

messages! {
    // a crate's own rule
    rule_without_sides() => "a rule is an equality", "`cleave::rule!(reflection: sigmoid(-x) == 1.0 - sigmoid(x))`";
    rule_not_found() => "the left side of a rule is what the search looks for, and this is no such term", "an operation over variables, without extents and constants; or exchange the sides";
    rule_not_understood() => "this has no meaning in a rule", "there are `+ - * /`, numbers, variables, and the functions of kernels of one value";
    rule_function(name) => "`{name}` cannot stand in a rule", "there are `exp log tanh sigmoid abs sqrt rsqrt recip square`, `sum::<A>(x)`, `max::<A>(x)` and `extent::<A>()`";
    rule_condition() => "this is no condition of a rule", "there are `x > 0.0`, `x >= 0.0`, `x != 0.0`, `independent::<A>(x)` and `disjoint::<A, B>()`";
    rule_false(name, reason) => "rule `{name}` is false: {reason}";
    rule_unproved(name, reason) => "rule `{name}` is not proved: {reason}", "add conditions after `where`, or state less";
    rule_without_solver(name) => "rule `{name}` is not proved: there is no solver", "put z3 in PATH or its path in Z3_BIN (`pip install z3-solver` brings it); or commit its proof: with z3 at hand, `CLEAVE_PROOFS=write cargo build` writes `cleave.proofs`, with which builds need no solver";
    rule_unknown(name) => "the build script has not met rule `{name}`", "it reads src, tests, benches and examples; rules of a macro are not found";
    // the attribute
    unknown_option(name) => "`{name}` is not an option of a kernel", "there are `dtypes(T = f16, bf16, f32)`, `bound(D <= 128)` and `factor(P = 2)`";
    no_storage_type(name) => "`{name}` is not a storage type of a generic parameter", "there are `f32`, `f16` and `bf16`";
    bad_bound() => "a bound is a positive number", "`bound(D <= 128)`";
    bad_factor(largest) => "a constant factor is 2 to {largest}", "give a larger one as an axis";
    no_generic(name) => "the function has no generic type `{name}`";
    generic_without_types(name) => "`{name}` has no storage types", "`#[cleave::kernel(dtypes({name} = f16, bf16, f32))]`";
    declared_twice(name) => "`{name}` is declared twice";

    // the signature
    plain_function() => "a kernel is a plain function", "leave out `const`, `async`, `unsafe`, `extern`, `self` and `where`";
    bounded_generic(name) => "a bound on `{name}` is not supported", "`dtypes({name} = f16, bf16, f32)` says what it may be";
    generic_not_a_type() => "a kernel's generic parameters are storage types", "leave out lifetimes and constants; axes need no declaration";
    argument_pattern() => "an argument is a plain name", "`x: Tensor<T, M, K>`";
    not_an_argument(name) => "`{name}` is not the type of an argument", "there are tensors `Tensor<T, M, K>`, scalars `f32` and `i32`, and extents `Extent<D>`";
    not_a_tensor() => "this is not a tensor", "`Tensor<T, M, K>`: the type of its elements, then an axis for each stored dimension";
    extent_of() => "an extent is of one axis", "`head_dim: Extent<D>`";
    extent_of_factor(name) => "`{name}` is a constant factor, so its extent is known", "leave the argument out";
    extent_result() => "an extent is no result", "it is an argument: `head_dim: Extent<D>`";
    element_first() => "the first argument of `Tensor` is the type of its elements", "`Tensor<f32, M, K>`";
    not_an_element(name) => "`{name}` is not an element type", "there are `f32`, `f16`, `bf16`, `i32`, and the function's generic types";
    literal_dimension() => "a dimension is an axis", "name it; a constant factor is declared by `factor(P = 2)`";
    not_an_axis() => "this is not an axis", "an axis is a plain name; `(H, D)` are two factors of one dimension";
    axis_twice(name) => "axis `{name}` appears twice", "give the second one a name of its own";
    type_as_axis(name) => "`{name}` is an element type, so it cannot be an axis";
    too_many_axes(most) => "a kernel has at most {most} axes";
    no_dimension() => "a tensor argument has an axis", "a scalar is `f32` or `i32`";
    no_argument() => "a kernel has an argument", "`x: Tensor<T, M, K>`";
    no_output() => "a kernel has a result", "`-> Tensor<T, M, N>`, or an argument that it writes over: `x: &mut Tensor<T, M, N>`";
    reference_argument() => "an argument that is only read is no reference here", "`Tensor<T, M, K>`; the call takes `&x`";
    integer_output() => "a result of `i32` is not supported", "integers serve in conditions and biases";
    unsolvable(name) => "the extent of axis `{name}` cannot be told from the arguments", "give it a dimension of its own in one of the tensors, or take it as an argument: `size: Extent<{name}>`";

    // syntax that the language does not have
    unsupported(what) => "{what} is not supported";
    unsupported_item() => "this item is not supported in a kernel", "there are `fn` and `const`";
    macro_call(name) => "the macro `{name}!` is not supported in a kernel", "there is `assert!(extent::<D>() % 8 == 0)`";
    assertion_syntax() => "an assertion is a condition and possibly a text", "`assert!(extent::<D>() % 8 == 0, \"whole vectors\")`";
    assertion_format() => "a text with values in it is not supported here", "the message names the condition and the extents by itself";
    assertion_varies(axis) => "an assertion is checked once for a call, and this varies along axis `{axis}`", "compare extents and `i32` scalars";
    assertion_never() => "this never holds";
    assumption_syntax() => "an assumption is an equality of two values, and possibly a text", "`assume!(sum::<N>(p) == 1.0, \"the rows of p are distributions\")`";
    assumption_of_integers() => "an equality of integers is asserted, not assumed", "`assert!(extent::<D>() == 64)`; only equalities of values can lead to other algorithms";
    assumption_of_nothing() => "both sides are the same", "leave it out";
    masked_assumption() => "this is absent where its mask is false, so nothing can be assumed of it", "reduce it, or write `if c {{ x }} else {{ 0.0 }}`";
    semicolon() => "the kernel's value is lost by this semicolon", "leave it out";
    statement_without_effect() => "this statement has no effect", "bind it: `let x = ..;`";
    block_without_value() => "this block has no value", "its last expression is its value";
    let_without_value() => "a `let` needs a value", "`let x = ..;`";
    annotated_let() => "a type here is not supported", "leave it out: types and axes are inferred";
    pattern() => "this pattern is not supported", "there are names, `_` and tuples";
    mutable(name) => "`{name}` cannot be mutable", "bind the new value by another `let`";
    assignment() => "assignment is not supported", "bind the new value by another `let`; an argument `x: &mut Tensor<..>` is written by `*x = ..`";
    assignment_place() => "an argument is written in the kernel's own body, not in a helper or an inner block", "give the value from there: `*x = f(..)`";
    not_in_place(name) => "`{name}` is not written in place", "its type says so: `{name}: &mut Tensor<T, M, K>`";
    never_written(name) => "`{name}` is never written", "write `*{name} = ..;`, or leave out the `&mut`";
    read_in_place(name) => "`{name}` is written in place, so its value is `*{name}`";
    loops() => "loops are not supported", "reductions name the axis that they run over: `sum::<N>(x)`";
    matches() => "`match` is not supported", "`if c {{ a }} else {{ b }}`";
    if_without_else() => "an `if` needs an `else`", "`if c {{ a }} else {{ b }}`, or `mask(a, c)`: absent where `c` is false";
    indexing() => "indexing is not supported", "axes align by name; `part::<P>(x, 0)` reads one index of a constant factor";
    field() => "fields are not supported", "take a tuple apart by `let (a, b) = ..;`";
    closure() => "closures are not supported", "a helper is a nested `fn`";
    reference() => "references are not supported", "leave out the `&` or `*`: values are copied";
    cast_with_as(to) => "`as` is not supported", "results are rounded to their type when stored; `cast::<{to}>(x)` rounds in between";
    method(name, receiver) => "methods are not supported", "`{name}({receiver})`";
    path(last) => "a path is not supported", "functions of the language need none: `{last}`";
    call_of_expression() => "only a function can be called";
    literal() => "this literal is not supported", "there are numbers, `true` and `false`";
    cast_type(name) => "`{name}` is not a type that a value can be rounded to", "there are `f32`, `f16`, `bf16`, and the function's generic types";
    cast_needs_type() => "`cast` needs a type", "`cast::<f16>(x)` rounds x to f16";
    suffix(digits) => "a number has no type here", "`{digits}`";
    number_range() => "this number does not fit", "numbers are exact fractions of 64-bit integers";
    bitwise(wrong, right) => "`{wrong}` is not supported", "`{right}`";
    operator(name) => "`{name}` is not supported";
    too_deep() => "this expression is too deep", "bind a part of it by `let`";
    too_large() => "the kernel is too large, its helpers written out";

    // helpers and constants
    helper_generic() => "a helper's generic parameters are axes", "`fn scaled<A>(x: Value) -> Value`";
    helper_type() => "this type is not supported in a helper", "there are `Value`, `bool`, and tuples of them";
    helper_result(name) => "the helper `{name}` has no result", "`-> Value`";
    argument_shape(shape) => "the helper takes {shape} here";
    result_shape(shape) => "the helper promises {shape}, its body gives something else";
    ambiguous_helper(name) => "the crate has several helpers `{name}`", "a helper under `#[cleave::function]` is found by its name alone";
    faulty_helper(name) => "the helper `{name}` has faults", "they are reported at the helper";
    recursion(name) => "`{name}` needs itself", "loops are reductions: `sum::<N>(x)`";
    constant_type() => "this type is not supported for a constant", "`f32`, or `i32` to compare with indices";
    constant_value(name) => "the value of `{name}` is not a constant number";

    // names
    unknown_axis(name) => "no input has axis `{name}`";
    unknown_name(name) => "`{name}` is not known here";
    unknown_function(name) => "`{name}` is no function of the language, and no helper";
    function_as_value(name) => "`{name}` is a function", "call it: `{name}(x)`";
    value_as_function(name) => "`{name}` is a value here, so it cannot be called", "give the value another name";
    no_axis(name) => "`{name}` has no axis", "leave out the `::<..>`";
    axis_needed(name) => "`{name}` needs an axis", "`{name}::<N>(..)`, or `{name}::<(M, N)>(..)` for two at once";
    axis_count(name, wanted, found) => "`{name}` takes {wanted}, not {found}", "`{name}::<(M, N)>(..)` are two axes at once";
    argument_count(name, wanted, found) => "`{name}` takes {wanted}, not {found}";
    one_axis() => "this needs one axis";

    // types
    does_not_vary(axis) => "this does not vary along axis `{axis}`";
    condition_as_value() => "this is a condition, not a value", "`if c {{ 1.0 }} else {{ 0.0 }}`";
    value_as_condition() => "this is not a condition", "compare indices, extents and integers: `index::<N>() <= index::<M>()`";
    tuple_as_value() => "this is a tuple, not a value", "take it apart by `let (a, b) = ..;`";
    tuple_length(wanted, found) => "{wanted} for a tuple of {found}";
    no_tuple() => "this is no tuple", "bind one name";
    branches_differ() => "one branch is a condition, the other is not";
    compared_values() => "only integers can be compared",
        "those are indices, extents, `i32` arguments and literals, their sums, and their products by constants; of values there is `max(a, b)`";
    integer_division() => "a quotient of integers is ambiguous", "write `1.0 / 3.0`";
    integer_divisor() => "integers are divided by a positive literal", "that rounds down; for a real quotient one of the two is a value: `cast::<f32>(n)`";
    remainder_of_values() => "only integers have a remainder", "those are indices, extents, `i32` arguments and literals";
    quotient_as_value() => "a quotient that rounds down serves only in conditions", "for a real quotient divide by `2.0` instead of `2`";
    division_by_zero() => "division by zero";
    exponent() => "an exponent is a constant multiple of 1/2, of at most 63", "`exp(y * log(x))`";
    masked_output() => "this is absent where its mask is false, so it cannot be stored", "reduce it, or write `if c {{ x }} else {{ 0.0 }}`";
    masked_factor() => "a masked value cannot be reduced over a constant factor", "`if c {{ x }} else {{ .. }}`";
    axis_not_in_output(axis) => "axis `{axis}` is not in the output type", "reduce it: `sum::<{axis}>(..)`, or add it to the type";
    reduced_in_output(axis) => "axis `{axis}` is reduced here, so it cannot appear in the output type";
    output_count(wanted, found) => "the function promises {wanted}, its body gives {found}";

    // constant factors and renaming
    not_a_factor(name) => "`{name}` is not a constant factor", "declare it: `factor({name} = 2)`";
    part_index(factor, extent) => "this is not an index of `{factor}`, which has {extent}", "a literal below {extent}";
    stack_of_one() => "`stack` takes a tuple", "`stack::<P>((a, b))`";
    stack_length(factor, extent, found) => "`{factor}` has {extent} parts, this tuple has {found}";
    stack_varies(factor) => "a part varies along `{factor}` itself";
    rename_factor() => "a constant factor cannot be renamed";
    rename_varies(axis) => "this varies along axis `{axis}` already";
    rename_captured(axis) => "axis `{axis}` is reduced inside, so nothing inside can be renamed to it", "rename the operand of the reduction";

    // conditions
    large_condition() => "this condition has too many alternatives", "bind fewer `||`";
    condition_range() => "a coefficient of this condition does not fit", "coefficients are 64-bit integers";

    // the build
    no_build_script() => "kernels are compiled by the build script, and this crate has none",
        "add `cleave = {{ version = \"0.1\", default-features = false, features = [\"build\"] }}` under `[build-dependencies]`, and a file `build.rs`:\nfn main() {{\n    cleave::build()\n}}";
    no_plan(kernel) => "the build script has not compiled `{kernel}`",
        "it calls `cleave::build()` and finds kernels in src, tests, benches and examples, not those that a macro writes; \
         save the file if an editor shows this";
}
