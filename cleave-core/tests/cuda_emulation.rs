//! Every entry of the menu, run on an emulation of CUDA, gives what the oracle says.
#![cfg(feature = "compiler")]
mod support;
#[path = "support/third_frame.rs"]
mod third_frame;
use cleave_core::device::Target;
use cleave_core::dtype::DType;
use cleave_core::emit;
use cleave_core::emit::hopper::Knobs;
use cleave_core::graph::Op;
use cleave_core::kernel::Kernel;
use cleave_core::plan::{Body, Entry, TensorRef};
use cleave_core::schedule::programs_with;
use cleave_core::tile::Program;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Problem, Resolved};

/// Compiles a translation unit for the host; its `main` runs the launches of a call.
fn build(folder: &Path, name: &str, source: &str, symbols: &[String]) -> PathBuf {
    let mut text = String::from("#include \"emulate.h\"\n");
    text += &source.replace(emit::PTX, "").replace(emit::PTX_90, "");
    text += "\nint main(int count, char** arguments) {\n  if (count < 3) return 1;\n  Call call(arguments[1]);\n";
    for s in symbols {
        writeln!(text, "  call.launch<{s}_params>({s});").unwrap()
    }
    text += "  call.save(arguments[2]);\n}\n";
    compile(folder, name, &text)
}

fn compile(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.cpp")), folder.join(name));
    std::fs::write(&file, text).unwrap();
    let support = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
    let out =
        Command::new("g++").args(["-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", "-I", support, "-o"]).arg(&program).arg(&file).output().expect("g++ runs");
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
        // a few blocks share out a persistent launch
        let blocks = if l.persistent { l.blocks.min(3) } else { l.blocks };
        [blocks, l.threads as u64, l.maps.len() as u64].into_iter().for_each(|n| number(&mut file, n));
        for m in &l.maps {
            [m.buffer as u64, m.first, m.dtype.bytes() as u64, m.dims.len() as u64].into_iter().for_each(|n| number(&mut file, n));
            for d in 0..5 {
                let (size, stride, length) = m.dims.get(d).copied().unwrap_or((1, 16, 1));
                [size, stride, length as u64].into_iter().for_each(|n| number(&mut file, n))
            }
        }
        number(&mut file, l.words.len() as u64);
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

/// What to try: strides of rows must be multiples of 16 bytes for TMA.
fn cases(kernel: &Kernel, target: Target) -> Vec<Case> {
    let named = |n: &str| kernel.graph.axes.iter().any(|a| a.name == n);
    if target == Target::Hopper && named("N") && named("D") {
        return vec![
            (vec![("B", 2), ("K", 1), ("G", 2), ("M", 30), ("N", 150), ("D", 64), ("E", 56)], vec![150, 9]),
            (vec![("B", 1), ("K", 1), ("G", 1), ("M", 130), ("N", 261), ("D", 40), ("E", 72)], vec![259]),
            (vec![("B", 2), ("K", 1), ("G", 2), ("M", 3), ("N", 5), ("D", 200), ("E", 136)], vec![0, 2]),
            (vec![("B", 1), ("K", 1), ("G", 1), ("M", 70), ("N", 131), ("D", 33), ("E", 57)], vec![129]),
        ];
    }
    if target == Target::Hopper && named("R") && named("N") {
        let case = |h, n, c, r, lengths: &[i64]| (vec![("B", 2), ("H", h), ("N", n), ("C", c), ("R", r)], lengths.to_vec());
        return vec![case(70, 70, 512, 64, &[70, 9]), case(3, 64, 72, 8, &[64, 0]), case(5, 201, 500, 33, &[199, 128]), case(2, 70, 60, 64, &[1, 69])];
    }
    if target == Target::Hopper && named("F") {
        let parts = |m, c, h, f| vec![("M", m), ("C", c), ("H", h), ("F", f), ("K", 2), ("J", 70)];
        return vec![(parts(70, 136, 5, 32), vec![1]), (parts(5, 67, 3, 5), vec![1])];
    }
    if target == Target::Hopper {
        let all = |n: i64, other: i64| kernel.graph.axes.iter().enumerate().map(move |(i, _)| if i % 2 == 0 { n } else { other }).collect::<Vec<_>>();
        let names: Vec<&'static str> = kernel.graph.axes.iter().map(|a| &*Box::leak(a.name.clone().into_boxed_str())).collect();
        return [all(136, 72), all(24, 8), all(70, 131)].into_iter().map(|v| (names.iter().copied().zip(v).collect(), vec![1])).collect();
    }
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
        if names.len() < 3 && kernel.graph.outputs.iter().any(|o| !o.storage.dims.is_empty()) {
            // rows that fill chunks: some of a tile, more than one, with gaps between them
            shapes.extend([all(9, 1024), all(3, 1100), all(2, 5008), all(1, 17416)])
        }
        shapes.into_iter().map(|v| (names.iter().copied().zip(v).collect(), vec![1])).collect()
    }
}

