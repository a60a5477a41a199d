//! Every row with one thing changed: refuted with a counterexample, or true and listed with the reason.
use cleave_core::algebra::rules::TABLE;
use cleave_core::algebra::schema::{Addend, Axes, Coefficient, Factor, Power, Row, Term};
use cleave_core::graph::Function;
use cleave_core::prove::denote::Unclear;
use cleave_core::prove::instance::{Counterexample, trial};
use cleave_core::prove::solver::Solver;
use cleave_core::prove::{Refusal, judge};

/// Schemas hold static references; a test may leak.
fn keep<T>(x: T) -> &'static T {
    Box::leak(Box::new(x))
}

fn slice<T: Clone>(x: Vec<T>) -> &'static [T] {
    Box::leak(x.into_boxed_slice())
}

type Changed<T> = Vec<(String, T)>;

fn replaced<T: Copy>(all: &[T], i: usize, with: T) -> &'static [T] {
    let mut all = all.to_vec();
    all[i] = with;
    slice(all)
}

fn without<T: Copy>(all: &[T], i: usize) -> &'static [T] {
    let mut all = all.to_vec();
    all.remove(i);
    slice(all)
}

/// Other axes of the same row: of all that its left side reduces.
fn axes(a: &Axes, bound: &[char]) -> Changed<Axes> {
    match a {
        Axes::Is(v) => bound.iter().filter(|w| *w != v).map(|w| (format!("{w} for {v}"), Axes::Is(*w))).collect(),
        Axes::Both(v, w) => vec![(format!("only {v}"), Axes::Is(*v)), (format!("only {w}"), Axes::Is(*w))],
    }
}

fn bound(term: &Term) -> Vec<char> {
    let own = match term {
        Term::Sum(Axes::Is(v), _) | Term::Maximum(Axes::Is(v), ..) => vec![*v],
        Term::Sum(Axes::Both(v, w), _) | Term::Maximum(Axes::Both(v, w), ..) => vec![*v, *w],
        _ => vec![],
    };
    own.into_iter().chain(term.parts().into_iter().flat_map(bound)).collect()
}

fn power(p: &Power) -> Changed<Power> {
    let to = |p: Power| (format!("power {p:?}"), p);
    match p {
        Power::Is(n) => vec![to(Power::Is(-n)), to(Power::Is(2 * n))],
        Power::Any(_) | Power::Even(_) => vec![to(Power::Is(2)), to(Power::Is(-2))],
        Power::Total(v, w) => vec![to(Power::Any(*v)), to(Power::Any(*w))],
    }
}

fn coefficient(k: &Coefficient) -> Changed<Coefficient> {
    let to = |k: Coefficient| (format!("coefficient {k:?}"), k);
    match k {
        Coefficient::One => vec![to(Coefficient::MinusOne)],
        Coefficient::MinusOne | Coefficient::Number(_) => vec![to(Coefficient::One)],
        Coefficient::Any(v) => vec![to(Coefficient::One), to(Coefficient::Minus(*v))],
        Coefficient::Minus(v) => vec![to(Coefficient::One), to(Coefficient::Any(*v))],
        Coefficient::HalfOf(_) => vec![to(Coefficient::One)],
    }
}

