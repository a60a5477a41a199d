//! Workloads for the placement of compute capability 9.0: kernels, choices of tiles to compare, shapes to check and to time.
use super::Named;
use cleave_core::emit::Placement;
use cleave_core::emit::hopper::Knobs;
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::plan::Entry;
use cleave_core::tile::{Program, Role};

/// Beside those of the corpus: a right operand stored by rows of the contracted axis, two products of one operand, a normalised operand with a gain.
const MORE: &str = r#"
#[cleave::kernel(dtypes(T = bf16))]
pub fn matmul_nn<T>(x: Tensor<T, M, K>, w: Tensor<T, K, J>) -> Tensor<T, M, J> {
    sum::<K>(x * w)
}
#[cleave::kernel(dtypes(T = bf16))]
pub fn gated<T>(x: Tensor<T, M, K>, gate: Tensor<T, J, K>, up: Tensor<T, J, K>) -> Tensor<T, M, J> {
    silu(sum::<K>(x * gate)) * sum::<K>(x * up)
}
#[cleave::kernel(dtypes(T = bf16))]
pub fn norm_linear<T>(x: Tensor<T, M, C>, gain: Tensor<T, C>, w: Tensor<T, J, C>, epsilon: f32) -> Tensor<T, M, J> {
    sum::<C>(rms_norm::<C>(x, gain, epsilon) * w)
}
#[cleave::kernel(dtypes(T = bf16), bound(D <= 64, E <= 64))]
pub fn chain<T>(q: Tensor<T, H, M, D>, k: Tensor<T, H, N, D>, v: Tensor<T, H, N, E>) -> Tensor<T, H, M, E> {
    sum::<N>(sum::<D>(q * k) * v)
}
#[cleave::kernel(dtypes(T = bf16), bound(D <= 192, E <= 128))]
pub fn attention_latent<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, scale: f32) -> Tensor<T, B, H, M, E> {
    let s = mask(sum::<D>(q * k) * scale, index::<N>() - extent::<N>() <= index::<M>() - extent::<M>());
    sum::<N>(softmax::<N>(s) * v)
}
#[cleave::kernel(dtypes(T = bf16), bound(D <= 128, E <= 128))]
pub fn attention_window<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>, slope: Tensor<f32, H>, scale: f32) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() + extent::<N>() - extent::<M>() - index::<N>();
    let s = mask(sum::<D>(q * k) * scale - slope * behind, 0 <= behind && behind < 256);
    sum::<N>(softmax::<N>(s) * v)
}
#[cleave::kernel(dtypes(T = bf16), bound(C <= 512, R <= 64))]
pub fn latent<T>(q: Tensor<T, B, H, C>, cache: Tensor<T, B, N, C>, qp: Tensor<T, B, H, R>, kp: Tensor<T, B, N, R>, len: Tensor<i32, B>, scale: f32) -> (Tensor<T, B, H, C>, Tensor<f32, B, H>) {
    let s = mask((sum::<C>(q * cache) + sum::<R>(qp * kp)) * scale, index::<N>() < len);
    (sum::<N>(softmax::<N>(s) * cache), logsumexp::<N>(s))
}
#[cleave::kernel(dtypes(T = bf16), bound(D <= 128, E <= 128))]
pub fn normalised<T>(q: Tensor<T, B, (K, G), M, D>, k: Tensor<T, B, K, N, D>, v: Tensor<T, B, K, N, E>, q_gain: Tensor<T, D>, k_gain: Tensor<T, D>, eps: f32) -> Tensor<T, B, (K, G), M, E> {
    sum::<N>(softmax::<N>(sum::<D>(rms_norm::<D>(q, q_gain, eps) * rms_norm::<D>(k, k_gain, eps)) * 0.1) * v)
}
#[cleave::kernel(dtypes(T = bf16), bound(D <= 128, E <= 128))]
pub fn longformer<T>(q: Tensor<T, B, H, M, D>, k: Tensor<T, B, H, N, D>, v: Tensor<T, B, H, N, E>) -> Tensor<T, B, H, M, E> {
    let behind = index::<M>() - index::<N>();
    let near = behind <= 9 && -behind <= 9;
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k) * 0.3, near || index::<N>() < 5 || index::<M>() < 7)) * v)
}
"#;

