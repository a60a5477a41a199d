//! The steps of the normaliser, by induction; and the bijections of indices behind splits and stored axes of several factors.
//!
//! A reduction over n + 1 positions is that over n and one more member; so each lemma has a base (n = 0, or 1 for maxima) and a step
//! from n to n + 1, and holds for every extent. Names in the steps: `s`, `t` are reductions over n positions of members `f`, `g`, whose
//! next members are these. What the logarithm and the exponential are enters as their functional equations at the terms at hand.

/// A statement, and what is to be shown for it.
#[derive(Clone, Copy, Debug)]
pub struct Lemma {
    pub name: &'static str,
    pub statement: &'static str,
    pub obligations: &'static [Obligation],
}

/// What follows from what, in SMT-LIB.
#[derive(Clone, Copy, Debug)]
pub struct Obligation {
    /// Constants, as `name sort`.
    pub constants: &'static [&'static str],
    pub given: &'static [&'static str],
    pub shown: &'static str,
}

impl Obligation {
    /// The lines that could hold together only if it were wrong.
    pub fn lines(&self) -> Vec<String> {
        let constant = |c: &&str| {
            let (names, sort) = c.rsplit_once(' ').unwrap_or((c, "Real"));
            names.split(' ').map(|n| format!("(declare-const {n} {sort})")).collect::<Vec<_>>()
        };
        let given = self.given.iter().map(|g| format!("(assert {g})"));
        self.constants.iter().flat_map(constant).chain(given).chain([format!("(assert (not {}))", self.shown)]).collect()
    }
}

const fn lemma(name: &'static str, statement: &'static str, obligations: &'static [Obligation]) -> Lemma {
    Lemma { name, statement, obligations }
}

const fn show(constants: &'static [&'static str], given: &'static [&'static str], shown: &'static str) -> Obligation {
    Obligation { constants, given, shown }
}

/// All that the normaliser uses.
pub const LEMMAS: &[Lemma] = &[
    lemma(
        "sums are linear",
        "sum (f + g) = sum f + sum g",
        &[show(&[], &[], "(= 0.0 (+ 0.0 0.0))"), show(&["s t u f g Real"], &["(= u (+ s t))"], "(= (+ u (+ f g)) (+ (+ s f) (+ t g)))")],
    ),
    lemma(
        "a factor leaves a sum",
        "sum (c * f) = c * sum f",
        &[show(&["c Real"], &[], "(= 0.0 (* c 0.0))"), show(&["c s u f Real"], &["(= u (* c s))"], "(= (+ u (* c f)) (* c (+ s f)))")],
    ),
    lemma("the sum of 1 is the extent", "sum 1 = n", &[show(&["n Int", "s Real"], &["(>= n 0)", "(= s (to_real n))"], "(= (+ s 1.0) (to_real (+ n 1)))")]),
    lemma(
        "sums change places",
        "sum_i sum_j f = sum_j sum_i f: `r` is the new row, `c` the sums of columns",
        // the step uses that sums are linear: the columns' sums with the new row are the columns' sums and the row's
        &[show(&[], &[], "(= 0.0 0.0)"), show(&["s c r d Real"], &["(= s c)", "(= d (+ c r))"], "(= (+ s r) d)")],
    ),
    lemma(
        "a product of sums is one sum",
        "sum_i f * sum_j g = sum_i sum_j (f * g)",
        &[show(&["t Real"], &[], "(= (* 0.0 t) 0.0)"), show(&["s t u f Real"], &["(= u (* s t))"], "(= (* (+ s f) t) (+ u (* f t)))")],
    ),
    lemma(
        "a square of a sum",
        "sum_i sum_j b = sum_i b_ii + 2 * sum over pairs b, for b the same either way: `q` diagonal, `p` pairs, `r` the new row",
        &[show(&["s q p r b Real"], &["(= s (+ q (* 2.0 p)))"], "(= (+ s r r b) (+ (+ q b) (* 2.0 (+ p r))))")],
    ),
    lemma(
        "a sum in two parts",
        "the sum over m + n positions is that over the first m and that over the next n",
        &[show(&["s Real"], &[], "(= s (+ s 0.0))"), show(&["s t u f Real"], &["(= u (+ s t))"], "(= (+ u f) (+ s (+ t f)))")],
    ),
    lemma(
        "sums of what is not negative",
        "if f >= 0 everywhere, the sum is not negative, and 0 only if f is 0 everywhere; of nothing but 0 it is 0",
        &[
            show(&["s f Real"], &["(>= s 0.0)", "(>= f 0.0)"], "(>= (+ s f) 0.0)"),
            show(&["s f Real"], &["(>= s 0.0)", "(>= f 0.0)", "(= (+ s f) 0.0)"], "(and (= s 0.0) (= f 0.0))"),
            show(&["s f Real"], &["(= s 0.0)", "(= f 0.0)"], "(= (+ s f) 0.0)"),
        ],
    ),
    lemma(
        "a shift leaves a maximum",
        "max (c + f) = c + max f, where there is something",
        &[
            show(&["c f Real"], &[], "(= (+ c f) (+ c f))"),
            show(&["c s u f Real"], &["(= u (+ c s))"], "(= (ite (>= u (+ c f)) u (+ c f)) (+ c (ite (>= s f) s f)))"),
        ],
    ),
    lemma(
        "a positive factor leaves a maximum",
        "max (c * f) = c * max f for c > 0, where there is something",
        &[show(&["c s u f Real"], &["(> c 0.0)", "(= u (* c s))"], "(= (ite (>= u (* c f)) u (* c f)) (* c (ite (>= s f) s f)))")],
    ),
    lemma("the maximum of one value", "max c = c, where there is something", &[show(&["c s Real"], &["(= s c)"], "(= (ite (>= s c) s c) c)")]),
    lemma(
        "maxima change places",
        "max_i max_j f = max_j max_i f: `r` the new row's, `c` the columns', `d` the columns' with the new row",
        &[show(&["s c r d Real"], &["(= s c)", "(= d (ite (>= c r) c r))"], "(= (ite (>= s r) s r) d)")],
    ),
    lemma(
        "the maximum of exponentials",
        "max exp f = exp max f, where there is something; exp grows",
        &[show(&["s f es ef u Real"], &["(= u es)", "(=> (<= s f) (<= es ef))", "(=> (<= f s) (<= ef es))"], "(= (ite (>= u ef) u ef) (ite (>= s f) es ef))")],
    ),
    lemma(
        "the greatest element is one of them",
        "some f is max f, and none is greater, where there is something",
        &[show(&["s f Real"], &[], "(and (or (= (ite (>= s f) s f) s) (= (ite (>= s f) s f) f)) (>= (ite (>= s f) s f) s) (>= (ite (>= s f) s f) f))")],
    ),
    lemma(
        "the exponential of a sum",
        "exp sum f = product exp f; exp (a + b) = exp a * exp b, exp 0 = 1",
        &[show(&["e0 Real"], &["(= e0 1.0)"], "(= e0 1.0)"), show(&["es ef ez p Real"], &["(= p es)", "(= ez (* es ef))"], "(= ez (* p ef))")],
    ),
    lemma(
        "the logarithm of a product",
        "log product f = sum log f for f other than 0; log |a * b| = log |a| + log |b|, log 1 = 0",
        &[show(&["lp lf lz s Real"], &["(= s lp)", "(= lz (+ lp lf))"], "(= lz (+ s lf))")],
    ),
    lemma(
        "products of a family",
        "product (f * g) = product f * product g; 0 only if a member is, positive if all are",
        &[
            show(&["p q u f g Real"], &["(= u (* p q))"], "(= (* u (* f g)) (* (* p f) (* q g)))"),
            show(&["p f Real"], &[], "(= (= (* p f) 0.0) (or (= p 0.0) (= f 0.0)))"),
            show(&["p f Real"], &["(> p 0.0)", "(> f 0.0)"], "(> (* p f) 0.0)"),
        ],
    ),
    lemma(
        "a product of multisets",
        "numerators and denominators multiply: (a/b) * (c/d) = (a*c)/(b*d) with 1/0 = 0",
        &[show(
            &["a b c d rb rd rbd Real"],
            &[
                "(ite (= b 0.0) (= rb 0.0) (= (* b rb) 1.0))",
                "(ite (= d 0.0) (= rd 0.0) (= (* d rd) 1.0))",
                "(ite (= (* b d) 0.0) (= rbd 0.0) (= (* b d rbd) 1.0))",
            ],
            "(= (* a rb c rd) (* a c rbd))",
        )],
    ),
];

