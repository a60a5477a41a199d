//! Terms in the e-graph: the language, the facts about each class, and the constructors.
//!
//! Comes in: operations over classes. Goes out: classes. Kept: equal n-ary forms are equal nodes (sorted, equal members merged;
//! egg's own congruence closure does it through [`Language::update_children`]), and no constructor makes a product with a
//! number or a scaled term as a factor, nor a linear form with a number or a scaled term as an addend: coefficients and
//! exponents float outermost.
use crate::assumption::Assumption;
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Function, Graph, NodeId, Op};
use crate::rational::Rational;
use egg::{Analysis, DidMerge, EGraph, Id, Language};

/// What a node does with its children. Reads, indices and predicates are interned as leaves, so that hashing a node is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Head {
    Leaf(u32),
    Number(Rational),
    Size(AxisId),
    Apply(Function),
    Product(Vec<i8>),
    Linear(Vec<Rational>, Rational),
    Greatest,
    Sum(AxisSet),
    Maximum(AxisSet),
    /// All stores of a kernel: the root.
    Tuple,
}

impl Head {
    pub fn reduced(&self) -> AxisSet {
        match self {
            Head::Sum(a) | Head::Maximum(a) => *a,
            _ => AxisSet::EMPTY,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Node {
    pub head: Head,
    pub children: Vec<Id>,
}

impl Node {
    pub fn new(head: Head, children: Vec<Id>) -> Self {
        Node { head, children }
    }
    /// `(factor, exponent in halves)` of a product.
    pub fn factors(&self) -> Option<Vec<(Id, i8)>> {
        if let Head::Product(e) = &self.head { Some(self.children.iter().copied().zip(e.iter().copied()).collect()) } else { None }
    }
    /// The addends and the constant of a linear form.
    pub fn addends(&self) -> Option<(Vec<(Rational, Id)>, Rational)> {
        if let Head::Linear(k, c) = &self.head { Some((k.iter().copied().zip(self.children.iter().copied()).collect(), *c)) } else { None }
    }
}

impl Language for Node {
    type Discriminant = u8;
    fn discriminant(&self) -> u8 {
        match self.head {
            Head::Leaf(_) => 0,
            Head::Number(_) => 1,
            Head::Size(_) => 2,
            Head::Apply(_) => 3,
            Head::Product(_) => 4,
            Head::Linear(..) => 5,
            Head::Greatest => 6,
            Head::Sum(_) => 7,
            Head::Maximum(_) => 8,
            Head::Tuple => 9,
        }
    }
    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }
    fn children(&self) -> &[Id] {
        &self.children
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
    /// Overridden: associativity and commutativity are settled here, inside egg's congruence closure.
    fn update_children<F: FnMut(Id) -> Id>(&mut self, mut f: F) {
        self.children.iter_mut().for_each(|c| *c = f(*c));
        match &mut self.head {
            Head::Product(exponents) => {
                let mut factors: Vec<(Id, i8)> = self.children.drain(..).zip(exponents.drain(..)).collect();
                factors.sort_unstable();
                for (c, e) in factors {
                    // x * 1/x needs to know that x is not 0: equal signs only
                    match (self.children.last(), exponents.last_mut()) {
                        (Some(last), Some(total)) if *last == c && (*total > 0) == (e > 0) && total.checked_add(e).is_some() => *total += e,
                        _ => {
                            self.children.push(c);
                            exponents.push(e)
                        }
                    }
                }
            }
            Head::Linear(coefficients, _) => {
                let mut addends: Vec<(Id, Rational)> = self.children.drain(..).zip(coefficients.drain(..)).collect();
                addends.sort_unstable();
                for (c, k) in addends {
                    let merged = match (self.children.last(), coefficients.last_mut()) {
                        (Some(last), Some(total)) if *last == c => total.add(k).map(|t| *total = t).is_some(),
                        _ => false,
                    };
                    if !merged {
                        self.children.push(c);
                        coefficients.push(k)
                    } else if coefficients.last().is_some_and(|k| k.is_zero()) {
                        self.children.pop();
                        coefficients.pop();
                    }
                }
            }
            Head::Greatest => {
                self.children.sort_unstable();
                self.children.dedup()
            }
            Head::Maximum(_) if self.children.len() > 2 => {
                let mut predicates = self.children.split_off(1);
                predicates.sort_unstable();
                predicates.dedup();
                self.children.extend(predicates)
            }
            _ => {}
        }
    }
}

/// What is known of every term of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// The axes at which the value varies (at most; the intersection over the terms of the class).
    pub free: AxisSet,
    pub nonnegative: bool,
    pub nonzero: bool,
    pub number: Option<Rational>,
    /// 0 or 1 everywhere.
    pub predicate: bool,
    /// The oldest id of the class. Of two classes defined through each other the older one is replaced.
    pub age: usize,
}

impl Data {
    pub fn positive(&self) -> bool {
        self.nonnegative && self.nonzero
    }
}

/// A read, an index or a predicate, with what is known of it.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub op: Op,
    pub free: AxisSet,
    pub positive: bool,
}

/// The leaves of one kernel.
#[derive(Default)]
pub struct Facts {
    pub leaves: Vec<Leaf>,
}

pub type Terms = EGraph<Node, Facts>;

/// The free axes of a node, given those of its children.
pub fn free_of(node: &Node, facts: &Facts, free: impl Fn(Id) -> AxisSet) -> AxisSet {
    match node.head {
        Head::Leaf(i) => facts.leaves[i as usize].free,
        _ => node.children.iter().fold(AxisSet::EMPTY, |s, c| s.union(free(*c))).difference(node.head.reduced()),
    }
}

impl Analysis<Node> for Facts {
    type Data = Data;
    fn make(terms: &mut Terms, node: &Node, id: Id) -> Data {
        let child = |i: usize| &terms[node.children[i]].data;
        let all = |f: &dyn Fn(&Data) -> bool| node.children.iter().all(|c| f(&terms[*c].data));
        let any = |f: &dyn Fn(&Data) -> bool| node.children.iter().any(|c| f(&terms[*c].data));
        let (nonnegative, nonzero) = match &node.head {
            Head::Leaf(i) => {
                let leaf = &terms.analysis.leaves[*i as usize];
                (leaf.positive || matches!(leaf.op, Op::Index(_) | Op::Predicate(_)), leaf.positive)
            }
            Head::Number(r) => (!r.is_negative(), !r.is_zero()),
            Head::Size(_) | Head::Apply(Function::Exp | Function::Sigmoid) => (true, true),
            Head::Apply(Function::Abs) => (true, child(0).nonzero),
            // what is tiny rounds to 0
            Head::Apply(Function::Round(_)) => (child(0).nonnegative, false),
            Head::Apply(Function::Log | Function::Tanh) | Head::Tuple => (false, false),
            Head::Product(e) => {
                let squares = node.children.iter().zip(e).all(|(c, e)| e % 4 == 0 || terms[*c].data.nonnegative);
                (squares, all(&|d| d.nonzero))
            }
            Head::Linear(k, c) => {
                let nonnegative = !c.is_negative() && k.iter().all(|k| !k.is_negative()) && all(&|d| d.nonnegative);
                let lone = k.len() == 1 && c.is_zero() && child(0).nonzero;
                (nonnegative, lone || nonnegative && (!c.is_zero() || any(&|d| d.nonzero)))
            }
            Head::Greatest => (any(&|d| d.nonnegative), any(&|d| d.positive())),
            // an extent is at least 1, so a sum of positive terms is positive; one with a predicate as a factor has none
            Head::Sum(_) => (child(0).nonnegative, child(0).positive()),
            Head::Maximum(_) => {
                let whole = node.children.len() == 1;
                (whole && child(0).nonnegative, whole && child(0).nonzero)
            }
        };
        let number = match &node.head {
            Head::Number(r) => Some(*r),
            Head::Linear(k, c) if k.is_empty() => Some(*c),
            _ => None,
        };
        let predicate = matches!(node.head, Head::Leaf(i) if matches!(terms.analysis.leaves[i as usize].op, Op::Predicate(_)));
        Data { free: free_of(node, &terms.analysis, |c| terms[c].data.free), nonnegative, nonzero, number, predicate, age: id.into() }
    }
    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        let merged = Data {
            free: a.free.intersection(b.free),
            nonnegative: a.nonnegative || b.nonnegative,
            nonzero: a.nonzero || b.nonzero,
            number: a.number.or(b.number),
            predicate: a.predicate || b.predicate,
            age: a.age.min(b.age),
        };
        // no fact of a parent depends on the age
        let differs = |x: &Data| Data { age: 0, ..x.clone() } != Data { age: 0, ..merged.clone() };
        let did = DidMerge(differs(a), differs(&b));
        *a = merged;
        did
    }
    fn modify(terms: &mut Terms, id: Id) {
        if let Some(r) = terms[id].data.number {
            let number = terms.add(Node::new(Head::Number(r), vec![]));
            terms.union(number, id);
        }
    }
}