pub fn kernels(corpus: Vec<Kernel>) -> Vec<Kernel> {
    let wanted = [
        "attention",
        "attention_full",
        "alibi_window",
        "matmul",
        "matmul_matmul",
        "project_add",
        "norm_swiglu",
        "norm_logits",
        "norm_qkv",
        "product_by_columns",
    ];
    let more = frontend::from_source(MORE).unwrap_or_else(|e| panic!("{}", e.render(MORE)));
    corpus.into_iter().filter(|k| wanted.contains(&k.name.as_str())).chain(more).collect()
}

/// Choices to compare.
pub fn placements(kernel: &Kernel) -> Vec<Placement> {
    let (c64, c128, c256, wide) = (Knobs::CHIP_64, Knobs::CHIP_128, Knobs::CHIP_256, Knobs::WIDE);
    let lower = Knobs { warpgroups: 2, ..c64 };
    let columns = |all: &[u32]| all.iter().map(|columns| Knobs { columns: *columns, ..wide }).collect::<Vec<_>>();
    // tiles beside the widest: fewer columns, fewer rows, a ring of few stages
    let narrower = || [columns(&[192, 128, 96, 64]), vec![Knobs::NARROW, Knobs { stages: 4, ..Knobs::NARROW }]].concat();
    let all = match kernel.name.as_str() {
        "attention" | "attention_full" => vec![c128, c128.few(), c64, lower, c64.few(), c256],
        "chain" => vec![c64, lower, c64.few()],
        "matmul_matmul" => vec![c128, wide, Knobs::NARROW],
        "latent" => vec![Knobs::CHIP_512, Knobs { step: 32, ..Knobs::CHIP_512 }],
        "normalised" => [128, 96, 64].map(|step| Knobs { step, ..c128 }).into(),
        "longformer" => [128, 96, 64].map(|step| Knobs { step, ..c128 }).into_iter().chain([c64]).collect(),
        "attention_window" => vec![c128, c64],
        "alibi_window" => vec![Knobs { step: 64, ..c128 }, Knobs { step: 64, warpgroups: 2, ..c64 }],
        "attention_latent" => vec![Knobs { step: 128, ..c256 }, Knobs { step: 128, residents: 1, ..c256 }],
        "matmul" | "matmul_nn" | "product_by_columns" | "norm_linear" => [vec![wide], narrower()].concat(),
        "gated" => vec![wide, Knobs { persistent: false, ..wide }],
        _ => vec![wide],
    };
    all.into_iter().map(Placement::Hopper).collect()
}

/// Shapes that the oracle checks.
pub fn checks(kernel: &Kernel) -> Vec<(Named, Vec<i64>)> {
    let has = |n: &str| kernel.graph.axes.iter().any(|a| a.name == n);
    if has("N") && has("D") && has("E") {
        let case = |b, g, m, n, d, e, lengths: &[i64]| (vec![("B", b), ("K", 1), ("G", g), ("H", g), ("M", m), ("N", n), ("D", d), ("E", e)], lengths.to_vec());
        return vec![
            case(2, 1, 70, 300, 64, 64, &[300, 90]),
            case(1, 2, 70, 205, 128, 128, &[205]),
            case(1, 1, 130, 141, 40, 72, &[139]),
            case(2, 2, 3, 5, 200, 136, &[0, 2]),
            case(1, 1, 200, 200, 72, 64, &[200]),
            case(1, 1, 70, 131, 33, 57, &[129]),
            case(1, 1, 9, 300, 1, 3, &[300]),
        ];
    }
    if has("R") && has("H") {
        let case = |b, h, c, n, r, lengths: &[i64]| (vec![("B", b), ("H", h), ("C", c), ("N", n), ("R", r)], lengths.to_vec());
        return vec![case(2, 70, 512, 200, 64, &[200, 77]), case(1, 130, 500, 67, 40, &[66]), case(2, 3, 300, 70, 64, &[0, 70])];
    }
    let names: Vec<&'static str> = kernel.graph.axes.iter().map(|a| &*Box::leak(a.name.clone().into_boxed_str())).collect();
    let each = |f: &dyn Fn(usize) -> i64| -> Named { names.iter().enumerate().map(|(i, n)| (*n, f(i))).collect() };
    let parts = |c, h, f| vec![("M", 70), ("C", c), ("H", h), ("F", f), ("K", 2), ("J", 70)];
    let sizes = [[70, 200, 264, 88], [136, 72, 72, 136], [8, 8, 8, 8], [35, 67, 301, 130], [7, 129, 1, 5]];
    let mut all: Vec<_> = sizes.into_iter().map(|n| (each(&|i| n[i % 4]), vec![1])).collect();
    if has("F") {
        all = vec![(parts(136, 5, 32), vec![1]), (parts(64, 3, 5), vec![1]), (parts(67, 1, 48), vec![1]), (each(&|_| 1), vec![1])]
    }
    all
}

