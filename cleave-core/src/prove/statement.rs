//! A rule as text, each operation as it is written: `max(x, y) + c == max(x + c, y + c)`.
//!
//! Comes in: text in the language of [`crate::frontend::rule`], with more functions. Goes out: a row. A crate's own rules are put in the
//! algebra's normal form, so that the search finds their left sides; here nothing is simplified, as what is to be proved may be just the
//! simplification. Comparisons and truth values are 0/1 terms: `ge(x, y)`, `and(p, q)`, `select(p, x, y)`.
use crate::algebra::schema::{Addend, Axes, Coefficient, Factor, Guard, Power, Row, Split, Term, Var};
use crate::frontend::report::Errors;
use crate::frontend::rule::{Writer, all, keep, parse};
use crate::graph::Function;
use crate::rational::Rational;
use syn::parse::Parser;
use syn::{BinOp, Expr, ExprBinary, Lit, UnOp};

/// The row that a text states, or what it cannot say.
///
/// # Errors
/// In words, with the text.
pub fn statement(name: &'static str, text: &str) -> Result<Row, String> {
    let unclear = |what: &str| format!("`{text}`: {what}");
    let tokens = format!("statement: {text}").parse().map_err(|_| unclear("no tokens"))?;
    let (_, sides, conditions) = parse.parse2(tokens).map_err(|e| unclear(&e.to_string()))?;
    let Expr::Binary(ExprBinary { left, op: BinOp::Eq(_), right, .. }) = &sides else { return Err(unclear("no equality")) };
    let mut errors = Errors::default();
    let mut writer = Writer::new(&mut errors);
    let (left, right) = (term(&mut writer, left), term(&mut writer, right));
    let mut guards = vec![];
    for c in &conditions {
        guards.push(guard(&mut writer, c).ok_or_else(|| unclear("a condition"))?)
    }
    let (left, right) = (left.ok_or_else(|| unclear("the left side"))?, right.ok_or_else(|| unclear("the right side"))?);
    Ok(Row { name, left, right, replaces: None, guards: all(guards), split: Split::None, control: &[] })
}

fn guard(w: &mut Writer, e: &Expr) -> Option<Guard> {
    if let Expr::Call(c) = e {
        let (name, axes) = w.callee(c)?;
        match (name.as_str(), c.args.first()) {
            ("truth", Some(x)) => {
                let Term::Any(v) = term(w, x)? else { return None };
                return Some(Guard::Boolean(v));
            }
            ("single", None) => return Some(Guard::Single(*axes.first()?)),
            _ => {}
        }
    }
    w.condition(e)
}

fn linear(addends: Vec<(Coefficient, Term)>) -> Term {
    Term::Linear(all(addends.into_iter().map(|(k, x)| Addend::One(k, x)).collect()))
}

fn product(factors: Vec<(Term, i8)>) -> Term {
    Term::Product(all(factors.into_iter().map(|(x, e)| Factor::One(x, Power::Is(e))).collect()))
}

fn number(k: Rational) -> Term {
    if k.denominator() == 1 { Term::Number(k.numerator()) } else { linear(vec![(Coefficient::Number(k), Term::Number(1))]) }
}

const ONE: Coefficient = Coefficient::One;
const MINUS: Coefficient = Coefficient::MinusOne;

fn negative(x: Term) -> Term {
    linear(vec![(MINUS, x)])
}

fn not(x: Term) -> Term {
    linear(vec![(ONE, Term::Number(1)), (MINUS, x)])
}

fn at_least(x: Term, y: Term) -> Term {
    Term::AtLeastZero(keep(linear(vec![(ONE, x), (MINUS, y)])))
}

fn both(p: Term, q: Term) -> Term {
    product(vec![(p, 2), (q, 2)])
}

fn select(p: Term, x: Term, y: Term) -> Term {
    linear(vec![(ONE, both(p, x)), (ONE, both(not(p), y))])
}

fn greater(x: Term, y: Term) -> Term {
    Term::Greatest(all(vec![x, y]))
}

fn lesser(x: Term, y: Term) -> Term {
    negative(greater(negative(x), negative(y)))
}

