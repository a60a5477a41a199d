//! Every entry of the menu, run on an emulation of CUDA, gives what the oracle says.
#![cfg(feature = "compiler")]
mod support;
use cleave_core::device::Target;
use cleave_core::dtype::DType;
use cleave_core::emit;
use cleave_core::kernel::Kernel;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Problem, Resolved};

/// Compiles a translation unit for the host; its `main` runs the launches of a call.
fn build(folder: &Path, name: &str, source: &str, symbols: &[String]) -> PathBuf {
    let mut text = String::from("#include \"emulate.h\"\n");
    text += &source.replace(emit::PTX, "");
    text += "\nint main(int count, char** arguments) {\n  if (count < 3) return 1;\n  Call call(arguments[1]);\n";
    for s in symbols {
        writeln!(text, "  call.launch<{s}_params>({s});").unwrap()
    }
    text += "  call.save(arguments[2]);\n}\n";
    let (file, program) = (folder.join(format!("{name}.cpp")), folder.join(name));
    std::fs::write(&file, text).unwrap();
    let support = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
    let out = Command::new("g++").args(["-std=c++17", "-O1", "-w", "-I", support, "-o"]).arg(&program).arg(&file).output().expect("g++ runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    program
}

fn run(folder: &Path, program: &Path, problem: &Problem, plan: &support::Plan) -> Vec<Vec<f64>> {
    let mut buffers: Vec<Vec<u8>> = problem.inputs.iter().zip(&problem.values).map(|(p, v)| p.bytes(v)).collect();
    buffers.extend(problem.outputs.iter().map(|o| o.bytes(&[])));
    buffers.extend(plan.extra.iter().map(|(n, zero)| vec![if *zero { 0 } else { 0xff }; *n as usize]));
    let mut file = vec![];
    let number = |file: &mut Vec<u8>, n: u64| file.extend(n.to_le_bytes());
    number(&mut file, buffers.len() as u64);
    for b in &buffers {
        number(&mut file, b.len() as u64);
        file.extend(b)
    }
    for l in &plan.launches {
        [l.blocks, l.threads as u64, l.words.len() as u64].into_iter().for_each(|n| number(&mut file, n));
        for w in &l.words {
            let (buffer, value) = match w {
                Resolved::Address(b) => (*b as u64 + 1, 0),
                Resolved::Value(v) => (0, *v),
            };
            number(&mut file, buffer);
            number(&mut file, value)
        }
    }
    let (call, result) = (program.with_extension("call"), program.with_extension("result"));
    std::fs::write(&call, file).unwrap();
    let out = Command::new(program).arg(&call).arg(&result).current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&out.stderr));
    let bytes = std::fs::read(&result).unwrap();
    let start: usize = buffers[..problem.inputs.len()].iter().map(Vec::len).sum();
    let mut at = start;
    let outputs = problem.outputs.iter().enumerate().map(|(i, o)| {
        let n = buffers[problem.inputs.len() + i].len();
        at += n;
        o.values(&bytes[at - n..at])
    });
    outputs.collect()
}

