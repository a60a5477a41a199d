//! The CPU executor on every program of the scheduler's corpus, against the oracle.
#[allow(dead_code)]
#[path = "../../../cleave-core/tests/schedule/kernels.rs"]
mod kernels;
mod memory;
#[path = "../../../cleave-core/tests/support/third_frame.rs"]
mod third_frame;

use cleave_core::dtype::DType;
use cleave_core::extent;
use cleave_core::graph::{Factor, Op};
use cleave_core::oracle::{self, Tensor};
use cleave_core::plan::Tiles;
use cleave_core::schedule::{programs, programs_with};
use cleave_core::tile::{Part, Program};
use cleave_core::traffic::{Case, traffic};
use cleave_runtime::cpu::{Argument, Decoded, ExecuteError, Tensors};
use kernels::Kernel;
use memory::{Layout, Memory, round};

/// The same tile length for every dim.
fn tiles(program: &Program, length: u32) -> Tiles {
    program.launches.iter().map(|l| l.iter().map(|p| vec![length; p.dims.len()]).collect()).collect()
}

/// Values of a kernel's inputs: uniform in -1..1, `scale` an amplitude, tables between 0 and the cache's extent; rounded to the type.
fn inputs(k: &Kernel, extents: &[i64], amplitude: f64, seed: u64, dtype: DType) -> Vec<Tensor> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let tensors = k.graph.inputs.iter().map(|input| {
        let shape = extent::shape(&input.storage, extents);
        let count = shape.iter().product::<i64>();
        let values = (0..count).map(|_| match input.name.as_str() {
            "len" => (uniform() * (extents[4] + 1) as f64).floor(),
            "scale" => 0.5 * amplitude,
            "x" | "sink" if amplitude > 1.0 => round(input.element.resolve(&[dtype]), amplitude * (2.0 * uniform() - 1.0)),
            _ => round(input.element.resolve(&[dtype]), 2.0 * uniform() - 1.0),
        });
        Tensor { values: values.collect(), shape }
    });
    let mut tensors: Vec<Tensor> = tensors.collect();
    // rows of a cache past its length hold NaN
    if let Some(len) = k.graph.inputs.iter().position(|i| i.name == "len") {
        let lengths = tensors[len].values.clone();
        for cache in [1, 2] {
            let (heads, rows, width) = (extents[1], extents[4], tensors[cache].shape[3]);
            for (i, x) in tensors[cache].values.iter_mut().enumerate() {
                let row = i as i64 / width;
                if row % rows >= lengths[(row / rows / heads) as usize] as i64 {
                    *x = f64::NAN
                }
            }
        }
    }
    tensors
}

/// Runs a program on tensors that lie in memory as `layout` says.
#[expect(clippy::too_many_arguments, reason = "a case of the test has so many coordinates")]
fn run(
    k: &Kernel,
    program: &Program,
    decoded: &Decoded,
    tile: u32,
    pieces: usize,
    dtype: DType,
    extents: &[i64],
    inputs: &[Tensor],
    layout: Layout,
) -> Vec<Tensor> {
    let graph = &k.graph;
    let mut memories: Vec<Option<Memory>> =
        graph.inputs.iter().zip(inputs).map(|(i, t)| (!t.shape.is_empty()).then(|| Memory::of(t, i.element.resolve(&[dtype]), layout))).collect();
    let mut outputs: Vec<Memory> =
        graph.outputs.iter().map(|o| Memory::empty(extent::shape(&o.storage, extents), o.element.resolve(&[dtype]), layout)).collect();
    let arguments: Vec<Argument> = memories
        .iter_mut()
        .zip(inputs)
        .map(|(m, t)| match m {
            Some(m) => Argument::Tensor(m.storage()),
            None => Argument::Float(t.values[0] as f32),
        })
        .collect();
    let stores: Vec<_> = outputs.iter_mut().map(|m| m.storage()).collect();
    decoded.run(&tiles(program, tile), pieces, extents, &Tensors { inputs: &arguments, outputs: &stores }).expect("a program of the corpus runs");
    outputs.iter().map(|m| m.read()).collect()
}

/// The largest difference, in units of the largest magnitude of the reference (at least 1).
fn difference(got: &Tensor, want: &Tensor) -> f64 {
    let scale = want.values.iter().filter(|x| x.is_finite()).fold(1f64, |m, x| m.max(x.abs()));
    let each = got.values.iter().zip(&want.values).map(|(x, y)| match x {
        x if x == y || x.is_nan() && y.is_nan() => 0.0,
        x if x.is_finite() && y.is_finite() => (x - y).abs() / scale,
        _ => f64::INFINITY,
    });
    each.fold(0.0, f64::max)
}

