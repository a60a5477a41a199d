//! What the frames of [`crate::frame`] must do, about the very formulas that the executors run.
//!
//! A state is a frame and members; what it stands for is the plain sum: of a shift by g, a member v of degree d stands for
//! v * exp(d/2 * g); of moments about a centre c, for the moments about 0. The frame of no elements stands for sums of 0.
use crate::frame::Scalar;
use crate::frame::formula::{shift_merge, shift_weight, translated, translation_merge};
use crate::graph::FrameKind;

/// A term in SMT-LIB. Of frames that are compared the order is known, as each order is a case of its own: rank 0 is the frame of no
/// elements, which is below all others.
#[derive(Clone, Debug)]
struct Symbol {
    text: String,
    rank: Option<u8>,
}

fn term(text: impl Into<String>) -> Symbol {
    Symbol { text: text.into(), rank: None }
}

fn binary(f: &str, a: &Symbol, b: &Symbol) -> Symbol {
    term(format!("({f} {} {})", a.text, b.text))
}

impl Scalar for Symbol {
    fn number(value: f64) -> Self {
        term(format!("{value:?}"))
    }
    fn plus(&self, other: &Self) -> Self {
        binary("+", self, other)
    }
    fn minus(&self, other: &Self) -> Self {
        binary("-", self, other)
    }
    fn times(&self, other: &Self) -> Self {
        binary("*", self, other)
    }
    fn exp(&self) -> Self {
        term(format!("(e {})", self.text))
    }
    fn greater(&self, other: &Self) -> Self {
        if self.rank >= other.rank { self.clone() } else { other.clone() }
    }
    fn if_equal(&self, other: &Self, then: Self, otherwise: Self) -> Self {
        match (self.rank, other.rank) {
            (Some(x), Some(y)) => {
                if x == y {
                    then
                } else {
                    otherwise
                }
            }
            _ => term(format!("(ite (= {} {}) {} {})", self.text, other.text, then.text, otherwise.text)),
        }
    }
    fn if_nothing(&self, nothing: &Self, then: Self, otherwise: Self) -> Self {
        self.if_equal(nothing, then, otherwise)
    }
}

/// What a frame must do: a name, and for each case lines that could hold together only if it did not.
#[derive(Clone, Debug)]
pub struct Duty {
    pub name: &'static str,
    pub cases: Vec<Vec<String>>,
}

fn equal(a: &Symbol, b: &Symbol) -> String {
    format!("(= {} {})", a.text, b.text)
}

/// The duties of a frame.
pub fn duties(kind: FrameKind) -> Vec<Duty> {
    match kind {
        FrameKind::Shift => shift(&shift_weight),
        FrameKind::Translation => translation(&translated),
    }
}

type Weight<'a> = &'a dyn Fn(&Symbol, &Symbol, &Symbol, &Symbol) -> Symbol;

/// The duties of a shift with this weight, in every order of three frames, equal ones and those of no elements included.
fn shift(weight: Weight) -> Vec<Duty> {
    let mut duties: Vec<Duty> = vec![];
    for order in 0..64u8 {
        let ranks = [order & 3, order >> 2 & 3, order >> 4];
        // ranks without a gap: the same order once
        if (2..=3).any(|r| ranks.contains(&r) && !ranks.contains(&(r - 1))) {
            continue;
        }
        for (name, lines) in shift_in_order(weight, ranks) {
            match duties.iter_mut().find(|d| d.name == name) {
                Some(duty) => duty.cases.push(lines),
                None => duties.push(Duty { name, cases: vec![lines] }),
            }
        }
    }
    duties
}

