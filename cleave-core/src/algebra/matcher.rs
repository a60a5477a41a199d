//! Matching the left side of a row on a node.
//!
//! Comes in: a row, a node of a class. Goes out: every instance, as an environment that binds all variables of the row, its
//! guards and controls checked. Only nodes that a snapshot calls usable are seen below the root.
use super::schema::{Addend, Axes, Coefficient, Control, Factor, Power, Row, Split, Term, Var};
use super::split;
use super::term::{Data, Head, Node, Terms};
use crate::axis::AxisSet;
use crate::graph::Function;
use crate::rational::Rational;
use egg::Id;

/// What a variable stands for in an instance.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Class(Id),
    Classes(Vec<Id>),
    Factors(Vec<(Id, i8)>),
    Addends(Vec<(Rational, Id)>, Rational),
    Axes(AxisSet),
    Power(i8),
    Coefficient(Rational),
    Family(Vec<Env>),
}

/// The bindings of an instance, or of one member of a family.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Env(pub Vec<(Var, Value)>);

impl Env {
    pub fn get(&self, v: Var) -> Option<&Value> {
        self.0.iter().find(|b| b.0 == v).map(|b| &b.1)
    }
    pub fn axes(&self, v: Var) -> AxisSet {
        if let Some(Value::Axes(a)) = self.get(v) { *a } else { AxisSet::EMPTY }
    }
    pub fn bind(&mut self, v: Var, value: Value) {
        self.0.push((v, value))
    }
}

/// Members whose owners the row's split is to name.
#[derive(Clone, Debug)]
pub enum Open {
    Factors(Var, Var, Vec<(Id, i8)>),
    Addends(Var, Var, Vec<(Rational, Id)>, Rational),
    Axes(Var, Var, AxisSet),
    Groups(Var, Var, Vec<(Rational, Id)>, Rational),
    /// A family with the alternative matches of each member.
    Members(Var, Vec<Vec<Match>>),
}

/// A match of the form alone.
#[derive(Clone, Default, Debug)]
pub struct Match {
    pub env: Env,
    pub open: Vec<Open>,
}

/// A class as one iteration sees it.
pub struct Class<'a> {
    pub data: &'a Data,
    pub nodes: &'a [Node],
    /// The nodes that may be matched below a root.
    pub usable: Vec<usize>,
    /// The kinds of the usable nodes, as bits.
    pub kinds: u16,
}

/// The terms as one iteration sees them, by the index of the class. Between two rebuilds all names of classes are final, so no
/// look-up goes through the union-find.
pub struct Snapshot<'a> {
    pub terms: &'a Terms,
    pub classes: Vec<Option<Class<'a>>>,
}

impl<'a> Snapshot<'a> {
    pub fn class(&self, id: Id) -> &Class<'a> {
        match &self.classes[usize::from(id)] {
            Some(class) => class,
            None => unreachable!("a rebuilt graph names only classes that it has"),
        }
    }
    pub fn free(&self, id: Id) -> AxisSet {
        self.class(id).data.free
    }
    pub fn nodes(&self, id: Id) -> impl Iterator<Item = &'a Node> {
        let class = self.class(id);
        let nodes = class.nodes;
        class.usable.iter().map(move |i| &nodes[*i])
    }
    /// Leaves out these nodes of a class.
    pub fn leave(&mut self, id: Id, these: &[usize]) {
        if let Some(class) = self.classes[usize::from(id)].as_mut().filter(|_| !these.is_empty()) {
            class.usable.retain(|i| !these.contains(i));
            class.kinds = class.usable.iter().fold(0, |bits, i| bits | kind_of(&class.nodes[*i]))
        }
    }
    /// Every instance of the row at a node of a class.
    pub fn instances(&self, row: &Row, class: Id, node: &Node) -> Vec<Env> {
        if !self.possible(&row.left, node) {
            return vec![];
        }
        let mut instances = vec![];
        let form = Form { snapshot: self, row };
        for m in form.node(&row.left, node, Match::default()) {
            for env in split::resolve(self, row, m) {
                if split::admits(self, row, class, &env) {
                    instances.push(env);
                    if row.control.contains(&Control::First) {
                        return instances;
                    }
                }
            }
        }
        instances
    }
    /// A quick look, before any binding: has the class a node of the kind that the schema asks for?
    fn may_be(&self, term: &Term, id: Id) -> bool {
        self.class(id).kinds & kinds(term) != 0 || matches!(term, Term::Any(_))
    }
    /// The same for a node, and for those below it that the schema singles out.
    fn possible(&self, term: &Term, node: &Node) -> bool {
        kind_of(node) & kinds(term) != 0
            && match term {
                Term::Sum(_, x) | Term::Maximum(_, x, _) | Term::Apply(_, x) => self.may_be(x, node.children[0]),
                Term::Product(factors) => {
                    factors.iter().all(|f| if let Factor::One(t, _) = f { node.children.iter().any(|c| self.may_be(t, *c)) } else { true })
                }
                Term::Linear(addends) => {
                    addends.iter().all(|a| if let Addend::One(_, t) = a { node.children.iter().any(|c| self.may_be(t, *c)) } else { true })
                }
                _ => true,
            }
    }
}

