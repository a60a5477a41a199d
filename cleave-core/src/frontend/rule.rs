//! A crate's own rule: `cleave::rule!(reflection: sigmoid(-x) == 1.0 - sigmoid(x))`.
//!
//! Comes in: the tokens of the macro. Goes out: a [`Row`] like those of the project's table. Lower-case names stand for any terms,
//! upper-case ones between `::<` and `>` for any sets of axes; the left side is what the search looks for. Conditions follow a `where`:
//! `x > 0.0`, `x >= 0.0`, `x != 0.0`, `independent::<A>(x)` (x does not vary along A), `disjoint::<A, B>()`.
use super::message;
use super::report::{Errors, Place};
use crate::algebra::schema::{Addend, Axes, Coefficient, Factor, Guard, Place as Where, Power, Row, Split, Term, Var};
use crate::graph::Function;
use crate::rational::Rational;
use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{BinOp, Expr, ExprCall, GenericArgument, Lit, PathArguments, Token, UnOp};

/// A rule as written.
#[derive(Clone)]
pub struct Rule {
    pub name: Ident,
    pub row: Row,
    /// Both sides.
    pub place: Place,
}

/// The rule that the tokens of `cleave::rule!` state.
///
/// # Errors
/// All faults at their places.
pub fn rule(tokens: TokenStream) -> Result<Rule, Errors> {
    let mut errors = Errors::default();
    let parsed = parse.parse2(tokens);
    let (name, sides, conditions) = match parsed {
        Ok(parsed) => parsed,
        Err(e) => {
            errors.syntax(e);
            return errors.or(None);
        }
    };
    let place = Place::of(&sides);
    let Expr::Binary(syn::ExprBinary { left, op: BinOp::Eq(_), right, .. }) = &sides else {
        errors.push(place, message::rule_without_sides());
        return errors.or(None);
    };
    let mut writer = Writer::new(&mut errors);
    let (left, right) = (writer.expression(left), writer.expression(right));
    let guards: Vec<Guard> = conditions.iter().filter_map(|c| writer.condition(c)).collect();
    let (Some(left), Some(right)) = (left, right) else { return errors.or(None) };
    let row = row(&name.to_string(), left, right, guards).ok_or_else(|| {
        let mut errors = Errors::default();
        errors.push(place, message::rule_not_found());
        errors
    })?;
    errors.or(Some(Rule { name, row, place }))
}

/// The rules that a file states; those at fault are the macro's to report.
pub fn in_file(text: &str) -> Vec<Rule> {
    struct Rules(Vec<Rule>);
    impl<'ast> Visit<'ast> for Rules {
        fn visit_macro(&mut self, m: &'ast syn::Macro) {
            let words: Vec<String> = m.path.segments.iter().map(|s| s.ident.to_string()).collect();
            if matches!(words.iter().map(|w| w.as_str()).collect::<Vec<_>>()[..], ["rule"] | ["cleave", "rule"]) {
                self.0.extend(rule(m.tokens.clone()))
            }
        }
    }
    let mut found = Rules(vec![]);
    if text.contains("rule!")
        && let Ok(file) = syn::parse_file(text)
    {
        found.visit_file(&file)
    }
    found.0
}

/// `name: left == right` and, after `where`, conditions between commas.
pub(crate) fn parse(input: ParseStream) -> syn::Result<(Ident, Expr, Vec<Expr>)> {
    let name = input.parse()?;
    input.parse::<Token![:]>()?;
    let sides = input.parse()?;
    let _: Option<Token![,]> = input.parse()?;
    let conditions = if input.peek(Token![where]) {
        input.parse::<Token![where]>()?;
        Punctuated::<Expr, Token![,]>::parse_terminated(input)?.into_iter().collect()
    } else {
        vec![]
    };
    Ok((name, sides, conditions))
}

/// An expression in the normal form of the algebra's constructors.
#[derive(Clone, PartialEq, Debug)]
enum Written {
    Variable(Var),
    /// Powers in halves.
    Product(Vec<(Written, i8)>),
    Linear(Vec<(Rational, Written)>, Rational),
    Sum(Vec<Var>, Box<Written>),
    Maximum(Vec<Var>, Box<Written>),
    Apply(Function, Box<Written>),
    Extent(Var),
}