fn shift_in_order(weight: Weight, ranks: [u8; 3]) -> Vec<(&'static str, Vec<String>)> {
    let (d, zero) = (term("d"), Symbol::number(0.0));
    let frame = |rank: u8| Symbol { text: format!("g{rank}"), rank: Some(rank) };
    let nothing = frame(0);
    let [a, b, c] = ranks.map(frame);
    // of no elements every sum is 0
    let member = |i: usize, name: &str| if ranks[i] == 0 { zero.clone() } else { term(name) };
    let (u, v, w) = (member(0, "u"), member(1, "v"), member(2, "w"));
    let scale = |x: &Symbol| Symbol::number(0.5).times(&d).times(x).exp();
    let weight = |from: &Symbol, to: &Symbol| weight(from, to, &d, &nothing);
    // what a member stands for
    let plain = |g: &Symbol, v: &Symbol| g.if_nothing(&nothing, zero.clone(), v.times(&scale(g)));
    let merged = |(f, x): (&Symbol, &Symbol), (g, y): (&Symbol, &Symbol)| {
        let to = shift_merge(f, g);
        let value = x.times(&weight(f, &to)).plus(&y.times(&weight(g, &to)));
        (to, value)
    };
    let same = |(f, x): (&Symbol, &Symbol), (g, y): (&Symbol, &Symbol)| format!("(and {} {})", equal(f, g), equal(x, y));
    let mut head: Vec<String> = vec!["(declare-fun e (Real) Real)".into(), "(declare-fun l (Real) Real)".into()];
    head.extend(["g0", "g1", "g2", "g3", "d", "s", "u", "v", "w"].map(|n| format!("(declare-const {n} Real)")));
    // the functional equation, at the frames at hand
    let frames: Vec<Symbol> = (0..4).map(frame).collect();
    for x in &frames {
        head.push(format!("(assert (> {} 0.0))", scale(x).text));
        for y in &frames {
            let step = scale(&x.minus(y));
            head.push(format!("(assert (> {} 0.0))", step.text));
            head.push(format!("(assert {})", equal(&step.times(&scale(y)), &scale(x))));
            head.extend(frames.iter().map(|z| format!("(assert {})", equal(&step.times(&scale(&y.minus(z))), &scale(&x.minus(z))))))
        }
    }
    let lines = |given: &[String], shown: String| {
        let given = given.iter().map(|g| format!("(assert {g})"));
        head.iter().cloned().chain(given).chain([format!("(assert (not {shown}))")]).collect::<Vec<_>>()
    };
    let (ab, abv) = merged((&a, &u), (&b, &v));
    let (ba, bav) = merged((&b, &v), (&a, &u));
    let (bc, bcv) = merged((&b, &v), (&c, &w));
    let (left, leftv) = merged((&ab, &abv), (&c, &w));
    let (right, rightv) = merged((&a, &u), (&bc, &bcv));
    let (na, nav) = merged((&nothing, &zero), (&a, &u));
    let mut all = vec![
        ("the frame of no elements is the identity of merge", lines(&[], same((&na, &nav), (&a, &u)))),
        ("merge commutes", lines(&[], same((&ab, &abv), (&ba, &bav)))),
        ("merge associates", lines(&[], same((&left, &leftv), (&right, &rightv)))),
        ("a merged state stands for the sum of both", lines(&[], equal(&plain(&ab, &abv), &plain(&a, &u).plus(&plain(&b, &v))))),
        ("no elements stand for a sum of 0", lines(&[], equal(&plain(&nothing, &u), &zero))),
    ];
    if ranks[0] <= ranks[1] {
        let moved = u.times(&weight(&a, &b));
        all.push(("transport keeps what a member stands for", lines(&[], equal(&plain(&b, &moved), &plain(&a, &u)))));
        if ranks[1] <= ranks[2] {
            all.push(("transports compose", lines(&[], equal(&moved.times(&weight(&b, &c)), &u.times(&weight(&a, &c))))))
        }
    }
    if ranks[0] > 0 {
        let (key, element) = (term("s"), scale(&term("s").minus(&a)));
        let equation = equal(&element.times(&scale(&a)), &scale(&key));
        all.push(("an element stands for its exponential, in any frame", lines(&[equation], equal(&plain(&a, &element), &scale(&key)))));
        let quotient = format!("(= (/ u w) (/ {} {}))", plain(&a, &u).text, plain(&a, &term("w")).text);
        all.push(("a quotient of members of one degree is that of the plain sums", lines(&["(not (= w 0.0))".into()], quotient)));
        let scale = scale(&a).text;
        let equations = ["(> u 0.0)".into(), format!("(= (l {scale}) (* (* 0.5 d) {}))", a.text), format!("(= (l (* u {scale})) (+ (l u) (l {scale})))")];
        let logarithm = format!("(= (+ (l u) (* (* 0.5 d) {})) (l {}))", a.text, plain(&a, &u).text);
        all.push(("the logarithm of a member and its frame are the logarithm of the plain sum", lines(&equations, logarithm)))
    }
    all
}

type Moved<'a> = &'a dyn Fn(&Symbol, &Symbol, i8, [&Symbol; 3]) -> Symbol;

