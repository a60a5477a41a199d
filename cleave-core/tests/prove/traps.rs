//! Rules that other systems prove or use and that are false, and what a prover must not be taken in by.
use cleave_core::algebra::schema::{Addend as A, Axes::*, Coefficient as K, Factor as F, Guard as G, Place, Power as P, Row, Split, Term, Term::*};
use cleave_core::graph::Function::{Abs, Exp, Log};
use cleave_core::prove::denote::Unclear;
use cleave_core::prove::lemmas::{BIJECTIONS, LEMMAS, Obligation};
use cleave_core::prove::solver::{Answer, Failure, PATIENCE, Solver};
use cleave_core::prove::{Refusal, judge};

const X: Term = Any('x');
const Y: Term = Any('y');

fn row(left: Term, right: Term, guards: &'static [G]) -> Row {
    Row { name: "trap", left, right, replaces: None, guards, split: Split::None, control: &[] }
}

fn refuted(left: Term, right: Term, guards: &'static [G]) -> String {
    let row = row(left, right, guards);
    match judge(&row, &mut Solver::start(500).unwrap()) {
        Err(Refusal::False(found)) => found.to_string(),
        other => panic!("{row}: {other:?}"),
    }
}

fn proved(left: Term, right: Term, guards: &'static [G]) {
    let row = row(left, right, guards);
    if let Err(e) = judge(&row, &mut Solver::start(PATIENCE).unwrap()) {
        panic!("{row}: {e}")
    }
}

const fn times(a: Term, b: Term) -> [F; 2] {
    [F::One(a, P::Is(2)), F::One(b, P::Is(2))]
}

#[test]
fn the_exponential_of_a_sum_over_an_axis_is_not_the_sum_of_exponentials() {
    let text = refuted(Apply(Exp, &Sum(Is('A'), &X)), Sum(Is('A'), &Apply(Exp, &X)), &[]);
    assert!(text.contains("the left side is") && text.contains("with extents"), "{text}");
    refuted(Apply(Abs, &Sum(Is('A'), &X)), Sum(Is('A'), &Apply(Abs, &X)), &[]);
}

#[test]
fn sums_over_one_axis_are_two_sums() {
    // the reduction index is not shared: sum x * sum y is no sum of x * y
    refuted(Product(&[F::One(Sum(Is('A'), &X), P::Is(2)), F::One(Sum(Is('A'), &Y), P::Is(2))]), Sum(Is('A'), &Product(&const { times(X, Y) })), &[]);
    // with axes of their own it is
    const APART: &[G] =
        &[G::Disjoint(Place::Axes('A'), Place::Axes('B')), G::Disjoint(Place::Axes('A'), Place::Free('y')), G::Disjoint(Place::Axes('B'), Place::Free('x'))];
    let product = Product(&[F::One(Sum(Is('A'), &X), P::Is(2)), F::One(Sum(Is('B'), &Y), P::Is(2))]);
    let sum = Sum(Both('A', 'B'), &Product(&const { times(X, Y) }));
    proved(product, sum, APART);
    for i in 0..3 {
        let fewer: Vec<G> = APART.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, g)| *g).collect();
        refuted(product, sum, fewer.leak());
    }
}

#[test]
fn what_is_divided_by_0_is_not_0_and_does_not_cancel() {
    const OVER: Term = Product(&[F::One(X, P::Is(2)), F::One(X, P::Is(-2))]);
    refuted(OVER, Number(1), &[]);
    proved(OVER, Number(1), &[G::NonZero('x')]);
    // x / y * y = x
    const BACK: Term = Product(&[F::One(X, P::Is(2)), F::One(Y, P::Is(-2)), F::One(Y, P::Is(2))]);
    refuted(BACK, X, &[]);
    proved(BACK, X, &[G::NonZero('y')]);
}

#[test]
fn a_rule_compared_with_itself_proves_nothing() {
    let same = row(Sum(Is('A'), &X), Sum(Is('A'), &X), &[]);
    let found = judge(&same, &mut Solver::start(PATIENCE).unwrap());
    assert!(matches!(found, Err(Refusal::Unclear(Unclear::Nothing))), "{found:?}")
}