/// Extents by name, and the lengths of what is filled of a cache.
type Case = (Vec<(&'static str, i64)>, Vec<i64>);

/// What to try.
fn cases(kernel: &Kernel) -> Vec<Case> {
    let named = |n: &str| kernel.graph.axes.iter().any(|a| a.name == n);
    if named("N") && named("D") {
        vec![
            (vec![("B", 2), ("K", 2), ("G", 3), ("M", 7), ("N", 70), ("D", 16), ("E", 24)], vec![70, 9]),
            (vec![("B", 1), ("K", 1), ("G", 1), ("M", 1), ("N", 130), ("D", 33), ("E", 5)], vec![129]),
            (vec![("B", 2), ("K", 1), ("G", 2), ("M", 3), ("N", 5), ("D", 8), ("E", 8)], vec![0, 2]),
        ]
    } else {
        let all = |n: i64, other: i64| kernel.graph.axes.iter().enumerate().map(move |(i, _)| if i % 2 == 0 { n } else { other }).collect::<Vec<_>>();
        let names: Vec<&'static str> = kernel.graph.axes.iter().map(|a| &*Box::leak(a.name.clone().into_boxed_str())).collect();
        let mut shapes = vec![all(5, 70), all(19, 33), all(1, 1), all(3, 0), all(2, 3), all(5, 72)];
        if names.len() < 3 {
            // rows that fill chunks: some of a tile, more than one, with gaps between them
            shapes.extend([all(9, 1024), all(3, 1100), all(2, 5008), all(1, 17416)])
        }
        shapes.into_iter().map(|v| (names.iter().copied().zip(v).collect(), vec![1])).collect()
    }
}

fn check(types_of: &[DType]) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emulation_{}", types_of[0].name()));
    std::fs::create_dir_all(&folder).unwrap();
    let only = std::env::var("ONLY").ok();
    let mut wrong = vec![];
    let mut ran = 0;
    for kernel in support::corpus() {
        if only.as_ref().is_some_and(|o| !kernel.name.contains(o)) {
            continue;
        }
        let (_, programs) = support::programs(&kernel);
        for types in kernel.instances().into_iter().filter(|t| t.is_empty() || t[..] == types_of[..]) {
            let (entries, modules) = emit::instance(&kernel, &types, &programs, Target::Portable);
            assert!(entries.iter().any(|e| e.guards.is_empty()), "{}: no entry takes everything", kernel.name);
            for (number, entry) in entries.iter().enumerate() {
                let module = entry.launches[0].module as usize;
                let symbols: Vec<String> = entry.launches.iter().map(|l| l.symbol.clone()).collect();
                let program = build(&folder, &format!("{}_{number}", kernel.name), &modules[module].1, &symbols);
                for (i, (named, lengths)) in cases(&kernel).into_iter().enumerate() {
                    let problem = Problem::new(&kernel, &types, support::extents(&kernel, &named), [0, 3, 8][i % 3], &lengths, 1.0, true);
                    if !problem.admits(&kernel, entry) {
                        continue;
                    }
                    for splits in [1, 2, 7] {
                        if splits > 1 && entry.launches.iter().all(|l| l.partial_bytes.iter().all(|b| *b == 0)) {
                            continue;
                        }
                        let plan = support::plan(&kernel, &programs[entry.program as usize], entry, &problem, splits);
                        let got = run(&folder, &program, &problem, &plan);
                        ran += 1;
                        let narrow = types.iter().copied().max_by(|a, b| a.epsilon().total_cmp(&b.epsilon())).unwrap_or(DType::F32);
                        for ((g, w), o) in got.iter().zip(&problem.expected).zip(&problem.outputs) {
                            let e = support::error(g, w, o.dtype, narrow);
                            if e > 1.0 {
                                let at = g.iter().zip(w).position(|(g, w)| g != w && ((g - w).is_nan() || (g - w).abs() >= 0.1 * w.abs())).unwrap_or(0);
                                wrong.push(format!(
                                    "{} entry {number} ({}) {named:?} splits {splits} `{}`: {e:.2} at {at}: {:?} for {:?}",
                                    kernel.name,
                                    programs[entry.program as usize].name,
                                    o.name,
                                    g.get(at),
                                    w.get(at)
                                ))
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(ran > 0);
    assert!(wrong.is_empty(), "{} of {ran} runs:\n{}", wrong.len(), wrong.join("\n"));
    println!("{ran} runs")
}

/// In bf16; EMULATE names another type (f32, f16), which takes as long again.
#[test]
fn every_entry_agrees_with_the_oracle() {
    let name = std::env::var("EMULATE").unwrap_or("bf16".into());
    check(&[DType::parse(&name).expect("EMULATE is f32, f16 or bf16")])
}
