//! The function's body: syn's expressions to ours. What the language does not have is reported here, in its own words; the
//! place of a fault holds [`ExprKind::Faulty`], which later stages pass over in silence.
use super::message;
use super::report::{Errors, Place};
use super::signature::word;
use super::syntax::*;
use crate::rational::Rational;
use proc_macro2::Ident;
use quote::ToTokens;
use std::collections::BTreeMap;
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr as Syn, FnArg, GenericArgument, GenericParam, Item, ItemFn, Lit, Pat, PathArguments, ReturnType, Stmt, Token, Type, UnOp};

/// Deeper expressions are refused, so that recursion stays within any stack.
const DEEPEST: usize = 200;

pub struct Parser<'a> {
    pub errors: &'a mut Errors,
    /// Every function that is called, at its first call.
    pub called: BTreeMap<String, Place>,
    /// Helpers that could not be read.
    pub faulty: Vec<String>,
    depth: usize,
    /// The next block needs no value: that of a kernel that only writes in place.
    pub valueless: bool,
}

impl<'a> Parser<'a> {
    pub fn new(errors: &'a mut Errors) -> Self {
        Parser { errors, called: BTreeMap::new(), faulty: vec![], depth: 0, valueless: false }
    }

    pub fn block(&mut self, block: &syn::Block) -> Block {
        let braces = block.brace_token.span;
        let all = Place { start: braces.open(), end: braces.close() };
        let mut out = Block { functions: vec![], constants: vec![], statements: vec![], value: Box::new(Expr { kind: ExprKind::Faulty, place: all }) };
        let mut valued = false;
        let valueless = std::mem::take(&mut self.valueless);
        for (i, statement) in block.stmts.iter().enumerate() {
            match statement {
                Stmt::Local(local) => self.local(local, &mut out),
                Stmt::Item(Item::Fn(f)) => match self.function(f) {
                    Some(function) => out.functions.push(function),
                    None => self.faulty.push(f.sig.ident.to_string()),
                },
                Stmt::Item(Item::Const(c)) => {
                    let integer = match word(&c.ty).map(|t| t.to_string()).as_deref() {
                        Some("i32" | "i64" | "u32" | "u64" | "usize" | "isize") => true,
                        Some("f32" | "f64") => false,
                        _ => {
                            self.errors.push(Place::of(&c.ty), message::constant_type());
                            false
                        }
                    };
                    let value = self.expr(&c.expr);
                    out.constants.push(Constant { name: c.ident.clone(), integer, value })
                }
                Stmt::Item(other) => self.errors.push(Place::of(other), message::unsupported_item()),
                Stmt::Expr(e, None) if i + 1 == block.stmts.len() => {
                    valued = true;
                    out.value = Box::new(self.expr(e))
                }
                Stmt::Expr(Syn::Assign(syn::ExprAssign { left, right, .. }), Some(_)) if pointee(left).is_some() => {
                    out.statements.extend(self.write(left, None, right))
                }
                Stmt::Expr(Syn::Binary(b), Some(_)) if compound(&b.op).is_some() && pointee(&b.left).is_some() => {
                    out.statements.extend(self.write(&b.left, compound(&b.op), &b.right))
                }
                Stmt::Expr(e, semi) => {
                    let faulty = matches!(self.expr(e).kind, ExprKind::Faulty);
                    match semi {
                        Some(semi) if i + 1 == block.stmts.len() => {
                            valued = true;
                            self.errors.push(Place::of(semi), message::semicolon())
                        }
                        _ if faulty => {}
                        _ => self.errors.push(Place::of(e), message::statement_without_effect()),
                    }
                }
                Stmt::Macro(m) if m.mac.path.is_ident("assert") => {
                    out.statements.extend(self.assertion(&m.mac, message::assertion_syntax).map(Statement::Assert));
                }
                Stmt::Macro(m) if m.mac.path.is_ident("assume") => {
                    out.statements.extend(self.assertion(&m.mac, message::assumption_syntax).map(Statement::Assume));
                }
                Stmt::Macro(m) => {
                    let name = m.mac.path.to_token_stream().to_string();
                    self.errors.push(Place::of(&m.mac), message::macro_call(name));
                    valued |= i + 1 == block.stmts.len()
                }
            }
        }
        if !valued && valueless {
            out.value.kind = ExprKind::Tuple(vec![])
        } else if !valued {
            self.errors.push(all, message::block_without_value())
        }
        out
    }

    fn local(&mut self, local: &syn::Local, out: &mut Block) {
        let Some(init) = &local.init else {
            self.errors.push(Place::of(local), message::let_without_value());
            return;
        };
        if let Some((_, diverge)) = &init.diverge {
            self.errors.push(Place::of(diverge), message::unsupported("`let`-`else`"))
        }
        let value = self.expr(&init.expr);
        if let Some(pattern) = self.pattern(&local.pat) {
            out.statements.push(Statement::Let(pattern, value))
        }
    }

