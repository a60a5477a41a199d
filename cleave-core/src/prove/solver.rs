//! Questions to z3, a process that speaks SMT-LIB.
//!
//! Comes in: formulas. Goes out: whether they can hold together. What the solver does not know by itself is opaque: a sum is a function
//! of its free indices of which it learns only how its sign follows from its members', an exponential one that is positive, and so
//! on; every such axiom is a theorem of real numbers, so `unsat` is a proof. Anything but a definite answer is an error.
use super::denote::Space;
use super::logic::Formula;
use super::normal::Condition;
use super::poly::{Atom, Base, Binder, Exponent, Index, Mentions, Monomial, OPEN, Poly};
use crate::graph::Function;
use crate::rational::Rational;
use easy_smt::{Context, ContextBuilder, Response};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, io};

/// Milliseconds after which a question counts as unanswered. Those of the table take a few each.
pub const PATIENCE: u32 = 10_000;

/// Multiples of an exponent that are written as powers.
const MULTIPLES: u64 = 8;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no solver was found: put z3 in PATH, or its path in Z3_BIN (pip install z3-solver brings it)")]
    Missing,
    #[error("the solver gave no answer")]
    Unknown,
    #[error("the solver: {0}")]
    Broken(#[from] io::Error),
}

/// Whether formulas can hold together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Possible,
    Impossible,
}

/// Where z3 is: `Z3_BIN`, or in `PATH`.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("Z3_BIN") {
        return Some(PathBuf::from(named)).filter(|p| p.is_file());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|d| d.join("z3")).find(|p| p.is_file())
}

/// A running solver.
pub struct Solver {
    context: Context,
    /// Questions asked so far.
    pub questions: usize,
}

impl Solver {
    /// z3, with the milliseconds after which it shall give up a question.
    ///
    /// # Errors
    /// If there is no z3.
    pub fn start(patience: u32) -> Result<Solver, Failure> {
        let program: OsString = find().ok_or(Failure::Missing)?.into();
        let patience = format!("-t:{patience}");
        let context = ContextBuilder::new().solver(program).solver_args(["-smt2", "-in", &patience]).build()?;
        Ok(Solver { context, questions: 0 })
    }
    fn send(&mut self, command: &str) -> Result<(), Failure> {
        // the crate's atoms are written as they stand
        let command = self.context.atom(command);
        self.context.raw_send(command)?;
        let reply = self.context.raw_recv()?;
        match self.context.get_atom(reply) {
            Some("success") => Ok(()),
            _ => Err(io::Error::other(format!("{} to {}", self.context.display(reply), self.context.display(command))).into()),
        }
    }
    /// Can these declarations and assertions, in SMT-LIB, hold?
    ///
    /// # Errors
    /// If the solver does not know.
    pub fn ask(&mut self, lines: &[String]) -> Result<Answer, Failure> {
        self.questions += 1;
        self.context.push()?;
        let said = lines.iter().try_for_each(|line| self.send(line));
        let answer = said.and_then(|()| Ok(self.context.check()?));
        self.context.pop()?;
        match answer? {
            Response::Sat => Ok(Answer::Possible),
            Response::Unsat => Ok(Answer::Impossible),
            Response::Unknown => Err(Failure::Unknown),
        }
    }
}

/// Formulas over the domains of one claim, as SMT-LIB.
pub struct Script<'a> {
    /// Variables for powers, which are whole numbers of halves.
    powers: &'a [String],
    declared: BTreeMap<String, String>,
    opaque: BTreeMap<(String, Vec<u8>), String>,
    axioms: Vec<String>,
}

/// How indices are written.
type Names<'a> = &'a dyn Fn(Index) -> String;

fn plain(i: Index) -> String {
    if i.id == 0 { format!("i{}", i.domain) } else { format!("v{}_{}", i.domain, i.id) }
}

fn rational(k: Rational) -> String {
    let magnitude = |n: i64| format!("{}.0", n.unsigned_abs());
    let quotient = if k.denominator() == 1 { magnitude(k.numerator()) } else { format!("(/ {} {})", magnitude(k.numerator()), magnitude(k.denominator())) };
    if k.is_negative() { format!("(- {quotient})") } else { quotient }
}

