//! What the macro emits: one function that returns a `Call`, its plan file embedded, and inside it the
//! [ghost body](super::ghost). A pure function of the tokens and of the build script's output folder.
use super::message::{self, Message};
use super::report::{Errors, Place};
use super::shared::Shared;
use super::syntax::{ElementName, Form, Tensor};
use super::{Checked, canonical, compile, document, ghost, signature};
use crate::build::rules;
use crate::dtype::DType;
use crate::plan::PlanFile;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use std::path::Path;
use syn::ItemFn;

/// The expansion of `#[cleave::kernel(attribute)] item`; `out_dir` is the build script's output folder, if the crate has one.
/// Faults become `compile_error!`s at their own tokens, beside a function of the same signature, so that callers
/// give no further errors.
pub fn expand(attribute: TokenStream, item: TokenStream, out_dir: Option<&Path>) -> TokenStream {
    let function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(e) => return e.to_compile_error(),
    };
    let shared = out_dir.map_or(Shared::default(), |d| Shared::read(&d.join("cleave")));
    let checked = match compile(attribute, &function, &shared) {
        Ok(checked) => checked,
        Err(errors) => return refusal(&function, errors),
    };
    let fault = |message: Message| {
        let mut errors = Errors::default();
        errors.push(Place::from(function.sig.ident.span()), message);
        refusal(&function, errors)
    };
    let Some(folder) = out_dir else { return fault(message::no_build_script()) };
    let plan = folder.join("cleave").join(format!("{:016x}.plan", canonical::key(&checked.kernel)));
    match plan.to_str() {
        Some(path) if plan.exists() => launcher(&function, &checked, path),
        _ => fault(message::no_plan(&function.sig.ident)),
    }
}

/// The expansion of `cleave::rule!(tokens)`: nothing, if the build script has proved the rule; what is wrong with it, at its place, if not.
pub fn expand_rule(tokens: TokenStream, out_dir: Option<&Path>) -> TokenStream {
    let rule = match super::rule::rule(tokens) {
        Ok(rule) => rule,
        Err(errors) => return errors.to_compile_error(),
    };
    let message = match out_dir {
        None => Some(message::no_build_script()),
        Some(folder) => {
            let text = std::fs::read_to_string(rules::file(&folder.join("cleave"), &rule.row)).unwrap_or_default();
            rules::Verdict::parse(&text).map_or_else(|| Some(message::rule_unknown(&rule.name)), |v| v.message(&rule.name.to_string()))
        }
    };
    let mut errors = Errors::default();
    message.into_iter().for_each(|m| errors.push(rule.place, m));
    errors.to_compile_error()
}