/// Longest chain of definitions that a constructor follows.
const CHAIN: usize = 8;

/// May `x` be replaced by something defined through `y`, though `y` may be defined through `x` the same way?
fn eliminates(terms: &Terms, x: Id, y: Id, defined: impl Fn(Id) -> bool) -> bool {
    x != y && (terms[y].data.age < terms[x].data.age || !defined(y))
}

/// `x = k * y`: coefficients float up, so that y and -y never meet as strangers; of a pair defined both ways the older stays.
pub fn as_scaled(terms: &Terms, x: Id) -> Option<(Rational, Id)> {
    let scaled = |n: &Node| match &n.head {
        Head::Linear(k, c) if k.len() == 1 && c.is_zero() => Some((k[0], terms.find(n.children[0]))),
        _ => None,
    };
    let x = terms.find(x);
    let back = |y: Id| terms[y].nodes.iter().filter_map(scaled).any(|z| z.1 == x);
    terms[x].nodes.iter().filter_map(scaled).find(|(_, y)| eliminates(terms, x, *y, back))
}

/// `x = y^(e/2)`: exponents float up likewise.
pub fn as_power(terms: &Terms, x: Id) -> Option<(Id, i8)> {
    let power = |n: &Node| match &n.head {
        Head::Product(e) if e.len() == 1 => Some((terms.find(n.children[0]), e[0])),
        _ => None,
    };
    let x = terms.find(x);
    let back = |y: Id| terms[y].nodes.iter().filter_map(power).any(|z| z.0 == x);
    terms[x].nodes.iter().filter_map(power).find(|(y, _)| eliminates(terms, x, *y, back))
}