/// Kernels whose entries for compute capability 9.0 are run: what differs between the others is how they are stored or named.
const NINE: [&str; 7] = ["attention", "alibi_window", "matmul", "matmul_matmul", "norm_qkv", "norm_swiglu", "product_by_columns"];

/// The schedules of the loops of some.
const SCHEDULES: [(&str, &str); 5] = [
    (
        "attention",
        "prologue: issue t3 = q_tile * k_tile; wait<0>; frame t7; map t9; map t10; fold t11; pack t10_packed\n\
         body: issue t3 = q_tile * k_tile; issue t14 += t10_packed * v_tile @-1; wait<1>; frame t7; move t11; map t9; map t10; fold t11; wait<0>; move t14; pack t10_packed\n\
         tail: issue t14 += t10_packed * v_tile @-1; wait<0>\n",
    ),
    (
        "matmul",
        "prologue: issue output_value += x_tile * w_tile\n\
         body: issue output_value += x_tile * w_tile; wait<1>\n\
         tail: wait<0>\n",
    ),
    (
        "matmul_matmul",
        "prologue: issue t3 = x_tile * a_tile; wait<0>; pack t3_packed\n\
         body: issue output_value += t3_packed * b_tile @-1; issue t3 = x_tile * a_tile; wait<0>; pack t3_packed\n\
         tail: issue output_value += t3_packed * b_tile @-1; wait<0>\n",
    ),
    (
        "norm_swiglu",
        "prologue: read x_tile; map t2; fold t3; read gain_tile; map t9; pack t9_packed; issue t11 += t9_packed * gate_tile, t16 += t9_packed * up_tile; \
         read x_tile_1; map t2_1; fold t3; read gain_tile_1; map t9_1; pack t9_packed_1\n\
         body: issue t11 += t9_packed_1 * gate_tile, t16 += t9_packed_1 * up_tile @-1; read x_tile; map t2; fold t3; read gain_tile; map t9; wait<1>; pack t9_packed; \
         issue t11 += t9_packed * gate_tile, t16 += t9_packed * up_tile; read x_tile_1; map t2_1; fold t3; read gain_tile_1; map t9_1; wait<1>; pack t9_packed_1\n\
         tail: issue t11 += t9_packed_1 * gate_tile, t16 += t9_packed_1 * up_tile @-1; wait<0>\n",
    ),
    (
        "product_by_columns",
        "prologue: read x_tile; pack x_tile_packed; issue t3 += x_tile_packed * w_tile; map t4; fold t5; read x_tile_1; pack x_tile_packed_1; map t4_1; fold t5\n\
         body: issue t3 += x_tile_packed_1 * w_tile @-1; read x_tile; wait<1>; pack x_tile_packed; issue t3 += x_tile_packed * w_tile; map t4; fold t5; \
         read x_tile_1; wait<1>; pack x_tile_packed_1; map t4_1; fold t5\n\
         tail: issue t3 += x_tile_packed_1 * w_tile @-1; wait<0>\n",
    ),
];

/// The schedule that a source tells, in the names of the formula: `x_u_tile` is `x_tile` where `x` alone would clash.
fn schedule(source: &str) -> String {
    let titles = ["// prologue: ", "// body: ", "// tail: "];
    let lines = source.lines().filter(|l| titles.iter().any(|t| l.starts_with(t)));
    lines.map(|l| l[3..].replace("_u_tile", "_tile") + "\n").collect()
}