/// The main extents, larger ones, all 1, and each axis at 0 and at 1.
fn shapes(k: &Kernel) -> Vec<Vec<i64>> {
    // kernels of many axes grow less
    let more = |n: &i64| if k.extents.len() > 4 { n + 1 } else { n * 3 / 2 + 1 };
    let mut shapes = vec![k.extents.clone(), k.extents.iter().map(more).collect(), vec![1; k.extents.len()]];
    for axis in 0..k.extents.len() {
        for n in [0, 1] {
            let mut e = k.extents.clone();
            e[axis] = n;
            shapes.push(e)
        }
    }
    // a tensor that is read under other axes gives them its extents
    for e in &mut shapes {
        for n in &k.graph.nodes {
            let Op::Input { input, access } = &n.op else { continue };
            for (read, stored) in access.dims.iter().flatten().zip(k.graph.input(*input).storage.dims.iter().flatten()) {
                if let (Factor::Axis(a), Factor::Axis(b)) = (read, stored) {
                    e[a.0 as usize] = e[b.0 as usize]
                }
            }
        }
    }
    shapes
}

/// Every program of a kernel over shapes, tiles and amplitudes; types, layouts and splits take turns, so that each meets each.
fn check(k: &Kernel, programs: &[Program]) {
    let types = [DType::F32, DType::F16, DType::BF16];
    let decoded = types.map(|t| programs.iter().map(|p| Decoded::new(p, &[t]).expect("a program of the corpus decodes")).collect::<Vec<_>>());
    let layouts = [Layout::Dense, Layout::Gaps, Layout::Reversed];
    let mut turn = 0;
    for (i, extents) in shapes(k).iter().enumerate() {
        let lengths: &[u32] = if i == 0 { &[1, 3, 4, 64] } else { &[3, 64] };
        let cases = [(1.0, DType::F32), (1e4, DType::F32), (1.0, DType::F16), (1.0, DType::BF16)];
        // the oracle takes its time: shapes with an axis at 0 or 1 take turns
        for (amplitude, dtype) in if i < 2 { cases.to_vec() } else { vec![cases[i % 4]] } {
            let inputs = inputs(k, extents, amplitude, i as u64 + 7, dtype);
            let want = oracle::evaluate(k.reference.as_ref().unwrap_or(&k.graph), extents, &inputs);
            let decoded = &decoded[types.iter().position(|t| *t == dtype).unwrap_or(0)];
            for ((program, decoded), &tile) in programs.iter().zip(decoded).flat_map(|p| lengths.iter().map(move |t| (p, t))) {
                turn += 1;
                let (layout, pieces) = (layouts[turn % 3], [1, 2, 5, 1][turn / 3 % 4]);
                let got = run(k, program, decoded, tile, pieces, dtype, extents, &inputs, layout);
                let exact = 3e-5 * if k.name.contains("attention") { amplitude } else { 1.0 };
                let bound = exact + if dtype == DType::F32 { 0.0 } else { dtype.epsilon() };
                for ((g, w), o) in got.iter().zip(&want).zip(&k.graph.outputs) {
                    let stored = Tensor { values: w.values.iter().map(|x| if x.abs() > 6e4 { round(dtype, *x) } else { *x }).collect(), ..w.clone() };
                    let d = difference(g, &stored);
                    assert!(
                        d <= bound,
                        "{} `{}`: `{}` is off by {d:e} at {extents:?}, {dtype}, tile {tile}, {pieces} pieces, amplitude {amplitude}, {layout:?}\n{program}\n{:?}\n{:?}",
                        k.name,
                        program.name,
                        o.name,
                        g.values,
                        w.values
                    )
                }
            }
        }
    }
}

macro_rules! equal_the_oracle {
    ($($kernel:ident)*) => {
        /// Each kernel's programs equal the oracle.
        mod programs_equal_the_oracle {
            $(#[test]
            fn $kernel() {
                let k = super::kernels::all().into_iter().find(|k| k.name == stringify!($kernel)).expect("a kernel of the corpus");
                super::check(&k, &super::programs(0, &k.graph, &k.bounds))
            })*
        }

        #[test]
        fn every_kernel_of_the_corpus_is_tested() {
            let names: Vec<_> = kernels::all().iter().map(|k| k.name).collect();
            assert_eq!(names, [$(stringify!($kernel)),*])
        }
    };
}
equal_the_oracle! {
    attention attention_source attention_unmasked matmul norm_qkv project norm_swiglu down norm_logits norm_logits_source
    rms_norm softmax softmax_source logsumexp two_products two_products_right row_sum row_sum_source
    gated_layer low_rank window_and_prefix sink one_more one_more_masked two_axes participation latent
}

