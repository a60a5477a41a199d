//! From an annotated function to a [`Kernel`]: one front end for the macro and the build script.
//!
//! The stages, a file each: [`attribute`], [`signature`] and [`parse`] make the [tree](syntax) of what is written; [`check`]
//! (with [`call`] and [`apply`] for [functions](builtin), [`output`] for the results) resolves names, writes out helpers and
//! [composites](composite) and makes a [formula](term) of typed terms; [`lower`] (with [`condition`]) makes the graph.
//! Faults of all stages are [collected](report), in the words of [`message`]. [`canonical`] prints a kernel and gives its
//! key; [`expand`] is what the macro emits, [`scan`] what the build script reads. Nothing panics on any input.
mod apply;
pub mod attribute;
mod builtin;
mod call;
pub mod canonical;
mod check;
mod composite;
mod condition;
mod document;
mod expand;
mod ghost;
mod lower;
pub mod message;
mod output;
pub mod parse;
pub mod report;
pub mod rule;
mod scan;
mod scope;
pub mod shared;
pub mod signature;
mod suggest;
pub mod syntax;
mod term;
mod written;

pub use canonical::{key, print};
pub use expand::{expand, expand_rule};
pub use message::TEXTS;
pub use report::Errors;
pub use scan::{Found, from_source, scan};

use crate::axis::AxisId;
use crate::extent;
use crate::graph::InputId;
use crate::kernel::{Kernel, Param};
use proc_macro2::{Ident, TokenStream};
use shared::Shared;
use syn::ItemFn;
use syn::ext::IdentExt;
use syntax::Source;

/// A kernel, and how its text maps to it.
struct Checked {
    kernel: Kernel,
    /// The input of each declared argument.
    arguments: Vec<InputId>,
    source: Source,
    /// Every axis and constant factor, at its first place.
    axes: Vec<Ident>,
}

/// The names of the language's functions, composites included.
pub fn functions() -> impl Iterator<Item = &'static str> {
    builtin::TABLE.iter().map(|r| r.name).chain(composite::names())
}

/// The kernel that a function under `#[cleave::kernel(attribute)]` states.
///
/// # Errors
/// All faults at their places.
pub fn kernel(attribute: TokenStream, function: ItemFn) -> Result<Kernel, Errors> {
    compile(attribute, &function, &Shared::default()).map(|c| c.kernel)
}

fn compile(attribute: TokenStream, function: &ItemFn, shared: &Shared) -> Result<Checked, Errors> {
    let mut errors = Errors::default();
    let attribute = attribute::parse(attribute, &mut errors);
    let signature = signature::parse(function, &mut errors);
    let mut parser = parse::Parser::new(&mut errors);
    parser.valueless = signature.promised == 0 && signature.in_place().next().is_some();
    let body = parser.block(&function.block);
    let (library, mut faulty) = composite::library(&mut parser, shared);
    faulty.append(&mut parser.faulty);
    let source = Source { name: function.sig.ident.clone(), attribute, signature, body, library, faulty };
    let formula = check::check(&source, &mut errors);
    if !errors.is_empty() {
        return errors.or(None);
    }
    let lower::Numbered { graph, arguments, axes, assertions, assumptions } = lower::lower(&source, &formula, &mut errors);
    let solvable = extent::solvable(&graph);
    for (declared, axis) in formula.axes.iter().zip(&axes) {
        if axis.is_some_and(|a| !solvable.contains(&a)) {
            errors.push(declared.ident.span(), message::unsolvable(&declared.name))
        }
    }
    let number = |name: &str| formula.axes.iter().position(|a| a.name == name).and_then(|i| axes[i]);
    let mut bounds: Vec<(AxisId, usize)> = source.attribute.bounds.iter().filter_map(|(name, n)| Some((number(&name.to_string())?, *n))).collect();
    bounds.sort();
    let types = |name: &proc_macro2::Ident| source.attribute.dtypes.iter().find(|d| d.0 == *name).map(|d| d.1.clone()).unwrap_or_default();
    let params = source.signature.generics.iter().map(|g| Param { name: g.to_string(), types: types(g) }).collect();
    let kernel = Kernel { name: source.name.unraw().to_string(), graph, params, bounds, assertions, assumptions };
    let axes = formula.axes.into_iter().map(|a| a.ident).collect();
    errors.or(Some(Checked { kernel, arguments, source, axes }))
}
