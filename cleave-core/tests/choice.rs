//! What the first call chooses among the entries of real kernels, on devices made up of numbers.
#![cfg(feature = "compiler")]
mod support;
use cleave_core::choose::{Facts, Request, choose};
use cleave_core::device::{DeviceModel, Target};
use cleave_core::dtype::DType;
use cleave_core::emit;
use cleave_core::plan::{Body, Entry, Instance, PlanFile, TensorRef, VERSION};
use support::{DENSE, Problem};

/// All entries of a kernel in one type.
struct Menu {
    file: PlanFile,
    algorithms: Vec<String>,
    /// Of the modules: the first line of each.
    titles: Vec<String>,
}

/// What was chosen.
struct Found<'a> {
    algorithm: &'a str,
    split: u32,
    /// Of the first launch; none on a CPU.
    body: Option<Body>,
    title: &'a str,
}

impl Menu {
    fn new(name: &str, dtype: DType) -> Menu {
        let kernel = support::corpus().into_iter().find(|k| k.name == name).expect("a kernel of the corpus");
        let (algorithms, programs) = support::programs(&kernel);
        let types: Vec<DType> = kernel.params.iter().map(|_| dtype).collect();
        let (mut entries, mut titles) = (emit::cpu::entries(&programs), vec![]);
        for target in [Target::Portable, Target::Hopper] {
            let emission = emit::emission(&kernel, &types, &programs, target);
            let first = titles.len() as u32;
            entries.extend(emission.entries.into_iter().map(|mut e| {
                e.launches.iter_mut().for_each(|l| l.module += first);
                e
            }));
            titles.extend(emission.modules.iter().map(|m| m.1.lines().next().unwrap_or("").to_string()))
        }
        let instances = vec![Instance { types, entries, modules: vec![] }];
        Menu { file: PlanFile { version: VERSION, key: 0, kernel, algorithms: vec![], programs, instances }, algorithms, titles }
    }
    /// For tensors whose rows lie as told.
    fn choose(&self, extents: &[(&str, i64)], row: support::Row, device: &DeviceModel) -> Found<'_> {
        let instance = &self.file.instances[0];
        let problem = Problem::new(&self.file.kernel, &instance.types, support::extents(&self.file.kernel, extents), row, &[1], 1.0, false);
        let facts = |t: TensorRef| {
            let p = match t {
                TensorRef::Input(i) => &problem.inputs[i.index()],
                TensorRef::Output(o) => &problem.outputs[o as usize],
                TensorRef::Workspace(_) => unreachable!("workspaces are not asked for"),
            };
            if p.shape.is_empty() {
                return Facts { unit: 1, aligned: Facts::MOST_ALIGNED }; // a scalar that is not negative
            }
            Facts::of(256, p.shape.iter().zip(&p.strides).map(|(n, s)| (*n as u64, *s as u64)), p.dtype.bytes() as u64)
        };
        let usable = |e: &Entry| (e.target == Target::Cpu) == (device.target == Target::Cpu);
        let request = Request { instance: 0, extents: &problem.extents, facts: &facts, pieces: None, usable: &usable };
        let choice = choose(&self.file, &request, device).expect("an entry serves every call");
        let entry = &instance.entries[choice.entry];
        let launch = entry.launches.first();
        Found {
            algorithm: &self.algorithms[self.file.programs[entry.program as usize].algorithm as usize],
            split: choice.split(),
            body: launch.map(|l| l.body),
            title: launch.map_or("the executor", |l| &self.titles[l.module as usize]),
        }
    }
}

/// Multiprocessors that each have the share of an H100's.
fn gpu(units: u32) -> DeviceModel {
    let share = units as f64 / 132.0;
    DeviceModel {
        name: format!("{units} multiprocessors"),
        target: Target::Hopper,
        units,
        chip_bytes: 227 << 10,
        half_flops: 900e12 * share,
        single_flops: 60e12 * share,
        bandwidth: 3e12 * share,
        launch_seconds: 2.4e-6,
        merge_seconds: 0.7e-6,
    }
}

fn cpu(cores: u32) -> DeviceModel {
    let share = cores as f64;
    DeviceModel {
        name: format!("{cores} cores"),
        target: Target::Cpu,
        units: cores,
        chip_bytes: 1 << 20,
        half_flops: 30e9 * share,
        single_flops: 60e9 * share,
        bandwidth: 20e9,
        launch_seconds: 2e-6,
        merge_seconds: 0.7e-6,
    }
}

/// As far as code for all devices reaches on an H200.
fn h200() -> DeviceModel {
    DeviceModel { name: "an H200".into(), target: Target::Portable, half_flops: 600e12, bandwidth: 4.3e12, ..gpu(132) }
}

