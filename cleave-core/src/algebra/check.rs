//! Every algorithm against its source, numerically, before anything is built from it.
//!
//! Comes in: two graphs over the same inputs. Goes out: nothing, or where they differ. Both are evaluated by the oracle on random
//! inputs over several small extents; integer inputs are drawn so that some rows of a predicate are empty and some are not.
use super::meet::meet;
use crate::assumption::Assumption;
use crate::axis::AxisSet;
use crate::dtype::{DType, Element};
use crate::extent;
use crate::graph::Graph;
use crate::magnitude::magnitudes;
use crate::oracle::{self, Tensor};

/// An algorithm that is not equal to its source: some rule is wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error(
    "algorithm `{algorithm}` of kernel `{kernel}` is not equal to its source: output `{output}` is {found} instead of {wanted} at extents {extents:?}; {}",
    blame(rules)
)]
pub struct Unequal {
    pub kernel: String,
    pub algorithm: String,
    pub output: String,
    pub wanted: f64,
    pub found: f64,
    pub extents: Vec<i64>,
    /// The rows without any one of which every algorithm is equal.
    pub rules: Vec<String>,
}

fn blame(rules: &[String]) -> String {
    match rules {
        [] => "no single rule is at fault".into(),
        [one] => format!("rule `{one}` is wrong"),
        many => format!("one of the rules `{}` is wrong", many.join("`, `")),
    }
}

/// The difference of two graphs at one element.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    pub output: usize,
    pub wanted: f64,
    pub found: f64,
    pub extents: Vec<i64>,
}

/// Inputs and the source's results on them.
pub struct Sample {
    extents: Vec<i64>,
    inputs: Vec<Tensor>,
    wanted: Vec<Tensor>,
    /// The greatest magnitude of what each output was summed of.
    terms: Vec<f64>,
    tolerance: f64,
}

/// Errors relative to the largest magnitude of an output that count as rounding; and where inputs meet assumptions no better than this allows.
const TOLERANCE: f64 = 1e-9;
const MET: f64 = 1e-6;
/// What rounding makes of a sum that cancels, relative to the magnitude of its terms.
const ROUNDING: f64 = 1e-13;
/// Outputs below this are compared by their difference alone: inputs are of size 1, and a function of what cancels tells nothing of its terms.
const NOISE: f64 = 1e-5;
/// Samples for a kernel.
const SAMPLES: u64 = 4;
/// Extents go from 1 to this, as far as no term has more elements than [`ELEMENTS`].
const LARGEST: u64 = 5;
const ELEMENTS: i64 = 600;
/// Both where assumptions are to be met, which takes many evaluations; and the draws out of which [`SAMPLES`] are to meet them.
const SMALLEST: u64 = 3;
const FEWEST: i64 = 60;
const DRAWS: u64 = 12;

/// A reproducible stream of numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
    /// From -1 to 1.
    pub fn real(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

fn elements(axes: AxisSet, extents: &[i64]) -> i64 {
    axes.iter().map(|a| extents[a.0 as usize]).product()
}

/// Gives axes of equal extent that of the smallest one.
pub fn level(graph: &Graph, extents: &mut [i64]) {
    while let Some((a, b)) = graph.equal.iter().find(|(a, b)| extents[a.0 as usize] != extents[b.0 as usize]) {
        let least = extents[a.0 as usize].min(extents[b.0 as usize]);
        (extents[a.0 as usize], extents[b.0 as usize]) = (least, least)
    }
}

fn draw_extents(source: &Graph, largest: u64, most: i64, random: &mut Random) -> Vec<i64> {
    let mut extents: Vec<i64> = source.axes.iter().map(|_| 1 + random.below(largest) as i64).collect();
    let free = source.free();
    loop {
        level(source, &mut extents);
        // one less of the largest axis of a term that is too large
        let large = free.iter().copied().find(|f| elements(*f, &extents) > most);
        match large.and_then(|f| f.iter().max_by_key(|a| (extents[a.0 as usize], std::cmp::Reverse(*a)))) {
            Some(largest) => extents[largest.0 as usize] -= 1,
            None => return extents,
        }
    }
}

fn draw_inputs(source: &Graph, extents: &[i64], random: &mut Random) -> Vec<Tensor> {
    let most = extents.iter().copied().max().unwrap_or(1) as u64;
    let draw = |input: &crate::graph::Input, random: &mut Random| match input.element {
        Element::Type(DType::I32) => random.below(most + 3) as f64 - 1.0,
        _ if input.positive => 1.0 + random.real() / 2.0,
        _ => random.real(),
    };
    let tensor = |input: &crate::graph::Input| {
        let shape = extent::shape(&input.storage, extents);
        let count = shape.iter().product::<i64>();
        let values = (0..count).map(|_| draw(input, random)).collect();
        Tensor { shape, values }
    };
    source.inputs.iter().map(tensor).collect()
}

impl Sample {
    fn new(source: &Graph, sizes: &Graph, extents: Vec<i64>, inputs: Vec<Tensor>, tolerance: f64) -> Sample {
        let wanted = oracle::evaluate(source, &extents, &inputs);
        let terms = oracle::evaluate(sizes, &extents, &inputs).iter().map(greatest).collect();
        Sample { extents, inputs, wanted, terms, tolerance }
    }
}

/// The greatest magnitude among the numbers of a tensor.
fn greatest(tensor: &Tensor) -> f64 {
    tensor.values.iter().filter(|v| v.is_finite()).fold(0.0, |m, v| m.max(v.abs()))
}

/// Samples of a source, the same for the same seed.
pub fn samples(source: &Graph, seed: u64) -> Vec<Sample> {
    let sizes = magnitudes(source);
    let sample = |i: u64| {
        let mut random = Random(seed.wrapping_mul(SAMPLES).wrapping_add(i));
        let extents = draw_extents(source, LARGEST, ELEMENTS, &mut random);
        let inputs = draw_inputs(source, &extents, &mut random);
        Sample::new(source, &sizes, extents, inputs, TOLERANCE)
    };
    (0..SAMPLES).map(sample).collect()
}

/// Samples on which assumptions hold, the same for the same seed; none if no such inputs were found.
pub fn samples_meeting(source: &Graph, assumptions: &[&Assumption], seed: u64) -> Vec<Sample> {
    let sizes = magnitudes(source);
    let sample = |i: u64| {
        let mut random = Random(seed.wrapping_mul(DRAWS).wrapping_add(i));
        let extents = draw_extents(source, SMALLEST, FEWEST, &mut random);
        let mut inputs = draw_inputs(source, &extents, &mut random);
        meet(assumptions, &extents, &mut inputs).then(|| Sample::new(source, &sizes, extents, inputs, MET))
    };
    (0..DRAWS).filter_map(sample).take(SAMPLES as usize).collect()
}

/// The first element at which a graph differs from the source of the samples by more than rounding. Where the source has no
/// value (NaN), any is right.
pub fn difference(samples: &[Sample], graph: &Graph) -> Option<Difference> {
    samples.iter().find_map(|sample| {
        let found = oracle::evaluate(graph, &sample.extents, &sample.inputs);
        found.iter().zip(&sample.wanted).enumerate().find_map(|(output, (found, wanted))| {
            let bound = (sample.tolerance * greatest(wanted).max(NOISE)).max(ROUNDING * sample.terms[output]);
            let differs = |(f, w): (&f64, &f64)| {
                let near = f == w || w.is_nan() || (f - w).abs() <= bound;
                (!near).then(|| Difference { output, wanted: *w, found: *f, extents: sample.extents.clone() })
            };
            found.values.iter().zip(&wanted.values).find_map(differs)
        })
    })
}
