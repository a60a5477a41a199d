//! What memory bounds: shapes to time, and plans beside those of the menu that show what threads, chunks, homes and hints are worth.
use super::Named;
use cleave_core::dtype::DType;
use cleave_core::emit::Placement;
use cleave_core::emit::menu::{Height, Size};
use cleave_core::emit::vector::{self, Hints, Home, Plan};
use cleave_core::kernel::Kernel;
use cleave_core::tile::Program;

/// Shapes to time in bf16, with the name of the workload.
pub fn timings(kernel: &Kernel) -> Vec<(&'static str, Named, Vec<i64>)> {
    let attention = |b, k, g, m, n, d| vec![("B", b), ("K", k), ("H", k * g), ("G", g), ("M", m), ("N", n), ("D", d), ("E", d)];
    let rows = |m, n| vec![("M", m), ("N", n), ("C", n)];
    match kernel.name.as_str() {
        "softmax_rows" => vec![
            ("softmax 8192x4096", rows(8192, 4096), vec![1]),
            ("softmax 4096x32768", rows(4096, 32768), vec![1]),
            ("softmax 64x131072", rows(64, 131072), vec![1]),
        ],
        "logsumexp_rows" => vec![("logsumexp 8192x4096", rows(8192, 4096), vec![1]), ("logsumexp 64x131072", rows(64, 131072), vec![1])],
        "rms_norm_rows" => vec![("rmsnorm 8192x4096", rows(8192, 4096), vec![1]), ("rmsnorm 65536x576", rows(65536, 576), vec![1])],
        "norm_swiglu" => vec![
            ("rmsnorm swiglu 4096->14336 b1", vec![("M", 1), ("C", 4096), ("J", 14336)], vec![1]),
            ("rmsnorm swiglu 4096->14336 b4", vec![("M", 4), ("C", 4096), ("J", 14336)], vec![1]),
            ("rmsnorm swiglu 4096->14336 b16", vec![("M", 16), ("C", 4096), ("J", 14336)], vec![1]),
            ("rmsnorm swiglu 576->1536 b1", vec![("M", 1), ("C", 576), ("J", 1536)], vec![1]),
        ],
        "norm_qkv" => vec![
            ("rmsnorm qkv 4096->6144 b1", vec![("M", 1), ("C", 4096), ("H", 32), ("F", 64), ("K", 8), ("J", 1024)], vec![1]),
            ("rmsnorm qkv 576->960 b1", vec![("M", 1), ("C", 576), ("H", 9), ("F", 32), ("K", 3), ("J", 192)], vec![1]),
        ],
        "project_add" => vec![
            ("project 4096->4096 b1", vec![("M", 1), ("J", 4096), ("C", 4096)], vec![1]),
            ("project 14336->4096 b1", vec![("M", 1), ("J", 14336), ("C", 4096)], vec![1]),
        ],
        "norm_logits" => vec![("logits 576->49152 b1", vec![("M", 1), ("C", 576), ("V", 49152)], vec![1])],
        "product_by_columns" => vec![("by columns 4096->4096 b1", vec![("M", 1), ("K", 4096), ("J", 4096)], vec![1])],
        "attention" => vec![
            ("decode B1 N8192 H32/8 D128", attention(1, 8, 4, 1, 8192, 128), vec![8192]),
            ("decode B1 N32768 H32/8 D128", attention(1, 8, 4, 1, 32768, 128), vec![32768]),
            ("decode B8 N8192 H32/8 D128", attention(8, 8, 4, 1, 8192, 128), vec![8192]),
            ("decode B64 N1024 H32/8 D128", attention(64, 8, 4, 1, 1024, 128), vec![1024]),
            ("decode B64 N8192 H32/8 D128", attention(64, 8, 4, 1, 8192, 128), vec![8192]),
            ("decode MHA B8 N4096 H32 D128", attention(8, 32, 1, 1, 4096, 128), vec![4096]),
        ],
        _ => vec![],
    }
}

/// Placements beside the menu, each with the program to place.
pub fn placements(kernel: &Kernel, programs: &[Program], types: &[DType]) -> Vec<(usize, Placement)> {
    if kernel.name == "attention" {
        let Some(number) = programs.iter().position(|p| p.algorithm > 0 && p.name.contains("on chip E D")) else { return vec![] };
        let low = |warps| (number, Placement::Fragment(Size { rows: Height::Low, chip: 128, aligned: true, warps }));
        return vec![low(4), low(8)];
    }
    let menu = vector::menu::plans(programs, types);
    let hints = Hints { evict_first: true, stores: false };
    let plan = |threads, group, rows, chunks, home| Plan { threads, group, rows, few: 1, single: false, chunks, home, hints };
    let Some(first) = menu.first().and_then(|m| m.0.first().copied()) else { return vec![] };
    let (registers, stream) = (Home::Registers, Home::Stream);
    let plans = match kernel.name.as_str() {
        "softmax_rows" => {
            let held = plan(128, 128, 1, 4, registers);
            vec![held, Plan { hints: Hints { evict_first: true, stores: true }, ..held }, plan(512, 512, 1, 8, registers), plan(1024, 1024, 1, 4, registers)]
        }
        "rms_norm_rows" => {
            let held = plan(256, 256, 1, 4, registers);
            vec![plan(128, 128, 1, 4, registers), Plan { hints: Hints { evict_first: false, stores: false }, ..held }, plan(256, 256, 1, 2, registers)]
        }
        "logsumexp_rows" => vec![plan(128, 128, 1, 4, registers), plan(256, 256, 1, 2, registers)],
        "norm_swiglu" | "project_add" => {
            let few = Plan { few: 4, ..plan(256, 256, 2, 1, stream) };
            vec![plan(256, 256, 4, 2, stream), plan(128, 32, 1, 4, stream), plan(128, 128, 2, 4, stream), few]
        }
        "norm_qkv" | "norm_logits" => vec![plan(256, 256, 2, 2, stream), plan(128, 32, 1, 4, stream), plan(128, 32, 2, 2, stream)],
        "product_by_columns" => vec![plan(256, 256, 4, 2, stream)],
        _ => vec![],
    };
    plans.into_iter().map(|p| (first, Placement::Vector(p))).collect()
}