#[test]
fn a_third_frame_reaches_the_executor_by_its_row() {
    for k in kernels::all().into_iter().filter(|k| ["attention", "logsumexp", "sink"].contains(&k.name)) {
        let programs = programs_with(&third_frame::TABLE, 0, &k.graph, &k.bounds);
        assert!(programs[0].to_string().contains("whole shift"), "{}", programs[0]);
        check(&k, &programs)
    }
}

/// The cost model is told the lengths that tables hold; it then counts every loop's domain as the executor runs it.
#[test]
fn loads_that_the_executor_makes_are_those_that_the_cost_model_counts() {
    const LENGTH: i64 = 3;
    for k in kernels::all() {
        let mut inputs = inputs(&k, &k.extents, 1.0, 11, DType::F32);
        let tables = k.graph.inputs.iter().zip(&mut inputs).filter(|i| i.0.element.resolve(&[DType::F32]) == DType::I32);
        tables.for_each(|(_, tensor)| tensor.values.fill(LENGTH as f64));
        for (program, (tile, pieces)) in programs(0, &k.graph, &k.bounds).iter().flat_map(|p| [(3, 1), (64, 1), (3, 2)].map(|c| (p, c))) {
            let decoded = Decoded::new(program, &[DType::F32]).expect("a program of the corpus decodes");
            run(&k, program, &decoded, tile, pieces, DType::F32, &k.extents, &inputs, Layout::Dense);
            let loads = |part: &Part| {
                let tiles = part.even_tiles(&vec![tile; part.dims.len()], &k.extents);
                let pieces = if part.split { pieces as u32 } else { 1 };
                let table = |_: &_| Some((LENGTH, LENGTH));
                traffic(part, &Case { extents: &k.extents, tiles: &tiles, pieces, padded: false, types: &[DType::F32], table: &table }).loads
            };
            let counted: f64 = program.launches.iter().flatten().map(loads).sum();
            assert!(
                (decoded.loaded() as f64 - counted).abs() < 0.5,
                "{} `{}`, tile {tile}, {pieces} pieces: {} loads, {counted} counted\n{program}",
                k.name,
                program.name,
                decoded.loaded()
            )
        }
    }
}

#[test]
fn attention_takes_no_memory_that_grows_with_the_scores() {
    let k = kernels::all().into_iter().find(|k| k.name == "attention").expect("attention");
    let programs = programs(0, &k.graph, &k.bounds);
    // b k g m n d e
    let extents = |length: i64| [1, 1, 1, length, length, 64, 64];
    // the first program reads keys and values once, against the running state of a tile of rows
    let program = &programs[0];
    for entry in cleave_core::emit::cpu::entries(&programs).iter().filter(|e| e.program == 0) {
        let decoded = Decoded::new(program, &[DType::F32]).expect("it decodes");
        let bytes = |length| decoded.prepare(&entry.tiles, 1, &extents(length)).expect("it fits").bytes(2);
        assert_eq!(bytes(4_096), bytes(65_536), "`{}`", program.name);
        assert!(bytes(65_536) < 2 << 20, "`{}`: {} bytes", program.name, bytes(65_536))
    }
}

#[test]
fn a_call_that_does_not_fit_is_an_error() {
    let k = kernels::all().into_iter().find(|k| k.name == "softmax").expect("softmax");
    let program = &programs(0, &k.graph, &k.bounds)[0];
    let decoded = Decoded::new(program, &[DType::F32]).expect("it decodes");
    let mut x = Memory::empty(vec![1, 2, 3], DType::F16, Layout::Dense);
    let mut y = Memory::empty(vec![1, 2, 3], DType::F32, Layout::Dense);
    let none = Tensors { inputs: &[], outputs: &[] };
    assert!(matches!(decoded.run(&tiles(program, 4), 1, &[1, 2, 3], &none), Err(ExecuteError::Count { what: "inputs", .. })));
    let (x, y) = (Argument::Tensor(x.storage()), y.storage());
    let call = Tensors { inputs: &[x], outputs: &[y] };
    assert!(matches!(decoded.run(&tiles(program, 4), 1, &[1, 2, 3], &call), Err(ExecuteError::Type { .. })));
    assert!(matches!(decoded.run(&tiles(program, 4), 1, &[1, 2], &call), Err(ExecuteError::Extents)));
    assert!(matches!(Decoded::new(&Program::default(), &[]), Err(ExecuteError::Empty)))
}
