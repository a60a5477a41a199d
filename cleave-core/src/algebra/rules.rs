//! The table of rules: every equality that the search may use, and nothing else. F(x) are the free axes of x.
//!
//! What it leaves to the term constructors ([`super::term`]) is only the meaning of the n-ary forms: order, equal members
//! merged (powers of one sign only), numbers and coefficients outermost, a predicate its own
//! square. A product with a zero numerator is 0, whatever it is
//! divided by; the sum over an empty domain is 0 and the maximum -inf; extents are at least 1, the domains of predicates may
//! be empty.
use super::schema::{
    Addend as A,
    Axes::*,
    Coefficient as K, Control as C, Factor as F, Guard as G, Key,
    Place::*,
    Power as P, Row, Split,
    Term::{self, *},
};
use crate::graph::Function::{Exp, Log, Sigmoid};

/// Products longer than this are left as they are.
const LONGEST: usize = 10;

const X: Term = Any('x');
const EXP_X: Term = Apply(Exp, &X);
/// k * (r.. * sum of the groups g), and s..: an addend that a distribution takes apart.
const NESTED: Term = Linear(&[A::One(K::Any('k'), Product(&[F::Many('r'), F::One(Linear(&[A::Groups('t', 'g')]), P::Is(2))])), A::Many('s')]);
const UNNESTED: Term = Linear(&[A::Every('t', K::Any('k'), &Product(&[F::Many('r'), F::Many('g')])), A::Many('s')]);

const fn row(name: &'static str, left: Term, right: Term) -> Row {
    Row { name, left, right, replaces: None, guards: &[], split: Split::None, control: &[] }
}

