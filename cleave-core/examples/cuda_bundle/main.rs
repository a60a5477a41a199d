//! Writes what a machine with a GPU needs to check and time the emitted kernels without Rust: sources, inputs and expected
//! outputs as raw data, and a manifest with every launch resolved. `driver.py` beside this file runs it.
//!
//!     cargo run -p cleave-core --features compiler --example cuda_bundle -- <folder> [kernel] [sources|variants|memory|all] [sm_80|sm_90a]
//!
//! An empty kernel means all. With `sources` it writes those alone; with `variants` the placements of compute capability 9.0 under several choices of tiles, of the
//! kernels that are compute bound; with `memory` the kernels that are memory bound, under plans beside those of the menu.
mod memory;
mod variants;

#[path = "../../tests/support/mod.rs"]
mod support;
use cleave_core::device::Target;
use cleave_core::dtype::DType;
use cleave_core::emit::{self, Emission};
use cleave_core::kernel::Kernel;
use cleave_core::plan::Entry;
use cleave_core::tile::Program;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use support::{Placed, Problem, Resolved};

type Named = Vec<(&'static str, i64)>;

/// Shapes that the oracle checks: extents by name, and lengths.
fn checks(kernel: &Kernel) -> Vec<(Named, Vec<i64>)> {
    let has = |n: &str| kernel.graph.axes.iter().any(|a| a.name == n);
    let names: Vec<&'static str> = kernel.graph.axes.iter().map(|a| &*Box::leak(a.name.clone().into_boxed_str())).collect();
    if has("N") && has("D") && has("E") {
        let mut all = vec![];
        for d in [64, 80, 128] {
            for (n, m, k) in [(1, 1, 2), (63, 5, 1), (65, 3, 1), (1025, 1, 1)] {
                all.push((vec![("B", 1 + (n < 100) as i64), ("K", k), ("G", 2), ("H", 2), ("M", m), ("N", n + 7), ("D", d), ("E", d)], vec![n, (n + 1) / 2]))
            }
        }
        all.push((vec![("B", 1), ("K", 1), ("G", 1), ("H", 1), ("M", 150), ("N", 150), ("D", 33), ("E", 50)], vec![150]));
        all.push((vec![("B", 1), ("K", 1), ("G", 1), ("H", 1), ("M", 20), ("N", 40), ("D", 256), ("E", 256)], vec![33]));
        all.push((vec![("B", 1), ("K", 1), ("G", 1), ("H", 2), ("M", 3), ("N", 4), ("D", 300), ("E", 270)], vec![2]));
        all.push((vec![("B", 2), ("K", 1), ("G", 2), ("H", 2), ("M", 3), ("N", 5), ("D", 8), ("E", 8)], vec![0, 2]));
        return all;
    }
    let each = |f: &dyn Fn(usize) -> i64| -> Named { names.iter().enumerate().map(|(i, n)| (*n, f(i))).collect() };
    if names.len() > 6 {
        return vec![(each(&|i| [5, 16, 33, 2, 9, 3][i % 6]), vec![1]), (each(&|i| [17, 64, 16, 1, 2, 8][i % 6]), vec![1]), (each(&|_| 1), vec![1])];
    }
    if names.len() < 3 {
        let rows = [(5, 70), (3, 24), (2, 4104), (9, 1024), (3, 1100), (4, 8192), (1, 17416), (1, 1), (3, 0), (7, 3), (40, 513), (3, 16392)];
        return rows.into_iter().map(|(m, n)| (each(&|i| if i == 0 { m } else { n }), vec![1])).collect();
    }
    vec![
        (each(&|i| [5, 70, 33, 19, 2, 9][i % 6]), vec![1]),
        (each(&|i| [3, 16, 8, 19, 2, 9][i % 6]), vec![1]),
        (each(&|i| [2, 2056, 5, 4, 3, 6][i % 6]), vec![1]),
        (each(&|i| [1, 4096, 3, 4, 2, 7][i % 6]), vec![1]),
        (each(&|i| [70, 65, 40, 24, 3, 20][i % 6]), vec![1]),
        (each(&|i| [1, 160, 32, 16, 4, 64][i % 6]), vec![1]),
        (each(&|_| 1), vec![1]),
        (each(&|i| if i == 1 { 0 } else { 3 }), vec![1]),
    ]
}

/// Shapes to time in bf16, with the name of the workload.
fn timings(kernel: &Kernel) -> Vec<(&'static str, Named, Vec<i64>)> {
    let attention = |b, k, g, m, n, d| vec![("B", b), ("K", k), ("H", k * g), ("G", g), ("M", m), ("N", n), ("D", d), ("E", d)];
    match kernel.name.as_str() {
        "attention" => vec![
            ("prefill causal B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128), vec![4096]),
            ("prefill causal B1 S16384 H16 D128", attention(1, 16, 1, 16384, 16384, 128), vec![16384]),
            ("prefill causal B4 S4096 H32/8 D128", attention(4, 8, 4, 4096, 4096, 128), vec![4096]),
            ("prefill causal B4 S4096 H32 D64", attention(4, 32, 1, 4096, 4096, 64), vec![4096]),
        ],
        "attention_full" => vec![
            ("prefill full B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128), vec![4096]),
            ("prefill full B1 S16384 H16 D128", attention(1, 16, 1, 16384, 16384, 128), vec![16384]),
        ],
        "matmul" => vec![
            ("matmul 4096^3", vec![("M", 4096), ("K", 4096), ("J", 4096), ("N", 4096)], vec![1]),
            ("matmul 8192^3", vec![("M", 8192), ("K", 8192), ("J", 8192), ("N", 8192)], vec![1]),
            ("matmul 16x4096x4096", vec![("M", 16), ("K", 4096), ("J", 4096), ("N", 4096)], vec![1]),
            ("matmul 1x4096x4096", vec![("M", 1), ("K", 4096), ("J", 4096), ("N", 4096)], vec![1]),
        ],
        "norm_swiglu" => vec![("rmsnorm swiglu 4096->14336 b4096", vec![("M", 4096), ("C", 4096), ("J", 14336)], vec![1])],
        _ => vec![],
    }
}

fn tensor_json(p: &Placed, fill: &str) -> String {
    let list = |v: &[i64]| v.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"name":"{}","dtype":"{}","shape":[{}],"strides":[{}],"bytes":{},"fill":"{fill}"}}"#,
        p.name,
        p.dtype,
        list(&p.shape),
        list(&p.strides),
        p.elements * p.dtype.bytes()
    )
}