/// Of classes defined through each other (Z' = Z/M, Z = Z' M) only the older is replaced by its product; without this order
/// the exponents of Z, Z' and M grow for ever.
pub fn directed(terms: &Terms, x: Id, factors: &[(Id, i8)]) -> bool {
    let x = terms.find(x);
    let through = |y: Id| terms[y].nodes.iter().any(|n| matches!(n.head, Head::Product(_)) && n.children.iter().any(|c| terms.find(*c) == x));
    factors.iter().all(|(y, _)| {
        let y = terms.find(*y);
        y != x && (terms[x].data.age < terms[y].data.age || !through(y))
    })
}

/// A node is normal if no constructor would make another one of it.
pub fn normal(terms: &Terms, node: &Node) -> bool {
    match &node.head {
        Head::Linear(k, c) => {
            let lone = k.len() == 1 && k[0].is_one() && c.is_zero();
            !lone && node.children.iter().all(|x| terms[*x].data.number.is_none() && as_scaled(terms, *x).is_none())
        }
        Head::Product(e) => {
            let plain = |x: Id, e: i8| {
                if terms[x].data.number == Some(Rational::ONE) {
                    return false; // whatever its power
                }
                if e > 0 && e != 2 && terms[x].data.predicate {
                    return false;
                }
                let number = terms[x].data.number.is_some_and(|r| !r.is_zero() || e > 0);
                e % 2 != 0 || !number && as_scaled(terms, x).is_none() && as_power(terms, x).is_none()
            };
            e[..] != [2] && node.children.iter().zip(e).all(|(x, e)| plain(*x, *e))
        }
        _ => true,
    }
}

