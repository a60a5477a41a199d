//! What the first call chooses among the entries of a real menu, on a made-up device with the numbers of an H200.
#![cfg(feature = "compiler")]
mod support;
use cleave_core::choose::{Choice, Facts, Request, choose};
use cleave_core::device::{DeviceModel, Target};
use cleave_core::dtype::DType;
use cleave_core::emit;
use cleave_core::plan::{Instance, Launch, PlanFile, TensorRef, VERSION};
use support::Problem;

struct Menu {
    file: PlanFile,
    titles: Vec<String>,
}

fn menu(name: &str) -> Menu {
    let kernel = support::corpus().into_iter().find(|k| k.name == name).expect("a kernel of the corpus");
    let (_, programs) = support::programs(&kernel);
    let types: Vec<DType> = kernel.params.iter().map(|_| DType::BF16).collect();
    let emission = emit::emission(&kernel, &types, &programs, Target::Portable);
    let title = |m: &(Target, String)| m.1.lines().next().unwrap_or("").to_string();
    let titles = emission.modules.iter().map(title).collect();
    let instances = vec![Instance { types, entries: emission.entries, modules: vec![] }];
    Menu { file: PlanFile { version: VERSION, key: 0, kernel, algorithms: vec![], programs, instances }, titles }
}

impl Menu {
    /// The choice for dense tensors, rows of which lie `pad` elements apart, and the launch of the entry.
    fn choose(&self, extents: &[(&str, i64)], pad: i64) -> (Choice, &Launch, &str) {
        let device = DeviceModel {
            name: "132 multiprocessors".into(),
            target: Target::Portable,
            units: 132,
            chip_bytes: 227 << 10,
            half_flops: 600e12,
            single_flops: 60e12,
            bandwidth: 4.3e12,
            launch_seconds: 3e-6,
            merge_seconds: 2e-6,
        };
        let types = &self.file.instances[0].types;
        let problem = Problem::new(&self.file.kernel, types, support::extents(&self.file.kernel, extents), pad, &[1], 1.0, false);
        let facts = |t: TensorRef| {
            let p = match t {
                TensorRef::Input(i) => &problem.inputs[i.index()],
                TensorRef::Output(o) => &problem.outputs[o as usize],
                TensorRef::Workspace(_) => unreachable!("workspaces are not asked for"),
            };
            Facts::of(256, p.shape.iter().zip(&p.strides).map(|(n, s)| (*n as u64, *s as u64)), p.dtype.bytes() as u64)
        };
        let request = Request { instance: 0, extents: &problem.extents, facts: &facts, pieces: None, usable: &|_| true };
        let choice = choose(&self.file, &request, &device).expect("an entry serves every call");
        let launch = &self.file.instances[0].entries[choice.entry].launches[0];
        let title = &self.titles[launch.module as usize];
        (choice, launch, title)
    }
}

#[test]
fn a_product_with_one_row_goes_to_vectors_and_one_with_many_to_tensor_cores() {
    let menu = menu("norm_swiglu");
    for (rows, vector) in [(1, true), (16, false), (4096, false)] {
        let (_, launch, title) = menu.choose(&[("M", rows), ("C", 4096), ("J", 14336)], 0);
        assert_eq!((launch.vector, launch.tensor_cores), (vector, !vector), "{rows} rows: {title}")
    }
}

#[test]
fn a_row_is_held_where_it_fits() {
    let menu = menu("softmax_rows");
    for (columns, home) in [(512, "32 of 128 threads"), (4096, "rows in registers")] {
        let (_, _, title) = menu.choose(&[("M", 8192), ("N", columns)], 0);
        assert!(title.contains(home), "{columns} columns: {title}")
    }
    let (_, _, title) = menu.choose(&[("M", 64), ("N", 1 << 17)], 0);
    assert!(title.ends_with("4 chunks"), "a row that fits nowhere is streamed: {title}")
}

#[test]
fn rows_of_which_no_chunks_can_be_read_are_read_by_elements() {
    let menu = menu("rms_norm_rows");
    let (_, _, aligned) = menu.choose(&[("M", 64), ("C", 4096)], 0);
    assert!(aligned.contains("chunks"), "{aligned}");
    for (columns, pad) in [(4097, 0), (4096, 3)] {
        let (_, _, title) = menu.choose(&[("M", 64), ("C", columns)], pad);
        assert!(title.contains("elements"), "{columns} columns: {title}")
    }
}

#[test]
fn few_long_rows_are_cut_in_pieces_and_many_are_not() {
    let menu = menu("logsumexp_rows");
    assert!(menu.choose(&[("M", 4), ("N", 1 << 20)], 0).0.split() > 8);
    assert_eq!(menu.choose(&[("M", 8192), ("N", 4096)], 0).0.split(), 1)
}

#[test]
fn decoding_is_split_until_its_blocks_fill_the_device_and_no_further() {
    let menu = menu("attention");
    for (batch, keys) in [(1, 8192), (1, 32768), (8, 8192), (64, 1024)] {
        let items = batch * 8;
        let extents = [("B", batch), ("K", 8), ("G", 4), ("M", 1), ("N", keys), ("D", 128), ("E", 128)];
        let (choice, _, title) = menu.choose(&extents, 0);
        let blocks = items * choice.split() as i64;
        assert!(title.contains("low tiles") && (choice.split() == 1 || (64..=132).contains(&blocks)), "{items} items in {} pieces: {title}", choice.split())
    }
}