fn function(f: Function) -> u16 {
    match f {
        Function::Exp => 16,
        Function::Log => 32,
        Function::Tanh => 64,
        Function::Sigmoid => 128,
        Function::Abs => 256,
        Function::Round(_) => 512,
    }
}

/// The kind of a node as a bit; 0 for those that no left side begins with.
pub fn kind_of(node: &Node) -> u16 {
    match &node.head {
        Head::Product(_) => 1,
        Head::Linear(..) => 2,
        Head::Sum(_) => 4,
        Head::Maximum(_) => 8,
        Head::Apply(f) => function(*f),
        _ => 0,
    }
}

/// The kinds that a schema matches.
pub fn kinds(term: &Term) -> u16 {
    match term {
        Term::Any(_) => u16::MAX,
        Term::Named(_, inner) => kinds(inner),
        Term::Product(_) => 1,
        Term::Linear(_) => 2,
        Term::Sum(..) => 4,
        Term::Maximum(..) => 8,
        Term::Apply(f, _) => function(*f),
        Term::Size(_) | Term::Number(_) | Term::Greatest(_) | Term::AtLeastZero(_) => 0,
    }
}

struct Form<'a> {
    snapshot: &'a Snapshot<'a>,
    row: &'a Row,
}

impl Form<'_> {
    fn term(&self, term: &Term, class: Id, mut m: Match) -> Vec<Match> {
        match term {
            Term::Any(v) => {
                if !self.bind_class(&mut m, *v, class) {
                    return vec![];
                }
                vec![m]
            }
            Term::Named(v, inner) => {
                if !self.bind_class(&mut m, *v, class) {
                    return vec![];
                }
                self.term(inner, class, m)
            }
            _ => self.snapshot.nodes(class).filter(|n| self.snapshot.possible(term, n)).flat_map(|n| self.node(term, n, m.clone())).collect(),
        }
    }
    fn bind_class(&self, m: &mut Match, v: Var, class: Id) -> bool {
        match m.env.get(v) {
            Some(Value::Class(other)) => *other == class,
            _ => {
                m.env.bind(v, Value::Class(class));
                true
            }
        }
    }
    fn node(&self, term: &Term, node: &Node, mut m: Match) -> Vec<Match> {
        match (term, &node.head) {
            (Term::Product(patterns), Head::Product(_)) => self.factors(patterns, node.factors().unwrap_or_default(), vec![], m),
            (Term::Linear(patterns), Head::Linear(_, constant)) => self.addends(patterns, node.addends().map_or(vec![], |a| a.0), *constant, vec![], m),
            (Term::Sum(axes, x), Head::Sum(a)) => {
                bind_axes(&mut m, axes, *a);
                self.term(x, node.children[0], m)
            }
            (Term::Maximum(axes, x, predicates), Head::Maximum(a)) => {
                match predicates {
                    Some(v) => m.env.bind(*v, Value::Classes(node.children[1..].to_vec())),
                    None if node.children.len() > 1 => return vec![],
                    None => {}
                }
                bind_axes(&mut m, axes, *a);
                self.term(x, node.children[0], m)
            }
            (Term::Apply(..), Head::Apply(_)) => {
                let Term::Apply(_, x) = term else { return vec![] };
                self.term(x, node.children[0], m)
            }
            _ => vec![],
        }
    }
    fn factors(&self, patterns: &[Factor], mut rest: Vec<(Id, i8)>, mut many: Vec<Var>, mut m: Match) -> Vec<Match> {
        let Some((first, patterns)) = patterns.split_first() else {
            match many[..] {
                [] if rest.is_empty() => {}
                [] => return vec![],
                [v] => m.env.bind(v, Value::Factors(rest)),
                [v, w, ..] => m.open.push(Open::Factors(v, w, rest)),
            }
            return vec![m];
        };
        match first {
            Factor::Many(v) => {
                many.push(*v);
                self.factors(patterns, rest, many, m)
            }
            Factor::One(term, power) => {
                let mut all = vec![];
                for i in 0..rest.len() {
                    let (x, e) = rest[i];
                    if !power_fits(power, e) || !self.snapshot.may_be(term, x) {
                        continue;
                    }
                    let mut with_power = m.clone();
                    bind_power(&mut with_power.env, power, e);
                    for found in self.term(term, x, with_power) {
                        let mut others = rest.clone();
                        others.remove(i);
                        all.extend(self.factors(patterns, others, many.clone(), found))
                    }
                }
                all
            }
            Factor::Every(family, term, power) => {
                let mut members = vec![];
                rest.retain(|(x, e)| {
                    let found = if power_fits(power, *e) && self.snapshot.may_be(term, *x) {
                        self.member(term, *x, |env| bind_power(env, power, *e), &m.env)
                    } else {
                        vec![]
                    };
                    let keep = found.is_empty();
                    if !keep {
                        members.push(found)
                    }
                    keep
                });
                self.family(*family, members, &mut m);
                self.factors(patterns, rest, many, m)
            }
        }
    }
    fn addends(&self, patterns: &[Addend], rest: Vec<(Rational, Id)>, constant: Rational, mut many: Vec<Var>, mut m: Match) -> Vec<Match> {
        let Some((first, patterns)) = patterns.split_first() else {
            match many[..] {
                [] if rest.is_empty() && constant.is_zero() => {}
                [] => return vec![],
                [v] => m.env.bind(v, Value::Addends(rest, constant)),
                [v, w, ..] => m.open.push(Open::Addends(v, w, rest, constant)),
            }
            return vec![m];
        };
        match first {
            Addend::Many(v) => {
                many.push(*v);
                self.addends(patterns, rest, constant, many, m)
            }
            Addend::Groups(family, v) => {
                m.open.push(Open::Groups(*family, *v, rest, constant));
                vec![m]
            }
            Addend::One(coefficient, term) => {
                if many.is_empty() && patterns.is_empty() && (rest.len() != 1 || !constant.is_zero()) {
                    return vec![];
                }
                let mut all = vec![];
                for i in 0..rest.len() {
                    let (k, x) = rest[i];
                    if !self.snapshot.may_be(term, x) {
                        continue;
                    }
                    let mut with_coefficient = m.clone();
                    if !bind_coefficient(&mut with_coefficient.env, coefficient, k) {
                        continue;
                    }
                    for found in self.term(term, x, with_coefficient) {
                        let mut others = rest.clone();
                        others.remove(i);
                        all.extend(self.addends(patterns, others, constant, many.clone(), found))
                    }
                }
                all
            }
            Addend::Every(family, coefficient, term) => {
                if !constant.is_zero() {
                    return vec![];
                }
                let mut members = vec![];
                for (k, x) in rest {
                    let bind = |env: &mut Env| {
                        bind_coefficient(env, coefficient, k);
                    };
                    members.push(self.member(term, x, bind, &m.env));
                    if members.last().is_some_and(|found| found.is_empty()) {
                        return vec![];
                    }
                }
                self.family(*family, members, &mut m);
                self.addends(patterns, vec![], constant, many, m)
            }
            Addend::Pairs(..) => vec![],
        }
    }
    /// The alternative matches of one member of a family.
    fn member(&self, term: &Term, x: Id, bind: impl Fn(&mut Env), outer: &Env) -> Vec<Match> {
        let mut start = Match::default();
        bind(&mut start.env);
        let mut found = self.term(term, x, start.clone());
        if let Term::Product([Factor::Many(v), Factor::Many(w)]) = term {
            // every term is a product of one factor
            start.open.push(Open::Factors(*v, *w, vec![(x, 2)]));
            found.insert(0, start)
        }
        for control in self.row.control {
            if let Control::Varies(v, axes) = control {
                found.retain(|m| m.env.get(*v).is_none_or(|x| split::free(self.snapshot, x).intersects(outer.axes(*axes))))
            }
        }
        found
    }
    fn family(&self, family: Var, members: Vec<Vec<Match>>, m: &mut Match) {
        if matches!(self.row.split, Split::Shared(_)) {
            m.open.push(Open::Members(family, members))
        } else {
            m.env.bind(family, Value::Family(members.into_iter().filter_map(|alternatives| Some(alternatives.into_iter().next()?.env)).collect()))
        }
    }
}

fn bind_axes(m: &mut Match, axes: &Axes, found: AxisSet) {
    match axes {
        Axes::Is(v) => m.env.bind(*v, Value::Axes(found)),
        Axes::Both(v, w) => m.open.push(Open::Axes(*v, *w, found)),
    }
}

fn power_fits(power: &Power, e: i8) -> bool {
    match power {
        Power::Is(p) => e == *p,
        Power::Any(_) => true,
        Power::Even(_) => e % 2 == 0,
        Power::Total(..) => false,
    }
}

fn bind_power(env: &mut Env, power: &Power, e: i8) {
    if let Power::Any(v) | Power::Even(v) = power {
        env.bind(*v, Value::Power(e))
    }
}

fn bind_coefficient(env: &mut Env, coefficient: &Coefficient, k: Rational) -> bool {
    match coefficient {
        Coefficient::One => k.is_one(),
        Coefficient::MinusOne => k == Rational::MINUS_ONE,
        Coefficient::Number(n) => k == *n,
        Coefficient::Any(v) => {
            env.bind(*v, Value::Coefficient(k));
            true
        }
        _ => false,
    }
}