pub fn number(terms: &mut Terms, value: Rational) -> Id {
    terms.add(Node::new(Head::Number(value), vec![]))
}

/// The product of `(factor, exponent in halves)`; `None` if a coefficient or an exponent does not fit.
pub fn product(terms: &mut Terms, factors: &[(Id, i8)]) -> Option<Id> {
    let mut flat: Vec<(Id, i8)> = Vec::with_capacity(factors.len());
    let mut coefficient = Rational::ONE;
    for &(x, e) in factors {
        let (mut x, mut e) = (terms.find(x), e);
        for _ in 0..CHAIN {
            if e % 2 != 0 {
                break;
            }
            if let Some((k, y)) = as_scaled(terms, x) {
                coefficient = coefficient.mul(k.pow(e as i32 / 2)?)?;
                x = y
            } else if let Some((y, f)) = as_power(terms, x) {
                e = (e / 2).checked_mul(f)?;
                x = y
            } else {
                break;
            }
        }
        match terms[x].data.number {
            Some(r) if r.is_one() => {}
            Some(r) if e % 2 == 0 && (!r.is_zero() || e > 0) => coefficient = coefficient.mul(r.pow(e as i32 / 2)?)?,
            _ => match flat.iter_mut().find(|f| f.0 == x && (f.1 > 0) == (e > 0)) {
                Some(f) => f.1 = f.1.checked_add(e)?,
                None => flat.push((x, e)),
            },
        }
    }
    flat.retain(|f| f.1 != 0);
    for f in flat.iter_mut().filter(|f| f.1 > 0) {
        if terms[f.0].data.predicate {
            f.1 = 2 // 0 and 1 are their own squares
        }
    }
    flat.sort_unstable();
    if coefficient.is_zero() || flat.is_empty() {
        return Some(number(terms, coefficient));
    }
    let body = if let [(x, 2)] = flat[..] {
        x
    } else {
        let (children, exponents) = flat.into_iter().unzip();
        terms.add(Node::new(Head::Product(exponents), children))
    };
    Some(if coefficient.is_one() { body } else { terms.add(Node::new(Head::Linear(vec![coefficient], Rational::ZERO), vec![body])) })
}

/// The sum of `coefficient * addend` and a constant; `None` if a coefficient does not fit.
pub fn linear(terms: &mut Terms, addends: &[(Rational, Id)], constant: Rational) -> Option<Id> {
    let mut flat: Vec<(Id, Rational)> = Vec::with_capacity(addends.len());
    let mut constant = constant;
    for &(k, x) in addends {
        let (mut k, mut x) = (k, terms.find(x));
        for _ in 0..CHAIN {
            let Some((inner, y)) = as_scaled(terms, x) else { break };
            k = k.mul(inner)?;
            x = y
        }
        match terms[x].data.number {
            Some(r) => constant = constant.add(k.mul(r)?)?,
            None => match flat.iter_mut().find(|f| f.0 == x) {
                Some(f) => f.1 = f.1.add(k)?,
                None => flat.push((x, k)),
            },
        }
    }
    flat.retain(|f| !f.1.is_zero());
    flat.sort_unstable();
    Some(match flat[..] {
        [] => number(terms, constant),
        [(x, k)] if k.is_one() && constant.is_zero() => x,
        _ => {
            let (children, coefficients) = flat.into_iter().unzip();
            terms.add(Node::new(Head::Linear(coefficients, constant), children))
        }
    })
}

