//! Frames: moments of values far from 0, in f32, in one pass; and a frame that the table does not have, by a row alone.
#![cfg(feature = "compiler")]
#[path = "support/third_frame.rs"]
mod third_frame;

use cleave_core::algebra::check::Random;
use cleave_core::algebra::search;
use cleave_core::dtype::{DType, Element};
use cleave_core::extent;
use cleave_core::frame::{SHIFT, TRANSLATION};
use cleave_core::frontend;
use cleave_core::kernel::{Algorithm, Kernel};
use cleave_core::oracle::{self, Tensor};
use cleave_core::prove::frames::duties;
use cleave_core::schedule::interpret::{Arithmetic, Settings, run};
use cleave_core::schedule::{programs, programs_with};
use cleave_core::tile::Program;

fn kernel(text: &str) -> Kernel {
    frontend::from_source(text).unwrap_or_else(|e| panic!("{}", e.render(text))).remove(0)
}

/// The greatest error of the first output, relative to its greatest magnitude; tensor `x` has mean 1e4 and deviation 1.
fn error(kernel: &Kernel, program: &Program, extents: &[i64], tile: i64, pieces: usize) -> f64 {
    let g = &kernel.graph;
    let mut random = Random(5);
    let tensors = g.inputs.iter().map(|input| {
        let shape = extent::shape(&input.storage, extents);
        if let Some(a) = input.extent {
            return Tensor::scalar(extents[a.0 as usize] as f64);
        }
        if input.element == Element::Type(DType::I32) {
            // a length, or a width
            return Tensor { values: (0..shape.iter().product::<i64>()).map(|i| (400 - 150 * i) as f64).collect(), shape };
        }
        let mut normal = || (0..12).map(|_| random.real()).sum::<f64>() / 2.0;
        let value = |z: f64| (if input.name == "x" { 1e4 + z } else { z }) as f32 as f64;
        Tensor { values: (0..shape.iter().product::<i64>()).map(|_| value(normal())).collect(), shape }
    });
    let inputs: Vec<Tensor> = tensors.collect();
    let want = oracle::evaluate(g, extents, &inputs);
    let settings = Settings { tile: &|_, _| tile, pieces, arithmetic: Arithmetic::Single, types: Some(&[DType::F32]) };
    let (got, _) = run(program, extents, &inputs, &settings);
    let scale = want[0].values.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    got[0].values.iter().zip(&want[0].values).map(|(g, w)| if g.is_finite() { (g - w).abs() / scale } else { f64::INFINITY }).fold(0.0, f64::max)
}

fn passes(a: &Algorithm) -> u8 {
    a.cost.passes.iter().map(|p| p.1).max().unwrap_or(0)
}

const VARIANCE: &str = "#[kernel] fn variance(x: Tensor<f32, M, N>) -> Tensor<f32, M> { var::<N>(x) }";
const TEXTBOOK: &str = "#[kernel] fn textbook(x: Tensor<f32, M, N>) -> Tensor<f32, M> { mean::<N>(x * x) - square(mean::<N>(x)) }";
const PROJECTED: &str = "#[kernel] fn projected(
    x: Tensor<f32, M, N>, gain: Tensor<f32, N>, shift: Tensor<f32, N>, w: Tensor<f32, J, N>, bias: Tensor<f32, J>
) -> Tensor<f32, M, J> { sum::<N>(layer_norm::<N>(x, gain, shift, 1e-5) * w) + bias }";

#[test]
fn moments_far_from_zero_do_not_cancel_in_one_pass() {
    for text in [VARIANCE, PROJECTED] {
        does_not_cancel(&kernel(text))
    }
}

/// In one pass, in any tiling, at most four times what the source's passes make.
fn does_not_cancel(k: &Kernel) {
    let found = search(k).algorithms;
    let one = found.iter().position(|a| passes(a) == 1).unwrap_or_else(|| panic!("no algorithm of one pass: {k}"));
    let extents: Vec<i64> = k.graph.axes.iter().map(|a| if a.name == "N" { 512 } else { 3 }).collect();
    let plain = |a: &Algorithm| programs(0, &a.graph, &k.bounds).pop().expect("a program");
    let (source, program) = (plain(&found[0]), plain(&found[one]));
    assert!(program.to_string().contains("carry {"), "{program}");
    for (tile, pieces) in [(64, 1), (64, 3), (7, 1), (512, 1)] {
        let (want, got) = (error(k, &source, &extents, tile, 1), error(k, &program, &extents, tile, pieces));
        assert!(got <= 4.0 * want.max(2f64.powi(-23)), "{} makes {got:e}, its source {want:e}, tile {tile}, {pieces} pieces\n{program}", k.name)
    }
}

const ENTROPY: &str = "#[kernel] fn entropy(x: Tensor<f32, M, N>) -> Tensor<f32, M> { -sum::<N>(softmax::<N>(x) * log_softmax::<N>(x)) }";

#[test]
fn the_entropy_of_logits_far_from_zero_does_not_cancel_in_one_pass() {
    does_not_cancel(&kernel(ENTROPY))
}