/// The duties of moments that move like this.
fn translation(moved: Moved) -> Vec<Duty> {
    let nothing = term("nothing");
    let [a, b, c, x, zero] = ["a", "b", "c", "x", "0.0"].map(term);
    let tower = |name: &str| [0, 1, 2].map(|p| term(format!("{name}{p}")));
    let (s, t) = (tower("s"), tower("t"));
    let transport = |from: &Symbol, to: &Symbol, old: &[Symbol; 3]| [0, 1, 2].map(|p| moved(from, to, p, [&old[0], &old[1], &old[2]]));
    let add = |x: &[Symbol; 3], y: &[Symbol; 3]| [0, 1, 2].map(|p| x[p].plus(&y[p]));
    let same = |x: &[Symbol; 3], y: &[Symbol; 3]| format!("(and {})", (0..3).map(|p| equal(&x[p], &y[p])).collect::<Vec<_>>().join(" "));
    // the powers of one element about a centre
    let powers = |centre: &Symbol| [Symbol::number(1.0), x.minus(centre), x.minus(centre).times(&x.minus(centre))];
    let merge = |f: &Symbol, g: &Symbol| translation_merge(f, g, &nothing);
    let mut head: Vec<String> = ["nothing", "a", "b", "c", "x"].map(|n| format!("(declare-const {n} Real)")).to_vec();
    for name in ["s", "t"] {
        head.extend((0..3).map(|p| format!("(declare-const {name}{p} Real)")))
    }
    let duty = |name: &'static str, given: &[String], shown: String| {
        let lines = [head.clone(), given.to_vec(), vec![format!("(assert (not {shown}))")]].concat();
        Duty { name, cases: vec![lines] }
    };
    let some = |g: &str| format!("(assert (not (= {g} nothing)))");
    let moved_s = transport(&a, &b, &s);
    let deviation = |m: &[Symbol; 3]| format!("(- (* {} {}) (* {} {}))", m[2].text, m[0].text, m[1].text, m[1].text);
    vec![
        duty(
            "the frame of no elements is the identity of merge",
            &[],
            format!("(and {} {})", equal(&merge(&nothing, &a), &a), equal(&merge(&a, &nothing), &a)),
        ),
        duty("merge associates", &[], equal(&merge(&merge(&a, &b), &c), &merge(&a, &merge(&b, &c)))),
        // frames differ by the order, what states stand for does not
        duty(
            "merge commutes in what states stand for",
            &[some("a"), some("b")],
            same(
                &transport(&merge(&a, &b), &zero, &add(&transport(&a, &merge(&a, &b), &s), &transport(&b, &merge(&a, &b), &t))),
                &transport(&merge(&b, &a), &zero, &add(&transport(&b, &merge(&b, &a), &t), &transport(&a, &merge(&b, &a), &s))),
            ),
        ),
        duty("transports compose", &[], same(&transport(&b, &c, &moved_s), &transport(&a, &c, &s))),
        duty("transport to the same centre changes nothing", &[], same(&transport(&a, &a, &s), &s)),
        duty("transport is linear", &[], same(&transport(&a, &b, &add(&s, &t)), &add(&moved_s, &transport(&a, &b, &t)))),
        duty("the moments of an element move to its moments about the new centre", &[], same(&transport(&a, &b, &powers(&a)), &powers(&b))),
        duty("mean and variance are those of the plain moments", &[], format!("(= {} {})", deviation(&moved_s), deviation(&s))),
        duty("the mean is the first moment and the centre", &[some("a")], {
            let plain = transport(&a, &zero, &s);
            format!("(= {} (+ {} (* {} {})))", plain[1].text, s[1].text, a.text, s[0].text)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::solver::{Answer, Solver};

    fn fails(duties: Vec<Duty>) -> Vec<&'static str> {
        let mut solver = Solver::start(500).unwrap();
        let mut holds = |d: &Duty| d.cases.iter().all(|lines| matches!(solver.ask(lines), Ok(Answer::Impossible)));
        duties.into_iter().filter(|d| !holds(d)).map(|d| d.name).collect()
    }

    #[test]
    fn a_shift_that_does_not_rescale_is_refuted() {
        let failed = fails(shift(&|_, _, _, _| Symbol::number(1.0)));
        assert!(failed.contains(&"a merged state stands for the sum of both"), "{failed:?}")
    }

    #[test]
    fn a_shift_that_rescales_the_wrong_way_is_refuted() {
        let failed = fails(shift(&|from, to, d, nothing| shift_weight(to, from, d, nothing)));
        assert!(failed.contains(&"transport keeps what a member stands for"), "{failed:?}")
    }

    #[test]
    fn moments_that_lose_a_binomial_coefficient_are_refuted() {
        let lost = |from: &Symbol, to: &Symbol, p: i8, old: [&Symbol; 3]| match p {
            2 => old[2].plus(&from.minus(to).times(old[1])).plus(&from.minus(to).times(&from.minus(to)).times(old[0])),
            p => translated(from, to, p, old),
        };
        let failed = fails(translation(&lost));
        assert!(failed.contains(&"the moments of an element move to its moments about the new centre"), "{failed:?}")
    }
}