fn launcher(function: &ItemFn, checked: &Checked, plan: &str) -> TokenStream {
    let Checked { kernel, arguments, source, axes } = checked;
    let name = &kernel.name;
    let types = source.signature.generics.iter().map(|g| quote!(<#g as ::cleave::Element>::DTYPE));
    // in the order of the graph's inputs, which does not depend on the order of the declared arguments
    let mut values: Vec<_> = source.signature.arguments.iter().zip(arguments).collect();
    values.sort_by_key(|(_, input)| **input);
    let values = values.into_iter().map(|(a, _)| {
        let constructor = match a.form {
            Form::Tensor => "tensor",
            Form::InPlace => "in_place",
            Form::Scalar => "scalar",
            Form::Extent(_) => "extent",
        };
        let (word, constructor) = (&a.name, format_ident!("{constructor}"));
        quote!(::cleave::private::Argument::#constructor(#word))
    });
    let ghost = ghost::body(function, source, axes);
    let body = quote! {
        #ghost
        ::cleave::private::call(
            {
                static KERNEL: ::cleave::private::Embedded =
                    ::cleave::private::Embedded::new(#name, ::core::include_bytes!(#plan)).looking(::core::cfg!(debug_assertions));
                &KERNEL
            },
            &[#(#types),*],
            ::std::vec![#(#values),*],
        )
    };
    let algorithms = std::fs::read(plan).ok().and_then(|b| PlanFile::algorithms(&b)).unwrap_or_default();
    let documentation = document::lines(kernel, &algorithms);
    let declaration = declaration(function, &source.signature, body);
    // after the user's own lines, which the declaration begins with
    match syn::parse2::<ItemFn>(declaration.clone()) {
        Ok(mut item) => {
            let own = item.attrs.iter().rposition(|a| a.path().is_ident("doc")).map_or(0, |i| i + 1);
            for (i, line) in documentation.iter().enumerate() {
                item.attrs.insert(own + i, syn::parse_quote!(#[doc = #line]))
            }
            quote!(#item)
        }
        Err(_) => declaration,
    }
}

/// The errors, and the function if its signature is without fault.
fn refusal(function: &ItemFn, errors: Errors) -> TokenStream {
    let faults = errors.to_compile_error();
    let mut own = Errors::default();
    let signature = signature::parse(function, &mut own);
    let stub = own.is_empty().then(|| {
        let names = signature.arguments.iter().map(|a| &a.name);
        declaration(function, &signature, quote!(let _ = (#(#names),*); ::core::unreachable!()))
    });
    quote!(#faults #stub)
}

fn declaration(function: &ItemFn, signature: &super::syntax::Signature, body: TokenStream) -> TokenStream {
    let (attributes, visibility, name, generics) = (&function.attrs, &function.vis, &function.sig.ident, &signature.generics);
    let arguments = signature.arguments.iter().map(|a| {
        let (word, element) = (&a.name, element(&a.tensor));
        match a.form {
            Form::Tensor => quote!(#word: impl ::cleave::AsView<'call, #element>),
            Form::InPlace => quote!(#word: impl ::cleave::AsViewMut<'call, #element>),
            Form::Scalar => quote!(#word: #element),
            Form::Extent(_) => quote!(#word: usize),
        }
    });
    let results = signature.results.iter().map(|r| {
        let element = element(r);
        quote!(::cleave::Tensor<#element>)
    });
    let result = if signature.tuple || signature.promised == 0 { quote!((#(#results,)*)) } else { quote!(#(#results)*) };
    quote! {
        #(#attributes)*
        #[allow(clippy::too_many_arguments)]
        #visibility fn #name<'call, #(#generics: ::cleave::Element),*>(#(#arguments),*) -> ::cleave::Call<'call, #result> {
            #body
        }
    }
}

fn element(tensor: &Tensor) -> TokenStream {
    match &tensor.element {
        ElementName::Generic(name) => quote!(#name),
        ElementName::Type(DType::F32) => quote!(f32),
        ElementName::Type(DType::I32) => quote!(i32),
        ElementName::Type(DType::F16) => quote!(::cleave::f16),
        ElementName::Type(DType::BF16) => quote!(::cleave::bf16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pub fn scaled<T>(a: f32, x: Tensor<T, M, (H, P)>, b: Tensor<f16, M>) -> (Tensor<T, M, (H, P)>, Tensor<f32, M>) { (x * b * a, b) }";

    fn item() -> (TokenStream, TokenStream) {
        (quote!(dtypes(T = f32), factor(P = 2)), TEXT.parse().unwrap())
    }

    #[test]
    fn without_a_build_script_the_error_shows_the_lines_to_add() {
        let (attribute, item) = item();
        let text = expand(attribute, item, None).to_string();
        assert!(text.contains("compile_error"));
        for line in ["[build-dependencies]", "features = [\\\\\\\"build\\\\\\\"]", "cleave::build()"] {
            assert!(text.replace("\\\"", "\\\\\\\"").contains(line), "{line} in {text}")
        }
    }

    #[test]
    fn the_launcher_takes_arguments_as_declared_and_passes_them_as_used() {
        let folder = std::env::temp_dir().join(format!("cleave-expand-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("cleave")).unwrap();
        let (attribute, item) = item();
        let kernel = super::super::kernel(attribute.clone(), syn::parse2(item.clone()).unwrap()).unwrap();
        let plan = folder.join("cleave").join(format!("{:016x}.plan", canonical::key(&kernel)));
        let missing = expand(attribute.clone(), item.clone(), Some(&folder)).to_string();
        assert!(missing.contains("has not compiled `scaled`"), "{missing}");
        std::fs::write(&plan, []).unwrap();
        let text = expand(attribute, item, Some(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        let function: ItemFn = syn::parse2(text).unwrap();
        let want: syn::Signature = syn::parse_quote! {
            fn scaled<'call, T: ::cleave::Element>(
                a: f32,
                x: impl ::cleave::AsView<'call, T>,
                b: impl ::cleave::AsView<'call, ::cleave::f16>
            ) -> ::cleave::Call<'call, (::cleave::Tensor<T>, ::cleave::Tensor<f32>,)>
        };
        assert_eq!(function.sig, want);
        let names: Vec<&str> = kernel.graph.inputs.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["x", "b", "a"]);
        let body = quote!(#function).to_string();
        let at = |s: &str| body.find(s).unwrap_or_else(|| panic!("{s} in {body}"));
        assert!(at("tensor (x)") < at("tensor (b)") && at("tensor (b)") < at("scalar (a)"));
    }

    #[test]
    fn a_fault_in_the_body_leaves_the_function_for_its_callers() {
        let item = quote!(
            fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {
                y
            }
        );
        let text = expand(quote!(), item, None).to_string();
        assert!(text.contains("`y` is not known here") && text.contains("fn f <"), "{text}");
    }
}
