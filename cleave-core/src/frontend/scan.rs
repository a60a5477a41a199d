//! Kernels in the text of a file: what the build script and the tests read.
use super::report::Errors;
use super::shared::Shared;
use super::{Checked, compile};
use crate::kernel::Kernel;
use proc_macro2::{Ident, TokenStream};
use syn::visit::Visit;
use syn::{ItemFn, Meta};

/// A kernel found in a file.
pub struct Found {
    pub name: Ident,
    pub kernel: Result<Kernel, Errors>,
}

/// With the crate's shared helpers: the functions under `#[cleave::kernel]` or `#[kernel]` in a file, in their order; in modules and functions too.
///
/// # Errors
/// If the text is no Rust. A faulty kernel is among the found.
pub fn scan(text: &str, shared: &Shared) -> Result<Vec<Found>, Errors> {
    let file = syn::parse_file(text).map_err(|e| {
        let mut errors = Errors::default();
        errors.syntax(e);
        errors
    })?;
    let mut visitor = Kernels(vec![]);
    visitor.visit_file(&file);
    let found = visitor
        .0
        .into_iter()
        .map(|(attribute, function)| Found { name: function.sig.ident.clone(), kernel: compile(attribute, &function, shared).map(|c: Checked| c.kernel) });
    Ok(found.collect())
}

/// All kernels of a file; it holds the helpers that they share.
///
/// # Errors
/// The faults of all of them, if there are any.
pub fn from_source(text: &str) -> Result<Vec<Kernel>, Errors> {
    let mut errors = Errors::default();
    let mut kernels = vec![];
    for found in scan(text, &Shared::of_text(text))? {
        match found.kernel {
            Ok(kernel) => kernels.push(kernel),
            Err(e) => errors.extend(e),
        }
    }
    errors.or(Some(kernels))
}

struct Kernels(Vec<(TokenStream, ItemFn)>);

impl<'ast> Visit<'ast> for Kernels {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let mut function = function.clone();
        if let Some(i) = function.attrs.iter().position(|a| is_kernel(a.path())) {
            let attribute = match function.attrs.remove(i).meta {
                Meta::List(list) => list.tokens,
                _ => TokenStream::new(),
            };
            self.0.push((attribute, function))
        } else {
            syn::visit::visit_item_fn(self, &function)
        }
    }
}

fn is_kernel(path: &syn::Path) -> bool {
    let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    matches!(words.iter().map(|w| w.as_str()).collect::<Vec<_>>()[..], ["kernel"] | ["cleave", "kernel"])
}