fn apply(function: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { function.into() } else { format!("({function} {})", arguments.join(" ")) }
}

fn together(connective: &str, parts: &[String], none: &str) -> String {
    match parts {
        [] => none.into(),
        [one] => one.clone(),
        _ => format!("({connective} {})", parts.join(" ")),
    }
}

/// Which of a base's own variables stand for its free indices.
struct Shape {
    arguments: Vec<Index>,
}

impl Shape {
    fn of(base: &impl Mentions, also: &impl Mentions) -> Shape {
        Shape { arguments: base.outer().union(&also.outer()).copied().collect() }
    }
    fn name(&self, i: Index) -> String {
        match self.arguments.iter().position(|a| *a == i) {
            Some(n) => format!("p{n}"),
            None => plain(i),
        }
    }
}

impl<'a> Script<'a> {
    /// `nonempty`: every domain of axes has a position.
    pub fn new(spaces: &'a [Space], powers: &'a [String], nonempty: bool) -> Self {
        let mut script = Script { powers, declared: BTreeMap::new(), opaque: BTreeMap::new(), axioms: vec![] };
        for (d, space) in spaces.iter().enumerate() {
            script.declared.insert(format!("D{d}"), format!("(declare-sort D{d} 0)"));
            let within = space.within.map_or(String::new(), |w| format!(" D{w}"));
            script.declared.insert(format!("in{d}"), format!("(declare-fun in{d} (D{d}{within}) Bool)"));
            script.declared.insert(format!("i{d}"), format!("(declare-const i{d} D{d})"));
            if nonempty && !space.family {
                script.axioms.push(match space.within {
                    None => format!("(exists ((x D{d})) (in{d} x))"),
                    Some(w) => format!("(forall ((f D{w})) (exists ((x D{d})) (in{d} x f)))"),
                })
            }
        }
        script
    }
    /// The lines that assert all of these formulas.
    pub fn lines(mut self, formulas: &[Formula]) -> Vec<String> {
        let asserted: Vec<String> = formulas.iter().map(|f| format!("(assert {})", self.formula(f, &plain))).collect();
        let sorts = self.declared.values().filter(|d| d.starts_with("(declare-sort")).cloned();
        let others = self.declared.values().filter(|d| !d.starts_with("(declare-sort")).cloned();
        sorts.chain(others).chain(self.axioms.iter().map(|a| format!("(assert {a})"))).chain(asserted).collect()
    }
    /// What a condition of the normaliser says, at all positions.
    pub fn condition(condition: &Condition) -> Formula {
        use super::logic::{all, any, nonnegative, positive, positive_power, whole, zero};
        match condition {
            Condition::NonZero(p) | Condition::InLogarithm(p) => zero(p).not(),
            Condition::Positive(p) => positive(p),
            Condition::NonNegative(p) => nonnegative(p),
            Condition::Nonempty(b) => Formula::Some(vec![*b], Box::new(Formula::True)),
            Condition::Never => Formula::False,
            Condition::Merge(base, a, b) => {
                let p = Poly::base(base.clone());
                let alike = all([positive_power(a), positive_power(b)]);
                let signs = any([nonnegative(&p), all([whole(a), whole(b)])]);
                all([signs, alike.or(zero(&p).not())])
            }
        }
    }

    // ---- formulas -----------------------------------------------------------------------------------------------