#[test]
fn a_rule_whose_guards_never_hold_proves_nothing() {
    let never = row(Apply(Exp, &Linear(&[A::One(K::Any('k'), X)])), Number(7), &[G::Positive('k'), G::Negative('k')]);
    let found = judge(&never, &mut Solver::start(PATIENCE).unwrap());
    assert!(matches!(found, Err(Refusal::Unproved(_))), "{found:?}")
}

#[test]
fn no_axes_and_axes_of_extent_1_are_not_all_there_is() {
    // true for rank 0 and for extents of 1
    refuted(Sum(Is('A'), &X), X, &[G::Disjoint(Place::Axes('A'), Place::Free('x'))]);
    // true if at most one of the axes is longer
    refuted(Sum(Both('A', 'B'), &X), Product(&[F::One(Sum(Is('A'), &X), P::Is(2)), F::One(Size('B'), P::Is(2))]), &[]);
}

#[test]
fn the_maximum_of_nothing_is_no_exponential_of_a_maximum() {
    let text = refuted(Maximum(Is('A'), &Apply(Exp, &X), Some('p')), Apply(Exp, &Maximum(Is('A'), &X, Some('p'))), &[]);
    assert!(text.contains("-inf"), "{text}")
}

#[test]
fn roots_and_logarithms_need_signs() {
    // sqrt(x^2) = x
    const ROOT: Term = Product(&[F::One(Product(&[F::One(X, P::Is(4))]), P::Is(1))]);
    refuted(ROOT, X, &[]);
    proved(ROOT, X, &[G::NonNegative('x')]);
    const LOG: Term = Apply(Log, &Product(&const { times(X, Y) }));
    const LOGS: Term = Linear(&[A::One(K::One, Apply(Log, &X)), A::One(K::One, Apply(Log, &Y))]);
    refuted(LOG, LOGS, &[]);
    proved(LOG, LOGS, &[G::NonNegative('x'), G::NonNegative('y')])
}

#[test]
fn a_negative_factor_turns_a_maximum() {
    let side = Maximum(Is('A'), &Product(&const { times(Any('c'), X) }), None);
    let out = Product(&[F::One(Any('c'), P::Is(2)), F::One(Maximum(Is('A'), &X, None), P::Is(2))]);
    refuted(side, out, &[G::Disjoint(Place::Axes('A'), Place::Free('c'))]);
    refuted(side, out, &[G::Positive('c')]);
    proved(side, out, &[G::Positive('c'), G::Disjoint(Place::Axes('A'), Place::Free('c'))])
}

#[test]
fn sums_of_products_are_no_products_of_sums_of_anything() {
    // the sum of a maximum is not the maximum of sums
    refuted(Sum(Is('A'), &Maximum(Is('B'), &X, None)), Maximum(Is('B'), &Sum(Is('A'), &X), None), &[G::Disjoint(Place::Axes('A'), Place::Axes('B'))]);
    // maxima change places
    proved(Maximum(Is('A'), &Maximum(Is('B'), &X, None), None), Maximum(Both('A', 'B'), &X, None), &[G::Disjoint(Place::Axes('A'), Place::Axes('B'))])
}

fn possible(solver: &mut Solver, o: &Obligation) -> bool {
    solver.ask(&o.lines()).unwrap() == Answer::Possible
}

#[test]
fn whole_division_does_not_simplify_like_division() {
    let mut solver = Solver::start(PATIENCE).unwrap();
    let constants: &'static [&'static str] = &["a b c Int"];
    for (given, shown) in [
        // a / b * b = a
        (["(> b 0)"], "(= a (* b (div a b)))"),
        // (a + b) / c = a / c + b / c
        (["(> c 0)"], "(= (div (+ a b) c) (+ (div a c) (div b c)))"),
        // a / b / c = a / c / b for any divisors
        (["(not (= a 0))"], "(= (div (div a b) c) (div a (* b c)))"),
        // (a % b) % c = a % c
        (["(> b c 0)"], "(= (mod (mod a b) c) (mod a c))"),
    ] {
        let given: &'static [&'static str] = given.to_vec().leak();
        assert!(possible(&mut solver, &Obligation { constants, given, shown }), "{shown}")
    }
    let given: &'static [&'static str] = &["(> b 0)"];
    assert!(!possible(&mut solver, &Obligation { constants, given, shown: "(= (mod (mod a b) b) (mod a b))" }))
}

