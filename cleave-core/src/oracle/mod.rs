//! The oracle: a graph evaluated as written, element by element, in f64 with a wide exponent. It knows nothing of tiles, frames
//! or schedules, and shares no accumulator code with any executor.
mod wide;
pub use wide::Wide;

use crate::axis::{AxisId, AxisSet};
use crate::extent;
use crate::graph::{Access, Factor, Function, Graph, NodeId, Op};

/// A dense row-major tensor. A scalar has no dimensions and one value; i32 inputs hold whole numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    pub shape: Vec<i64>,
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn new(shape: Vec<i64>, values: Vec<f64>) -> Self {
        debug_assert_eq!(shape.iter().product::<i64>() as usize, values.len());
        Tensor { shape, values }
    }
    pub fn scalar(value: f64) -> Self {
        Tensor { shape: vec![], values: vec![value] }
    }
    /// Row-major strides of a shape, in elements.
    pub fn strides(shape: &[i64]) -> Vec<i64> {
        (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect()
    }
}

/// Inputs where they lie.
pub trait Elements {
    /// The strides of an input's dimensions, in elements.
    fn strides(&self, input: usize) -> &[i64];
    /// The element at an offset.
    fn element(&self, input: usize, offset: i64) -> f64;
}

struct Dense<'a> {
    tensors: &'a [Tensor],
    strides: Vec<Vec<i64>>,
}

impl Elements for Dense<'_> {
    fn strides(&self, input: usize) -> &[i64] {
        &self.strides[input]
    }
    fn element(&self, input: usize, offset: i64) -> f64 {
        self.tensors[input].values[offset as usize]
    }
}

/// The outputs of `graph` for the extent of every axis and every input in order.
pub fn evaluate(graph: &Graph, extents: &[i64], inputs: &[Tensor]) -> Vec<Tensor> {
    let dense = Dense { tensors: inputs, strides: inputs.iter().map(|t| Tensor::strides(&t.shape)).collect() };
    let run = Run::new(graph, extents, &dense, AxisSet::EMPTY, &vec![0; extents.len()]);
    let outputs = graph.outputs.iter().map(|output| {
        let shape = extent::shape(&output.storage, extents);
        let element_strides = Tensor::strides(&shape);
        let mut values = vec![f64::NAN; shape.iter().product::<i64>() as usize];
        for store in &output.stores {
            each(store.access.axes(), extents, &mut vec![0; extents.len()], &mut |index| {
                values[run.offset(&store.access, &element_strides, index)] = run.value(store.node, index).to_f64()
            })
        }
        Tensor { shape, values }
    });
    outputs.collect()
}

/// The value of every store at one position (an index for each axis), and of nothing else than it takes.
pub fn at(graph: &Graph, extents: &[i64], inputs: &impl Elements, position: &[i64]) -> Vec<f64> {
    let run = Run::new(graph, extents, inputs, fixed(graph), position);
    graph.stores().map(|(_, s)| run.value(s.node, position).to_f64()).collect()
}

/// The domains that [`at`] goes through, of each operation that it keeps: those are axes that it looks up, not those of the position.
pub fn tabulated(graph: &Graph) -> Vec<AxisSet> {
    let (free, fixed) = (graph.free(), fixed(graph));
    let live = graph.cone(graph.stores().map(|s| s.1.node));
    live.into_iter().filter(|n| is_kept(graph.op(*n))).map(|n| free[n.index()].difference(fixed).union(graph.op(n).reduced())).collect()
}

/// The axes of the stores that nothing reduces.
fn fixed(graph: &Graph) -> AxisSet {
    let live = graph.cone(graph.stores().map(|s| s.1.node));
    let stored = graph.stores().fold(AxisSet::EMPTY, |axes, (_, s)| axes.union(s.access.axes()));
    live.into_iter().fold(stored, |axes, n| axes.difference(graph.op(n).reduced()))
}

/// Reductions and functions are kept, everything else is computed where it is used: no product of a contraction is stored.
fn is_kept(op: &Op) -> bool {
    !op.reduced().is_empty() || matches!(op, Op::Apply(_))
}

struct Run<'a, E> {
    graph: &'a Graph,
    extents: &'a [i64],
    inputs: &'a E,
    /// For each node the stride of every axis in its stored values.
    strides: Vec<Vec<i64>>,
    values: Vec<Option<Vec<Wide>>>,
}

