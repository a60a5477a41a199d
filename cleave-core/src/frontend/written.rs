//! Expressions as a user would write them: for messages at run time, where the text of the source is no longer at hand. The tokens'
//! own text will not do, as it differs between the compiler and a build script.
use super::syntax::{Arithmetic, Comparison, Expr, ExprKind};
use proc_macro2::Ident;
use std::fmt::{self, Display};

/// How tightly an operator binds: operands that bind less tightly stand in parentheses.
fn tightness(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::If(..) => 0,
        ExprKind::Or(..) => 1,
        ExprKind::And(..) => 2,
        ExprKind::Compare(..) => 3,
        ExprKind::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => 4,
        ExprKind::Arithmetic(..) => 5,
        ExprKind::Negate(_) | ExprKind::Not(_) => 6,
        _ => 7,
    }
}

fn within(e: &Expr, least: u8) -> String {
    if tightness(&e.kind) < least { format!("({e})") } else { e.to_string() }
}

fn list(names: &[Ident]) -> String {
    match names {
        [one] => one.to_string(),
        many => format!("({})", many.iter().map(Ident::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn commas(all: &[Expr]) -> String {
    all.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ")
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let two = |a: &Expr, operator: &str, b: &Expr, level: u8| format!("{} {operator} {}", within(a, level), within(b, level + 1));
        let text = match &self.kind {
            ExprKind::Number { value, .. } => value.to_string(),
            ExprKind::Truth(b) => b.to_string(),
            ExprKind::Name(name) => name.to_string(),
            ExprKind::Current(name) => format!("*{name}"),
            ExprKind::Call { function, axes, arguments } if axes.is_empty() => format!("{function}({})", commas(arguments)),
            ExprKind::Call { function, axes, arguments } => {
                format!("{function}::<{}>({})", axes.iter().map(|a| list(a)).collect::<Vec<_>>().join(", "), commas(arguments))
            }
            ExprKind::Negate(x) => format!("-{}", within(x, 6)),
            ExprKind::Not(x) => format!("!{}", within(x, 6)),
            ExprKind::Arithmetic(op, a, b) => match op {
                Arithmetic::Add => two(a, "+", b, 4),
                Arithmetic::Subtract => two(a, "-", b, 4),
                Arithmetic::Multiply => two(a, "*", b, 5),
                Arithmetic::Divide => two(a, "/", b, 5),
                Arithmetic::Remainder => two(a, "%", b, 5),
            },
            ExprKind::Compare(op, a, b) => {
                let operator = match op {
                    Comparison::Less => "<",
                    Comparison::LessEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterEqual => ">=",
                    Comparison::Equal => "==",
                    Comparison::NotEqual => "!=",
                };
                format!("{} {operator} {}", within(a, 4), within(b, 4))
            }
            ExprKind::And(a, b) => two(a, "&&", b, 2),
            ExprKind::Or(a, b) => two(a, "||", b, 1),
            ExprKind::If(c, a, b) => format!("if {c} {} else {}", braced(a), braced(b)),
            ExprKind::Block(b) => format!("{{ {}{} }}", if b.statements.is_empty() { "" } else { ".. " }, b.value),
            ExprKind::Tuple(members) => format!("({})", commas(members)),
            ExprKind::Faulty => "..".into(),
        };
        f.write_str(&text)
    }
}

fn braced(e: &Expr) -> String {
    if let ExprKind::Block(_) = e.kind { e.to_string() } else { format!("{{ {e} }}") }
}

#[cfg(test)]
mod tests {
    use super::super::parse::Parser;
    use super::super::report::Errors;

    #[test]
    fn an_expression_reads_as_it_was_written() {
        for text in [
            "extent::<D>() % 8 == 0",
            "(a + b) * c - (d - e) <= -f && !(g || h < 2) || true",
            "if a < b { a } else { b * 2 }",
            "sum::<(M, N)>(x * y) / 0.5",
            "a / (b / c) % 3 != -1 * -d",
        ] {
            let mut errors = Errors::default();
            let written = Parser::new(&mut errors).expr(&syn::parse_str(text).unwrap()).to_string();
            assert!(errors.is_empty());
            assert_eq!(written.replace("1/2", "0.5"), text)
        }
    }
}
