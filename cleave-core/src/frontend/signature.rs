//! The function's signature: element types, tensor arguments and results with the factors of each stored dimension.
use super::message;
use super::report::{Errors, Place};
use super::syntax::{Argument, ElementName, Form, Signature, Tensor};
use crate::dtype::DType;
use proc_macro2::Ident;
use syn::{FnArg, GenericArgument, GenericParam, ItemFn, Pat, PathArguments, ReturnType, Type};

pub fn parse(function: &ItemFn, errors: &mut Errors) -> Signature {
    let sig = &function.sig;
    for (present, place) in [
        (sig.constness.is_some(), Place::of(&sig.constness)),
        (sig.asyncness.is_some(), Place::of(&sig.asyncness)),
        (sig.abi.is_some(), Place::of(&sig.abi)),
        (sig.variadic.is_some(), Place::of(&sig.variadic)),
        (!matches!(sig.safety, syn::Safety::Default), Place::of(&sig.safety)),
        (sig.generics.where_clause.is_some(), Place::of(&sig.generics.where_clause)),
    ] {
        if present {
            errors.push(place, message::plain_function())
        }
    }
    let mut signature = Signature::default();
    for p in &sig.generics.params {
        match p {
            GenericParam::Type(t) if t.bounds.is_empty() && t.default.is_none() => signature.generics.push(t.ident.clone()),
            GenericParam::Type(t) => {
                errors.push(Place::of(t), message::bounded_generic(&t.ident));
                signature.generics.push(t.ident.clone())
            }
            other => errors.push(Place::of(other), message::generic_not_a_type()),
        }
    }
    for argument in &sig.inputs {
        let FnArg::Typed(typed) = argument else {
            errors.push(Place::of(argument), message::plain_function());
            continue;
        };
        let name = match &*typed.pat {
            Pat::Ident(p) if p.by_ref.is_none() && p.mutability.is_none() && p.subpat.is_none() => p.ident.clone(),
            other => {
                errors.push(Place::of(other), message::argument_pattern());
                continue;
            }
        };
        if signature.arguments.iter().any(|a| a.name == name) {
            errors.push(name.span(), message::declared_twice(&name))
        }
        match argument_type(&typed.ty, &signature.generics, errors) {
            Some((tensor, form)) => signature.arguments.push(Argument { name, tensor, form }),
            None => signature.faulty.push(name),
        }
    }
    if sig.inputs.is_empty() {
        errors.push(sig.ident.span(), message::no_argument())
    }
    match &sig.output {
        ReturnType::Default if signature.in_place().next().is_some() => {}
        ReturnType::Default => errors.push(sig.ident.span(), message::no_output()),
        ReturnType::Type(_, t) => match &**t {
            Type::Tuple(members) => {
                signature.tuple = true;
                if members.elems.is_empty() {
                    errors.push(Place::of(members), message::no_output())
                }
                signature.promised = members.elems.len();
                signature.results = members.elems.iter().filter_map(|m| result_type(m, &signature.generics, errors)).collect()
            }
            one => {
                signature.promised = 1;
                signature.results = result_type(one, &signature.generics, errors).into_iter().collect()
            }
        },
    }
    signature
}

