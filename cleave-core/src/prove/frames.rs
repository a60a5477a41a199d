//! What the frames of [`crate::frame`] must do, about the very formulas that the executors run.
//!
//! A state is a frame and members; what it stands for is the plain sum: of a shift by g, a member v of degree d stands for
//! v * exp(d/2 * g); of moments about a centre c, for the moments about 0. The frame of no elements stands for sums of 0.
use crate::frame::formula::translated;
use crate::frame::{Gauge, Row, Scalar, Term};

fn term(text: impl Into<String>) -> Term {
    Term::new(text)
}

/// What a frame must do: a name, and for each case lines that could hold together only if it did not.
#[derive(Clone, Debug)]
pub struct Duty {
    pub name: &'static str,
    pub cases: Vec<Vec<String>>,
}

fn equal(a: &Term, b: &Term) -> String {
    format!("(= {} {})", a.text, b.text)
}

/// The duties of a row.
pub fn duties(row: &Row) -> Vec<Duty> {
    match row.gauge {
        Gauge::Exponential => exponential(&row.merge.term, &row.weight.term),
        Gauge::Moments => moments(&row.merge.term, &|difference, old| translated(difference, old)),
    }
}

type Merge<'a> = &'a dyn Fn(&Term, &Term, &Term) -> Term;
type Weight<'a> = &'a dyn Fn(&Term, &Term, &Term, &Term) -> Term;

/// The duties of a frame of exponentials, in every order of three frames, equal ones and those of no elements included.
fn exponential(merge: Merge, weight: Weight) -> Vec<Duty> {
    let mut duties: Vec<Duty> = vec![];
    for order in 0..64u8 {
        let ranks = [order & 3, order >> 2 & 3, order >> 4];
        // ranks without a gap: the same order once
        if (2..=3).any(|r| ranks.contains(&r) && !ranks.contains(&(r - 1))) {
            continue;
        }
        for (name, lines) in in_order(merge, weight, ranks) {
            match duties.iter_mut().find(|d| d.name == name) {
                Some(duty) => duty.cases.push(lines),
                None => duties.push(Duty { name, cases: vec![lines] }),
            }
        }
    }
    duties
}

fn in_order(merge: Merge, weight: Weight, ranks: [u8; 3]) -> Vec<(&'static str, Vec<String>)> {
    let (d, zero) = (term("d"), Term::number(0.0));
    let frame = |rank: u8| Term { text: format!("g{rank}"), rank: Some(rank) };
    let nothing = frame(0);
    let [a, b, c] = ranks.map(frame);
    // of no elements every sum is 0
    let member = |i: usize, name: &str| if ranks[i] == 0 { zero.clone() } else { term(name) };
    let (u, v, w) = (member(0, "u"), member(1, "v"), member(2, "w"));
    let scale = |x: &Term| Term::number(0.5).times(&d).times(x).exp();
    let weight = |from: &Term, to: &Term| weight(from, to, &d, &nothing);
    // what a member stands for
    let plain = |g: &Term, v: &Term| g.if_nothing(&nothing, zero.clone(), v.times(&scale(g)));
    let merged = |(f, x): (&Term, &Term), (g, y): (&Term, &Term)| {
        let to = merge(f, g, &nothing);
        let value = x.times(&weight(f, &to)).plus(&y.times(&weight(g, &to)));
        (to, value)
    };
    let same = |(f, x): (&Term, &Term), (g, y): (&Term, &Term)| format!("(and {} {})", equal(f, g), equal(x, y));
    let mut head: Vec<String> = vec!["(declare-fun e (Real) Real)".into(), "(declare-fun l (Real) Real)".into()];
    head.extend(["g0", "g1", "g2", "g3", "d", "s", "u", "v", "w"].map(|n| format!("(declare-const {n} Real)")));
    // the functional equation, at the frames at hand
    let frames: Vec<Term> = (0..4).map(frame).collect();
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
        if ranks[1] > 0 {
            // e^x (key - a)^p to e^y (key - b)^p
            let (step, moved) = (weight(&a, &b), scale(&key.minus(&b)));
            let equation = equal(&step.times(&element), &moved);
            let about = |e: &Term, g: &Term| [e.clone(), e.times(&key.minus(g)), e.times(&key.minus(g)).times(&key.minus(g))];
            let (old, new) = (about(&element, &a), about(&moved, &b));
            let shown = (0..3).map(|p| equal(&step.times(&translated(&a.minus(&b), &old[..=p])), &new[p])).collect::<Vec<_>>().join(" ");
            all.push(("the moments of an exponential move to its moments in the other frame", lines(&[equation], format!("(and {shown})"))))
        }
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

type Moved<'a> = &'a dyn Fn(&Term, &[Term]) -> Term;

/// The duties of moments that move like this.
fn moments(merge: Merge, moved: Moved) -> Vec<Duty> {
    let nothing = term("nothing");
    let [a, b, c, x, zero] = ["a", "b", "c", "x", "0.0"].map(term);
    let tower = |name: &str| [0, 1, 2].map(|p| term(format!("{name}{p}")));
    let (s, t) = (tower("s"), tower("t"));
    let transport = |from: &Term, to: &Term, old: &[Term; 3]| [0, 1, 2].map(|p| moved(&from.minus(to), &old[..=p]));
    let add = |x: &[Term; 3], y: &[Term; 3]| [0, 1, 2].map(|p| x[p].plus(&y[p]));
    let same = |x: &[Term; 3], y: &[Term; 3]| format!("(and {})", (0..3).map(|p| equal(&x[p], &y[p])).collect::<Vec<_>>().join(" "));
    // the powers of one element about a centre
    let powers = |centre: &Term| [Term::number(1.0), x.minus(centre), x.minus(centre).times(&x.minus(centre))];
    let merge = |f: &Term, g: &Term| merge(f, g, &nothing);
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
    let deviation = |m: &[Term; 3]| format!("(- (* {} {}) (* {} {}))", m[2].text, m[0].text, m[1].text, m[1].text);
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
    use crate::frame::formula::{first, greater, rescaled};
    use crate::prove::solver::{Answer, Solver};

    fn fails(duties: Vec<Duty>) -> Vec<&'static str> {
        let mut solver = Solver::start(500).unwrap();
        let mut holds = |d: &Duty| d.cases.iter().all(|lines| matches!(solver.ask(lines), Ok(Answer::Impossible)));
        duties.into_iter().filter(|d| !holds(d)).map(|d| d.name).collect()
    }

    #[test]
    fn a_shift_that_does_not_rescale_is_refuted() {
        let failed = fails(exponential(&greater, &|_, _, _, _| Term::number(1.0)));
        assert!(failed.contains(&"a merged state stands for the sum of both"), "{failed:?}")
    }

    #[test]
    fn a_shift_that_rescales_the_wrong_way_is_refuted() {
        let failed = fails(exponential(&greater, &|from, to, d, nothing| rescaled(to, from, d, nothing)));
        assert!(failed.contains(&"transport keeps what a member stands for"), "{failed:?}")
    }

    #[test]
    fn moments_that_lose_a_binomial_coefficient_are_refuted() {
        let lost = |d: &Term, old: &[Term]| match old {
            [s0, s1, s2] => s2.plus(&d.times(s1)).plus(&d.times(d).times(s0)),
            _ => translated(d, old),
        };
        let failed = fails(moments(&first, &lost));
        assert!(failed.contains(&"the moments of an element move to its moments about the new centre"), "{failed:?}")
    }
}