    pub fn formula(&mut self, f: &Formula, names: Names) -> String {
        match f {
            Formula::True => "true".into(),
            Formula::False => "false".into(),
            Formula::Not(inner) => format!("(not {})", self.formula(inner, names)),
            Formula::And(all) => {
                let parts: Vec<String> = all.iter().map(|f| self.formula(f, names)).collect();
                together("and", &parts, "true")
            }
            Formula::Or(all) => {
                let parts: Vec<String> = all.iter().map(|f| self.formula(f, names)).collect();
                together("or", &parts, "false")
            }
            Formula::All(binders, inner) => {
                let inner = self.formula(inner, names);
                self.quantified("forall", "=>", binders, &inner, names)
            }
            Formula::Some(binders, inner) => {
                let inner = self.formula(inner, names);
                self.quantified("exists", "and", binders, &inner, names)
            }
            Formula::Same(a, b) => format!("(= {} {})", names(*a), names(*b)),
            Formula::Inside(b) => self.inside(b, names),
            Formula::Holds(atom) => self.atom(atom, "Bool", names),
            Formula::Zero(p) => self.zero(p, names),
            Formula::Positive(p) => self.positive(p, names),
            Formula::Whole(e) => format!("(= 0 (mod {} 2))", self.halves(e, names)),
            Formula::PositivePower(e) => format!("(> {} 0)", self.halves(e, names)),
            Formula::PowerIs(e, n) => {
                let n = if *n < 0 { format!("(- {})", -n) } else { n.to_string() };
                format!("(= {} {n})", self.halves(e, names))
            }
        }
    }
    fn quantified(&self, quantifier: &str, connective: &str, binders: &[Binder], inner: &str, names: Names) -> String {
        let mut ordered = binders.to_vec();
        // a family before the axes of its members
        ordered.sort_by_key(|b| b.within.is_some());
        let variables: String = ordered.iter().fold(String::new(), |mut s, b| {
            let _ = write!(s, "({} D{})", names(b.index), b.index.domain);
            s
        });
        let ranges: Vec<String> = ordered.iter().map(|b| self.inside(b, names)).collect();
        format!("({quantifier} ({variables}) ({connective} {} {inner}))", together("and", &ranges, "true"))
    }
    fn inside(&self, b: &Binder, names: Names) -> String {
        let within = b.within.map_or(String::new(), |w| format!(" {}", names(w)));
        format!("(in{} {}{within})", b.index.domain, names(b.index))
    }
    fn zero(&mut self, p: &Poly, names: Names) -> String {
        let Some((m, _)) = p.monomial() else {
            return if p.0.is_empty() { "true".into() } else { format!("(= {} 0.0)", self.poly(p, names)) };
        };
        let parts: Vec<String> = m.0.iter().map(|(b, e)| self.zero_power(b, e, names)).collect();
        together("or", &parts, "false")
    }
    fn zero_power(&mut self, base: &Base, e: &Exponent, names: Names) -> String {
        let lone = e.constant().is_some() || e.halves == 0 && e.symbols.len() == 1;
        match base {
            Base::Exp(_) => "false".into(),
            // no power of a row is 0
            _ if lone => format!("(= {} 0.0)", self.base(base, names)),
            _ => format!("(= {} 0.0)", self.power(base, e, names)),
        }
    }
    fn positive(&mut self, p: &Poly, names: Names) -> String {
        format!("(> {} 0.0)", self.poly(p, names))
    }

    // ---- terms --------------------------------------------------------------------------------------------------

