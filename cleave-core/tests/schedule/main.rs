//! Tile programs of hand-built kernels: their text, and what they compute, against the oracle.
#![cfg(feature = "compiler")]
mod kernels;

use cleave_core::dtype::{DType, Element};
use cleave_core::extent;
use cleave_core::graph::{Factor, Op};
use cleave_core::kernel::{Algorithm, Kernel};
use cleave_core::oracle::{self, Tensor};
use cleave_core::schedule::interpret::{self, Arithmetic, Settings};
use cleave_core::schedule::programs;
use cleave_core::tile::{Part, Program};
use cleave_core::traffic::{Case, traffic};
use std::path::Path;

/// The text of a kernel's programs.
fn printed(k: &kernels::Kernel) -> String {
    programs(0, &k.graph, &k.bounds).iter().map(|p| p.to_string()).collect::<Vec<_>>().join("\n")
}

/// Whether a text differs from its snapshot; `UPDATE=1` rewrites that first.
fn differs(folder: &Path, name: &str, text: &str) -> bool {
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(folder).expect("a folder for snapshots");
        std::fs::write(&file, text).expect("a snapshot can be written")
    }
    std::fs::read_to_string(&file).ok().as_deref() != Some(text)
}

/// A generator of numbers in 0..1, the same in every run.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn tile_programs_are_those_of_the_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedule/snapshots");
    let wrong: Vec<&str> = kernels::all().iter().filter(|k| differs(&folder, k.name, &printed(k))).map(|k| k.name).collect();
    assert!(wrong.is_empty(), "differ from their snapshots (UPDATE=1 rewrites them): {wrong:?}");
}