use Written::*;

fn number(value: Rational) -> Written {
    Linear(vec![], value)
}

fn as_number(x: &Written) -> Option<Rational> {
    if let Linear(addends, c) = x { addends.is_empty().then_some(*c) } else { None }
}

fn linear(parts: Vec<(Rational, Written)>) -> Option<Written> {
    let (mut addends, mut constant): (Vec<(Rational, Written)>, Rational) = (vec![], Rational::ZERO);
    let mut push = |k: Rational, x: Written| {
        match addends.iter_mut().find(|a| a.1 == x) {
            Some(a) => a.0 = a.0.add(k)?,
            None => addends.push((k, x)),
        }
        Some(())
    };
    for (k, x) in parts {
        match x {
            Linear(inner, c) => {
                constant = constant.add(c.mul(k)?)?;
                for (l, y) in inner {
                    push(l.mul(k)?, y)?
                }
            }
            x => push(k, x)?,
        }
    }
    addends.retain(|a| !a.0.is_zero());
    match &addends[..] {
        [(k, x)] if k.is_one() && constant.is_zero() => Some(x.clone()),
        _ => Some(Linear(addends, constant)),
    }
}

fn product(parts: Vec<(Written, i8)>) -> Option<Written> {
    let (mut factors, mut coefficient): (Vec<(Written, i8)>, Rational) = (vec![], Rational::ONE);
    let mut todo: Vec<(Written, i8)> = parts.into_iter().rev().collect();
    while let Some((x, e)) = todo.pop() {
        match x {
            Linear(addends, c) if e % 2 == 0 && (addends.is_empty() || addends.len() == 1 && c.is_zero()) => {
                let k = addends.first().map_or(c, |a| a.0);
                coefficient = coefficient.mul(k.pow(e as i32 / 2)?)?;
                todo.extend(addends.into_iter().map(|a| (a.1, e)))
            }
            Product(inner) if e % 2 == 0 => {
                for (y, f) in inner {
                    todo.push((y, f.checked_mul(e / 2)?))
                }
            }
            x => match factors.iter_mut().find(|f| f.0 == x && (f.1 > 0) == (e > 0)) {
                Some(f) => f.1 = f.1.checked_add(e)?,
                None => factors.push((x, e)),
            },
        }
    }
    let body = match &factors[..] {
        [] => return Some(number(coefficient)),
        [(x, 2)] => x.clone(),
        _ => Product(factors),
    };
    linear(vec![(coefficient, body)])
}

