//! Helpers that several kernels of a crate share: functions under `#[cleave::function]`. A macro sees the tokens of its own item
//! alone, so the build script collects the crate's helpers in one file, and the macro of a kernel reads those that it calls there.
use super::parse::Parser;
use super::report::{Errors, Place};
use super::{ghost, message};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::path::Path;
use syn::visit::Visit;
use syn::{FnArg, Item, ItemFn, Pat, ReturnType};

/// The file beside the plan files.
pub const FILE: &str = "functions.rs";

/// The helpers of a crate.
#[derive(Clone, Default)]
pub struct Shared {
    functions: Vec<ItemFn>,
}

impl Shared {
    /// Those that stand in the text of a file, in modules and functions too; none of a text that is no Rust.
    pub fn of_text(text: &str) -> Shared {
        let mut found = Helpers(vec![]);
        if text.contains("function")
            && let Ok(file) = syn::parse_file(text)
        {
            found.visit_file(&file)
        }
        Shared { functions: found.0 }
    }
    /// Those that a build script has written.
    pub fn read(folder: &Path) -> Shared {
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        let items = syn::parse_file(&text).map_or(vec![], |f| f.items);
        Shared { functions: items.into_iter().filter_map(|i| if let Item::Fn(f) = i { Some(f) } else { None }).collect() }
    }
    /// The text to write for [`Shared::read`].
    pub fn text(&self) -> String {
        self.functions.iter().map(|f| f.to_token_stream().to_string() + "\n").collect()
    }
    pub fn extend(&mut self, other: Shared) {
        self.functions.extend(other.functions)
    }
    /// The helpers of a name; equal ones in two files are one.
    pub fn named(&self, name: &str) -> Vec<&ItemFn> {
        let mut found: Vec<&ItemFn> = vec![];
        for f in self.functions.iter().filter(|f| f.sig.ident == name) {
            let text = |f: &ItemFn| f.to_token_stream().to_string();
            if !found.iter().any(|known| text(known) == text(f)) {
                found.push(f)
            }
        }
        found
    }
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.functions.iter().map(|f| f.sig.ident.to_string())
    }
}

/// What the macro makes of `#[cleave::function] fn ..`: the function typed against `cleave::dsl`, so that names resolve and lints
/// point at the user's text. Kernels read the helper from the build script's file.
pub fn expand(item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(e) => return e.to_compile_error(),
    };
    let mut errors = Errors::default();
    for (present, place) in [
        (function.sig.constness.is_some(), Place::of(&function.sig.constness)),
        (function.sig.asyncness.is_some(), Place::of(&function.sig.asyncness)),
        (function.sig.abi.is_some(), Place::of(&function.sig.abi)),
        (function.sig.generics.where_clause.is_some(), Place::of(&function.sig.generics.where_clause)),
    ] {
        if present {
            errors.push(place, message::plain_function())
        }
    }
    let helper = Parser::new(&mut errors).function(&function);
    let (attributes, visibility, name) = (&function.attrs, &function.vis, &function.sig.ident);
    let Some(helper) = helper.filter(|_| errors.is_empty()) else { return errors.to_compile_error() };
    let (axes, statements) = (&helper.axes, ghost::statements(&function.block));
    let parameters = function.sig.inputs.iter().zip(&helper.parameters).map(|(a, (_, shape))| match a {
        FnArg::Typed(a) if matches!(*a.pat, Pat::Ident(_)) => {
            let (word, shape) = (&a.pat, ghost::shape(shape));
            quote!(#word: #shape)
        }
        other => quote!(#other),
    });
    let result = match &function.sig.output {
        ReturnType::Type(..) => ghost::shape(&helper.result.0),
        ReturnType::Default => quote!(()),
    };
    quote! {
        #(#attributes)*
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        #visibility fn #name<#(#axes),*>(#(#parameters),*) -> #result {
            #[allow(unused_imports)]
            use ::cleave::dsl::*;
            #(#statements)*
        }
    }
}

struct Helpers(Vec<ItemFn>);

impl<'ast> Visit<'ast> for Helpers {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if function.attrs.iter().any(|a| is_helper(a.path())) {
            self.0.push(ItemFn { attrs: vec![], vis: syn::Visibility::Inherited, ..function.clone() })
        } else {
            syn::visit::visit_item_fn(self, function)
        }
    }
}

fn is_helper(path: &syn::Path) -> bool {
    let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    matches!(words.iter().map(|w| w.as_str()).collect::<Vec<_>>()[..], ["function"] | ["cleave", "function"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_survive_the_way_through_the_build_scripts_file() {
        let text = "mod a { /// Doubled.\n #[cleave::function] pub(crate) fn twice<A>(x: Value) -> Value { 2.0 * x } } fn other() {}";
        let folder = std::env::temp_dir().join(format!("cleave-shared-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(FILE), Shared::of_text(text).text()).unwrap();
        let read = Shared::read(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.names().collect::<Vec<_>>(), ["twice"]);
        let kernel = "#[kernel] fn k(x: Tensor<f32, M>) -> Tensor<f32, M> { twice::<M>(x) }";
        let kernels = super::super::scan(kernel, &read).unwrap();
        assert!(kernels[0].kernel.is_ok());
        assert!(super::super::scan(kernel, &Shared::default()).unwrap()[0].kernel.is_err());
    }

    #[test]
    fn a_helper_is_typed_and_keeps_its_attributes() {
        let text = expand(quote!(
            /// Doubled.
            pub fn twice<A>(x: Value, (a, b): (Value, bool)) -> Value {
                2.0 * x
            }
        ));
        assert!(text.to_string().contains("compile_error"), "a pattern is refused");
        let text = expand(quote!(
            /// Doubled.
            pub fn twice<A>(x: Value, both: (Value, bool)) -> (Value, Value) {
                (2.0 * x, x)
            }
        ));
        let want: syn::Signature = syn::parse_quote! {
            fn twice<A>(x: ::cleave::dsl::Value, both: (::cleave::dsl::Value, bool,)) -> (::cleave::dsl::Value, ::cleave::dsl::Value,)
        };
        let function: ItemFn = syn::parse2(text).unwrap();
        assert_eq!(function.sig, want);
        assert_eq!(function.attrs.len(), 2);
    }
}