/// Runs the menu of a kernel's programs; gives how many runs it were, and adds what is wrong.
fn run_menu(folder: &Path, kernel: &Kernel, types: &[DType], programs: &[Program], target: Target, wrong: &mut Vec<String>) -> usize {
    let (entries, modules) = emit::instance(kernel, types, programs, target);
    assert!(target != Target::Portable || entries.iter().any(|e| e.guards.is_empty()), "{}: no entry takes everything", kernel.name);
    if let (Target::Hopper, Some(wanted)) = (target, SCHEDULES.iter().find(|s| s.0 == kernel.name)) {
        assert_eq!(modules.first().map(|m| schedule(&m.1)).as_deref(), Some(wanted.1), "{}", kernel.name)
    }
    run_entries(folder, kernel, types, programs, target, (&entries, &modules), wrong)
}

/// Runs entries with their modules, as [`run_menu`] does.
fn run_entries(
    folder: &Path,
    kernel: &Kernel,
    types: &[DType],
    programs: &[Program],
    target: Target,
    (entries, modules): (&[Entry], &[(Target, String)]),
    wrong: &mut Vec<String>,
) -> usize {
    // every third case of an entry (every second one for 9.0, which has fewer), others for the next entry; with EMULATE_ALL all of them, which takes minutes
    let all = std::env::var_os("EMULATE_ALL").is_some();
    let mut ran = 0;
    for (number, entry) in entries.iter().enumerate() {
        let module = entry.launches[0].module as usize;
        let symbols: Vec<String> = entry.launches.iter().map(|l| l.symbol.clone()).collect();
        let program = build(folder, &format!("{}_{number}", kernel.name), &modules[module].1, &symbols);
        for (i, (named, lengths)) in
            cases(kernel, target).into_iter().enumerate().filter(|c| all || (c.0 + number) % if target == Target::Hopper { 2 } else { 3 } == 0)
        {
            let problem = Problem::new(
                kernel,
                types,
                support::extents(kernel, &named),
                (if target == Target::Hopper { support::ALIGNED_ROWS } else { support::ROWS })[i % 3],
                &lengths,
                1.0,
                true,
            );
            if !problem.admits(kernel, entry) {
                continue;
            }
            for splits in [1, 2, 7] {
                if splits > 1 && entry.launches.iter().all(|l| l.partial_bytes.iter().all(|b| *b == 0)) {
                    continue;
                }
                let plan = support::plan(kernel, &programs[entry.program as usize], entry, &problem, splits);
                let got = run(folder, &program, &problem, &plan);
                ran += 1;
                let narrow = types.iter().copied().max_by(|a, b| a.epsilon().total_cmp(&b.epsilon())).unwrap_or(DType::F32);
                for ((g, w), o) in got.iter().zip(&problem.expected).zip(&problem.outputs) {
                    let e = support::error(g, w, o.dtype, narrow);
                    // gained values are rounded once more, as operands of a product
                    let gained = narrow != DType::F32 && problem.inputs.iter().any(|i| i.name == "gain");
                    if e > if gained { 2.0 } else { 1.0 } {
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
    ran
}

/// `share`: of the kernels every second one, so that two threads divide the work.
fn check(types_of: &[DType], target: Target, share: usize) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emulation_{}_{target:?}", types_of[0].name()));
    std::fs::create_dir_all(&folder).unwrap();
    let only = std::env::var("ONLY").ok();
    let mut wrong = vec![];
    let mut ran = 0;
    let wanted =
        |k: &Kernel| only.as_ref().is_none_or(|o| o.split(',').any(|o| k.name.contains(o))) && (target != Target::Hopper || NINE.contains(&k.name.as_str()));
    let kernels = support::corpus().into_iter().filter(wanted).enumerate().filter(|k| k.0 % 2 == share);
    for (_, kernel) in kernels {
        let (_, programs) = support::programs(&kernel);
        for types in kernel.instances().into_iter().filter(|t| t.is_empty() || t[..] == types_of[..]) {
            ran += run_menu(&folder, &kernel, &types, &programs, target, &mut wrong)
        }
    }
    assert!(ran > 0 || only.is_some());
    assert!(wrong.is_empty(), "{} of {ran} runs:\n{}", wrong.len(), wrong.join("\n"));
    println!("{ran} runs")
}

/// In bf16; EMULATE names another type (f32, f16), which takes as long again.
fn portable(share: usize) {
    let name = std::env::var("EMULATE").unwrap_or("bf16".into());
    check(&[DType::parse(&name).expect("EMULATE is f32, f16 or bf16")], Target::Portable, share)
}

#[test]
fn every_entry_agrees_with_the_oracle() {
    portable(0)
}

#[test]
fn every_entry_of_the_other_kernels_agrees_with_the_oracle() {
    portable(1)
}

#[test]
fn every_entry_of_compute_capability_9_agrees_with_the_oracle() {
    check(&[DType::BF16], Target::Hopper, 0)
}

#[test]
fn every_entry_of_compute_capability_9_of_the_other_kernels_agrees_with_the_oracle() {
    check(&[DType::BF16], Target::Hopper, 1)
}

#[test]
fn an_f32_workspace_is_multiplied_as_f32_unless_every_tensor_has_16_bits() {
    let chain = |a: &str, y: &str| {
        format!(
            "#[cleave::kernel(dtypes(T = bf16))]\npub fn chain<T>(x: Tensor<T, M, K>, a: Tensor<{a}, R, K>, b: Tensor<{a}, J, R>) -> Tensor<{y}, M, J> {{\n    sum::<R>(sum::<K>(x * a) * b)\n}}"
        )
    };
    for (a, y, narrow) in [("T", "T", true), ("T", "f32", false), ("f32", "T", false), ("f32", "f32", false)] {
        let text = chain(a, y);
        let kernel = cleave_core::frontend::from_source(&text).unwrap_or_else(|e| panic!("{}", e.render(&text))).remove(0);
        let (_, programs) = support::programs(&kernel);
        let modules = emit::instance(&kernel, &[DType::BF16], &programs, Target::Portable).1;
        let one = modules.iter().any(|m| m.1.lines().any(|l| l.contains("multiply_packed<") && l.contains(", true>(")));
        assert_eq!(one, narrow, "operands in {a}, the result in {y}")
    }
}

#[test]
fn results_are_copied_only_where_a_copy_of_64_columns_ends_with_its_tile() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_columns");
    std::fs::create_dir_all(&folder).unwrap();
    let kernel = support::corpus().into_iter().find(|k| k.name == "matmul").expect("a kernel of the corpus");
    let (_, programs) = support::programs(&kernel);
    let types = vec![DType::BF16; kernel.params.len()];
    let mut wrong = vec![];
    for (columns, warpgroups, copied) in [(32, 1, false), (64, 1, true), (96, 2, false), (160, 2, false), (192, 2, true)] {
        let knobs = Knobs { columns, warpgroups, ..Knobs::WIDE };
        let emission = emit::variants(&kernel, &types, &programs, &[emit::Placement::Hopper(knobs)]);
        let maps = |e: &Entry| e.launches.iter().flat_map(|l| &l.maps).any(|m| matches!(m.tensor, TensorRef::Output(_)));
        assert!(emission.entries.iter().any(|e| e.tiles[0][0].contains(&columns)), "{columns} columns are refused: {:?}", emission.refusals);
        assert!(emission.entries.iter().all(|e| maps(e) == copied), "{columns} columns");
        run_entries(&folder, &kernel, &types, &programs, Target::Hopper, (&emission.entries, &emission.modules), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

/// What all heads share is key and value.
const LATENT: &str = r#"
#[cleave::kernel(dtypes(T = bf16), bound(C <= 512, R <= 64))]
pub fn latent<T>(q: Tensor<T, B, H, C>, cache: Tensor<T, B, N, C>, qp: Tensor<T, B, H, R>, kp: Tensor<T, B, N, R>, scale: f32) -> Tensor<T, B, H, C> {
    sum::<N>(softmax::<N>((sum::<C>(q * cache) + sum::<R>(qp * kp)) * scale) * cache)
}
#[cleave::kernel(dtypes(T = bf16), bound(C <= 512, R <= 64))]
pub fn latent_masked<T>(q: Tensor<T, B, H, C>, cache: Tensor<T, B, N, C>, qp: Tensor<T, B, H, R>, kp: Tensor<T, B, N, R>, len: Tensor<i32, B>, scale: f32)
    -> (Tensor<T, B, H, C>, Tensor<f32, B, H>) {
    let s = mask((sum::<C>(q * cache) + sum::<R>(qp * kp)) * scale, index::<N>() < len);
    (sum::<N>(softmax::<N>(s) * cache), logsumexp::<N>(s))
}
"#;

#[test]
fn warpgroups_side_by_side_share_out_the_columns_of_a_tile_that_is_key_and_value() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_latent");
    std::fs::create_dir_all(&folder).unwrap();
    let (mut wrong, mut ran) = (vec![], 0);
    for kernel in cleave_core::frontend::from_source(LATENT).unwrap_or_else(|e| panic!("{}", e.render(LATENT))) {
        let (_, programs) = support::programs(&kernel);
        let types = vec![DType::BF16];
        let knobs = [Knobs::CHIP_512, Knobs { step: 32, ..Knobs::CHIP_512 }, Knobs { warpgroups: 2, step: 64, ..Knobs::CHIP_64 }];
        let emission = emit::variants(&kernel, &types, &programs, &knobs.map(emit::Placement::Hopper));
        assert_eq!(emission.entries.len(), knobs.len(), "{}: {:?}", kernel.name, emission.refusals);
        // one ring has both: a slot is given back when the values are read
        let first = schedule(&emission.modules[0].1);
        assert!(first.contains("q_tile * cache_tile + qp_tile * kp_tile; wait<0>"), "{first}");
        ran += run_entries(&folder, &kernel, &types, &programs, Target::Hopper, (&emission.entries, &emission.modules), &mut wrong)
    }
    assert!(wrong.is_empty(), "{} of {ran} runs:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran >= 6, "{ran} runs")
}

/// Of normalised keys only a sum is made anew: a launch of its own makes it, once for each.
const NORMALISED: &str = r#"
#[cleave::kernel(dtypes(T = bf16), bound(D <= 128, E <= 128))]
pub fn normalised<T>(q: Tensor<T, B, (K, G), M, D>, k: Tensor<T, B, K, N, D>, v: Tensor<T, B, K, N, E>, q_gain: Tensor<T, D>, k_gain: Tensor<T, D>, eps: f32)
    -> Tensor<T, B, (K, G), M, E> {
    sum::<N>(softmax::<N>(sum::<D>(rms_norm::<D>(q, q_gain, eps) * rms_norm::<D>(k, k_gain, eps)) * 0.1) * v)
}
"#;

#[test]
fn a_norm_of_each_key_is_made_by_a_launch_on_vectors_before_the_products() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_normalised");
    std::fs::create_dir_all(&folder).unwrap();
    let (mut wrong, mut ran) = (vec![], 0);
    let kernel = cleave_core::frontend::from_source(NORMALISED).unwrap_or_else(|e| panic!("{}", e.render(NORMALISED))).remove(0);
    let (_, programs) = support::programs(&kernel);
    for target in [Target::Portable, Target::Hopper] {
        let (entries, modules) = emit::instance(&kernel, &[DType::BF16], &programs, target);
        let (entries, modules): (Vec<Entry>, Vec<_>) = entries
            .into_iter()
            .filter(|e| e.launches.len() == 2)
            .enumerate()
            .map(|(n, mut e)| {
                let module = modules[e.launches[0].module as usize].clone();
                e.launches.iter_mut().for_each(|l| l.module = n as u32);
                assert!(matches!(e.launches[0].body, Body::Vector { .. }) && e.launches[1].body == Body::TensorCores);
                (e, module)
            })
            .unzip();
        assert!(!entries.is_empty());
        ran += run_entries(&folder, &kernel, &[DType::BF16], &programs, target, (&entries, &modules), &mut wrong)
    }
    assert!(wrong.is_empty(), "{} of {ran} runs:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran >= 6, "{ran} runs")
}

/// Near keys, those that all see, and rows that see all.
const GLOBAL: &str = r#"
#[cleave::kernel(dtypes(T = bf16), bound(D <= 64, E <= 64))]
pub fn global<T>(q: Tensor<T, B, M, D>, k: Tensor<T, B, N, D>, v: Tensor<T, B, N, E>) -> Tensor<T, B, M, E> {
    let behind = index::<M>() - index::<N>();
    let near = behind <= 9 && -behind <= 9;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k) * 0.3, near || index::<N>() < 5 || index::<M>() < 7)) * v)
}
"#;

#[test]
fn rows_that_see_all_are_no_interval_of_their_own() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_global");
    std::fs::create_dir_all(&folder).unwrap();
    let mut wrong = vec![];
    let kernel = cleave_core::frontend::from_source(GLOBAL).unwrap_or_else(|e| panic!("{}", e.render(GLOBAL))).remove(0);
    let (_, programs) = support::programs(&kernel);
    let knobs = [Knobs { warpgroups: 2, step: 64, ..Knobs::CHIP_64 }, Knobs { step: 64, ..Knobs::CHIP_64.few() }].map(|k| Knobs { split: false, ..k });
    let emission = emit::variants(&kernel, &[DType::BF16], &programs, &knobs.map(emit::Placement::Hopper));
    assert_eq!(emission.entries.len(), knobs.len(), "{:?}", emission.refusals);
    assert!(emission.modules.iter().all(|m| m.1.contains("cleave::visits(")), "the hull of three intervals is visited");
    let ran = run_entries(&folder, &kernel, &[DType::BF16], &programs, Target::Hopper, (&emission.entries, &emission.modules), &mut wrong);
    assert!(wrong.is_empty(), "{} of {ran} runs:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran >= 2, "{ran} runs")
}

#[test]
fn what_is_read_once_leaves_the_second_cache_first_unless_it_is_long() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_policy");
    std::fs::create_dir_all(&folder).unwrap();
    // what a policy is chosen by are the bytes of all that is read once
    let sources = |name: &str, target: Target| {
        let kernel = support::corpus().into_iter().find(|k| k.name == name).expect("a kernel of the corpus");
        let (_, programs) = support::programs(&kernel);
        emit::instance(&kernel, &vec![DType::BF16; kernel.params.len()], &programs, target).1
    };
    let asked = |name: &str| {
        let all = sources(name, Target::Portable);
        let lines = all.iter().flat_map(|m| m.1.lines()).filter(|l| l.contains("policy = cleave::stream_policy("));
        lines.map(|l| l.trim().to_string()).collect::<BTreeSet<String>>()
    };
    let words = |line: &str| line.matches("(cleave::i64)").count();
    assert_eq!(asked("attention").iter().map(|l| words(l)).collect::<BTreeSet<_>>(), BTreeSet::from([2]), "keys and values: {:?}", asked("attention"));
    assert!(asked("norm_swiglu").iter().any(|l| words(l) == 2), "both weights: {:?}", asked("norm_swiglu"));
    let text = format!(
        "#include \"emulate.h\"\n{}\nint main() {{\n  for (long long bytes : {{0LL, 199999999LL, 200000000LL, 1LL << 33}}) {{\n    static cleave::u64 policy;\n    \
         emulator::kernel = [=] {{ policy = cleave::stream_policy(bytes); }};\n    emulator::run_block(32);\n    printf(\"%d\", policy != 0);\n  }}\n}}\n",
        emit::TILE
    );
    assert_eq!(String::from_utf8_lossy(&Command::new(compile(&folder, "policy", &text)).output().unwrap().stdout), "1100")
}

#[test]
fn a_third_frame_reaches_every_placement_by_its_row() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulation_third_frame");
    std::fs::create_dir_all(&folder).unwrap();
    let mut wrong = vec![];
    for kernel in support::corpus().into_iter().filter(|k| ["attention_full", "logsumexp"].contains(&k.name.as_str())) {
        let types = kernel.instances().into_iter().find(|t| t.is_empty() || t[..] == [DType::BF16]).expect("an instance in bf16");
        // the source subtracts its maximum, and needs no frame
        let found = cleave_core::algebra::search(&kernel).algorithms;
        let one_pass = found.iter().find(|a| !a.graph.nodes.iter().any(|n| matches!(n.op, Op::Maximum(_)))).expect("an algorithm of one pass");
        let all = programs_with(&third_frame::TABLE, 0, &one_pass.graph, &kernel.bounds);
        for target in [Target::Portable, Target::Hopper] {
            let sources = emit::instance(&kernel, &types, &all, target).1;
            assert!(sources.iter().all(|s| s.1.contains("ceilf")), "{}: a source without the frame", kernel.name);
            run_menu(&folder, &kernel, &types, &all, target, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}