pub(crate) struct Writer<'a> {
    errors: &'a mut Errors,
    names: Vec<(String, Var)>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(errors: &'a mut Errors) -> Self {
        Writer { errors, names: vec![] }
    }
    /// Names become letters: their first, if no other name has it.
    pub(crate) fn variable(&mut self, name: &Ident) -> Var {
        let text = name.to_string();
        if let Some((_, letter)) = self.names.iter().find(|n| n.0 == text) {
            return *letter;
        }
        let letters = if text.starts_with(|c: char| c.is_uppercase()) { 'A'..='Z' } else { 'a'..='z' };
        let wanted = text.chars().next().filter(|c| letters.contains(c));
        let letter = wanted.into_iter().chain(letters).find(|c| self.names.iter().all(|n| n.1 != *c)).unwrap_or(REST);
        self.names.push((text, letter));
        letter
    }
    fn fault(&mut self, at: Span, message: message::Message) {
        self.errors.push(at, message)
    }
    fn expression(&mut self, e: &Expr) -> Option<Written> {
        let place = Place::of(e);
        let found = match e {
            Expr::Paren(p) => return self.expression(&p.expr),
            Expr::Lit(l) => match &l.lit {
                Lit::Int(n) => Rational::parse(n.base10_digits()).map(number),
                Lit::Float(n) => Rational::parse(n.base10_digits()).map(number),
                _ => None,
            },
            Expr::Path(p) => {
                let name = p.path.get_ident()?.clone();
                Some(Variable(self.variable(&name)))
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => {
                let x = self.expression(&u.expr)?;
                linear(vec![(Rational::MINUS_ONE, x)])
            }
            Expr::Binary(b) => {
                let (x, y) = (self.expression(&b.left), self.expression(&b.right));
                let (x, y) = (x?, y?);
                match b.op {
                    BinOp::Add(_) => linear(vec![(Rational::ONE, x), (Rational::ONE, y)]),
                    BinOp::Sub(_) => linear(vec![(Rational::ONE, x), (Rational::MINUS_ONE, y)]),
                    BinOp::Mul(_) => product(vec![(x, 2), (y, 2)]),
                    BinOp::Div(_) => product(vec![(x, 2), (y, -2)]),
                    _ => None,
                }
            }
            Expr::Call(c) => return self.call(c),
            _ => None,
        };
        if found.is_none() {
            self.errors.push(place, message::rule_not_understood())
        }
        found
    }
    /// A function's name and the axes between `::<` and `>`.
    pub(crate) fn callee(&mut self, c: &ExprCall) -> Option<(String, Vec<Var>)> {
        let Expr::Path(p) = &*c.func else { return None };
        let segment = p.path.segments.last()?;
        let axes = match &segment.arguments {
            PathArguments::AngleBracketed(a) => {
                let name = |g: &GenericArgument| if let GenericArgument::Type(syn::Type::Path(p)) = g { p.path.get_ident().cloned() } else { None };
                a.args.iter().filter_map(name).map(|n| self.variable(&n)).collect()
            }
            _ => vec![],
        };
        Some((segment.ident.to_string(), axes))
    }
    fn call(&mut self, c: &ExprCall) -> Option<Written> {
        let (name, axes) = self.callee(c)?;
        let arguments: Vec<Option<Written>> = c.args.iter().map(|a| self.expression(a)).collect();
        let arguments: Vec<Written> = arguments.into_iter().collect::<Option<_>>()?;
        let apply = |f: Function, x: &Written| Some(Apply(f, Box::new(x.clone())));
        let found = match (name.as_str(), &axes[..], &arguments[..]) {
            ("exp", [], [x]) => apply(Function::Exp, x),
            ("log", [], [x]) => apply(Function::Log, x),
            ("tanh", [], [x]) => apply(Function::Tanh, x),
            ("sigmoid", [], [x]) => apply(Function::Sigmoid, x),
            ("abs", [], [x]) => apply(Function::Abs, x),
            ("sqrt", [], [x]) => product(vec![(x.clone(), 1)]),
            ("rsqrt", [], [x]) => product(vec![(x.clone(), -1)]),
            ("recip", [], [x]) => product(vec![(x.clone(), -2)]),
            ("square", [], [x]) => product(vec![(x.clone(), 4)]),
            ("sum", [_] | [_, _], [x]) => Some(Sum(axes.clone(), Box::new(x.clone()))),
            ("max", [_] | [_, _], [x]) => Some(Maximum(axes.clone(), Box::new(x.clone()))),
            ("extent", [a], []) => Some(Extent(*a)),
            _ => None,
        };
        if found.is_none() {
            self.fault(c.func.span(), message::rule_function(&name))
        }
        found
    }
    pub(crate) fn condition(&mut self, e: &Expr) -> Option<Guard> {
        let found = match e {
            Expr::Binary(b) => {
                let variable = |w: &mut Self, e: &Expr| if let Some(Variable(v)) = w.expression(e) { Some(v) } else { None };
                let zero = self.expression(&b.right).as_ref().and_then(as_number).is_some_and(|n| n.is_zero());
                match (&b.op, variable(self, &b.left)) {
                    (BinOp::Gt(_), Some(v)) if zero => Some(Guard::Positive(v)),
                    (BinOp::Ge(_), Some(v)) if zero => Some(Guard::NonNegative(v)),
                    (BinOp::Ne(_), Some(v)) if zero => Some(Guard::NonZero(v)),
                    _ => None,
                }
            }
            Expr::Call(c) => match (self.callee(c)?, c.args.first()) {
                ((name, axes), Some(x)) if name == "independent" && axes.len() == 1 => match self.expression(x)? {
                    Variable(v) => Some(Guard::Disjoint(Where::Axes(axes[0]), Where::Free(v))),
                    _ => None,
                },
                ((name, axes), None) if name == "disjoint" && axes.len() == 2 => Some(Guard::Disjoint(Where::Axes(axes[0]), Where::Axes(axes[1]))),
                _ => None,
            },
            _ => None,
        };
        if found.is_none() {
            self.errors.push(Place::of(e), message::rule_condition())
        }
        found
    }
}

