//! Algorithms that are much less accurate than their source are not built. In: a kernel and the programs of its algorithms, the
//! source's first. Out: which algorithms to keep. Equal formulas round differently: a sum of squares minus the square of a sum cancels.
//! Each algorithm's first program, framed, tiled and split, is run in f32 on inputs of several amplitudes and offsets and held against the
//! oracle; its error may be a small multiple of what the source's own program makes on the same inputs. What rests on assumptions is held against
//! its own formula: on these inputs they do not hold.
use crate::algebra::check::{Random, level};
use crate::dtype::{DType, Element};
use crate::extent;
use crate::graph::Graph;
use crate::kernel::{Algorithm, Kernel};
use crate::oracle::{self, Tensor};
use crate::schedule::interpret::{Arithmetic, Settings, round_to, run};
use crate::tile::Program;

/// How many times the source's error an algorithm may make.
const FACTOR: f64 = 16.0;
/// What a few roundings in f32 make: a source that happens to be exact makes no algorithm inaccurate.
const FLOOR: f64 = 1.0 / (1 << 22) as f64;
/// `(amplitude, offset)` of the inputs.
const RANGES: [(f64, f64); 3] = [(1.0, 0.0), (30.0, 0.0), (1.0, 200.0)];
/// Extents go from 2 to this, fewer in kernels of many axes.
const LARGEST: i64 = 6;
/// Elements of the largest term, reduced axes included.
const ELEMENTS: i64 = 400;

/// For each algorithm whether it is kept; the source, which is first, always is.
pub fn admissible(kernel: &Kernel, algorithms: &[Algorithm], scheduled: &[Vec<Program>]) -> Vec<bool> {
    let mut kept = vec![true; scheduled.len()];
    if scheduled.len() < 2 {
        return kept;
    }
    let types = most_precise(kernel);
    for (seed, (amplitude, offset)) in (1..).zip(RANGES) {
        let mut random = Random(seed);
        let extents = extents(&kernel.graph, &mut random);
        let inputs = inputs(&kernel.graph, &extents, &types, amplitude, offset, &mut random);
        let wanted = oracle::evaluate(&kernel.graph, &extents, &inputs);
        let error = |programs: &Vec<Program>, wanted: &[Tensor]| programs.first().map_or(f64::INFINITY, |p| error(p, &extents, &inputs, &types, wanted));
        let source = error(&scheduled[0], &wanted);
        for ((keep, programs), algorithm) in kept.iter_mut().zip(scheduled).zip(algorithms).skip(1).filter(|((keep, _), _)| **keep) {
            let error = match &algorithm.assumptions[..] {
                [] => error(programs, &wanted),
                _ => error(programs, &oracle::evaluate(&algorithm.graph, &extents, &inputs)),
            };
            *keep = error <= FACTOR * source.max(FLOOR)
        }
    }
    kept
}

/// In the widest types the rounding of storage hides least.
fn most_precise(kernel: &Kernel) -> Vec<DType> {
    kernel.params.iter().map(|p| p.types.iter().copied().min_by(|a, b| a.epsilon().total_cmp(&b.epsilon())).unwrap_or(DType::F32)).collect()
}

fn extents(graph: &Graph, random: &mut Random) -> Vec<i64> {
    let mut extents: Vec<i64> = graph.axes.iter().map(|_| 2 + random.below(LARGEST as u64 - 1) as i64).collect();
    let free = graph.free();
    let size = |extents: &[i64]| free.iter().map(|f| f.iter().map(|a| extents[a.0 as usize]).product::<i64>()).max().unwrap_or(1);
    loop {
        level(graph, &mut extents);
        if size(&extents) <= ELEMENTS || extents.iter().all(|n| *n <= 1) {
            return extents;
        }
        extents.iter_mut().max().into_iter().for_each(|n| *n -= 1)
    }
}

fn inputs(graph: &Graph, extents: &[i64], types: &[DType], amplitude: f64, offset: f64, random: &mut Random) -> Vec<Tensor> {
    let most = extents.iter().copied().max().unwrap_or(1) as u64;
    let mut draw = |input: &crate::graph::Input| match input.element {
        Element::Type(DType::I32) => random.below(most + 2) as f64,
        _ if input.storage.dims.is_empty() => 1.0 + random.real() / 2.0, // a scale is no datum
        _ if input.positive => amplitude * (1.0 + random.real() / 2.0) + offset,
        _ => amplitude * random.real() + offset,
    };
    let tensor = |input: &crate::graph::Input| {
        let shape = extent::shape(&input.storage, extents);
        let dtype = input.element.resolve(types);
        let values = (0..shape.iter().product::<i64>()).map(|_| round_to(dtype, draw(input))).collect();
        Tensor { shape, values }
    };
    graph.inputs.iter().map(tensor).collect()
}

/// The greatest error of any output element, relative to the output's greatest magnitude.
fn error(program: &Program, extents: &[i64], inputs: &[Tensor], types: &[DType], wanted: &[Tensor]) -> f64 {
    let settings = Settings { tile: &|_, _| 3, pieces: 2, arithmetic: Arithmetic::Single, types: Some(types) };
    let (found, _) = run(program, extents, inputs, &settings);
    let of_output = |(found, wanted): (&Tensor, &Tensor)| {
        let scale = wanted.values.iter().filter(|v| v.is_finite()).fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
        let of_element = |(f, w): (&f64, &f64)| match f == w || w.is_nan() {
            true => 0.0,
            false if f.is_finite() && w.is_finite() => (f - w).abs() / scale,
            false => f64::INFINITY,
        };
        found.values.iter().zip(&wanted.values).map(of_element).fold(0.0, f64::max)
    };
    found.iter().zip(wanted).map(of_output).fold(0.0, f64::max)
}