pub const TABLE: &[Row] = &[
    // ---- forms --------------------------------------------------------------------------------------------------
    Row {
        guards: &[G::RootOf('e', 'i'), G::InverseOf('e', 'i')],
        control: &[C::Simplify, C::Other('x'), C::Directed('x', 'i'), C::AtMost(LONGEST, &['r', 'i']), C::AtLeast(2, 'i')],
        ..row(
            "flatten product",
            Product(&[F::One(Named('x', &Product(&[F::Many('i')])), P::Any('e')), F::Many('r')]),
            Product(&[F::One(Any('i'), P::Any('e')), F::Many('r')]),
        )
    },
    Row {
        control: &[C::Other('x'), C::AtMost(LONGEST, &['r', 'i'])],
        ..row(
            "flatten sum",
            Linear(&[A::One(K::Any('k'), Named('x', &Linear(&[A::Many('i')]))), A::Many('r')]),
            Linear(&[A::One(K::Any('k'), Any('i')), A::Many('r')]),
        )
    },
    Row {
        guards: &[G::NonZero('x')],
        control: &[C::Simplify],
        ..row("cancel", Product(&[F::One(X, P::Any('e')), F::One(X, P::Any('f')), F::Many('r')]), Product(&[F::One(X, P::Total('e', 'f')), F::Many('r')]))
    },
    Row {
        guards: &[G::Disjoint(Axes('D'), Free('x'))],
        split: Split::Maximal('D'),
        control: &[C::Simplify],
        ..row("sum of a broadcast", Sum(Both('D', 'A'), &X), Product(&[F::One(Size('D'), P::Is(2)), F::One(Sum(Is('A'), &X), P::Is(2))]))
    },
    Row {
        guards: &[G::Disjoint(Axes('D'), Free('x'))],
        split: Split::Maximal('D'),
        control: &[C::Simplify],
        ..row("maximum of a broadcast", Maximum(Both('D', 'A'), &X, None), Maximum(Is('A'), &X, None))
    },
    // ---- sums ---------------------------------------------------------------------------------------------------
    Row { guards: &[G::Disjoint(Axes('A'), Axes('B'))], ..row("sum of sums", Sum(Is('A'), &Sum(Is('B'), &X)), Sum(Both('A', 'B'), &X)) },
    Row {
        guards: &[G::Disjoint(Free('c'), Axes('A'))],
        split: Split::Maximal('c'),
        ..row(
            "factor out",
            Sum(Is('A'), &Product(&[F::Many('c'), F::Many('x')])),
            Product(&[F::Many('c'), F::One(Sum(Is('A'), &Product(&[F::Many('x')])), P::Is(2))]),
        )
    },
    Row {
        guards: &[G::Disjoint(Axes('A'), Axes('B')), G::Disjoint(Free('r'), Axes('B')), G::HasValue('r')],
        control: &[C::AtMost(LONGEST, &['r'])],
        ..row(
            "merge contractions",
            Sum(Is('A'), &Product(&[F::Many('r'), F::One(Sum(Is('B'), &Any('y')), P::Is(2))])),
            Sum(Both('A', 'B'), &Product(&[F::Many('r'), F::One(Any('y'), P::Is(2))])),
        )
    },
    Row {
        guards: &[G::Disjoint(Axes('B'), Free('r'))],
        split: Split::Incidence { axes: 'B', touched: 'x' },
        ..row(
            "contract first",
            Sum(Both('A', 'B'), &Product(&[F::Many('x'), F::Many('r')])),
            Sum(Is('A'), &Product(&[F::Many('r'), F::One(Sum(Is('B'), &Product(&[F::Many('x')])), P::Is(2))])),
        )
    },
    row("coefficient out of a sum", Sum(Is('A'), &Linear(&[A::One(K::Any('k'), X)])), Linear(&[A::One(K::Any('k'), Sum(Is('A'), &X))])),
    Row {
        split: Split::Groups(Key::Reduced('A')),
        ..row("sum of a linear form", Sum(Is('A'), &Linear(&[A::Groups('t', 'g')])), Linear(&[A::Every('t', K::One, &Sum(Is('A'), &Any('g')))]))
    },
    Row {
        guards: &[G::HasValue('r')],
        split: Split::Groups(Key::Reduced('A')),
        ..row(
            "distribute",
            Sum(Is('A'), &Product(&[F::One(Linear(&[A::Groups('t', 'g')]), P::Is(2)), F::Many('r')])),
            Linear(&[A::Every('t', K::One, &Sum(Is('A'), &Product(&[F::Many('r'), F::One(Any('g'), P::Is(2))])))]),
        )
    },
    Row {
        guards: &[G::HasValue('r')],
        split: Split::Groups(Key::Reduced('A')),
        control: &[C::Cancels],
        ..row(
            "distribute a square",
            Sum(Is('A'), &Product(&[F::One(Linear(&[A::Groups('t', 'g')]), P::Is(4)), F::Many('r')])),
            Linear(&[
                A::Every('t', K::One, &Sum(Is('A'), &Product(&[F::Many('r'), F::One(Any('g'), P::Is(4))]))),
                A::Pairs('t', ('g', 'h'), 2, &Sum(Is('A'), &Product(&[F::Many('r'), F::One(Any('g'), P::Is(2)), F::One(Any('h'), P::Is(2))]))),
            ]),
        )
    },
    Row {
        guards: &[G::HasValue('r')],
        replaces: Some('y'),
        split: Split::Groups(Key::Reduced('A')),
        control: &[C::First],
        ..row("distribute within an addend", Sum(Is('A'), &Named('y', &NESTED)), UNNESTED)
    },
    Row {
        guards: &[G::HasValue('r')],
        replaces: Some('y'),
        split: Split::Groups(Key::Reduced('A')),
        control: &[C::First],
        ..row("distribute within a factor", Sum(Is('A'), &Product(&[F::One(Named('y', &NESTED), P::Even('e')), F::Many('q')])), UNNESTED)
    },
    Row {
        split: Split::Shared('c'),
        control: &[C::AtLeast(2, 't')],
        ..row(
            "common factor",
            Linear(&[A::Every('t', K::Any('k'), &Product(&[F::Many('c'), F::Many('r')]))]),
            Product(&[F::Many('c'), F::One(Linear(&[A::Every('t', K::Any('k'), &Product(&[F::Many('r')]))]), P::Is(2))]),
        )
    },
    Row {
        split: Split::Shared('A'),
        control: &[C::AtLeast(2, 't')],
        ..row(
            "join sums",
            Linear(&[A::Every('t', K::Any('k'), &Sum(Both('A', 'B'), &X))]),
            Sum(Is('A'), &Linear(&[A::Every('t', K::Any('k'), &Sum(Is('B'), &X))])),
        )
    },
    // ---- exponentials -------------------------------------------------------------------------------------------
    Row {
        split: Split::Groups(Key::Free),
        ..row("exp of a sum", Apply(Exp, &Linear(&[A::Groups('t', 'g')])), Product(&[F::Every('t', &Apply(Exp, &Any('g')), P::Is(2))]))
    },
    Row {
        guards: &[G::Negative('k')],
        ..row(
            "exp of a negative",
            Apply(Exp, &Linear(&[A::One(K::Any('k'), X)])),
            Product(&[F::One(Apply(Exp, &Linear(&[A::One(K::Minus('k'), X)])), P::Is(-2))]),
        )
    },
    Row {
        control: &[C::AtLeast(2, 't'), C::Varies('x', 'A')],
        ..row(
            "join exps under a sum",
            Sum(Is('A'), &Product(&[F::Every('t', &EXP_X, P::Even('e')), F::Many('r')])),
            Sum(Is('A'), &Product(&[F::Many('r'), F::One(Apply(Exp, &Linear(&[A::Every('t', K::HalfOf('e'), &X)])), P::Is(2))])),
        )
    },
    Row {
        guards: &[G::HasValue('r')],
        replaces: Some('y'),
        split: Split::Groups(Key::Beside('r')),
        control: &[C::First],
        ..row("distribute within an exponent", Apply(Exp, &Named('y', &NESTED)), UNNESTED)
    },
    Row {
        guards: &[G::HasValue('r')],
        split: Split::Groups(Key::Beside('r')),
        ..row(
            "distribute an exponent",
            Apply(Exp, &Product(&[F::One(Linear(&[A::Groups('t', 'g')]), P::Is(2)), F::Many('r')])),
            Apply(Exp, &Linear(&[A::Every('t', K::One, &Product(&[F::Many('r'), F::One(Any('g'), P::Is(2))]))])),
        )
    },
    Row { guards: &[G::NonNegative('x')], ..row("exp of a log", Apply(Exp, &Apply(Log, &X)), X) },
    row("log of an exp", Apply(Log, &EXP_X), X),
    Row {
        guards: &[G::NonNegative('x'), G::NoPredicate('x'), G::DivisorOf('e', 'x')],
        ..row("log of a product", Apply(Log, &Product(&[F::Every('t', &X, P::Any('e'))])), Linear(&[A::Every('t', K::HalfOf('e'), &Apply(Log, &X))]))
    },
    Row {
        guards: &[G::NonNegative('x'), G::DividendOf('e', 'x')],
        ..row("log of a quotient", Apply(Log, &Product(&[F::Every('t', &X, P::Any('e'))])), Linear(&[A::Every('t', K::HalfOf('e'), &Apply(Log, &X))]))
    },
    Row {
        guards: &[G::Boolean('p')],
        ..row(
            "log under its predicate",
            Product(&[F::One(Any('p'), P::Is(2)), F::One(Apply(Log, &Product(&[F::One(Any('p'), P::Is(2)), F::Many('x')])), P::Is(2)), F::Many('r')]),
            Product(&[F::One(Any('p'), P::Is(2)), F::One(Apply(Log, &Product(&[F::Many('x')])), P::Is(2)), F::Many('r')]),
        )
    },
    row(
        "sigmoid",
        Apply(Sigmoid, &X),
        Product(&[F::One(Linear(&[A::One(K::One, Number(1)), A::One(K::One, Apply(Exp, &Linear(&[A::One(K::MinusOne, X)])))]), P::Is(-2))]),
    ),
    // ---- maxima -------------------------------------------------------------------------------------------------
    Row {
        guards: &[G::Disjoint(Free('c'), Axes('A'))],
        split: Split::Maximal('c'),
        ..row(
            "shift a maximum",
            Maximum(Is('A'), &Linear(&[A::Many('c'), A::Many('x')]), Some('p')),
            Linear(&[A::Many('c'), A::One(K::One, Maximum(Is('A'), &Any('x'), Some('p')))]),
        )
    },
    Row {
        guards: &[G::Positive('k')],
        ..row(
            "coefficient out of a maximum",
            Maximum(Is('A'), &Linear(&[A::One(K::Any('k'), X)]), Some('p')),
            Linear(&[A::One(K::Any('k'), Maximum(Is('A'), &X, Some('p')))]),
        )
    },
    Row {
        guards: &[G::Positive('c'), G::Disjoint(Free('c'), Axes('A'))],
        split: Split::Maximal('c'),
        ..row(
            "scale a maximum",
            Maximum(Is('A'), &Product(&[F::Many('c'), F::Many('x')]), Some('p')),
            Product(&[F::Many('c'), F::One(Maximum(Is('A'), &Any('x'), Some('p')), P::Is(2))]),
        )
    },
    row("maximum of an exp", Maximum(Is('A'), &EXP_X, None), Apply(Exp, &Maximum(Is('A'), &X, None))),
];
