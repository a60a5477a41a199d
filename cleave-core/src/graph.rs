//! A formula as a DAG of n-ary terms over named axes: what the front end makes, the search rewrites, the scheduler reads.
//!
//! Nodes stand in topological order (operands before users) and are hash-consed by the constructors, which put products
//! and linear forms in a normal form: flat, sorted, coefficients and constants merged. Nothing here knows a composite.
use crate::absence::Absence;
use crate::axis::{AxisId, AxisSet};
use crate::dtype::Element;
use crate::frame::Frame;
use crate::predicate::{Predicate, Table};
use crate::rational::Rational;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
id!(
    /// A node of a [`Graph`].
    NodeId
);
id!(
    /// An input of a [`Graph`].
    InputId
);
id!(
    /// A predicate of a [`Graph`].
    PredicateId
);

/// A factor of a stored axis: an axis, or one fixed index of a constant factor (`2` in `(2, F)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Factor {
    Axis(AxisId),
    Part { index: u32, of: u32 },
}

/// How a tensor is read or written: the factors of each stored dimension, left factor outermost (mixed radix).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    pub dims: Vec<Vec<Factor>>,
}

impl Access {
    /// One axis a dimension.
    pub fn plain(axes: impl IntoIterator<Item = AxisId>) -> Self {
        Access { dims: axes.into_iter().map(|a| vec![Factor::Axis(a)]).collect() }
    }
    pub fn axes(&self) -> AxisSet {
        self.dims.iter().flatten().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).collect()
    }
    /// `(dimension, factor, product of the extents of the factors inside it)` of every factor: with the stride of the
    /// dimension, the stride of the factor.
    pub fn factors<'a>(&'a self, extent: &'a dyn Fn(AxisId) -> i64) -> impl Iterator<Item = (usize, Factor, i64)> + 'a {
        self.dims.iter().enumerate().flat_map(move |(d, factors)| {
            let size = move |f: &Factor| match f {
                Factor::Axis(a) => extent(*a),
                Factor::Part { of, .. } => *of as i64,
            };
            factors.iter().enumerate().map(move |(i, f)| (d, *f, factors[i + 1..].iter().map(size).product()))
        })
    }
    /// The element's offset under `strides` (in elements, one for each dimension).
    pub fn offset(&self, strides: &[i64], index: &dyn Fn(AxisId) -> i64, extent: &dyn Fn(AxisId) -> i64) -> i64 {
        self.factors(extent)
            .map(|(d, f, inner)| {
                strides[d]
                    * inner
                    * match f {
                        Factor::Axis(a) => index(a),
                        Factor::Part { index, .. } => index as i64,
                    }
            })
            .sum()
    }
}

/// Functions of one value. Division, powers and roots are exponents of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Function {
    Exp,
    Log,
    Tanh,
    Sigmoid,
    Abs,
    /// Rounding to a storage type: the value that a store and a load give back. Like the rounding of a store it is none in exact
    /// arithmetic, so the oracle does not round.
    Round(Element),
}

impl Function {
    pub fn name(self) -> &'static str {
        match self {
            Function::Exp => "exp",
            Function::Log => "log",
            Function::Tanh => "tanh",
            Function::Sigmoid => "sigmoid",
            Function::Abs => "abs",
            Function::Round(_) => "round",
        }
    }
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Function::Exp => x.exp(),
            Function::Log => x.ln(),
            Function::Tanh => x.tanh(),
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Function::Abs => x.abs(),
            Function::Round(_) => x,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Op {
    /// A tensor, a scalar (no dimensions) or a workspace, read under these axes. Two reads under other axes are two terms.
    Input {
        input: InputId,
        access: Access,
    },
    Number(Rational),
    /// The extent of an axis, as a number.
    Size(AxisId),
    /// The position along an axis, as a number.
    Index(AxisId),
    /// 1 where the predicate holds, else 0. As a factor of a product it selects: what it hides has no effect, NaN included.
    Predicate(PredicateId),
    Apply(Function),
    /// Exponents in halves: 2 is x, -2 is 1/x, -1 is 1/sqrt(x). A numerator of 0 wins over any denominator (0/0 is 0).
    Product(Vec<i8>),
    /// `sum coefficient*operand + constant`.
    Linear(Vec<Rational>, Rational),
    /// The greatest of the operands, elementwise.
    Greatest,
    /// Sum of the operand over axes; over an empty domain 0.
    Sum(AxisSet),
    /// Greatest of the first operand over axes, of those elements at which every further operand (predicates) holds; over an
    /// empty domain -inf.
    Maximum(AxisSet),
    /// A free parameter of the term: any value gives the same result. Put in by the scheduler; operands: the key, and the
    /// predicates under which an element of the key counts.
    Frame(Frame, AxisSet),
}