    fn write(&mut self, target: &Syn, operator: Option<Arithmetic>, value: &Syn) -> Option<Statement> {
        let target = pointee(target)?.clone();
        Some(Statement::Assign { target, operator, value: self.expr(value) })
    }

    /// A condition, and possibly a text.
    fn assertion(&mut self, mac: &syn::Macro, syntax: fn() -> message::Message) -> Option<Assertion> {
        let arguments = match mac.parse_body_with(Punctuated::<Syn, Token![,]>::parse_terminated) {
            Ok(arguments) => arguments,
            Err(e) => {
                self.errors.syntax(e);
                return None;
            }
        };
        let mut arguments = arguments.iter();
        let Some(condition) = arguments.next() else {
            self.errors.push(Place::of(mac), syntax());
            return None;
        };
        let message = match arguments.next() {
            None => None,
            Some(Syn::Lit(l)) if let Lit::Str(text) = &l.lit => {
                if text.value().contains(['{', '}']) {
                    self.errors.push(Place::of(text), message::assertion_format())
                }
                Some(text.value())
            }
            Some(other) => {
                self.errors.push(Place::of(other), syntax());
                None
            }
        };
        if let Some(more) = arguments.next() {
            self.errors.push(Place::of(more), message::assertion_format())
        }
        Some(Assertion { condition: self.expr(condition), message })
    }

    fn pattern(&mut self, pat: &Pat) -> Option<Pattern> {
        match pat {
            Pat::Ident(p) if p.mutability.is_some() => {
                self.errors.push(Place::of(p), message::mutable(&p.ident));
                Some(Pattern::Name(p.ident.clone()))
            }
            Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => Some(Pattern::Name(p.ident.clone())),
            Pat::Wild(_) => Some(Pattern::Ignore),
            Pat::Paren(p) => self.pattern(&p.pat),
            Pat::Tuple(t) => {
                let members: Vec<_> = t.elems.iter().filter_map(|p| self.pattern(p)).collect();
                (members.len() == t.elems.len()).then(|| Pattern::Tuple(members, Place::of(t)))
            }
            Pat::Type(t) => {
                self.errors.push(Place::of(&t.ty), message::annotated_let());
                self.pattern(&t.pat)
            }
            other => {
                self.errors.push(Place::of(other), message::pattern());
                None
            }
        }
    }

    /// A nested helper.
    pub fn function(&mut self, f: &ItemFn) -> Option<Function> {
        let mut axes = vec![];
        for p in &f.sig.generics.params {
            match p {
                GenericParam::Type(t) if t.bounds.is_empty() && t.default.is_none() => axes.push(t.ident.clone()),
                other => self.errors.push(Place::of(other), message::helper_generic()),
            }
        }
        let mut parameters = vec![];
        for a in &f.sig.inputs {
            match a {
                FnArg::Typed(a) => match (&*a.pat, self.shape(&a.ty)) {
                    (Pat::Ident(p), Some(shape)) if p.mutability.is_none() && p.by_ref.is_none() && p.subpat.is_none() => {
                        parameters.push((p.ident.clone(), shape))
                    }
                    (_, None) => {}
                    (other, _) => self.errors.push(Place::of(other), message::argument_pattern()),
                },
                other => self.errors.push(Place::of(other), message::plain_function()),
            }
        }
        let result = match &f.sig.output {
            ReturnType::Type(_, t) => self.shape(t).map(|s| (s, Place::of(t))),
            ReturnType::Default => {
                self.errors.push(f.sig.ident.span(), message::helper_result(&f.sig.ident));
                None
            }
        };
        let body = self.block(&f.block);
        let complete = parameters.len() == f.sig.inputs.len() && axes.len() == f.sig.generics.params.len();
        complete.then_some(Function { name: f.sig.ident.clone(), shared: false, axes, parameters, result: result?, body })
    }

    fn shape(&mut self, ty: &Type) -> Option<Shape> {
        match (ty, word(ty).map(|w| w.to_string()).as_deref()) {
            (_, Some("Value")) => Some(Shape::Value),
            (_, Some("bool")) => Some(Shape::Truth),
            (Type::Tuple(t), _) => {
                let members: Vec<_> = t.elems.iter().filter_map(|m| self.shape(m)).collect();
                (members.len() == t.elems.len()).then_some(Shape::Tuple(members))
            }
            (Type::Paren(p), _) => self.shape(&p.elem),
            _ => {
                self.errors.push(Place::of(ty), message::helper_type());
                None
            }
        }
    }

