//! A formula written by hand: axes and inputs by name, operations through the graph's constructors.
use cleave_core::axis::{AxisId, AxisSet};
use cleave_core::dtype::{DType, Element};
use cleave_core::graph::{Access, Factor, Function, Graph, InputId, NodeId, Store};
use cleave_core::kernel::{Kernel, Param};
use cleave_core::predicate::{Atom, Predicate, Table};
use cleave_core::rational::Rational;

#[derive(Default)]
pub struct Formula {
    pub graph: Graph,
    bounds: Vec<(AxisId, usize)>,
}

impl Formula {
    pub fn axis(&mut self, name: &str) -> AxisId {
        match self.graph.axes.iter().position(|a| a.name == name) {
            Some(i) => AxisId(i as u8),
            None => self.graph.add_axis(name),
        }
    }
    pub fn axes(&mut self, names: &str) -> AxisSet {
        names.split_whitespace().map(|n| self.axis(n)).collect()
    }
    pub fn bound(&mut self, axis: &str, most: usize) {
        let axis = self.axis(axis);
        self.bounds.push((axis, most))
    }
    /// `B (K G) M`: a parenthesis is one stored dimension.
    fn access(&mut self, axes: &str) -> Access {
        let mut dims: Vec<Vec<Factor>> = vec![];
        let mut packed = false;
        for word in axes.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
            match word {
                "(" => {
                    packed = true;
                    dims.push(vec![])
                }
                ")" => packed = false,
                name => {
                    let factor = Factor::Axis(self.axis(name));
                    if packed { dims.last_mut().unwrap().push(factor) } else { dims.push(vec![factor]) }
                }
            }
        }
        Access { dims }
    }
    fn declare(&mut self, name: &str, element: Element, axes: &str) -> (InputId, Access) {
        let access = self.access(axes);
        match self.graph.inputs.iter().position(|i| i.name == name) {
            Some(i) => (InputId(i as u32), access),
            None => (self.graph.add_input(name, element, access.clone()), access),
        }
    }
    /// A tensor read under its declared axes; without axes a scalar.
    pub fn read(&mut self, name: &str, axes: &str) -> NodeId {
        let element = if axes.is_empty() { Element::Type(DType::F32) } else { Element::Param(0) };
        let (input, access) = self.declare(name, element, axes);
        self.graph.read(input, access)
    }
    pub fn positive(&mut self, name: &str, axes: &str) -> NodeId {
        let x = self.read(name, axes);
        self.graph.inputs.last_mut().unwrap().positive = true;
        x
    }
    /// `[sum index + sum table + sum extent + constant >= 0]`.
    pub fn at_least_zero(&mut self, indices: &[(&str, i64)], tables: &[(&str, &str, i64)], extents: &[(&str, i64)], constant: i64) -> NodeId {
        let mut indices: Vec<(AxisId, i64)> = indices.iter().map(|(a, k)| (self.axis(a), *k)).collect();
        let mut extents: Vec<(AxisId, i64)> = extents.iter().map(|(a, k)| (self.axis(a), *k)).collect();
        let table = |f: &mut Self, (name, axes, k): &(&str, &str, i64)| {
            let (input, access) = f.declare(name, Element::Type(DType::I32), axes);
            (Table { input, access }, *k)
        };
        let mut tables: Vec<(Table, i64)> = tables.iter().map(|t| table(self, t)).collect();
        indices.sort();
        extents.sort();
        tables.sort();
        self.graph.holds(Predicate::atom(Atom { indices, tables, extents, constant, ..Atom::default() }))
    }
    pub fn mul(&mut self, factors: &[NodeId]) -> NodeId {
        self.graph.mul(factors)
    }
    pub fn power(&mut self, x: NodeId, halves: i8) -> NodeId {
        self.graph.product(&[(x, halves)])
    }
    pub fn div(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.graph.product(&[(x, 2), (y, -2)])
    }
    pub fn add(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.graph.linear(&[(Rational::ONE, x), (Rational::ONE, y)], Rational::ZERO)
    }
    pub fn sub(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.graph.linear(&[(Rational::ONE, x), (Rational::MINUS_ONE, y)], Rational::ZERO)
    }
    pub fn neg(&mut self, x: NodeId) -> NodeId {
        self.graph.linear(&[(Rational::MINUS_ONE, x)], Rational::ZERO)
    }
    pub fn plus(&mut self, x: NodeId, constant: &str) -> NodeId {
        self.graph.linear(&[(Rational::ONE, x)], Rational::parse(constant).unwrap())
    }
    pub fn number(&mut self, value: &str) -> NodeId {
        self.graph.number(Rational::parse(value).unwrap())
    }
    pub fn exp(&mut self, x: NodeId) -> NodeId {
        self.graph.apply(Function::Exp, x)
    }
    pub fn log(&mut self, x: NodeId) -> NodeId {
        self.graph.apply(Function::Log, x)
    }
    pub fn sigmoid(&mut self, x: NodeId) -> NodeId {
        self.graph.apply(Function::Sigmoid, x)
    }
    pub fn tanh(&mut self, x: NodeId) -> NodeId {
        self.graph.apply(Function::Tanh, x)
    }
    pub fn sum(&mut self, axes: &str, x: NodeId) -> NodeId {
        let axes = self.axes(axes);
        self.graph.sum(axes, x)
    }
    pub fn dot(&mut self, axes: &str, factors: &[NodeId]) -> NodeId {
        let product = self.mul(factors);
        self.sum(axes, product)
    }
    pub fn mean(&mut self, axis: &str, x: NodeId) -> NodeId {
        let total = self.sum(axis, x);
        let axis = self.axis(axis);
        let size = self.graph.size(axis);
        self.div(total, size)
    }
    pub fn maximum(&mut self, axes: &str, x: NodeId, predicates: &[NodeId]) -> NodeId {
        let axes = self.axes(axes);
        self.graph.maximum(axes, x, predicates)
    }
    /// exp(x - max x) where a predicate holds, and the maximum.
    pub fn shifted_exp(&mut self, axis: &str, x: NodeId, predicates: &[NodeId]) -> (NodeId, NodeId) {
        let m = self.maximum(axis, x, predicates);
        let shifted = self.sub(x, m);
        let e = self.exp(shifted);
        (self.mul(&[predicates, &[e]].concat()), m)
    }
    pub fn softmax(&mut self, axis: &str, x: NodeId, predicates: &[NodeId]) -> NodeId {
        let (e, _) = self.shifted_exp(axis, x, predicates);
        let z = self.sum(axis, e);
        self.div(e, z)
    }
    pub fn logsumexp(&mut self, axis: &str, x: NodeId, predicates: &[NodeId]) -> NodeId {
        let (e, m) = self.shifted_exp(axis, x, predicates);
        let z = self.sum(axis, e);
        let log = self.log(z);
        self.add(log, m)
    }
    /// x * rsqrt(mean x^2 + eps).
    pub fn rms_norm(&mut self, axis: &str, x: NodeId) -> NodeId {
        let square = self.power(x, 4);
        let mean = self.mean(axis, square);
        let shifted = self.plus(mean, "1e-5");
        let scale = self.power(shifted, -1);
        self.mul(&[x, scale])
    }
    pub fn layer_norm(&mut self, axis: &str, x: NodeId) -> NodeId {
        let mean = self.mean(axis, x);
        let centred = self.sub(x, mean);
        self.rms_norm(axis, centred)
    }
    pub fn store(&mut self, name: &str, axes: &str, node: NodeId) {
        let access = self.access(axes);
        self.graph.add_output(name, Element::Param(0), access.clone(), vec![Store { node, access }])
    }
    pub fn kernel(self, name: &str) -> Kernel {
        let params = vec![Param { name: "T".into(), types: vec![DType::F32] }];
        Kernel { name: name.into(), graph: self.graph, params, bounds: self.bounds, assertions: vec![], assumptions: vec![] }
    }
}