/// Values of a kernel's inputs: uniform in -1..1, `scale` an amplitude, tables between 0 and the cache's extent.
fn inputs(k: &kernels::Kernel, extents: &[i64], amplitude: f64, seed: u64) -> Vec<Tensor> {
    let mut uniform = random(seed);
    let tensors = k.graph.inputs.iter().map(|input| {
        let shape = extent::shape(&input.storage, extents);
        let count = shape.iter().product::<i64>();
        let values = (0..count).map(|_| match input.name.as_str() {
            "len" => (uniform() * (extents[4] + 1) as f64).floor(),
            "scale" => 0.5 * amplitude,
            "x" | "sink" if amplitude > 1.0 => (amplitude * (2.0 * uniform() - 1.0)) as f32 as f64,
            _ => (2.0 * uniform() - 1.0) as f32 as f64,
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
fn shapes(k: &kernels::Kernel) -> Vec<Vec<i64>> {
    // a tensor read under other axes gives them its extents
    let fits = |e: &Vec<i64>| {
        k.graph.nodes.iter().all(|n| match &n.op {
            Op::Input { input, access } => extent::shape(access, e) == extent::shape(&k.graph.input(*input).storage, e),
            _ => true,
        })
    };
    let mut shapes = vec![k.extents.clone(), k.larger.clone(), vec![1; k.extents.len()]];
    for axis in 0..k.extents.len() {
        for n in [0, 1] {
            let mut e = k.extents.clone();
            e[axis] = n;
            shapes.push(e)
        }
    }
    shapes.retain(fits);
    shapes
}

/// Runs every program of a kernel in both arithmetics over shapes, tiles, splits and amplitudes; gives the number of runs.
fn check(k: &kernels::Kernel) -> usize {
    let mut runs = 0;
    let programs = programs(0, &k.graph, &k.bounds);
    for (i, extents) in shapes(k).iter().enumerate() {
        let tiles: &[i64] = if i == 0 { &[1, 3, 4, 64] } else { &[3, 64] };
        // large values at empty axes too: what stands beside an empty sum is all there is
        for amplitude in if i < 2 || extents.contains(&0) { &[1.0, 1e4][..] } else { &[1.0] }.iter().copied() {
            let inputs = inputs(k, extents, amplitude, i as u64 + 7);
            let want = oracle::evaluate(k.reference.as_ref().unwrap_or(&k.graph), extents, &inputs);
            let cases = tiles.iter().flat_map(|t| [1, 2, 5].map(|s| (*t, s))).flat_map(|(t, s)| [Arithmetic::Double, Arithmetic::Single].map(|a| (t, s, a)));
            // beside the first shapes each case once: small tiles split in five, one tile whole
            let is_kept = |c: &(i64, usize, Arithmetic)| i < 2 || (c.0 == 3) == (c.1 == 5) && c.1 != 2 && c.2 == Arithmetic::Double;
            for (program, (tile, pieces, arithmetic)) in cases.filter(is_kept).flat_map(|c| programs.iter().map(move |p| (p, c))) {
                let settings = Settings { tile: &|_, _| tile, pieces, arithmetic, types: None };
                let (got, _) = interpret::run(program, extents, &inputs, &settings);
                let bound = if arithmetic == Arithmetic::Single { 3e-5 } else { 1e-11 } * if k.name.contains("attention") { amplitude } else { 1.0 };
                for ((g, w), o) in got.iter().zip(&want).zip(&k.graph.outputs) {
                    let d = difference(g, w);
                    assert!(
                        d <= bound,
                        "{} `{}`: `{}` is off by {d:e} at {extents:?}, tile {tile}, {pieces} pieces, amplitude {amplitude}, {arithmetic:?}\n{program}\n{:?}\n{:?}",
                        k.name,
                        program.name,
                        o.name,
                        g.values,
                        w.values
                    )
                }
                runs += 1
            }
        }
    }
    runs
}

fn check_named(names: &[&str]) {
    for k in kernels::all().into_iter().filter(|k| names.contains(&k.name)) {
        println!("{}: {} runs equal the oracle", k.name, check(&k))
    }
}

#[test]
fn attention_equals_the_oracle() {
    check_named(&["attention", "attention_source", "attention_unmasked"])
}

#[test]
fn projections_equal_the_oracle() {
    check_named(&["matmul", "norm_qkv", "project", "norm_swiglu", "down", "norm_logits", "norm_logits_source"])
}

#[test]
fn nests_masks_and_frames_equal_the_oracle() {
    check_named(&["gated_layer", "low_rank", "window_and_prefix", "two_axes", "participation", "latent"])
}

#[test]
fn a_sink_of_any_size_stays_finite() {
    check_named(&["sink"])
}

#[test]
fn a_term_beside_the_sums_of_any_size_stays_finite() {
    check_named(&["one_more", "one_more_masked"])
}

#[test]
fn row_kernels_equal_the_oracle() {
    check_named(&["rms_norm", "softmax", "softmax_source", "logsumexp"])
}

#[test]
fn products_of_products_equal_the_oracle() {
    check_named(&["two_products", "two_products_right", "row_sum", "row_sum_source"])
}

/// Loads of a program as modelled, where every table has one value.
fn modelled(k: &kernels::Kernel, program: &Program, extents: &[i64], tile: i64, length: i64) -> f64 {
    let part = |p: &Part| {
        let tiles: Vec<u32> = p.dims.iter().map(|_| tile as u32).collect();
        let case = Case { extents, tiles: &tiles, pieces: 1, padded: false, types: &[DType::F32], table: &|_| Some((length, length)) };
        traffic(p, &case).loads
    };
    assert!(k.graph.axes.len() == extents.len());
    program.launches.iter().flatten().map(part).sum()
}

#[test]
fn loads_that_the_interpreter_counts_are_those_of_the_model() {
    let mut compared = 0;
    for k in kernels::all() {
        let programs = programs(0, &k.graph, &k.bounds);
        for extents in shapes(&k) {
            let mut inputs = inputs(&k, &extents, 1.0, 3);
            let masked = k.graph.inputs.iter().position(|i| i.name == "len");
            let length = extents.get(4).map_or(0, |n| n - n / 3);
            if let Some(len) = masked {
                inputs[len].values.fill(length as f64)
            }
            for (program, tile) in programs.iter().flat_map(|p| [3, 64].map(|t| (p, t))) {
                // a mask makes the model a sample: exact with three tiles of rows at most, of rows that are not packed
                let packs = program.launches.iter().flatten().any(|p| p.dims.iter().any(|d| d.axes.len() > 1));
                let rows = k.graph.all_axes().find(|a| k.graph.axis(*a) == "m").map_or(0, |a| extents[a.0 as usize]);
                if !k.graph.predicates.is_empty() && tile < 64 && (packs || rows > 3 * tile) {
                    continue;
                }
                let settings = Settings { tile: &|_, _| tile, pieces: 1, arithmetic: Arithmetic::Double, types: None };
                let (_, counts) = interpret::run(program, &extents, &inputs, &settings);
                assert_eq!(counts.loads as f64, modelled(&k, program, &extents, tile, length), "{} at {extents:?}, tile {tile}\n{program}", k.name);
                compared += 1
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// The corpus of the front end, with the algorithms that the search finds.
fn corpus() -> Vec<(Kernel, Vec<Algorithm>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/pass");
    let files = std::fs::read_dir(folder).expect("the corpus").map(|f| f.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    let texts = files.iter().map(|f| std::fs::read_to_string(f).expect("a kernel's text"));
    let kernels = texts.flat_map(|t| cleave_core::frontend::from_source(&t).unwrap_or_else(|e| panic!("{}", e.render(&t))));
    kernels.map(|k| (cleave_core::algebra::search(&k).algorithms, k)).map(|(a, k)| (k, a)).collect()
}

#[test]
fn programs_of_searched_kernels_are_those_of_the_snapshots_and_equal_the_oracle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedule/corpus");
    let mut wrong = vec![];
    for (k, algorithms) in corpus() {
        let mut text = String::new();
        let mut extents: Vec<i64> = (0..k.graph.axes.len()).map(|i| [3, 2, 5, 4, 7, 3, 6][i % 7]).collect();
        // a tensor that is read under other axes gives them its extents
        for n in &k.graph.nodes {
            let Op::Input { input, access } = &n.op else { continue };
            for (read, stored) in access.dims.iter().flatten().zip(k.graph.input(*input).storage.dims.iter().flatten()) {
                if let (Factor::Axis(a), Factor::Axis(b)) = (read, stored) {
                    extents[a.0 as usize] = extents[b.0 as usize]
                }
            }
        }
        let mut random = random(11);
        let tensors = k.graph.inputs.iter().map(|input| {
            let shape = extent::shape(&input.storage, &extents);
            let count = shape.iter().product::<i64>();
            let whole = input.element == Element::Type(DType::I32);
            let values = (0..count).map(|_| if whole { (random() * 4.0).floor() } else { random() + 0.1 });
            Tensor { values: values.collect(), shape }
        });
        let inputs: Vec<Tensor> = tensors.collect();
        let want = oracle::evaluate(&k.graph, &extents, &inputs);
        for (i, a) in algorithms.iter().enumerate() {
            text += &format!("==== {}\n", a.name);
            for program in programs(i as u32, &a.graph, &k.bounds) {
                text += &format!("{program}\n");
                for (tile, pieces) in [(2, 1), (3, 3), (64, 1)] {
                    let settings = Settings { tile: &|_, _| tile, pieces, arithmetic: Arithmetic::Double, types: None };
                    let (got, _) = interpret::run(&program, &extents, &inputs, &settings);
                    for ((g, w), o) in got.iter().zip(&want).zip(&k.graph.outputs) {
                        let d = difference(g, w);
                        assert!(
                            d <= 1e-9,
                            "{} {}: `{}` is off by {d:e}, tile {tile}, {pieces} pieces\n{program}\n{:?}\n{:?}",
                            k.name,
                            a.name,
                            o.name,
                            g.values,
                            w.values
                        )
                    }
                }
            }
        }
        if differs(&folder, &k.name, &text) {
            wrong.push(k.name)
        }
    }
    assert!(wrong.is_empty(), "differ from their snapshots (UPDATE=1 rewrites them): {wrong:?}");
}

/// The text of every program of every algorithm of a kernel's source.
fn scheduled(source: &str) -> Vec<String> {
    let k = cleave_core::frontend::from_source(source).unwrap_or_else(|e| panic!("{}", e.render(source))).remove(0);
    let algorithms = cleave_core::algebra::search(&k).algorithms;
    algorithms.iter().flat_map(|a| programs(0, &a.graph, &k.bounds)).map(|p| p.to_string()).collect()
}

fn kernel_text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kernels/pass/{name}.rs"));
    std::fs::read_to_string(file).expect("a kernel's text")
}

/// Every order that turns the arguments of a kernel around or shifts them.
fn permuted(source: &str) -> Vec<String> {
    let start = source.find("<T>(").expect("a generic kernel") + 4;
    let end = start + source[start..].find(") ->").expect("a result");
    let arguments: Vec<&str> = source[start..end].lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert!(arguments.len() > 1, "one argument a line: {arguments:?}");
    let with = |order: Vec<&str>| format!("{}\n{}\n{}", &source[..start], order.join("\n"), &source[end..]);
    let shifted = (1..arguments.len()).map(|k| [&arguments[k..], &arguments[..k]].concat());
    shifted.chain([arguments.iter().rev().copied().collect()]).map(with).collect()
}

#[test]
fn permuted_arguments_leave_tile_programs_the_same() {
    for name in ["attention", "norm_qkv", "norm_swiglu"] {
        let source = kernel_text(name);
        let want = scheduled(&source);
        for text in permuted(&source) {
            let got = scheduled(&text);
            for (g, w) in got.iter().zip(&want) {
                assert_eq!(g, w, "{text}")
            }
            assert_eq!(got.len(), want.len());
        }
    }
}

#[test]
fn a_composite_and_its_expansion_have_the_same_tile_programs() {
    let with = |body: &str| scheduled(&format!("#[cleave::kernel]\nfn k(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ {body} }}"));
    let composite = with("softmax::<N>(x)");
    assert_eq!(composite, with("let e = exp(x - max::<N>(x)); e / sum::<N>(e)"));
    // the source without the maximum is another source; its programs are among the composite's
    for program in with("exp(x) / sum::<N>(exp(x))") {
        assert!(composite.contains(&program), "{program}")
    }
}