    pub fn expr(&mut self, e: &Syn) -> Expr {
        self.depth += 1;
        let kind = if self.depth > DEEPEST {
            self.errors.push(Place::of(e), message::too_deep());
            ExprKind::Faulty
        } else {
            self.kind(e)
        };
        self.depth -= 1;
        Expr { kind, place: place(e) }
    }

    fn boxed(&mut self, e: &Syn) -> Box<Expr> {
        Box::new(self.expr(e))
    }

    fn kind(&mut self, e: &Syn) -> ExprKind {
        match e {
            Syn::Paren(p) => self.expr(&p.expr).kind,
            Syn::Group(g) => self.expr(&g.expr).kind,
            Syn::Lit(l) => self.literal(&l.lit),
            Syn::Path(p) => match (p.path.get_ident(), p.path.segments.last()) {
                (Some(name), _) => ExprKind::Name(name.clone()),
                (None, Some(last)) => self.fault(e, message::path(&last.ident)),
                (None, None) => ExprKind::Faulty,
            },
            Syn::Call(c) => self.call(c),
            Syn::Unary(_) if pointee(e).is_some() => pointee(e).map_or(ExprKind::Faulty, |name| ExprKind::Current(name.clone())),
            Syn::Unary(u) => match u.op {
                UnOp::Neg(_) => ExprKind::Negate(self.boxed(&u.expr)),
                UnOp::Not(_) => ExprKind::Not(self.boxed(&u.expr)),
                _ => self.fault(e, message::reference()),
            },
            Syn::Binary(b) => self.binary(b),
            Syn::If(i) => match &i.else_branch {
                Some((_, otherwise)) => {
                    let condition = self.boxed(&i.cond);
                    let then = Expr { place: Place::of(&i.then_branch), kind: ExprKind::Block(self.block(&i.then_branch)) };
                    ExprKind::If(condition, Box::new(then), self.boxed(otherwise))
                }
                None => self.fault(e, message::if_without_else()),
            },
            Syn::Block(b) if b.label.is_none() => ExprKind::Block(self.block(&b.block)),
            Syn::Tuple(t) if !t.elems.is_empty() => ExprKind::Tuple(t.elems.iter().map(|e| self.expr(e)).collect()),
            Syn::MethodCall(m) => {
                let receiver = m.receiver.to_token_stream().to_string();
                let short = if receiver.len() <= 12 { receiver } else { "x".into() };
                self.expr(&m.receiver);
                self.fault(&m.method, message::method(&m.method, short))
            }
            Syn::Reference(r) => {
                self.expr(&r.expr);
                self.fault(e, message::reference())
            }
            Syn::Cast(c) => {
                self.expr(&c.expr);
                self.fault(e, message::cast_with_as(c.ty.to_token_stream()))
            }
            Syn::Macro(m) => self.fault(e, message::macro_call(m.mac.path.to_token_stream())),
            Syn::Return(_) => self.fault(e, message::unsupported("`return`")),
            Syn::Assign(_) => self.fault(e, message::assignment()),
            Syn::ForLoop(_) | Syn::While(_) | Syn::Loop(_) => self.fault(e, message::loops()),
            Syn::Match(_) => self.fault(e, message::matches()),
            Syn::Let(_) => self.fault(e, message::unsupported("`if let`")),
            Syn::Index(_) => self.fault(e, message::indexing()),
            Syn::Field(_) => self.fault(e, message::field()),
            Syn::Closure(_) => self.fault(e, message::closure()),
            _ => self.fault(e, message::unsupported("this expression")),
        }
    }

    fn fault(&mut self, tokens: &impl ToTokens, message: message::Message) -> ExprKind {
        self.errors.push(Place::of(tokens), message);
        ExprKind::Faulty
    }

    fn literal(&mut self, lit: &Lit) -> ExprKind {
        let (digits, suffix, integer) = match lit {
            Lit::Bool(b) => return ExprKind::Truth(b.value),
            Lit::Int(n) => (n.base10_digits().to_string(), n.suffix().to_string(), true),
            Lit::Float(n) => (n.base10_digits().to_string(), n.suffix().to_string(), false),
            other => return self.fault(other, message::literal()),
        };
        if !suffix.is_empty() {
            self.errors.push(Place::of(lit), message::suffix(&digits))
        }
        match Rational::parse(&digits) {
            Some(value) => ExprKind::Number { value, integer },
            None => self.fault(lit, message::number_range()),
        }
    }

