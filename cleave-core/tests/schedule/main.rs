//! Tile programs of hand-built kernels: their text, and what they compute, against the oracle.
#![cfg(feature = "compiler")]
mod kernels;

use cleave_core::dtype::DType;
use cleave_core::extent;
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

/// `UPDATE=1` rewrites the files.
#[test]
fn tile_programs_are_those_of_the_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedule/snapshots");
    let mut wrong = vec![];
    for k in kernels::all() {
        let file = folder.join(format!("{}.txt", k.name));
        let text = printed(&k);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(&folder).expect("a folder for snapshots");
            std::fs::write(&file, &text).expect("a snapshot can be written")
        }
        if std::fs::read_to_string(&file).ok().as_deref() != Some(&text) {
            wrong.push(k.name)
        }
    }
    assert!(wrong.is_empty(), "differ from their snapshots (UPDATE=1 rewrites them): {wrong:?}");
}

/// Values of a kernel's inputs: uniform in -1..1, `scale` an amplitude, tables between 0 and the cache's extent.
fn inputs(k: &kernels::Kernel, extents: &[i64], amplitude: f64, seed: u64) -> Vec<Tensor> {
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
            "x" if amplitude > 1.0 => (amplitude * (2.0 * uniform() - 1.0)) as f32 as f64,
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
    let mut shapes = vec![k.extents.clone(), k.larger.clone(), vec![1; k.extents.len()]];
    for axis in 0..k.extents.len() {
        for n in [0, 1] {
            let mut e = k.extents.clone();
            e[axis] = n;
            shapes.push(e)
        }
    }
    shapes
}

/// Runs every program of a kernel in both arithmetics over shapes, tiles, splits and amplitudes; gives the number of runs.
fn check(k: &kernels::Kernel) -> usize {
    let mut runs = 0;
    let programs = programs(0, &k.graph, &k.bounds);
    for (i, extents) in shapes(k).iter().enumerate() {
        let tiles: &[i64] = if i == 0 { &[1, 3, 4, 64] } else { &[3, 64] };
        for amplitude in if i < 2 { &[1.0, 1e4][..] } else { &[1.0] }.iter().copied() {
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
        let case = Case { extents, tiles: &tiles, pieces: 1, types: &[DType::F32], table: &|_| Some((length, length)) };
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
                // a packed dim of which a mask sees one axis is not linear in the tile's position
                let packs_mask = program.launches.iter().flatten().any(|p| p.dims.iter().any(|d| d.axes.len() > 1));
                if masked.is_some() && packs_mask && tile < 64 {
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

#[test]
fn print_pipeline() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/pass");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    for f in files {
        let text = std::fs::read_to_string(&f).unwrap();
        for k in cleave_core::frontend::from_source(&text).unwrap_or_else(|e| panic!("{}", e.render(&text))) {
            let start = std::time::Instant::now();
            let search = cleave_core::algebra::search(&k);
            let found = start.elapsed();
            println!("######## {} search {found:?}", k.name);
            for a in &search.algorithms {
                let start = std::time::Instant::now();
                let ps = programs(0, &a.graph, &k.bounds);
                println!("#### {}: {}  ({} programs in {:?})", k.name, a.name, ps.len(), start.elapsed());
                for p in ps {
                    println!("{p}")
                }
            }
        }
    }
}