impl<'a, E: Elements> Run<'a, E> {
    /// Everything that is kept, along the axes of `fixed` at `position` alone.
    fn new(graph: &'a Graph, extents: &'a [i64], inputs: &'a E, fixed: AxisSet, position: &[i64]) -> Self {
        let domains: Vec<AxisSet> = graph.free().into_iter().map(|f| f.difference(fixed)).collect();
        let strides = domains.iter().map(|d| strides(*d, extents)).collect();
        let mut run = Run { graph, extents, inputs, strides, values: vec![None; graph.nodes.len()] };
        for node in graph.cone(graph.stores().map(|s| s.1.node)) {
            if is_kept(graph.op(node)) {
                let mut values = vec![];
                each(domains[node.index()], extents, &mut position.to_vec(), &mut |index| values.push(run.compute(node, index)));
                run.values[node.index()] = Some(values)
            }
        }
        run
    }
    fn offset(&self, access: &Access, element_strides: &[i64], index: &[i64]) -> usize {
        access.offset(element_strides, &|a: AxisId| index[a.0 as usize], &|a: AxisId| self.extents[a.0 as usize]) as usize
    }
    fn element(&self, input: usize, access: &Access, index: &[i64]) -> f64 {
        let strides = self.inputs.strides(input);
        // the common case without the general walk: one plain axis a dimension
        let mut offset = 0;
        for (stride, factors) in strides.iter().zip(&access.dims) {
            match factors[..] {
                [Factor::Axis(a)] => offset += stride * index[a.0 as usize],
                _ => return self.inputs.element(input, self.offset(access, strides, index) as i64),
            }
        }
        self.inputs.element(input, offset)
    }
    fn value(&self, node: NodeId, index: &[i64]) -> Wide {
        match &self.values[node.index()] {
            Some(values) => values[self.strides[node.index()].iter().zip(index).map(|(s, i)| s * i).sum::<i64>() as usize],
            None => self.compute(node, index),
        }
    }
    fn compute(&self, node: NodeId, index: &[i64]) -> Wide {
        let operands = self.graph.operands(node);
        match self.graph.op(node) {
            Op::Input { input, access } => Wide::from(self.element(input.index(), access, index)),
            Op::Number(r) => Wide::from_rational(*r),
            Op::Size(a) => Wide::from(self.extents[a.0 as usize] as f64),
            Op::Index(a) => Wide::from(index[a.0 as usize] as f64),
            Op::Predicate(p) => Wide::from(
                self.graph
                    .predicate(*p)
                    .holds(&|a| index[a.0 as usize], &|a| self.extents[a.0 as usize], &|t| self.element(t.input.index(), &t.access, index) as i64)
                    as u8 as f64,
            ),
            Op::Apply(f) => {
                let x = self.value(operands[0], index);
                match f {
                    Function::Exp => x.exp(),
                    Function::Log => x.ln(),
                    Function::Abs => x.abs(),
                    Function::Sigmoid => (Wide::from(1.0) + (-x).exp()).recip(),
                    Function::Tanh => Wide::from(x.to_f64().tanh()),
                    Function::Round(_) => x,
                }
            }
            Op::Product(exponents) => self.product(operands, exponents, index),
            Op::Linear(coefficients, constant) => {
                operands.iter().zip(coefficients).fold(Wide::from_rational(*constant), |sum, (o, k)| sum + self.value(*o, index) * Wide::from_rational(*k))
            }
            Op::Greatest => operands.iter().map(|o| self.value(*o, index)).reduce(Wide::max).unwrap_or(Wide::NEGATIVE_INFINITY),
            Op::Sum(axes) => self.reduce(*axes, index, Wide::ZERO, |sum, at| sum + self.value(operands[0], at)),
            // any value of a frame gives the same result: the oracle takes 0
            Op::Frame(..) => Wide::ZERO,
            Op::Maximum(axes) => self.reduce(*axes, index, Wide::NEGATIVE_INFINITY, |greatest, at| {
                if operands[1..].iter().any(|p| self.value(*p, at).is_zero()) { greatest } else { greatest.max(self.value(operands[0], at)) }
            }),
        }
    }
    fn product(&self, operands: &[NodeId], exponents: &[i8], index: &[i64]) -> Wide {
        let hidden = |o: &NodeId| matches!(self.graph.op(*o), Op::Predicate(_)) && self.value(*o, index).is_zero();
        if operands.iter().any(hidden) {
            return Wide::ZERO;
        }
        let (mut numerator, mut denominator) = (Wide::from(1.0), Wide::from(1.0));
        for (o, e) in operands.iter().zip(exponents) {
            let x = self.value(*o, index);
            if *e > 0 && x.is_zero() {
                return Wide::ZERO;
            }
            let side = if *e > 0 { &mut numerator } else { &mut denominator };
            *side = *side * x.power(e.abs())
        }
        if exponents.iter().all(|e| *e > 0) { numerator } else { numerator * denominator.recip() }
    }
    fn reduce(&self, axes: AxisSet, index: &[i64], start: Wide, mut step: impl FnMut(Wide, &[i64]) -> Wide) -> Wide {
        let mut result = start;
        each(axes, self.extents, &mut index.to_vec(), &mut |at| result = step(result, at));
        result
    }
}

fn strides(axes: AxisSet, extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![0; extents.len()];
    let mut inner = 1;
    let mut ordered: Vec<AxisId> = axes.iter().collect();
    ordered.reverse();
    for a in ordered {
        strides[a.0 as usize] = inner;
        inner *= extents[a.0 as usize]
    }
    strides
}