// ---- to the schema --------------------------------------------------------------------------------------------------

/// Rules live as long as the program that reads them: a build script, or the compiler's run of a macro.
pub(crate) fn keep<T>(x: T) -> &'static T {
    Box::leak(Box::new(x))
}

pub(crate) fn all<T>(x: Vec<T>) -> &'static [T] {
    Box::leak(x.into_boxed_slice())
}

/// The rest of a product or a sum of which the rule names a part.
const REST: Var = '_';

/// `None` if the left side is no term that could be looked for.
fn row(name: &str, left: Written, right: Written, guards: Vec<Guard>) -> Option<Row> {
    if matches!(left, Variable(_) | Extent(_)) || as_number(&left).is_some() {
        return None;
    }
    // a part of a product stands for it wherever it is found, and so does a part of a sum
    let (left, right) = match &left {
        Product(_) => {
            let whole = |x: &Written| {
                let mut factors = factors(x)?;
                factors.push(Factor::Many(REST));
                Some(Term::Product(all(factors)))
            };
            (whole(&left)?, whole(&right)?)
        }
        Linear(addends, _) if addends.len() > 1 => {
            let whole = |x: &Written| {
                let mut addends = addends_of(x)?;
                addends.push(Addend::Many(REST));
                Some(Term::Linear(all(addends)))
            };
            (whole(&left)?, whole(&right)?)
        }
        _ => (term(&left)?, term(&right)?),
    };
    findable(&left).then(|| Row { name: keep(name.to_string()), left, replaces: None, right, guards: all(guards), split: Split::None, control: &[] })
}

/// Holds a term only what the matcher looks for?
fn findable(t: &Term) -> bool {
    !matches!(t, Term::Size(_) | Term::Number(_)) && t.parts().into_iter().all(findable)
}

fn axes(axes: &[Var]) -> Axes {
    match axes {
        [a, b] => Axes::Both(*a, *b),
        _ => Axes::Is(axes.first().copied().unwrap_or('A')),
    }
}

fn factors(x: &Written) -> Option<Vec<Factor>> {
    match x {
        Product(inner) => inner.iter().map(|(x, e)| Some(Factor::One(term(x)?, Power::Is(*e)))).collect(),
        x => Some(vec![Factor::One(term(x)?, Power::Is(2))]),
    }
}

fn coefficient(k: Rational) -> Coefficient {
    if k.is_one() {
        Coefficient::One
    } else if k == Rational::MINUS_ONE {
        Coefficient::MinusOne
    } else {
        Coefficient::Number(k)
    }
}

fn addends_of(x: &Written) -> Option<Vec<Addend>> {
    match x {
        Linear(addends, c) => {
            let mut all: Vec<Addend> = addends.iter().map(|(k, x)| Some(Addend::One(coefficient(*k), term(x)?))).collect::<Option<_>>()?;
            if !c.is_zero() {
                all.push(Addend::One(coefficient(*c), Term::Number(1)))
            }
            Some(all)
        }
        x => Some(vec![Addend::One(Coefficient::One, term(x)?)]),
    }
}

fn term(x: &Written) -> Option<Term> {
    Some(match x {
        Variable(v) => Term::Any(*v),
        Product(_) => Term::Product(all(factors(x)?)),
        Linear(..) => match as_number(x) {
            Some(k) if k.denominator() == 1 => Term::Number(k.numerator()),
            _ => Term::Linear(all(addends_of(x)?)),
        },
        Sum(a, x) => Term::Sum(axes(a), keep(term(x)?)),
        Maximum(a, x) => Term::Maximum(axes(a), keep(term(x)?), None),
        Apply(f, x) => Term::Apply(*f, keep(term(x)?)),
        Extent(a) => Term::Size(*a),
    })
}