fn axes(axes: &[Var]) -> Option<Axes> {
    match axes {
        [a] => Some(Axes::Is(*a)),
        [a, b] => Some(Axes::Both(*a, *b)),
        _ => None,
    }
}

fn term(w: &mut Writer, e: &Expr) -> Option<Term> {
    match e {
        Expr::Paren(p) => term(w, &p.expr),
        Expr::Lit(l) => match &l.lit {
            Lit::Int(n) => Rational::parse(n.base10_digits()).map(number),
            Lit::Float(n) => Rational::parse(n.base10_digits()).map(number),
            _ => None,
        },
        Expr::Path(p) => Some(Term::Any(w.variable(p.path.get_ident()?))),
        Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => Some(negative(term(w, &u.expr)?)),
        Expr::Binary(b) => {
            let (x, y) = (term(w, &b.left)?, term(w, &b.right)?);
            match b.op {
                BinOp::Add(_) => Some(linear(vec![(ONE, x), (ONE, y)])),
                BinOp::Sub(_) => Some(linear(vec![(ONE, x), (MINUS, y)])),
                BinOp::Mul(_) => Some(both(x, y)),
                BinOp::Div(_) => Some(product(vec![(x, 2), (y, -2)])),
                _ => None,
            }
        }
        Expr::Call(c) => {
            let (name, over) = w.callee(c)?;
            let arguments: Vec<Term> = c.args.iter().map(|a| term(w, a)).collect::<Option<_>>()?;
            let apply = |f: Function, x: Term| Term::Apply(f, keep(x));
            let sum = |x: Term| Some(Term::Sum(axes(&over)?, keep(x)));
            Some(match (name.as_str(), over.len(), &arguments[..]) {
                ("exp", 0, [x]) => apply(Function::Exp, *x),
                ("log", 0, [x]) => apply(Function::Log, *x),
                ("tanh", 0, [x]) => apply(Function::Tanh, *x),
                ("sigmoid", 0, [x]) => apply(Function::Sigmoid, *x),
                ("abs", 0, [x]) => apply(Function::Abs, *x),
                ("sqrt", 0, [x]) => product(vec![(*x, 1)]),
                ("rsqrt", 0, [x]) => product(vec![(*x, -1)]),
                ("recip", 0, [x]) => product(vec![(*x, -2)]),
                ("square", 0, [x]) => product(vec![(*x, 4)]),
                ("max", 0, [x, y]) => greater(*x, *y),
                ("min", 0, [x, y]) => lesser(*x, *y),
                ("clamp", 0, [low, x, high]) => lesser(greater(*x, *low), *high),
                ("select", 0, [p, x, y]) => select(*p, *x, *y),
                ("ge", 0, [x, y]) => at_least(*x, *y),
                ("le", 0, [x, y]) => at_least(*y, *x),
                ("gt", 0, [x, y]) => not(at_least(*y, *x)),
                ("lt", 0, [x, y]) => not(at_least(*x, *y)),
                ("eq", 0, [x, y]) => both(at_least(*x, *y), at_least(*y, *x)),
                ("ne", 0, [x, y]) => not(both(at_least(*x, *y), at_least(*y, *x))),
                ("not", 0, [p]) => not(*p),
                ("and", 0, [p, q]) => both(*p, *q),
                ("or", 0, [p, q]) => not(both(not(*p), not(*q))),
                ("sum", 1 | 2, [x]) => sum(*x)?,
                ("max", 1 | 2, [x]) => Term::Maximum(axes(&over)?, keep(*x), None),
                ("extent", 1, []) => Term::Size(over[0]),
                ("softmax", 1, [x]) => product(vec![(apply(Function::Exp, *x), 2), (sum(apply(Function::Exp, *x))?, -2)]),
                ("logsumexp", 1 | 2, [x]) => apply(Function::Log, sum(apply(Function::Exp, *x))?),
                ("mean", 1, [x]) => product(vec![(sum(*x)?, 2), (Term::Size(over[0]), -2)]),
                _ => return None,
            })
        }
        _ => None,
    }
}