/// What the scheduler does to index domains: tiles and splits of an axis, and stored axes of several factors.
pub const BIJECTIONS: &[Lemma] = &[
    lemma(
        "a loop over tiles visits every position once",
        "k = b * o + i with 0 <= i < b, b * o + i < n: onto 0 <= k < n, one pair (o, i) each, for any b > 0",
        &[
            show(&["k n b o i Int"], &["(> b 0)", "(<= 0 o)", "(<= 0 i)", "(< i b)", "(< (+ (* b o) i) n)", "(= k (+ (* b o) i))"], "(and (<= 0 k) (< k n))"),
            show(
                &["k n b Int"],
                &["(> b 0)", "(<= 0 k)", "(< k n)"],
                "(and (<= 0 (div k b)) (<= 0 (mod k b)) (< (mod k b) b) (= k (+ (* b (div k b)) (mod k b))))",
            ),
            show(&["b o i p j Int"], &["(> b 0)", "(<= 0 i)", "(< i b)", "(<= 0 j)", "(< j b)", "(= (+ (* b o) i) (+ (* b p) j))"], "(and (= o p) (= i j))"),
        ],
    ),
    lemma(
        "pieces of a split cut the tiles of a loop",
        "piece p of c takes the tiles from floor(t * p / c) on, up to where the next one begins: from 0, to t, in order",
        &[
            show(&["t c Int"], &["(> c 0)"], "(and (= 0 (div (* t 0) c)) (= t (div (* t c) c)))"),
            // the quotients by what divides and what is left, so that nothing but products is left to the solver
            show(
                &["t c p r m n x y Int"],
                &["(> c 0)", "(>= t 0)", "(<= p r)", "(= (* t p) (+ (* c m) x))", "(<= 0 x)", "(< x c)", "(= (* t r) (+ (* c n) y))", "(<= 0 y)", "(< y c)"],
                "(<= m n)",
            ),
        ],
    ),
    lemma(
        "a stored axis of two factors",
        "(a, b) at a * |b| + b: within the axis, and one pair each",
        &[
            show(&["a b m n Int"], &["(<= 0 a)", "(< a m)", "(<= 0 b)", "(< b n)"], "(and (<= 0 (+ (* a n) b)) (< (+ (* a n) b) (* m n)))"),
            show(&["a b c d n Int"], &["(<= 0 b)", "(< b n)", "(<= 0 d)", "(< d n)", "(= (+ (* a n) b) (+ (* c n) d))"], "(and (= a c) (= b d))"),
            show(&["k m n Int"], &["(> n 0)", "(<= 0 k)", "(< k (* m n))"], "(and (<= 0 (div k n)) (< (div k n) m) (= k (+ (* n (div k n)) (mod k n))))"),
        ],
    ),
];