/// Calls `visit` at every position over `axes` (ascending, the last fastest); the other indices stay as they are in `index`.
fn each(axes: AxisSet, extents: &[i64], index: &mut [i64], visit: &mut impl FnMut(&[i64])) {
    let axes: Vec<usize> = axes.iter().map(|a| a.0 as usize).collect();
    if axes.iter().any(|&a| extents[a] <= 0) {
        return;
    }
    axes.iter().for_each(|&a| index[a] = 0);
    loop {
        visit(index);
        let Some(&a) = axes.iter().rev().find(|&&a| {
            index[a] += 1;
            if index[a] == extents[a] {
                index[a] = 0;
                false
            } else {
                true
            }
        }) else {
            return;
        };
        debug_assert!(index[a] < extents[a])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Element};
    use crate::graph::Store;
    use crate::predicate::{Atom, Predicate};
    use crate::rational::Rational;

    /// softmax over N of x[M, N] without a maximum, visible where `index N < index M`; and its log-sum-exp.
    fn softmax() -> Graph {
        let mut g = Graph::default();
        let (m, n) = (g.add_axis("M"), g.add_axis("N"));
        let f32 = Element::Type(DType::F32);
        let x = g.add_input("x", f32, Access::plain([m, n]));
        let x = g.read(x, Access::plain([m, n]));
        let mut indices = vec![(m, 1), (n, -1)];
        indices.sort();
        let visible = g.holds(Predicate::atom(Atom { indices, constant: -1, ..Atom::default() }));
        let e = g.apply(Function::Exp, x);
        let e = g.mul(&[visible, e]);
        let z = g.sum(AxisSet::of(n), e);
        let y = g.product(&[(e, 2), (z, -2)]);
        let l = g.apply(Function::Log, z);
        g.add_output("y", f32, Access::plain([m, n]), vec![Store { node: y, access: Access::plain([m, n]) }]);
        g.add_output("lse", f32, Access::plain([m]), vec![Store { node: l, access: Access::plain([m]) }]);
        g
    }

    #[test]
    fn a_wholly_masked_row_gives_zero_and_minus_infinity_and_large_logits_are_exact() {
        let out = evaluate(&softmax(), &[3, 2], &[Tensor::new(vec![3, 2], vec![f64::NAN, f64::NAN, 1e4, f64::NAN, 1e4, 1e4 - 1.0])]);
        let e = (-1f64).exp();
        assert_eq!(out[0].values[..4], [0.0, 0.0, 1.0, 0.0]);
        assert!((out[0].values[4] - 1.0 / (1.0 + e)).abs() < 1e-12 && (out[0].values[5] - e / (1.0 + e)).abs() < 1e-12);
        assert_eq!(out[1].values[..2], [f64::NEG_INFINITY, 1e4]);
        assert!((out[1].values[2] - (1e4 + (1.0 + e).ln())).abs() < 1e-11)
    }

    #[test]
    fn contractions_and_composite_storage_follow_their_axes() {
        // y[(J, 2)] = sum_K x[K] * w[(J, 2), K]
        let mut g = Graph::default();
        let (k, j) = (g.add_axis("K"), g.add_axis("J"));
        let f32 = Element::Type(DType::F32);
        let x = g.add_input("x", f32, Access::plain([k]));
        let part = |index| Access { dims: vec![vec![Factor::Axis(j), Factor::Part { index, of: 2 }]] };
        let rows = |index| Access { dims: [part(index).dims, vec![vec![Factor::Axis(k)]]].concat() };
        let w = g.add_input("w", f32, rows(0));
        let x = g.read(x, Access::plain([k]));
        let stores = (0..2)
            .map(|i| {
                let w = g.read(w, rows(i));
                let p = g.mul(&[x, w]);
                let double = g.linear(&[(Rational::integer(2), p)], Rational::ZERO);
                Store { node: g.sum(AxisSet::of(k), double), access: part(i) }
            })
            .collect();
        g.add_output("y", f32, part(0), stores);
        let out = evaluate(&g, &[2, 2], &[Tensor::new(vec![2], vec![1.0, 10.0]), Tensor::new(vec![4, 2], (1..=8).map(f64::from).collect())]);
        assert_eq!(out[0], Tensor::new(vec![4], vec![42.0, 86.0, 130.0, 174.0]))
    }

    #[test]
    fn empty_axes_leave_sums_at_zero() {
        let mut g = Graph::default();
        let (m, n) = (g.add_axis("M"), g.add_axis("N"));
        let f32 = Element::Type(DType::F32);
        let x = g.add_input("x", f32, Access::plain([m, n]));
        let x = g.read(x, Access::plain([m, n]));
        let s = g.sum(AxisSet::of(n), x);
        g.add_output("y", f32, Access::plain([m]), vec![Store { node: s, access: Access::plain([m]) }]);
        assert_eq!(evaluate(&g, &[2, 0], &[Tensor::new(vec![2, 0], vec![])])[0].values, [0.0, 0.0]);
        assert_eq!(evaluate(&g, &[0, 2], &[Tensor::new(vec![0, 2], vec![])])[0].values, [0.0; 0])
    }
}