impl Op {
    /// The axes that the operation reduces.
    pub fn reduced(&self) -> AxisSet {
        match self {
            Op::Sum(a) | Op::Maximum(a) | Op::Frame(_, a) => *a,
            _ => AxisSet::EMPTY,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Node {
    pub op: Op,
    pub operands: Vec<NodeId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
}

/// A declared argument, or a workspace that an earlier launch of the same program fills.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    pub element: Element,
    /// The declared storage: `Factor::Part { index: 0, .. }` stands for the whole constant factor.
    pub storage: Access,
    /// Known to be positive everywhere (a fact for the algebra).
    pub positive: bool,
    /// A number that gives the extent of an axis: `head_dim: Extent<D>`. No term reads it.
    pub extent: Option<AxisId>,
    /// `Some(n)`: what node `n` of the algorithm's graph stores between launches, f32.
    pub workspace: Option<NodeId>,
    /// What is known of a workspace where predicates hold nowhere.
    pub absence: Option<Absence>,
}

/// A declared result. It is written by one store for each combination of its constant factors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Output {
    pub name: String,
    pub element: Element,
    pub storage: Access,
    pub stores: Vec<Store>,
    /// It is written over this input, which is stored alike.
    pub in_place: Option<InputId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Store {
    pub node: NodeId,
    pub access: Access,
}

/// A formula. Equal graphs of one kernel share axes, inputs, predicates and outputs; they differ in nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Graph {
    pub axes: Vec<Axis>,
    /// Axes of equal extent: one is read where a tensor stores the other (`rename`).
    pub equal: Vec<(AxisId, AxisId)>,
    pub inputs: Vec<Input>,
    pub predicates: Vec<Predicate>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<Output>,
    #[serde(skip)]
    interned: HashMap<Node, NodeId>,
}

impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        let parts = |g: &Self| (g.axes.clone(), g.equal.clone(), g.inputs.clone(), g.predicates.clone(), g.nodes.clone(), g.outputs.clone());
        parts(self) == parts(other)
    }
}