#[test]
fn chained_products_are_associated_by_extents_on_both_sides_of_the_crossover() {
    // (x a) b over K -> R -> J: through a narrow R the factors come one after the other, through a wide one their product comes first
    let low_rank = [("M", 4096), ("K", 4096), ("R", 64), ("J", 4096)];
    let wide_middle = [("M", 1 << 15), ("K", 64), ("R", 4096), ("J", 64)];
    for (device, dtype) in [(gpu(132), DType::BF16), (cpu(8), DType::F32)] {
        let menu = Menu::new("matmul_matmul", dtype);
        assert_eq!(menu.choose(&low_rank, DENSE, &device).algorithm, menu.algorithms[0], "{}", device.name);
        assert_ne!(menu.choose(&wide_middle, DENSE, &device).algorithm, menu.algorithms[0], "{}", device.name)
    }
}

#[test]
fn decode_is_split_and_prefill_is_not() {
    let menu = Menu::new("attention", DType::BF16);
    let decode = [("B", 1), ("K", 8), ("G", 4), ("M", 1), ("N", 8192), ("D", 128), ("E", 128)];
    let prefill = [("B", 4), ("K", 8), ("G", 4), ("M", 4096), ("N", 4096), ("D", 128), ("E", 128)];
    assert!(menu.choose(&decode, DENSE, &gpu(132)).split >= 8);
    assert_eq!(menu.choose(&prefill, DENSE, &gpu(132)).split, 1)
}

#[test]
fn more_multiprocessors_split_a_decode_step_further() {
    let menu = Menu::new("attention", DType::BF16);
    let decode = [("B", 1), ("K", 8), ("G", 4), ("M", 1), ("N", 32768), ("D", 128), ("E", 128)];
    let [few, some, many] = [8, 132, 1000].map(|units| menu.choose(&decode, DENSE, &gpu(units)).split);
    assert!(few < some && some < many, "{few} {some} {many}")
}

#[test]
fn a_product_with_one_row_goes_to_vectors_and_one_with_many_to_tensor_cores() {
    let menu = Menu::new("norm_swiglu", DType::BF16);
    for (rows, body) in [(1, Body::Vector { resident: false }), (16, Body::TensorCores), (4096, Body::TensorCores)] {
        let found = menu.choose(&[("M", rows), ("C", 4096), ("J", 14336)], DENSE, &h200());
        assert_eq!(found.body, Some(body), "{rows} rows: {}", found.title)
    }
}

#[test]
fn many_rows_go_to_the_code_of_compute_capability_9_in_tiles_that_leave_little_idle() {
    let device = DeviceModel { target: Target::Hopper, half_flops: 900e12, ..h200() };
    let product = |m, k, j| vec![("M", m), ("C", k), ("K", k), ("J", j)];
    let cases = [
        ("norm_swiglu", vec![(product(4096, 4096, 14336), "256 columns"), (product(1024, 4096, 14336), "256 columns")]),
        ("norm_qkv", vec![(vec![("M", 4096), ("C", 4096), ("H", 32), ("F", 64), ("K", 8), ("J", 1024)], "256 columns")]),
        ("norm_logits", vec![(vec![("M", 2048), ("C", 4096), ("V", 32000)], "columns")]),
        // 192 tiles of 256 columns are one and a half for each of 132 multiprocessors, 256 tiles of 192 columns are almost two
        ("product_by_columns", vec![(product(4096, 4096, 4096), "256 columns"), (product(1024, 4096, 6144), "192 columns")]),
    ];
    for (name, all) in cases {
        let menu = Menu::new(name, DType::BF16);
        for (extents, wanted) in all {
            let title = menu.choose(&extents, DENSE, &device).title;
            assert!(title.contains("sm_90a") && title.contains(wanted), "{name} {extents:?}: {title}")
        }
    }
}