/// The value of a function, at 0 and 1 as a number.
pub fn apply(terms: &mut Terms, function: Function, x: Id) -> Id {
    match (function, terms[x].data.number) {
        (Function::Exp, Some(r)) if r.is_zero() => number(terms, Rational::ONE),
        (Function::Log, Some(r)) if r.is_one() => number(terms, Rational::ZERO),
        _ => terms.add(Node::new(Head::Apply(function), vec![x])),
    }
}

pub fn sum(terms: &mut Terms, axes: AxisSet, x: Id) -> Id {
    if axes.is_empty() { x } else { terms.add(Node::new(Head::Sum(axes), vec![x])) }
}

pub fn maximum(terms: &mut Terms, axes: AxisSet, x: Id, predicates: &[Id]) -> Id {
    if axes.is_empty() && predicates.is_empty() {
        return x;
    }
    let mut children = vec![x];
    children.extend(predicates);
    terms.add(Node::new(Head::Maximum(axes), children))
}

/// The same node with its members in normal form, as a class.
pub fn normalise(terms: &mut Terms, node: &Node) -> Option<Id> {
    match (node.factors(), node.addends()) {
        (Some(factors), _) => product(terms, &factors),
        (_, Some((addends, constant))) => linear(terms, &addends, constant),
        _ => None,
    }
}

/// The e-graph of a kernel, and the class of all its stores; the sides of what is assumed are one class each.
/// `None` if they hold what the algebra does not speak about.
pub fn from_graph(graph: &Graph, assumed: &[&Assumption]) -> Option<(Terms, Id)> {
    let mut terms = Terms::new(Facts::default());
    let children = add(&mut terms, graph, graph.stores().map(|s| s.1.node).collect())?;
    let root = terms.add(Node::new(Head::Tuple, children));
    for a in assumed {
        for (left, right) in a.sides() {
            let sides = add(&mut terms, &a.graph, vec![left, right])?;
            terms.union(sides[0], sides[1]);
        }
    }
    terms.rebuild();
    Some((terms, root))
}

/// The classes of some nodes of a graph.
fn add(terms: &mut Terms, graph: &Graph, roots: Vec<NodeId>) -> Option<Vec<Id>> {
    let free = graph.free();
    let live = graph.cone(roots.iter().copied());
    let mut classes: Vec<Option<Id>> = vec![None; graph.nodes.len()];
    for n in live {
        let children: Vec<Id> = graph.operands(n).iter().map(|o| classes[o.index()]).collect::<Option<_>>()?;
        let id = match graph.op(n) {
            op @ (Op::Input { .. } | Op::Index(_) | Op::Predicate(_)) => {
                let leaves = &mut terms.analysis.leaves;
                let leaf = leaves.iter().position(|l| l.op == *op).unwrap_or_else(|| {
                    let positive = if let Op::Input { input, .. } = op { graph.input(*input).positive } else { false };
                    leaves.push(Leaf { op: op.clone(), free: free[n.index()], positive });
                    leaves.len() - 1
                });
                terms.add(Node::new(Head::Leaf(leaf as u32), vec![]))
            }
            Op::Number(r) => number(terms, *r),
            Op::Size(a) => terms.add(Node::new(Head::Size(*a), vec![])),
            Op::Apply(f) => apply(terms, *f, children[0]),
            Op::Product(e) => product(terms, &children.into_iter().zip(e.iter().copied()).collect::<Vec<_>>())?,
            Op::Linear(k, c) => linear(terms, &k.iter().copied().zip(children).collect::<Vec<_>>(), *c)?,
            Op::Greatest => terms.add(Node::new(Head::Greatest, children)),
            Op::Sum(a) => sum(terms, *a, children[0]),
            Op::Maximum(a) => maximum(terms, *a, children[0], &children[1..]),
            Op::Frame(..) => return None,
        };
        classes[n.index()] = Some(id)
    }
    roots.into_iter().map(|n| classes[n.index()]).collect()
}