const FILLED_ENTROPY: &str = "#[kernel] fn filled_entropy(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> Tensor<f32, M> {
    let s = mask(x, index::<N>() < len);
    -sum::<N>(softmax::<N>(s) * log_softmax::<N>(s))
}";
const CAUSAL_ENTROPY: &str = "#[kernel] fn causal_entropy(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let p = softmax::<N>(mask(x, index::<N>() <= 7 * index::<M>()));
    -sum::<N>(p * log(p))
}";

#[test]
fn masked_entropies_of_logits_far_from_zero_do_not_cancel_in_one_pass() {
    for text in [FILLED_ENTROPY, CAUSAL_ENTROPY] {
        does_not_cancel(&kernel(text))
    }
}

const FILLED: &str = "#[kernel] fn filled(x: Tensor<f32, M, N>, len: Tensor<i32, M>) -> Tensor<f32, M> { var::<N>(mask(x, index::<N>() < len)) }";
const WINDOW: &str = "#[kernel] fn window(x: Tensor<f32, N>, width: i32, m: Extent<M>) -> (Tensor<f32, M>, Tensor<f32, M>) {
    let near = mask(x, index::<N>() <= index::<M>() && index::<M>() - index::<N>() < width);
    (var::<N>(near), mean::<N>(near))
}";
const FILLED_NORM: &str = "#[kernel] fn filled_norm(x: Tensor<f32, M, N>, w: Tensor<f32, J, N>, len: Tensor<i32, M>) -> Tensor<f32, M, J> {
    let there = mask(x, index::<N>() < len);
    let d = there - mean::<N>(there);
    sum::<N>(d * w) * rsqrt(mean::<N>(square(d)) + 1e-5)
}";

#[test]
fn masked_moments_far_from_zero_do_not_cancel_in_one_pass() {
    for text in [FILLED, WINDOW, FILLED_NORM] {
        does_not_cancel(&kernel(text))
    }
}

#[test]
fn the_textbook_formula_is_as_accurate_as_the_centred_one() {
    let (book, centred) = (kernel(TEXTBOOK), kernel(VARIANCE));
    let of = |k: &Kernel| error(k, &programs(0, &k.graph, &[]).pop().expect("a program"), &[3, 512], 64, 1);
    assert!(of(&book) <= 4.0 * of(&centred).max(2f64.powi(-23)), "{:e} against {:e}", of(&book), of(&centred))
}

#[test]
fn a_mean_that_is_stored_too_gets_its_centre_back() {
    let k = kernel("#[kernel] fn both(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) { (mean::<N>(x), mean::<N>(x * x) - square(mean::<N>(x))) }");
    let program = programs(0, &k.graph, &[]).pop().expect("a program");
    assert!(program.to_string().contains("translation"), "{program}");
    for pieces in [1, 3] {
        assert!(error(&k, &program, &[3, 512], 64, pieces) < 1e-6)
    }
}

#[test]
fn a_sum_of_squares_that_keeps_its_centre_has_no_translation() {
    let k = kernel("#[kernel] fn rms(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x * rsqrt(mean::<N>(x * x) + 1e-5) }");
    for p in programs(0, &k.graph, &[]) {
        assert!(!p.to_string().contains("translation"), "{p}")
    }
}

#[test]
fn a_third_frame_is_a_row_and_nothing_else() {
    let k = kernel(
        "#[kernel] fn attention(x: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>, len: i32) -> (Tensor<f32, M, E>, Tensor<f32, M>) {
            let s = mask(sum::<D>(x * k), index::<N>() < len);
            (sum::<N>(softmax::<N>(s) * v), logsumexp::<N>(s))
        }",
    );
    let extents: Vec<i64> = k.graph.axes.iter().map(|a| if a.name == "N" { 40 } else { 3 }).collect();
    let mut random = Random(3);
    let mut seen = false;
    for len in [33.0, 0.0] {
        let tensors = k.graph.inputs.iter().map(|i| match &i.name[..] {
            "len" => Tensor::scalar(len),
            _ => {
                let shape = extent::shape(&i.storage, &extents);
                Tensor { values: (0..shape.iter().product::<i64>()).map(|_| 40.0 * random.real()).collect(), shape }
            }
        });
        let inputs: Vec<Tensor> = tensors.collect();
        let want = oracle::evaluate(&k.graph, &extents, &inputs);
        for program in search(&k).algorithms.iter().flat_map(|a| programs_with(&third_frame::TABLE, 0, &a.graph, &[])) {
            seen |= program.to_string().contains("whole shift");
            for pieces in [1, 3] {
                let settings = Settings { tile: &|_, _| 4, pieces, arithmetic: Arithmetic::Double, types: None };
                let (got, _) = run(&program, &extents, &inputs, &settings);
                for (g, w) in got.iter().zip(&want).flat_map(|(g, w)| g.values.iter().zip(&w.values)) {
                    assert!(g == w || (g - w).abs() <= 1e-9 * w.abs().max(1.0), "{g} instead of {w}\n{program}")
                }
            }
        }
    }
    assert!(seen)
}

#[test]
fn the_duties_of_a_third_frame_are_those_of_its_gauge() {
    let names = |row| duties(row).iter().map(|d| d.name).collect::<Vec<_>>();
    assert_eq!(names(&third_frame::WHOLE), names(&SHIFT));
    assert_ne!(names(&third_frame::WHOLE), names(&TRANSLATION))
}