/// Every term that differs in one place.
fn terms(t: &Term, bound: &[char]) -> Changed<Term> {
    let mut all: Changed<Term> = vec![];
    match t {
        Term::Any(_) | Term::Named(..) | Term::Greatest(_) | Term::AtLeastZero(_) => {}
        Term::Number(n) => all.push((format!("{} for {n}", n + 1), Term::Number(n + 1))),
        Term::Size(_) => all.push(("no size".into(), Term::Number(1))),
        Term::Sum(a, x) => {
            all.push(("maximum for sum".into(), Term::Maximum(*a, x, None)));
            all.push(("no sum".into(), **x));
            all.extend(axes(a, bound).into_iter().map(|(n, a)| (n, Term::Sum(a, x))));
            all.extend(terms(x, bound).into_iter().map(|(n, x)| (n, Term::Sum(*a, keep(x)))))
        }
        Term::Maximum(a, x, p) => {
            all.push(("sum for maximum".into(), Term::Sum(*a, x)));
            all.push(("no maximum".into(), **x));
            if p.is_some() {
                all.push(("no predicates".into(), Term::Maximum(*a, x, None)))
            }
            all.extend(axes(a, bound).into_iter().map(|(n, a)| (n, Term::Maximum(a, x, *p))));
            all.extend(terms(x, bound).into_iter().map(|(n, x)| (n, Term::Maximum(*a, keep(x), *p))))
        }
        Term::Apply(f, x) => {
            let other = if *f == Function::Exp { Function::Sigmoid } else { Function::Exp };
            all.push((format!("no {}", f.name()), **x));
            all.push((format!("{} for {}", other.name(), f.name()), Term::Apply(other, x)));
            all.extend(terms(x, bound).into_iter().map(|(n, x)| (n, Term::Apply(*f, keep(x)))))
        }
        Term::Product(factors) => {
            for (i, f) in factors.iter().enumerate() {
                let put = |f: Factor| Term::Product(replaced(factors, i, f));
                all.push((format!("no factor {f}"), Term::Product(without(factors, i))));
                match f {
                    Factor::One(t, p) => {
                        all.extend(power(p).into_iter().map(|(n, p)| (format!("{n} of {t}"), put(Factor::One(*t, p)))));
                        all.extend(terms(t, bound).into_iter().map(|(n, t)| (n, put(Factor::One(t, *p)))))
                    }
                    Factor::Every(v, t, p) => {
                        all.extend(power(p).into_iter().map(|(n, p)| (format!("{n} of {t}"), put(Factor::Every(*v, t, p)))));
                        all.extend(terms(t, bound).into_iter().map(|(n, t)| (n, put(Factor::Every(*v, keep(t), *p)))))
                    }
                    Factor::Many(_) => {}
                }
            }
        }
        Term::Linear(addends) => {
            for (i, a) in addends.iter().enumerate() {
                let put = |a: Addend| Term::Linear(replaced(addends, i, a));
                all.push((format!("no addend {a}"), Term::Linear(without(addends, i))));
                match a {
                    Addend::One(k, t) => {
                        all.extend(coefficient(k).into_iter().map(|(n, k)| (format!("{n} of {t}"), put(Addend::One(k, *t)))));
                        all.extend(terms(t, bound).into_iter().map(|(n, t)| (n, put(Addend::One(*k, t)))))
                    }
                    Addend::Every(v, k, t) => {
                        all.extend(coefficient(k).into_iter().map(|(n, k)| (format!("{n} of {t}"), put(Addend::Every(*v, k, t)))));
                        all.extend(terms(t, bound).into_iter().map(|(n, t)| (n, put(Addend::Every(*v, *k, keep(t))))))
                    }
                    Addend::Pairs(v, names, k, t) => {
                        all.push((format!("pairs {} times", k - 1), put(Addend::Pairs(*v, *names, k - 1, t))));
                        all.extend(terms(t, bound).into_iter().map(|(n, t)| (n, put(Addend::Pairs(*v, *names, *k, keep(t))))))
                    }
                    Addend::Many(_) | Addend::Groups(..) => {}
                }
            }
        }
    }
    all
}

/// Every row that differs from one of the table in one guard or in one place of its right side.
fn mutants() -> Vec<(String, Row)> {
    let mut all = vec![];
    for row in TABLE {
        for (i, g) in row.guards.iter().enumerate() {
            all.push((format!("{}: without `{g}`", row.name), Row { guards: without(row.guards, i), ..*row }))
        }
        all.extend(terms(&row.right, &bound(&row.left)).into_iter().map(|(n, right)| (format!("{}: {n}", row.name), Row { right, ..*row })))
    }
    all
}

/// Mutants that are true, and why.
const TRUE: &[(&str, &str)] = &[
    (
        "flatten product: without `e > 0 or i is no predicate`",
        "where the predicate is 0 the left side is 1/0, which has no value; the guard keeps the infinity that it is in floating point",
    ),
    ("exp of a negative: without `k < 0`", "the guard only says which of two equal forms is the normal one"),
    ("exp of a log: without `x >= 0`", "the left side has no value elsewhere; the guard keeps the NaN that it is in floating point"),
    (
        "log of a product: without `x is no predicate`",
        "what a predicate hides is a real number here; the guard keeps the logarithm of what is none from being taken",
    ),
    ("log under its predicate: power Is(4) of p", "0 and 1 are their own powers"),
];

/// What a mutant uses where nothing binds it, or a prover may not know, is refused: these are no rules.
#[test]
fn every_mutant_is_refuted_or_true_for_a_known_reason() {
    let mut solver = Solver::start(300).unwrap();
    let (mut wrong, mut refuted, mut held) = (vec![], 0, vec![]);
    for (name, row) in mutants() {
        match judge(&row, &mut solver) {
            Ok(_) => {
                for empty in [false, true] {
                    let found = trial(&row, 300, empty).unwrap().counterexample;
                    let of_nothing = |c: &Counterexample| c.extents.iter().any(|e| e.1 == 0);
                    assert!(found.as_ref().is_none_or(of_nothing), "{name}: {row}: {found:?}")
                }
                held.push(name)
            }
            Err(Refusal::False(found)) => {
                assert!(found.left != found.right, "{name}: {found}");
                refuted += 1
            }
            // a member's own axes outside its family
            Err(Refusal::Unclear(Unclear::Unbound(_))) if name == "join sums: B for A" => {}
            Err(e) => wrong.push(format!("{name}: {e}: {row}")),
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let reasons: Vec<&str> = TRUE.iter().map(|t| t.0).collect();
    assert_eq!(held, reasons);
    assert!(refuted > 150, "{refuted}")
}