/// The lemma with one text for another wherever it stands.
fn changed(name: &str, from: &str, to: &str) -> Vec<Obligation> {
    let lemma = LEMMAS.iter().chain(BIJECTIONS).find(|l| l.name == name).unwrap();
    let change = |text: &'static str| -> &'static str { text.replace(from, to).leak() };
    let all = lemma.obligations.iter().map(|o| {
        let given: &'static [&'static str] = o.given.iter().map(|g| change(g)).collect::<Vec<_>>().leak();
        Obligation { given, shown: change(o.shown), ..*o }
    });
    let all: Vec<Obligation> = all.collect();
    let as_it_was = |(a, b): (&Obligation, &Obligation)| a.given == b.given && a.shown == b.shown;
    assert!(!all.iter().zip(lemma.obligations).all(as_it_was), "{name} says `{from}`");
    all
}

#[test]
fn a_lemma_with_an_index_shifted_or_an_operation_changed_is_refuted() {
    let mut solver = Solver::start(2000).unwrap();
    for (name, from, to) in [
        ("a loop over tiles visits every position once", "(< i b)", "(<= i b)"),
        ("a loop over tiles visits every position once", "(+ (* b o) i)", "(+ (* b o) i 1)"),
        ("a loop over tiles visits every position once", "(mod k b))))", "(+ 1 (mod k b)))))"),
        ("pieces of a split cut the tiles of a loop", "(* t c)", "(* t (- c 1))"),
        ("pieces of a split cut the tiles of a loop", "(< y c)", "true"),
        ("a stored axis of two factors", "(+ (* a n) b)", "(+ (* a m) b)"),
        ("a stored axis of two factors", "(< b n)", "(<= b n)"),
        ("a positive factor leaves a maximum", "(> c 0.0)", "true"),
        ("sums are linear", "(+ t g)", "t"),
        ("a square of a sum", "2.0", "1.0"),
        ("a sum in two parts", "(+ t f)", "t"),
        ("a product of sums is one sum", "(* f t)", "f"),
    ] {
        let wrong = changed(name, from, to);
        assert!(wrong.iter().any(|o| matches!(solver.ask(&o.lines()), Ok(Answer::Possible))), "{name}: `{to}` for `{from}`")
    }
}

#[test]
fn a_question_that_takes_too_long_has_no_answer() {
    let mut solver = Solver::start(100).unwrap();
    // no sum of two cubes is a cube: true, and beyond what the solver knows of whole numbers
    let constants: &'static [&'static str] = &["a b c Int"];
    let given: &'static [&'static str] = &["(> a 0)", "(> b 0)", "(> c 0)"];
    let fermat = Obligation { constants, given, shown: "(not (= (+ (* a a a) (* b b b)) (* c c c)))" };
    assert!(matches!(solver.ask(&fermat.lines()), Err(Failure::Unknown)));
    // it is asked on
    let easy = Obligation { constants, given, shown: "(> (+ a b) 1)" };
    assert_eq!(solver.ask(&easy.lines()).unwrap(), Answer::Impossible)
}

#[test]
fn a_missing_solver_is_an_error_and_no_verdict() {
    // in a process of its own, as the environment belongs to all tests of this one
    let this = std::env::current_exe().unwrap();
    let run = std::process::Command::new(this).args(["--exact", "traps::solver_is_found", "--nocapture"]).env("Z3_BIN", "/nowhere").output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && text.contains("put z3 in PATH"), "{text}")
}

#[test]
fn solver_is_found() {
    if let Err(e) = Solver::start(PATIENCE) {
        panic!("{e}")
    }
}