impl Graph {
    /// The same axes, inputs, predicates and outputs without nodes; the stores are to be set again.
    pub fn without_nodes(&self) -> Graph {
        Graph { nodes: vec![], interned: HashMap::new(), ..self.clone() }
    }
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
    pub fn op(&self, id: NodeId) -> &Op {
        &self.nodes[id.index()].op
    }
    pub fn operands(&self, id: NodeId) -> &[NodeId] {
        &self.nodes[id.index()].operands
    }
    pub fn axis(&self, axis: AxisId) -> &str {
        &self.axes[axis.0 as usize].name
    }
    pub fn input(&self, input: InputId) -> &Input {
        &self.inputs[input.index()]
    }
    pub fn predicate(&self, predicate: PredicateId) -> &Predicate {
        &self.predicates[predicate.index()]
    }
    pub fn all_axes(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len() as u8).map(AxisId)
    }
    /// The axes at which one operation varies, given those of its operands.
    pub fn free_of(&self, op: &Op, operands: &[NodeId], free: impl Fn(NodeId) -> AxisSet) -> AxisSet {
        let below = operands.iter().fold(AxisSet::EMPTY, |s, o| s.union(free(*o)));
        match op {
            Op::Input { access, .. } => access.axes(),
            Op::Index(a) => AxisSet::of(*a),
            Op::Predicate(p) => self.predicate(*p).free(),
            _ => below.difference(op.reduced()),
        }
    }
    /// The free axes of every node.
    pub fn free(&self) -> Vec<AxisSet> {
        let mut free: Vec<AxisSet> = Vec::with_capacity(self.nodes.len());
        for n in &self.nodes {
            let f = self.free_of(&n.op, &n.operands, |o| free[o.index()]);
            free.push(f)
        }
        free
    }
    /// Every store: `(output, store)`.
    pub fn stores(&self) -> impl Iterator<Item = (usize, &Store)> {
        self.outputs.iter().enumerate().flat_map(|(i, o)| o.stores.iter().map(move |s| (i, s)))
    }
    /// The nodes that `roots` depend on, themselves included, in ascending order.
    pub fn cone(&self, roots: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut todo: Vec<NodeId> = roots.into_iter().collect();
        while let Some(n) = todo.pop() {
            if !std::mem::replace(&mut seen[n.index()], true) {
                todo.extend(self.operands(n))
            }
        }
        (0..seen.len()).filter(|&i| seen[i]).map(|i| NodeId(i as u32)).collect()
    }
    /// Drops the nodes that no store reaches, keeping the order.
    pub fn pruned(&self) -> Graph {
        let live = self.cone(self.stores().map(|s| s.1.node));
        let mut g = self.without_nodes();
        let mut map: HashMap<NodeId, NodeId> = HashMap::new();
        for n in live {
            let node = self.node(n);
            let id = g.intern(node.op.clone(), node.operands.iter().map(|o| map[o]).collect());
            map.insert(n, id);
        }
        g.outputs.iter_mut().flat_map(|o| &mut o.stores).for_each(|s| s.node = map[&s.node]);
        g
    }

    // ---- constructors ----------------------------------------------------------------------------------------

    /// The node as it stands, shared with an equal one. The other constructors normalise first.
    pub fn intern(&mut self, op: Op, operands: Vec<NodeId>) -> NodeId {
        if self.interned.len() != self.nodes.len() {
            self.interned = self.nodes.iter().cloned().zip((0..).map(NodeId)).collect(); // after deserialisation
        }
        let node = Node { op, operands };
        if let Some(id) = self.interned.get(&node) {
            return *id;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.interned.insert(node.clone(), id);
        self.nodes.push(node);
        id
    }
    pub fn add_axis(&mut self, name: &str) -> AxisId {
        self.axes.push(Axis { name: name.into() });
        AxisId(self.axes.len() as u8 - 1)
    }
    pub fn add_input(&mut self, name: &str, element: Element, storage: Access) -> InputId {
        self.inputs.push(Input { name: name.into(), element, storage, positive: false, extent: None, workspace: None, absence: None });
        InputId(self.inputs.len() as u32 - 1)
    }
    pub fn add_output(&mut self, name: &str, element: Element, storage: Access, stores: Vec<Store>) {
        self.outputs.push(Output { name: name.into(), element, storage, stores, in_place: None });
    }
    pub fn read(&mut self, input: InputId, access: Access) -> NodeId {
        self.intern(Op::Input { input, access }, vec![])
    }
    /// A scalar input.
    pub fn scalar(&mut self, input: InputId) -> NodeId {
        self.read(input, Access::default())
    }
    pub fn number(&mut self, value: Rational) -> NodeId {
        self.intern(Op::Number(value), vec![])
    }
    pub fn size(&mut self, axis: AxisId) -> NodeId {
        self.intern(Op::Size(axis), vec![])
    }
    pub fn index(&mut self, axis: AxisId) -> NodeId {
        self.intern(Op::Index(axis), vec![])
    }
    /// An interned predicate as a 0/1 term; what always holds is 1.
    pub fn holds(&mut self, predicate: Predicate) -> NodeId {
        let predicate = predicate.normal();
        if predicate.clauses.first().is_some_and(|c| c.is_empty()) {
            return self.number(Rational::ONE);
        }
        let id = match self.predicates.iter().position(|p| *p == predicate) {
            Some(i) => i,
            None => {
                self.predicates.push(predicate);
                self.predicates.len() - 1
            }
        };
        self.intern(Op::Predicate(PredicateId(id as u32)), vec![])
    }
    pub fn apply(&mut self, function: Function, x: NodeId) -> NodeId {
        self.intern(Op::Apply(function), vec![x])
    }
    fn as_number(&self, x: NodeId) -> Option<Rational> {
        if let Op::Number(r) = self.op(x) { Some(*r) } else { None }
    }
    /// `c * y` as (c, y): a linear form of one term without a constant.
    fn as_scaled(&self, x: NodeId) -> Option<(Rational, NodeId)> {
        match self.op(x) {
            Op::Linear(k, c) if k.len() == 1 && c.is_zero() => Some((k[0], self.operands(x)[0])),
            _ => None,
        }
    }
    /// A product of `(operand, exponent in halves)`: flat, sorted, its coefficient outside as a linear form. Exponents of one
    /// operand merge if their signs agree; `x * 1/x` stays, as x may be 0.
    pub fn product(&mut self, factors: &[(NodeId, i8)]) -> NodeId {
        let mut flat: Vec<(NodeId, i8)> = vec![];
        let mut coefficient = Rational::ONE;
        let mut todo: Vec<(NodeId, i8)> = factors.iter().rev().copied().collect();
        while let Some((x, e)) = todo.pop() {
            if self.as_number(x).is_some_and(|r| r.is_one()) {
                continue;
            }
            if e % 2 == 0 {
                // powers of numbers and scaled terms leave, inner products join
                let power = |r: Rational| r.pow(e as i32 / 2).and_then(|p| coefficient.mul(p));
                if let Some(k) = self.as_number(x).and_then(power) {
                    coefficient = k;
                    continue;
                }
                if let Some((k, y)) = self.as_scaled(x).and_then(|(r, y)| Some((power(r)?, y))) {
                    coefficient = k;
                    todo.push((y, e));
                    continue;
                }
                if let Op::Product(inner) = self.op(x) {
                    let joined: Option<Vec<_>> = self.operands(x).iter().zip(inner).map(|(y, f)| Some((*y, f.checked_mul(e / 2)?))).collect();
                    if let Some(joined) = joined {
                        todo.extend(joined.into_iter().rev());
                        continue;
                    }
                }
            }
            let sum = flat.iter_mut().find(|f| f.0 == x && (f.1 > 0) == (e > 0));
            match sum {
                Some(f) if f.1.checked_add(e).is_some() => f.1 += e,
                _ if e == 0 => {}
                _ => flat.push((x, e)),
            }
        }
        for f in &mut flat {
            if f.1 > 0 && matches!(self.op(f.0), Op::Predicate(_)) {
                f.1 = 2 // 0 and 1 are their own powers
            }
        }
        flat.sort();
        if coefficient.is_zero() || flat.is_empty() {
            return self.number(coefficient);
        }
        let body = match flat[..] {
            [(x, 2)] => x,
            _ => {
                let (operands, exponents) = flat.into_iter().unzip();
                self.intern(Op::Product(exponents), operands)
            }
        };
        if coefficient.is_one() { body } else { self.intern(Op::Linear(vec![coefficient], Rational::ZERO), vec![body]) }
    }
    pub fn mul(&mut self, factors: &[NodeId]) -> NodeId {
        self.product(&factors.iter().map(|&x| (x, 2)).collect::<Vec<_>>())
    }
    /// A linear form of `(coefficient, operand)` and a constant: flat, sorted, equal operands merged.
    pub fn linear(&mut self, terms: &[(Rational, NodeId)], constant: Rational) -> NodeId {
        let mut flat: Vec<(NodeId, Rational)> = vec![];
        let mut sum = constant;
        let mut todo: Vec<(Rational, NodeId)> = terms.iter().rev().copied().collect();
        while let Some((k, x)) = todo.pop() {
            if let Some(c) = self.as_number(x).and_then(|r| sum.add(r.mul(k)?)) {
                sum = c;
                continue;
            }
            if let Op::Linear(inner, c) = self.op(x) {
                let joined: Option<Vec<_>> = self.operands(x).iter().zip(inner).map(|(y, f)| Some((f.mul(k)?, *y))).collect();
                if let Some((joined, c)) = joined.zip(c.mul(k).and_then(|c| sum.add(c))) {
                    sum = c;
                    todo.extend(joined.into_iter().rev());
                    continue;
                }
            }
            match flat.iter_mut().find(|f| f.0 == x).and_then(|f| Some((k.add(f.1)?, f))) {
                Some((total, f)) => f.1 = total,
                None => flat.push((x, k)),
            }
        }
        flat.retain(|f| !f.1.is_zero());
        flat.sort();
        match flat[..] {
            [] => self.number(sum),
            [(x, k)] if k.is_one() && sum.is_zero() => x,
            _ => {
                let (operands, coefficients) = flat.into_iter().unzip();
                self.intern(Op::Linear(coefficients, sum), operands)
            }
        }
    }
    pub fn greatest(&mut self, operands: &[NodeId]) -> NodeId {
        let mut flat: Vec<NodeId> = vec![];
        for &x in operands {
            if matches!(self.op(x), Op::Greatest) { flat.extend(self.operands(x)) } else { flat.push(x) }
        }
        flat.sort();
        flat.dedup();
        if let [x] = flat[..] { x } else { self.intern(Op::Greatest, flat) }
    }
    pub fn sum(&mut self, axes: AxisSet, x: NodeId) -> NodeId {
        if axes.is_empty() { x } else { self.intern(Op::Sum(axes), vec![x]) }
    }
    /// The greatest `x` over `axes` where `predicates` (0/1 terms) hold.
    pub fn maximum(&mut self, axes: AxisSet, x: NodeId, predicates: &[NodeId]) -> NodeId {
        let mut operands = vec![x];
        operands.extend(predicates.iter().filter(|p| self.as_number(**p).is_none()));
        operands[1..].sort();
        self.intern(Op::Maximum(axes), operands)
    }
    /// The table leaves of a predicate, for whoever must load them.
    pub fn tables(&self, predicate: PredicateId) -> impl Iterator<Item = &Table> {
        self.predicate(predicate).clauses.iter().flatten().flat_map(|a| a.all_tables())
    }
}