/// Shapes to time in bf16, with the name of the workload.
pub fn timings(kernel: &Kernel) -> Vec<(&'static str, Named, Vec<i64>)> {
    let attention = |b, k, g, m, n, d, e| vec![("B", b), ("K", k), ("H", k * g), ("G", g), ("M", m), ("N", n), ("D", d), ("E", e)];
    let matmul = |m, k, n| vec![("M", m), ("K", k), ("J", n), ("N", n), ("C", n), ("R", n)];
    let projected = |m, c, j| vec![("M", m), ("C", c), ("K", c), ("J", j), ("V", j)];
    match kernel.name.as_str() {
        "attention" => vec![
            ("causal B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128, 128), vec![4096]),
            ("causal B1 S16384 H16 D128", attention(1, 16, 1, 16384, 16384, 128, 128), vec![16384]),
            ("causal B16 S1024 H16 D128", attention(16, 16, 1, 1024, 1024, 128, 128), vec![1024]),
            ("causal B4 S4096 H32/8 D128", attention(4, 8, 4, 4096, 4096, 128, 128), vec![4096]),
            ("causal B4 S4096 H32 D64", attention(4, 32, 1, 4096, 4096, 64, 64), vec![4096]),
            ("causal B4 S4096 H8 D256", attention(4, 8, 1, 4096, 4096, 256, 256), vec![4096]),
        ],
        "attention_full" => vec![
            ("full B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128, 128), vec![4096]),
            ("full B1 S16384 H16 D128", attention(1, 16, 1, 16384, 16384, 128, 128), vec![16384]),
            ("full B16 S1024 H16 D128", attention(16, 16, 1, 1024, 1024, 128, 128), vec![1024]),
            ("full B4 S4096 H32 D64", attention(4, 32, 1, 4096, 4096, 64, 64), vec![4096]),
            ("full B4 S4096 H8 D256", attention(4, 8, 1, 4096, 4096, 256, 256), vec![4096]),
            ("few 16 of N4096 H32 D64", attention(1, 32, 1, 16, 4096, 64, 64), vec![4096]),
            ("few 16 of N4096 H32 D128", attention(1, 32, 1, 16, 4096, 128, 128), vec![4096]),
            ("few 64 of N4096 H32 D64", attention(1, 32, 1, 64, 4096, 64, 64), vec![4096]),
            ("few 128 of N4096 H32 D64", attention(1, 32, 1, 128, 4096, 64, 64), vec![4096]),
            ("few 256 of N4096 H32 D64", attention(1, 32, 1, 256, 4096, 64, 64), vec![4096]),
            ("few 1024 of N4096 H32 D64", attention(1, 32, 1, 1024, 4096, 64, 64), vec![4096]),
            ("few 4096 of N4096 H32 D64", attention(1, 32, 1, 4096, 4096, 64, 64), vec![4096]),
            ("few 64 of N4096 H32 D128", attention(1, 32, 1, 64, 4096, 128, 128), vec![4096]),
            ("few 128 of N4096 H32 D128", attention(1, 32, 1, 128, 4096, 128, 128), vec![4096]),
            ("few 256 of N4096 H32 D128", attention(1, 32, 1, 256, 4096, 128, 128), vec![4096]),
            ("few 64 of N4096 H32/8 D64", attention(1, 8, 4, 64, 4096, 64, 64), vec![4096]),
            ("few 64 of N4096 H32/8 D128", attention(1, 8, 4, 64, 4096, 128, 128), vec![4096]),
        ],
        "chain" => vec![
            ("few 64 of N4096 H32 D64", attention(1, 1, 32, 64, 4096, 64, 64), vec![1]),
            ("few 128 of N4096 H32 D64", attention(1, 1, 32, 128, 4096, 64, 64), vec![1]),
            ("few 256 of N4096 H32 D64", attention(1, 1, 32, 256, 4096, 64, 64), vec![1]),
        ],
        "attention_window" => vec![("window 256 B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128, 128), vec![4096])],
        "attention_latent" => vec![("causal B4 S4096 H16 D192 E128", attention(4, 16, 1, 4096, 4096, 192, 128), vec![4096])],
        "norm_swiglu" => vec![
            ("4096->14336 b4096", projected(4096, 4096, 14336), vec![1]),
            ("4096->14336 b1024", projected(1024, 4096, 14336), vec![1]),
            ("4096->14336 b256", projected(256, 4096, 14336), vec![1]),
        ],
        "norm_linear" | "product_by_columns" => vec![
            ("4096->6144 b4096", projected(4096, 4096, 6144), vec![1]),
            ("4096->6144 b1024", projected(1024, 4096, 6144), vec![1]),
            ("4096->4096 b4096", projected(4096, 4096, 4096), vec![1]),
            ("few 4096->6144 b256", projected(256, 4096, 6144), vec![1]),
            ("few 4096->6144 b128", projected(128, 4096, 6144), vec![1]),
            ("few 4096->6144 b64", projected(64, 4096, 6144), vec![1]),
        ],
        "norm_logits" => vec![("4096->32000 b2048", projected(2048, 4096, 32000), vec![1])],
        "norm_qkv" => vec![("4096->4096+1024+1024 b4096", vec![("M", 4096), ("C", 4096), ("H", 32), ("F", 64), ("K", 8), ("J", 1024)], vec![1])],
        "alibi_window" => vec![("window 128, 4 sinks, B4 S4096 H16 D128", attention(4, 16, 1, 4096, 4096, 128, 128), vec![0])],
        "matmul" | "matmul_nn" => vec![
            ("8192^3", matmul(8192, 8192, 8192), vec![1]),
            ("4096^3", matmul(4096, 4096, 4096), vec![1]),
            ("4096->6144 b1024", matmul(1024, 4096, 6144), vec![1]),
            ("few 4096->4096 b256", matmul(256, 4096, 4096), vec![1]),
            ("few 4096->4096 b64", matmul(64, 4096, 4096), vec![1]),
        ],
        "gated" => vec![
            ("8192^3", matmul(8192, 8192, 8192), vec![1]),
            ("4096^3", matmul(4096, 4096, 4096), vec![1]),
            ("4096->14336 b4096", matmul(4096, 4096, 14336), vec![1]),
        ],
        "matmul_matmul" => vec![("8192x128x8192x128", vec![("M", 8192), ("K", 128), ("R", 8192), ("J", 128)], vec![1])],
        "project_add" => vec![("8192^3", vec![("M", 8192), ("J", 8192), ("C", 8192)], vec![1])],
        _ => vec![],
    }
}

/// Whether an entry's tiles on chip are not far too wide.
pub fn fits(program: &Program, entry: &Entry, extents: &[i64]) -> bool {
    let parts = program.launches.iter().flatten().zip(entry.tiles.iter().flatten());
    let mut dims = parts.flat_map(|(p, tiles)| p.dims.iter().zip(tiles));
    !dims.any(|(d, tile)| d.role == Role::Chip && d.axes.iter().map(|a| extents[a.0 as usize]).product::<i64>() * 2 <= *tile as i64)
}