#[test]
fn few_rows_go_to_tiles_that_are_many_enough() {
    let device = DeviceModel { target: Target::Hopper, half_flops: 900e12, ..h200() };
    let product = |m, k, j| vec![("M", m), ("C", k), ("K", k), ("J", j), ("N", j)];
    let attention = |h, m, n, d| vec![("B", 1), ("K", h), ("G", 1), ("H", h), ("M", m), ("N", n), ("D", d), ("E", d)];
    // tiles of 128 x 64: 128 for 256 rows; 64 x 64: 96 for 64 rows
    let cases = [
        ("matmul", product(256, 4096, 4096), "2 warpgroups, 64 columns", 1),
        ("product_by_columns", product(256, 4096, 6144), "2 warpgroups, 128 columns", 1),
        ("product_by_columns", product(128, 4096, 6144), "2 warpgroups, 64 columns", 1),
        ("product_by_columns", product(64, 4096, 6144), "1 warpgroup, 64 columns", 1),
        ("attention_full", attention(32, 4096, 4096, 64), "3 warpgroups, on chip up to 64", 1),
        ("attention_full", attention(32, 1024, 4096, 64), "2 warpgroups, on chip up to 64", 1),
        ("attention_full", attention(32, 256, 4096, 64), "1 warpgroup, on chip up to 64", 1),
        ("attention_full", attention(32, 1024, 4096, 128), "2 warpgroups, on chip up to 128", 1),
        ("attention_full", attention(32, 64, 4096, 64), "1 warpgroup, on chip up to 64", 2),
        ("attention_full", attention(32, 128, 4096, 64), "1 warpgroup, on chip up to 64", 2),
        ("attention_full", attention(32, 64, 4096, 128), "1 warpgroup, on chip up to 128", 2),
    ];
    let menus = ["matmul", "product_by_columns", "attention_full"].map(|name| (name, Menu::new(name, DType::BF16)));
    let mut wrong = vec![];
    for (name, extents, wanted, split) in cases {
        let menu = &menus.iter().find(|m| m.0 == name).expect("a menu").1;
        let found = menu.choose(&extents, DENSE, &device);
        // 32 tiles are shared out to half of the device, or all of it
        let shared = if split == 1 { 1..=1 } else { split..=2 * split };
        if !found.title.contains(wanted) || !shared.contains(&found.split) {
            wrong.push(format!("{name} {extents:?}: {} in {} pieces", found.title, found.split))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn what_bytes_in_flight_bound_is_split() {
    // 64 blocks would draw a third of what memory gives: 26.5 us unsplit on an H200, 19.3 in four pieces
    let menu = Menu::new("norm_logits", DType::BF16);
    let found = menu.choose(&[("M", 8), ("C", 4096), ("V", 4096)], DENSE, &h200());
    assert!((2..=8).contains(&found.split) && found.body == Some(Body::TensorCores), "{} in {} pieces", found.title, found.split)
}

#[test]
fn a_row_is_held_where_it_fits() {
    let menu = Menu::new("softmax_rows", DType::BF16);
    for (columns, home) in [(512, "32 of 128 threads"), (4096, "128 of 128 threads"), (8192, "256 of 256 threads a row, 4 chunks, rows in registers")] {
        let title = menu.choose(&[("M", 8192), ("N", columns)], DENSE, &h200()).title;
        assert!(title.contains(home), "{columns} columns: {title}")
    }
    let title = menu.choose(&[("M", 4096), ("N", 32768)], DENSE, &h200()).title;
    assert!(title.contains("shared memory"), "{title}");
    let title = menu.choose(&[("M", 64), ("N", 1 << 17)], DENSE, &h200()).title;
    assert!(title.ends_with("4 chunks"), "a row that fits nowhere is streamed: {title}")
}

#[test]
fn rows_of_which_no_chunks_can_be_read_are_read_by_elements() {
    let menu = Menu::new("rms_norm_rows", DType::BF16);
    let aligned = menu.choose(&[("M", 64), ("C", 4096)], DENSE, &h200()).title;
    assert!(aligned.contains("chunks"), "{aligned}");
    for (columns, row) in [(4097, DENSE), (4096, support::ROWS[1])] {
        let title = menu.choose(&[("M", 64), ("C", columns)], row, &h200()).title;
        assert!(title.contains("elements"), "{columns} columns: {title}")
    }
}

#[test]
fn few_long_rows_are_cut_in_pieces_and_many_are_not() {
    let menu = Menu::new("logsumexp_rows", DType::BF16);
    assert!(menu.choose(&[("M", 4), ("N", 1 << 20)], DENSE, &h200()).split > 8);
    assert_eq!(menu.choose(&[("M", 8192), ("N", 4096)], DENSE, &h200()).split, 1)
}

#[test]
fn decoding_is_split_until_its_blocks_fill_the_device_and_no_further() {
    // on an H200 128 blocks are up to 13 % faster than 256, two to a multiprocessor, and 512 slower than both
    let device = DeviceModel { target: Target::Hopper, half_flops: 1070e12, ..h200() };
    let menu = Menu::new("attention", DType::BF16);
    for (batch, keys) in [(1, 8192), (1, 32768), (8, 8192), (64, 1024)] {
        let items = batch * 8;
        let extents = [("B", batch), ("K", 8), ("G", 4), ("M", 1), ("N", keys), ("D", 128), ("E", 128)];
        let Found { split, title, .. } = menu.choose(&extents, DENSE, &device);
        let blocks = items * split as i64;
        assert!(title.contains("low tiles") && (split == 1 || (64..=264).contains(&blocks)), "{items} items in {split} pieces: {title}")
    }
}