    fn halves(&mut self, e: &Exponent, names: Names) -> String {
        let number = |n: i32| if n < 0 { format!("(- {})", -n) } else { n.to_string() };
        let mut parts = vec![number(e.halves)];
        for (s, n) in &e.symbols {
            let s = self.atom(s, "Int", names);
            parts.push(format!("(* {} {s})", number(*n)))
        }
        together("+", &parts, "0")
    }
    fn atom(&mut self, atom: &Atom, sort: &str, names: Names) -> String {
        let name = format!("|.{}|", atom.name);
        let sorts: Vec<String> = atom.arguments.iter().map(|i| format!("D{}", i.domain)).collect();
        self.declared.entry(name.clone()).or_insert_with(|| format!("(declare-fun {name} ({}) {sort})", sorts.join(" ")));
        let arguments: Vec<String> = atom.arguments.iter().map(|i| names(*i)).collect();
        apply(&name, &arguments)
    }
    pub fn poly(&mut self, p: &Poly, names: Names) -> String {
        let parts: Vec<String> =
            p.0.iter()
                .map(|(m, k)| {
                    let m_text = self.monomial(m, names);
                    if k.is_one() { m_text } else { format!("(* {} {m_text})", rational(*k)) }
                })
                .collect();
        together("+", &parts, "0.0")
    }
    fn monomial(&mut self, m: &Monomial, names: Names) -> String {
        let parts: Vec<String> = m.0.iter().map(|(b, e)| self.power(b, e, names)).collect();
        together("*", &parts, "1.0")
    }
    fn power(&mut self, base: &Base, e: &Exponent, names: Names) -> String {
        if let Some(n) = e.constant()
            && n > 0
            && n % 2 == 0
        {
            let base = self.base(base, names);
            return together("*", &vec![base; n as usize / 2], "1.0");
        }
        let shape = Shape::of(base, e);
        let own = |i: Index| shape.name(i);
        let key = format!("power {base:?} {e:?}");
        let (call, new) = self.opaque(&shape, &key, names);
        if let Some(own_call) = new {
            let b = self.base(base, &own);
            let mut facts = vec![format!("(=> (> {b} 0.0) (> {own_call} 0.0))"), format!("(=> (not (= {b} 0.0)) (not (= {own_call} 0.0)))")];
            match e.constant() {
                Some(-2) => facts.push(format!("(=> (not (= {b} 0.0)) (= 1.0 (* {b} {own_call})))")),
                Some(n) if n % 2 != 0 => facts.push(format!("(>= {own_call} 0.0)")),
                _ => {}
            }
            facts.push(format!("(=> (= {b} 0.0) (= {own_call} 0.0))"));
            self.axiom(&shape, &facts)
        }
        call
    }
    /// An opaque function of the free indices; with its call under its own names the first time.
    fn opaque(&mut self, shape: &Shape, key: &str, names: Names) -> (String, Option<String>) {
        // the same form at other indices is the same function
        let mut form = key.to_string();
        for (n, i) in shape.arguments.iter().enumerate() {
            form = form.replace(&format!("{i:?}"), &format!("<{n}>"))
        }
        let domains: Vec<u8> = shape.arguments.iter().map(|i| i.domain).collect();
        let count = self.opaque.len();
        let new = !self.opaque.contains_key(&(form.clone(), domains.clone()));
        let function = self.opaque.entry((form, domains)).or_insert_with(|| format!("o{count}")).clone();
        if new {
            let sorts: Vec<String> = shape.arguments.iter().map(|i| format!("D{}", i.domain)).collect();
            self.declared.insert(function.clone(), format!("(declare-fun {function} ({}) Real)", sorts.join(" ")));
        }
        let own: Vec<String> = (0..shape.arguments.len()).map(|n| format!("p{n}")).collect();
        let call: Vec<String> = shape.arguments.iter().map(|i| names(*i)).collect();
        (apply(&function, &call), new.then(|| apply(&function, &own)))
    }
    /// What the functional equation says of an exponential.
    fn exponential(&mut self, p: &Poly, this: &str, names: Names) -> Option<String> {
        let of = |m: &Monomial, k: Rational| Base::Exp(Poly(BTreeMap::from([(m.clone(), k)])));
        let Some((m, k)) = p.monomial() else {
            let parts: Vec<String> = p.0.iter().map(|(m, k)| self.base(&of(m, *k), names)).collect();
            return Some(format!("(= {this} {})", together("*", &parts, "1.0")));
        };
        let times = k.numerator().unsigned_abs();
        if k.is_negative() {
            let inverse = self.base(&of(m, k.neg()?), names);
            return Some(format!("(= 1.0 (* {this} {inverse}))"));
        }
        if (2..=MULTIPLES).contains(&times) {
            let one = self.base(&of(m, Rational::new(1, k.denominator() as i128)?), names);
            return Some(format!("(= {this} {})", together("*", &vec![one; times as usize], "1.0")));
        }
        None
    }
    fn axiom(&mut self, shape: &Shape, facts: &[String]) {
        let variables: String = shape.arguments.iter().enumerate().map(|(n, i)| format!("(p{n} D{})", i.domain)).collect();
        let facts = together("and", facts, "true");
        self.axioms.push(if variables.is_empty() { facts } else { format!("(forall ({variables}) {facts})") })
    }
    fn base(&mut self, base: &Base, names: Names) -> String {
        if let Base::Atom(a) = base {
            // a power as a number
            if self.powers.contains(&a.name) {
                return format!("(to_real {})", self.atom(a, "Int", names));
            }
            return self.atom(a, "Real", names);
        }
        if let Base::Poly(p) = base {
            return self.poly(p, names);
        }
        let shape = Shape::of(base, base);
        let own = |i: Index| shape.name(i);
        let (call, new) = self.opaque(&shape, &format!("{base:?}"), names);
        let Some(this) = new else { return call };
        let mut facts: Vec<String> = vec![];
        match base {
            Base::Atom(_) | Base::Poly(_) => {}
            Base::Exp(p) => {
                facts.push(format!("(> {this} 0.0)"));
                // by those of its addends, and of what they are multiples of: the solver never meets an exponent
                facts.extend(self.exponential(p, &this, &own))
            }
            Base::Log(p) => {
                let p = self.poly(p, &own);
                facts.push(format!("(=> (= {p} 1.0) (= {this} 0.0))"))
            }
            Base::Apply(Function::Tanh | Function::Sigmoid | Function::Exp | Function::Log | Function::Round(_), _) => {}
            Base::Apply(Function::Abs, p) => {
                let p = self.poly(p, &own);
                facts.push(format!("(= {this} (ite (>= {p} 0.0) {p} (- {p})))"))
            }
            Base::AtLeastZero(p) => {
                let p = self.poly(p, &own);
                facts.push(format!("(= {this} (ite (>= {p} 0.0) 1.0 0.0))"))
            }
            Base::Greatest(all) => {
                let all: Vec<String> = all.iter().map(|p| self.poly(p, &own)).collect();
                let equal: Vec<String> = all.iter().map(|p| format!("(= {this} {p})")).collect();
                facts.push(together("or", &equal, "false"));
                facts.extend(all.iter().map(|p| format!("(>= {this} {p})")))
            }
            Base::Size(domain, within) => {
                let binder = Binder { index: Index { domain: *domain, id: 1 }, within: *within };
                let some = self.quantified("exists", "and", &[binder], "true", &own);
                facts.push(format!("(ite {some} (>= {this} 1.0) (= {this} 0.0))"))
            }
            Base::Sum(binders, body) => {
                let p = Poly(BTreeMap::from([(body.clone(), Rational::ONE)]));
                let (zero, value) = (self.zero(&p, &own), self.poly(&p, &own));
                let all_zero = self.quantified("forall", "=>", binders, &zero, &own);
                let none_less = self.quantified("forall", "=>", binders, &format!("(>= {value} 0.0)"), &own);
                facts.push(format!("(=> {all_zero} (= {this} 0.0))"));
                if let [b] = &binders[..] {
                    // of one position, what stands there
                    let other = Binder { index: Index { domain: b.index.domain, id: OPEN - 1 }, ..*b };
                    let alone = self.quantified("forall", "=>", &[other], &format!("(= {} {})", own(b.index), own(other.index)), &own);
                    facts.push(self.quantified("forall", "=>", binders, &format!("(=> {alone} (= {this} {value}))"), &own))
                }
                facts.push(format!("(=> {none_less} (and (>= {this} 0.0) (=> (= {this} 0.0) {all_zero})))"))
            }
            Base::Maximum(binders, predicates, body) => {
                let visible: Vec<String> = predicates.iter().map(|a| self.atom(a, "Bool", &own)).collect();
                let visible = together("and", &visible, "true");
                let value = self.poly(body, &own);
                let some = self.quantified("exists", "and", binders, &visible, &own);
                let attained = self.quantified("exists", "and", binders, &format!("(and {visible} (= {value} {this}))"), &own);
                let least = self.quantified("forall", "=>", binders, &format!("(=> {visible} (<= {value} {this}))"), &own);
                facts.push(format!("(=> {some} (and {attained} {least}))"))
            }
            Base::Product(binder, inner, power) => {
                let zero = self.zero_power(inner, power, &own);
                let value = self.base(inner, &own);
                let some_zero = self.quantified("exists", "and", &[*binder], &zero, &own);
                let all_positive = self.quantified("forall", "=>", &[*binder], &format!("(> {value} 0.0)"), &own);
                facts.push(format!("(= (= {this} 0.0) {some_zero})"));
                facts.push(format!("(=> {all_positive} (> {this} 0.0))"))
            }
        }
        if !facts.is_empty() {
            self.axiom(&shape, &facts)
        }
        call
    }
}