fn argument_type(ty: &Type, generics: &[Ident], errors: &mut Errors) -> Option<(Tensor, Form)> {
    let number = |t| Tensor { element: ElementName::Type(t), dims: vec![], place: Place::of(ty) };
    if let Some(arguments) = generic(ty, "Extent") {
        let axis = match arguments[..] {
            [GenericArgument::Type(t)] => word(t),
            _ => None,
        };
        if axis.is_none() {
            errors.push(Place::of(ty), message::extent_of())
        }
        return Some((number(DType::I32), Form::Extent(axis?)));
    }
    if let Some(name) = word(ty) {
        return match DType::parse(&name.to_string()) {
            Some(t @ (DType::F32 | DType::I32)) => Some((number(t), Form::Scalar)),
            _ => {
                errors.push(Place::of(ty), message::not_an_argument(&name));
                None
            }
        };
    }
    let (referred, form) = match ty {
        Type::Reference(r) if r.mutability.is_some() => (&*r.elem, Form::InPlace),
        Type::Reference(r) if generic(&r.elem, "Tensor").is_some() => {
            errors.push(Place::of(ty), message::reference_argument());
            (&*r.elem, Form::Tensor)
        }
        _ => (ty, Form::Tensor),
    };
    let tensor = tensor(referred, generics, errors)?;
    if tensor.dims.is_empty() {
        errors.push(tensor.place, message::no_dimension())
    }
    if let (Form::InPlace, ElementName::Type(DType::I32)) = (&form, &tensor.element) {
        errors.push(tensor.place, message::integer_output());
        return None;
    }
    Some((tensor, form))
}

fn result_type(ty: &Type, generics: &[Ident], errors: &mut Errors) -> Option<Tensor> {
    let tensor = tensor(ty, generics, errors)?;
    if let ElementName::Type(DType::I32) = tensor.element {
        errors.push(tensor.place, message::integer_output());
        return None;
    }
    Some(tensor)
}

/// A type that is a single name without arguments.
pub fn word(ty: &Type) -> Option<Ident> {
    match ty {
        Type::Path(p) if p.qself.is_none() => p.path.get_ident().cloned(),
        Type::Group(g) => word(&g.elem),
        _ => None,
    }
}

/// The arguments of a type of this name, if it is one; the path before the name does not count.
fn generic<'a>(ty: &'a Type, name: &str) -> Option<Vec<&'a GenericArgument>> {
    let segment = match ty {
        Type::Path(p) if p.qself.is_none() => p.path.segments.last()?,
        Type::Group(g) => return generic(&g.elem, name),
        _ => return None,
    };
    match &segment.arguments {
        PathArguments::AngleBracketed(a) if segment.ident == name => Some(a.args.iter().collect()),
        _ if segment.ident == name => Some(vec![]),
        _ => None,
    }
}

/// A tensor type. What is faulty in it is reported and left out, so that the rest can be checked.
fn tensor(ty: &Type, generics: &[Ident], errors: &mut Errors) -> Option<Tensor> {
    let place = Place::of(ty);
    let Some(arguments) = generic(ty, "Tensor") else {
        errors.push(place, if generic(ty, "Extent").is_some() { message::extent_result() } else { message::not_a_tensor() });
        return None;
    };
    let Some((first, dims)) = arguments.split_first() else {
        errors.push(place, message::not_a_tensor());
        return None;
    };
    let element = match first {
        GenericArgument::Type(t) => word(t),
        _ => None,
    };
    let element = match element {
        Some(name) if generics.contains(&name) => ElementName::Generic(name),
        Some(name) => ElementName::Type(DType::parse(&name.to_string()).unwrap_or_else(|| {
            errors.push(name.span(), message::not_an_element(&name));
            DType::F32
        })),
        None => {
            errors.push(Place::of(first), message::element_first());
            ElementName::Type(DType::F32)
        }
    };
    let mut seen: Vec<Ident> = vec![];
    let mut all = vec![];
    for dim in dims {
        let factors: Vec<&Type> = match dim {
            GenericArgument::Type(Type::Tuple(t)) if !t.elems.is_empty() => t.elems.iter().collect(),
            GenericArgument::Type(t) => vec![t],
            other => {
                errors.push(Place::of(other), message::literal_dimension());
                continue;
            }
        };
        let mut names = vec![];
        for f in factors {
            match word(f) {
                Some(name) if seen.contains(&name) => errors.push(name.span(), message::axis_twice(&name)),
                Some(name) => {
                    seen.push(name.clone());
                    names.push(name)
                }
                None => errors.push(Place::of(f), message::not_an_axis()),
            }
        }
        all.push(names)
    }
    Some(Tensor { element, dims: all, place })
}