    fn call(&mut self, c: &syn::ExprCall) -> ExprKind {
        let arguments: Vec<Expr> = c.args.iter().map(|a| self.expr(a)).collect();
        let Syn::Path(p) = &*c.func else { return self.fault(&c.func, message::call_of_expression()) };
        let Some(segment) = p.path.segments.first().filter(|_| p.path.segments.len() == 1 && p.path.leading_colon.is_none()) else {
            return match p.path.segments.last() {
                Some(last) => self.fault(&c.func, message::path(&last.ident)),
                None => ExprKind::Faulty,
            };
        };
        let mut axes = vec![];
        match &segment.arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(a) => {
                for argument in &a.args {
                    match self.axes(argument) {
                        Some(names) => axes.push(names),
                        None => return ExprKind::Faulty,
                    }
                }
            }
            other => return self.fault(other, message::not_an_axis()),
        }
        self.called.entry(segment.ident.to_string()).or_insert_with(|| segment.ident.span().into());
        ExprKind::Call { function: segment.ident.clone(), axes, arguments }
    }

    /// `N` or `(M, N)`.
    fn axes(&mut self, argument: &GenericArgument) -> Option<Vec<Ident>> {
        let names = match argument {
            GenericArgument::Type(Type::Tuple(t)) => t.elems.iter().map(word).collect::<Option<Vec<_>>>(),
            GenericArgument::Type(t) => word(t).map(|w| vec![w]),
            _ => None,
        };
        if names.is_none() {
            self.errors.push(Place::of(argument), message::not_an_axis())
        }
        names
    }

    fn binary(&mut self, b: &syn::ExprBinary) -> ExprKind {
        let (left, right) = (self.boxed(&b.left), self.boxed(&b.right));
        match b.op {
            BinOp::Add(_) => ExprKind::Arithmetic(Arithmetic::Add, left, right),
            BinOp::Sub(_) => ExprKind::Arithmetic(Arithmetic::Subtract, left, right),
            BinOp::Mul(_) => ExprKind::Arithmetic(Arithmetic::Multiply, left, right),
            BinOp::Div(_) => ExprKind::Arithmetic(Arithmetic::Divide, left, right),
            BinOp::Rem(_) => ExprKind::Arithmetic(Arithmetic::Remainder, left, right),
            BinOp::And(_) => ExprKind::And(left, right),
            BinOp::Or(_) => ExprKind::Or(left, right),
            BinOp::Lt(_) => ExprKind::Compare(Comparison::Less, left, right),
            BinOp::Le(_) => ExprKind::Compare(Comparison::LessEqual, left, right),
            BinOp::Gt(_) => ExprKind::Compare(Comparison::Greater, left, right),
            BinOp::Ge(_) => ExprKind::Compare(Comparison::GreaterEqual, left, right),
            BinOp::Eq(_) => ExprKind::Compare(Comparison::Equal, left, right),
            BinOp::Ne(_) => ExprKind::Compare(Comparison::NotEqual, left, right),
            op if compound(&op).is_some() => self.fault(b, message::assignment()),
            BinOp::BitAnd(op) => self.fault(&op, message::bitwise("&", "&&")),
            BinOp::BitOr(op) => self.fault(&op, message::bitwise("|", "||")),
            op => self.fault(&op, message::operator(op.to_token_stream())),
        }
    }
}

/// The name in `*name`.
fn pointee(e: &Syn) -> Option<&Ident> {
    match e {
        Syn::Unary(syn::ExprUnary { op: UnOp::Deref(_), expr, .. }) => match &**expr {
            Syn::Path(p) => p.path.get_ident(),
            _ => None,
        },
        _ => None,
    }
}

/// The operator of `+=` and its kin.
fn compound(op: &BinOp) -> Option<Arithmetic> {
    match op {
        BinOp::AddAssign(_) => Some(Arithmetic::Add),
        BinOp::SubAssign(_) => Some(Arithmetic::Subtract),
        BinOp::MulAssign(_) => Some(Arithmetic::Multiply),
        BinOp::DivAssign(_) => Some(Arithmetic::Divide),
        _ => None,
    }
}

/// [`Place::of`] an expression, without making its tokens for the common ones: every level of an expression asks.
fn place(e: &Syn) -> Place {
    match e {
        Syn::Lit(l) => l.lit.span().into(),
        Syn::Path(p) => match p.path.get_ident() {
            Some(name) => name.span().into(),
            None => Place::of(e),
        },
        Syn::Call(c) => match &*c.func {
            Syn::Path(p) if p.path.leading_colon.is_none() && p.qself.is_none() => {
                let start = p.path.segments.first().map_or_else(|| c.paren_token.span.open(), |s| s.ident.span());
                Place { start, end: c.paren_token.span.close() }
            }
            _ => Place::of(e),
        },
        Syn::Binary(b) => place(&b.left).to(place(&b.right)),
        Syn::Paren(p) => Place { start: p.paren_token.span.open(), end: p.paren_token.span.close() },
        Syn::Tuple(t) => Place { start: t.paren_token.span.open(), end: t.paren_token.span.close() },
        _ => Place::of(e),
    }
}
