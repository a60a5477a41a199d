//! The attribute's arguments: `dtypes(T = f16, f32), bound(D <= 256), factor(P = 2)`.
use super::message;
use super::report::Errors;
use super::syntax::Attribute;
use crate::dtype::DType;
use proc_macro2::{Ident, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{LitInt, Token, parenthesized};

/// Constant factors above this are no longer worth unrolling.
const LARGEST_FACTOR: u32 = 8;

pub fn parse(tokens: TokenStream, errors: &mut Errors) -> Attribute {
    let mut attribute = Attribute::default();
    let parsed = (|input: ParseStream| {
        while !input.is_empty() {
            let option: Ident = input.parse()?;
            if !matches!(option.to_string().as_str(), "dtypes" | "bound" | "factor") {
                errors.push(option.span(), message::unknown_option(&option));
                input.parse::<TokenStream>()?;
                return Ok(());
            }
            let content;
            parenthesized!(content in input);
            match option.to_string().as_str() {
                "dtypes" => dtypes(&content, &mut attribute, errors)?,
                "bound" => bounds(&content, &mut attribute, errors)?,
                _ => factors(&content, &mut attribute, errors)?,
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    })
    .parse2(tokens);
    if let Err(e) = parsed {
        errors.syntax(e)
    }
    attribute
}

/// `T = f16, bf16, U = f32`: a name followed by `=` starts the next parameter.
fn dtypes(input: ParseStream, attribute: &mut Attribute, errors: &mut Errors) -> syn::Result<()> {
    while !input.is_empty() {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        if attribute.dtypes.iter().any(|d| d.0 == name) {
            errors.push(name.span(), message::declared_twice(&name))
        }
        let mut types = vec![];
        loop {
            let word: Ident = input.parse()?;
            match DType::parse(&word.to_string()) {
                Some(DType::I32) | None => errors.push(word.span(), message::no_storage_type(&word)),
                Some(t) if types.contains(&t) => errors.push(word.span(), message::declared_twice(&word)),
                Some(t) => types.push(t),
            }
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
            if input.is_empty() || input.peek2(Token![=]) {
                break;
            }
        }
        attribute.dtypes.push((name, types));
    }
    Ok(())
}

fn bounds(input: ParseStream, attribute: &mut Attribute, errors: &mut Errors) -> syn::Result<()> {
    for (name, _, value) in input.parse_terminated(|i| Ok((i.parse::<Ident>()?, i.parse::<Token![<=]>()?, i.parse::<LitInt>()?)), Token![,])? {
        match value.base10_parse::<u32>() {
            Ok(n) if n > 0 => attribute.bounds.push((name, n as usize)),
            _ => errors.push(value.span(), message::bad_bound()),
        }
    }
    Ok(())
}

fn factors(input: ParseStream, attribute: &mut Attribute, errors: &mut Errors) -> syn::Result<()> {
    for (name, _, value) in input.parse_terminated(|i| Ok((i.parse::<Ident>()?, i.parse::<Token![=]>()?, i.parse::<LitInt>()?)), Token![,])? {
        match value.base10_parse::<u32>() {
            Ok(n) if (2..=LARGEST_FACTOR).contains(&n) => attribute.factors.push((name, n)),
            _ => {
                errors.push(value.span(), message::bad_factor(LARGEST_FACTOR));
                attribute.factors.push((name, 2)) // so that its uses are no further faults
            }
        }
    }
    Ok(())
}