#[allow(clippy::too_many_arguments)]
fn case(
    out: &mut impl std::io::Write,
    kernel: &Kernel,
    program: &Program,
    entry: &Entry,
    source: &str,
    name: &str,
    what: &str,
    problem: &Problem,
    files: Option<&str>,
    splits: u64,
) {
    let plan = support::plan(kernel, program, entry, problem, splits);
    let mut buffers: Vec<String> = vec![];
    for (i, p) in problem.inputs.iter().enumerate() {
        let fill = match files {
            Some(f) => format!("{f}_in{i}.bin"),
            None if problem.values[i].is_empty() => "random".into(),
            None => format!("value {}", problem.values[i][0]),
        };
        buffers.push(tensor_json(p, &fill))
    }
    buffers.extend(problem.outputs.iter().map(|p| tensor_json(p, "nan")));
    buffers.extend(
        plan.extra
            .iter()
            .map(|(n, zero)| format!(r#"{{"name":"","dtype":"f32","shape":[],"strides":[],"bytes":{n},"fill":"{}"}}"#, if *zero { "zero" } else { "nan" })),
    );
    let launches: Vec<String> = plan
        .launches
        .iter()
        .map(|l| {
            let words: Vec<String> = l
                .words
                .iter()
                .map(|w| match w {
                    Resolved::Address(b) => format!(r#"["a",{b}]"#),
                    Resolved::Value(v) => format!(r#"["v",{v}]"#),
                })
                .collect();
            let maps: Vec<String> = l
                .maps
                .iter()
                .map(|m| {
                    let dims: Vec<String> = m.dims.iter().map(|(size, stride, length)| format!("[{size},{stride},{length}]")).collect();
                    format!(r#"{{"buffer":{},"first":{},"dtype":"{}","dims":[{}]}}"#, m.buffer, m.first, m.dtype, dims.join(","))
                })
                .collect();
            format!(
                r#"{{"symbol":"{}","blocks":{},"persistent":{},"threads":{},"shared":{},"maps":[{}],"words":[{}]}}"#,
                l.symbol,
                l.blocks,
                l.persistent,
                l.threads,
                l.shared_bytes,
                maps.join(","),
                words.join(",")
            )
        })
        .collect();
    let axes: Vec<String> = kernel.graph.axes.iter().zip(&problem.extents).map(|(a, n)| format!(r#""{}":{n}"#, a.name)).collect();
    writeln!(
        out,
        r#"{{"kernel":"{}","types":"{}","source":"{source}","entry":"{name}","what":"{what}","splits":{splits},"extents":{{{}}},"inputs":{},"outputs":{},"expect":{},"buffers":[{}],"launches":[{}]}}"#,
        kernel.name,
        problem.types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" "),
        axes.join(","),
        problem.inputs.len(),
        problem.outputs.len(),
        files.map_or("null".into(), |f| format!("\"{f}\"")),
        buffers.join(","),
        launches.join(",")
    )
    .unwrap()
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: cuda_bundle <folder> [kernel] [sources|variants|memory|all] [sm_80|sm_90a]"));
    let only = std::env::args().nth(2).filter(|k| !k.is_empty());
    std::fs::create_dir_all(&folder).unwrap();
    let mode = std::env::args().nth(3).unwrap_or_default();
    let sources = mode == "sources";
    let only_target = std::env::args().nth(4).and_then(|a| match a.as_str() {
        "sm_90a" => Some(Target::Hopper),
        "sm_80" => Some(Target::Portable),
        _ => None,
    });
    // renamed when it is whole, so that no one takes a part for all
    let unfinished = folder.join("manifest.unfinished");
    let mut manifest = std::io::BufWriter::new(std::fs::File::create(&unfinished).unwrap());
    let kernels = match mode.as_str() {
        "variants" => variants::kernels(support::corpus()),
        "memory" => support::corpus().into_iter().filter(|k| !memory::timings(k).is_empty()).collect(),
        _ => support::corpus(),
    };
    for kernel in kernels.into_iter().filter(|k| only.as_ref().is_none_or(|o| o.is_empty() || k.name == *o)) {
        let (_, programs) = support::programs(&kernel);
        for types in kernel.instances() {
            if mode == "variants" {
                // of f16 the menu is checked
                let emission = match types.first() {
                    Some(DType::BF16) => emit::variants(&kernel, &types, &programs, &variants::placements(&kernel)),
                    Some(DType::F16) => emit::emission(&kernel, &types, &programs, Target::Hopper),
                    _ => continue,
                };
                bundle(&folder, &mut manifest, &kernel, &types, &programs, &emission, false);
                continue;
            }
            if mode == "memory" {
                if types.first() == Some(&DType::BF16) {
                    let mut emission = emit::emission(&kernel, &types, &programs, Target::Portable);
                    for (number, placement) in memory::placements(&kernel, &programs, &types) {
                        emission.add(&kernel, &types, &programs, number, placement);
                    }
                    bundle(&folder, &mut manifest, &kernel, &types, &programs, &emission, false)
                }
                continue;
            }
            for target in [Target::Portable, Target::Hopper].into_iter().filter(|t| only_target.is_none_or(|o| o == *t)) {
                let emission = emit::emission(&kernel, &types, &programs, target);
                bundle(&folder, &mut manifest, &kernel, &types, &programs, &emission, sources)
            }
        }
    }
    manifest.flush().unwrap();
    for (name, text) in [("driver.py", include_str!("driver.py")), ("worker.py", include_str!("worker.py")), ("device.py", include_str!("device.py"))] {
        std::fs::write(folder.join(name), text).unwrap()
    }
    std::fs::rename(unfinished, folder.join("manifest.jsonl")).unwrap();
    println!("{}", folder.display())
}

#[allow(clippy::too_many_arguments)]
fn bundle(folder: &Path, manifest: &mut impl std::io::Write, kernel: &Kernel, types: &[DType], programs: &[Program], emission: &Emission, sources: bool) {
    let of_90a = emission.modules.iter().any(|m| m.0 == Target::Hopper);
    let hopper = if of_90a { "_90a" } else { "" };
    let tag = format!("{}_{}{hopper}", kernel.name, types.iter().map(|t| t.name()).collect::<Vec<_>>().join("_"));
    let mut names = vec![];
    for (i, m) in emission.modules.iter().enumerate() {
        let file = format!("{tag}_{i}.cu");
        std::fs::write(folder.join(&file), &m.1).unwrap();
        let title = m.1.lines().next().unwrap_or("").trim_start_matches("// ").replace('"', "'");
        names.push((file, title))
    }
    for r in &emission.refusals {
        eprintln!("{tag}: program {} has no {}: {}", r.0, r.1, r.2)
    }
    if sources {
        return;
    }
    // the types differ in few places: a third of the shapes each for all but bf16
    let skip = |i: usize| types.first().is_some_and(|t| *t != DType::BF16) && i % 3 != (types[0] == DType::F16) as usize;
    let (shapes, rows) = if of_90a { (variants::checks(kernel), support::ALIGNED_ROWS) } else { (checks(kernel), support::ROWS) };
    for (i, (named, lengths)) in shapes.into_iter().enumerate().filter(|c| !skip(c.0)) {
        let problem = Problem::new(kernel, types, support::extents(kernel, &named), rows[i % 3], &lengths, 1.0, true);
        let files = format!("{tag}_case{i}");
        for (j, (p, v)) in problem.inputs.iter().zip(&problem.values).enumerate() {
            std::fs::write(folder.join(format!("{files}_in{j}.bin")), p.bytes(v)).unwrap()
        }
        for (j, w) in problem.expected.iter().enumerate() {
            std::fs::write(folder.join(format!("{files}_out{j}.bin")), w.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect::<Vec<u8>>()).unwrap()
        }
        let mut what = String::new();
        named.iter().for_each(|(n, x)| write!(what, "{n}{x} ").unwrap());
        for entry in emission.entries.iter().filter(|e| problem.admits(kernel, e)) {
            let split = entry.launches.iter().any(|l| l.partial_bytes.iter().any(|b| *b > 0));
            for splits in [1, 2, 7].into_iter().filter(|s| *s == 1 || split) {
                let (file, title) = &names[entry.launches[0].module as usize];
                case(manifest, kernel, &programs[entry.program as usize], entry, file, title, what.trim(), &problem, Some(&files), splits)
            }
        }
    }
    if types.first().is_some_and(|t| *t != DType::BF16) {
        return;
    }
    for (what, named, lengths) in if of_90a { variants::timings(kernel) } else { [timings(kernel), memory::timings(kernel)].concat() } {
        let problem = Problem::new(kernel, types, support::extents(kernel, &named), rows[0], &lengths, 1.0, false);
        for entry in
            emission.entries.iter().filter(|e| problem.admits(kernel, e) && (!of_90a || variants::fits(&programs[e.program as usize], e, &problem.extents)))
        {
            let split = entry.launches.iter().any(|l| l.partial_bytes.iter().any(|b| *b > 0));
            for splits in [1, 2, 4, 8, 16, 32].into_iter().filter(|s| *s == 1 || split) {
                let (file, title) = &names[entry.launches[0].module as usize];
                case(manifest, kernel, &programs[entry.program as usize], entry, file, title, what, &problem, None, splits)
            }
        }
    }
}
