//! The ghost body: the user's own tokens as a function that is never called, typed against `cleave::dsl`. Editors resolve
//! names on it, and the compiler's lints (an unused `let`, a helper that nobody calls) point at the user's text.
use super::syntax::{Form, Shape, Source, Tensor};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use std::collections::BTreeSet;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprLit, ItemConst, ItemFn, Lit, PathArguments, Stmt, Token, parse_quote};

/// A nested function, and a use of it, for a kernel without faults.
pub fn body(function: &ItemFn, source: &Source, axes: &[Ident]) -> TokenStream {
    let statements = statements(&function.block);
    let arguments = source.signature.arguments.iter().map(|a| {
        let (name, reference) = (&a.name, (a.form == Form::InPlace).then(|| quote!(&mut)));
        quote!(#name: #reference ::cleave::dsl::Value)
    });
    let tensors = source.signature.arguments.iter().map(|a| &a.tensor).chain(&source.signature.results).map(tensor_axes);
    let generics = &source.signature.generics;
    let values = source.signature.results.iter().map(|_| quote!(::cleave::dsl::Value));
    let result = if source.signature.tuple || source.signature.promised == 0 { quote!((#(#values,)*)) } else { quote!(#(#values)*) };
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        fn ghost<#(#generics),*>(#(#arguments),*) -> #result {
            #[allow(unused_imports)]
            use ::cleave::dsl::*;
            #(#[allow(non_camel_case_types)] enum #axes {})*
            #(::cleave::dsl::axes::<#tensors>();)*
            #(#statements)*
        }
        let _ = ghost::<#(#generics),*>;
    }
}

/// The statements of a body, typed.
pub fn statements(block: &Block) -> Vec<Stmt> {
    let mut names = Names::default();
    names.visit_block(block);
    let mut block = block.clone();
    Typed { names }.visit_block_mut(&mut block);
    block.stmts
}

/// What a helper takes or gives, as a type.
pub fn shape(shape: &Shape) -> TokenStream {
    match shape {
        Shape::Value => quote!(::cleave::dsl::Value),
        Shape::Truth => quote!(bool),
        Shape::Tuple(members) => {
            let members = members.iter().map(self::shape);
            quote!((#(#members,)*))
        }
    }
}

/// `(B, (K, G), M)` as a type.
fn tensor_axes(tensor: &Tensor) -> TokenStream {
    let dims = tensor.dims.iter().map(|d| match &d[..] {
        [axis] => quote!(#axis),
        factors => quote!((#(#factors,)*)),
    });
    quote!((#(#dims,)*))
}

/// The constants and helpers that a body declares.
#[derive(Default)]
struct Names {
    constants: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.constants.insert(item.ident.to_string());
    }
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.functions.insert(item.sig.ident.to_string());
        syn::visit::visit_item_fn(self, item)
    }
}

/// Gives every number the type of a value, and the two meanings of `max` and `min` two functions.
struct Typed {
    names: Names,
}

impl VisitMut for Typed {
    // a condition by itself, as the macro's tokens are no tree
    fn visit_stmt_mut(&mut self, s: &mut Stmt) {
        if let Stmt::Macro(m) = s
            && (m.mac.path.is_ident("assert") || m.mac.path.is_ident("assume"))
            && let Ok(arguments) = m.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
            && let Some(condition) = arguments.first()
        {
            *s = parse_quote!(let _: bool = #condition;)
        }
        visit_mut::visit_stmt_mut(self, s)
    }

    fn visit_item_const_mut(&mut self, _: &mut ItemConst) {} // as written: its value has the type that it says

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        match e {
            Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Float(_), .. }) => *e = parse_quote!(::cleave::dsl::number(#e)),
            Expr::Path(p) if p.path.get_ident().is_some_and(|i| self.names.constants.contains(&i.to_string())) => *e = parse_quote!(::cleave::dsl::number(#e)),
            Expr::Call(c) => {
                if let Expr::Path(p) = &mut *c.func
                    && let Some(segment) = p.path.segments.first_mut()
                    && matches!(segment.arguments, PathArguments::None)
                    && !self.names.functions.contains(&segment.ident.to_string())
                    && let Some(name) = match segment.ident.to_string().as_str() {
                        "max" => Some("max_of"),
                        "min" => Some("min_of"),
                        _ => None,
                    }
                {
                    segment.ident = Ident::new(name, segment.ident.span().resolved_at(Span::call_site()))
                }
                c.args.iter_mut().for_each(|a| self.visit_expr_mut(a))
            }
            _ => visit_mut::visit_expr_mut(self, e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile;
    use super::*;

    #[test]
    fn numbers_are_values_and_constants_keep_their_types() {
        let function: ItemFn = parse_quote! {
            fn k(x: Tensor<f32, M, (F, P)>) -> Tensor<f32, M> {
                const TWO: f32 = 2.0;
                fn min(x: Value, y: Value) -> Value {
                    x - y * 3
                }
                max::<(F, P)>(min(max(x, TWO), 1))
            }
        };
        let checked = compile(quote!(factor(P = 2)), &function, &Default::default()).unwrap();
        let got = body(&function, &checked.source, &checked.axes).to_string();
        let want = quote! {
            #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
            fn ghost<>(x: ::cleave::dsl::Value) -> ::cleave::dsl::Value {
                #[allow(unused_imports)]
                use ::cleave::dsl::*;
                #[allow(non_camel_case_types)]
                enum P {}
                #[allow(non_camel_case_types)]
                enum M {}
                #[allow(non_camel_case_types)]
                enum F {}
                ::cleave::dsl::axes::<(M, (F, P,),)>();
                ::cleave::dsl::axes::<(M,)>();
                const TWO: f32 = 2.0;
                fn min(x: Value, y: Value) -> Value {
                    x - y * ::cleave::dsl::number(3)
                }
                max::<(F, P)>(min(max_of(x, ::cleave::dsl::number(TWO)), ::cleave::dsl::number(1)))
            }
            let _ = ghost::<>;
        };
        assert_eq!(got, want.to_string())
    }
}
