//! The tables of workloads. A name is that of the same workload in `peers/peers_cpu.py` (CPU, f32) or `peers/peers.py` (CUDA, bf16, the nine subgraphs f16).
use super::kernels::{attention_blocked, attention_global, attention_grouped, attention_latent, attention_normalised, attention_sink, attention_strided};
use super::kernels::{attention_window, gated_mlp, layer_norm_rows, lora, norm_linear, norm_product, product, product_product, product_rowsum, swiglu};
use super::{Action, Job, Timed, Workload};
use crate::data::Normal;
use crate::kernels::{attention, attention_full, logsumexp_rows, rms_norm_rows, softmax_rows};
use anyhow::Result;
use cleave::{Device, Element, Tensor};
use half::{bf16, f16};

/// A call and where its results go, as a job: planned once, then built and run at every repetition.
macro_rules! job {
    ($call:expr => $targets:expr) => {{
        let plan = $call.plan()?;
        let step = move |action: Action| -> Result<Option<cleave::Plan>> {
            match action {
                Action::Run(Some(stream)) => $call.on(stream).run_into($targets)?,
                Action::Run(None) => $call.run_into($targets)?,
                Action::Tune => return Ok(Some($call.tune()?)),
            }
            Ok(None)
        };
        Ok(Job { plan, step: Box::new(step) })
    }};
}

const EPSILON: f32 = 1e-6;

/// Extents of attention; queries stand at the last positions of the keys.
#[derive(Clone, Copy, Debug)]
struct Attention {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
    causal: bool,
}

impl Attention {
    fn new([batch, heads, key_heads, queries, keys, dim]: [usize; 6], causal: bool) -> Self {
        Attention { batch, heads, key_heads, queries, keys, dim, value_dim: dim, causal }
    }

    fn workload<T: Element>(self, name: String) -> Workload {
        let Attention { batch, heads, key_heads, queries, keys, dim, value_dim, causal } = self;
        let hidden = if causal { queries * (queries - 1) / 2 } else { 0 };
        let flop = 2.0 * (batch * heads * (queries * keys - hidden) * (dim + value_dim)) as f64;
        let elements = batch * (dim + value_dim) * (heads * queries + key_heads * keys);
        let make = move |device: &Device| -> Result<Job> {
            let mut data = Normal::new(1);
            let q = data.tensor::<T>(device, &[batch, heads, queries, dim], 1.0)?;
            let k = data.tensor::<T>(device, &[batch, key_heads, keys, dim], 1.0)?;
            let v = data.tensor::<T>(device, &[batch, key_heads, keys, value_dim], 1.0)?;
            let mut out = Tensor::<T>::zeros(device, &[batch, heads, queries, value_dim])?;
            let scale = 1.0 / (dim as f32).sqrt();
            if causal {
                let len = Tensor::from_slice_on(device, &vec![keys as i32; batch], &[batch])?;
                let mut log_sum_exp = Tensor::<f32>::zeros(device, &[batch, heads, queries])?;
                job!(attention(&q, &k, &v, &len, scale) => (&mut out, &mut log_sum_exp))
            } else if heads == key_heads {
                job!(attention_full(&q, &k, &v, scale) => &mut out)
            } else {
                job!(attention_grouped(&q, &k, &v, scale) => &mut out)
            }
        };
        workload::<T>(name, flop, elements, make)
    }
}

fn workload<T: Element>(name: String, flop: f64, elements: usize, make: impl Fn(&Device) -> Result<Job> + 'static) -> Workload {
    Workload { name, flop, bytes: (elements * T::DTYPE.bytes()) as f64, timed: Timed::Device, make: Box::new(make) }
}

/// Which kernel of two matrices, `x` of `[rows, inner]` and one or two `w`.
#[derive(Clone, Copy)]
enum Matrix {
    /// `x @ w`
    Product,
    /// `(x @ w).sum(-1)`
    RowSum,
    /// `rms_norm(x) @ w`
    NormProduct,
    /// `linear(rms_norm(x, gain), w)`
    NormLinear,
    /// `silu(x @ gate) * (x @ up)`
    SwiGlu,
    /// `silu(linear(x, gate)) * linear(x, up)`
    GatedMlp,
}

fn matrix<T: Element>(name: String, formula: Matrix, [rows, inner, columns]: [usize; 3]) -> Workload {
    let pair = matches!(formula, Matrix::SwiGlu | Matrix::GatedMlp) as usize + 1;
    let out = if let Matrix::RowSum = formula { rows } else { rows * columns };
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(2);
        let x = data.tensor::<T>(device, &[rows, inner], 1.0)?;
        let stored = if matches!(formula, Matrix::NormLinear | Matrix::GatedMlp) { [columns, inner] } else { [inner, columns] };
        let w = data.tensor::<T>(device, &stored, 0.02)?;
        if let Matrix::RowSum = formula {
            let mut y = Tensor::<T>::zeros(device, &[rows])?;
            return job!(product_rowsum(&x, &w) => &mut y);
        }
        let mut y = Tensor::<T>::zeros(device, &[rows, columns])?;
        match formula {
            Matrix::Product | Matrix::RowSum => job!(product(&x, &w) => &mut y),
            Matrix::NormProduct => job!(norm_product(&x, &w, EPSILON) => &mut y),
            Matrix::NormLinear => {
                let gain = data.tensor::<T>(device, &[inner], 1.0)?;
                job!(norm_linear(&x, &gain, &w, EPSILON) => &mut y)
            }
            Matrix::SwiGlu | Matrix::GatedMlp => {
                let up = data.tensor::<T>(device, &stored, 0.02)?;
                if let Matrix::SwiGlu = formula { job!(swiglu(&x, &w, &up) => &mut y) } else { job!(gated_mlp(&x, &w, &up) => &mut y) }
            }
        }
    };
    workload::<T>(name, (2 * pair * rows * inner * columns) as f64, rows * inner + pair * inner * columns + out, make)
}

/// `linear(x, w) + linear(linear(x, down), up)`
fn low_rank<T: Element>(name: String, [rows, inner, columns, rank]: [usize; 4]) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(5);
        let x = data.tensor::<T>(device, &[rows, inner], 1.0)?;
        let w = data.tensor::<T>(device, &[columns, inner], 0.02)?;
        let (down, up) = (data.tensor::<T>(device, &[rank, inner], 0.02)?, data.tensor::<T>(device, &[columns, rank], 0.02)?);
        let mut y = Tensor::<T>::zeros(device, &[rows, columns])?;
        job!(lora(&x, &w, &down, &up) => &mut y)
    };
    let flop = 2 * rows * (inner * columns + rank * (inner + columns));
    workload::<T>(name, flop as f64, rows * inner + inner * columns + rows * columns + rank * (inner + columns), make)
}

/// Attention over a latent cache: `heads` queries a sequence, of `latent` channels and `rotary` for positions.
fn latent<T: Element>(name: String, [batch, heads, keys, latent, rotary]: [usize; 5], scale: f32) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(6);
        let (q, cache) = (data.tensor::<T>(device, &[batch, heads, latent], 0.1)?, data.tensor::<T>(device, &[batch, keys, latent], 1.0)?);
        let (qp, kp) = (data.tensor::<T>(device, &[batch, heads, rotary], 0.1)?, data.tensor::<T>(device, &[batch, keys, rotary], 1.0)?);
        let mut y = Tensor::<T>::zeros(device, &[batch, heads, latent])?;
        job!(attention_latent(&q, &cache, &qp, &kp, scale) => &mut y)
    };
    let flop = 2 * batch * heads * keys * (2 * latent + rotary);
    workload::<T>(name, flop as f64, batch * (heads * (2 * latent + rotary) + keys * (latent + rotary)), make)
}

/// Attention of normalised queries and keys.
fn normalised<T: Element>(name: String, [batch, heads, key_heads, queries, keys, dim]: [usize; 6]) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(7);
        let q = data.tensor::<T>(device, &[batch, heads, queries, dim], 1.0)?;
        let (k, v) = (data.tensor::<T>(device, &[batch, key_heads, keys, dim], 1.0)?, data.tensor::<T>(device, &[batch, key_heads, keys, dim], 1.0)?);
        let (q_gain, k_gain) = (data.tensor::<T>(device, &[dim], 1.0)?, data.tensor::<T>(device, &[dim], 1.0)?);
        let mut y = Tensor::<T>::zeros(device, &[batch, heads, queries, dim])?;
        let scale = 1.0 / (dim as f32).sqrt();
        job!(attention_normalised(&q, &k, &v, &q_gain, &k_gain, scale, EPSILON) => &mut y)
    };
    workload::<T>(name, (4 * batch * heads * queries * keys * dim) as f64, 2 * batch * dim * (heads * queries + key_heads * keys), make)
}

/// Masks of attention: see the kernels of their names.
#[derive(Clone, Copy)]
enum Mask {
    Window,
    Blocked,
    Strided,
    Sink,
    Global,
}

impl Mask {
    /// How many keys of `length` a query sees.
    fn seen(self, query: usize, length: usize) -> usize {
        let up_to = |width: usize| (query + 1).min(width);
        match self {
            Mask::Window => up_to(1024),
            Mask::Blocked => 512,
            Mask::Strided => up_to(256) + (query / 64 + 1).saturating_sub(256 / 64),
            Mask::Sink => up_to(1024) + (query + 1 - up_to(1024)).min(64),
            Mask::Global if query < 64 => length,
            Mask::Global => {
                let first = query.saturating_sub(256);
                (query + 1 + 256).min(length) - first + first.min(64)
            }
        }
    }
}

fn masked<T: Element>(name: String, mask: Mask, [batch, heads, length, dim]: [usize; 4]) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(8);
        let mut tensor = || data.tensor::<T>(device, &[batch, heads, length, dim], 1.0);
        let (q, k, v) = (tensor()?, tensor()?, tensor()?);
        let mut y = Tensor::<T>::zeros(device, &[batch, heads, length, dim])?;
        let scale = 1.0 / (dim as f32).sqrt();
        match mask {
            Mask::Window => job!(attention_window(&q, &k, &v, scale) => &mut y),
            Mask::Blocked => job!(attention_blocked(&q, &k, &v, scale) => &mut y),
            Mask::Strided => job!(attention_strided(&q, &k, &v, scale) => &mut y),
            Mask::Sink => job!(attention_sink(&q, &k, &v, scale) => &mut y),
            Mask::Global => job!(attention_global(&q, &k, &v, scale) => &mut y),
        }
    };
    let seen: usize = (0..length).map(|query| mask.seen(query, length)).sum();
    workload::<T>(name, (4 * batch * heads * seen * dim) as f64, 4 * batch * heads * length * dim, make)
}

/// `(q @ k.mT) @ v`
fn product_chain<T: Element>(name: String, [heads, rows, keys, dim]: [usize; 4]) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(3);
        let q = data.tensor::<T>(device, &[heads, rows, dim], 1.0)?;
        let (k, v) = (data.tensor::<T>(device, &[heads, keys, dim], 0.1)?, data.tensor::<T>(device, &[heads, keys, dim], 0.1)?);
        let mut y = Tensor::<T>::zeros(device, &[heads, rows, dim])?;
        job!(product_product(&q, &k, &v) => &mut y)
    };
    workload::<T>(name, (4 * heads * rows * keys * dim) as f64, 2 * heads * dim * (rows + keys), make)
}

/// Formulas of the rows of one matrix.
#[derive(Clone, Copy)]
enum OfRows {
    Softmax,
    RmsNorm,
    LayerNorm,
    LogSumExp,
}

fn of_rows<T: Element>(name: String, formula: OfRows, [rows, columns]: [usize; 2]) -> Workload {
    let make = move |device: &Device| -> Result<Job> {
        let mut data = Normal::new(4);
        let x = data.tensor::<T>(device, &[rows, columns], 1.0)?;
        let gain = data.tensor::<T>(device, &[columns], 1.0)?;
        if let OfRows::LogSumExp = formula {
            let mut y = Tensor::<f32>::zeros(device, &[rows])?;
            return job!(logsumexp_rows(&x) => &mut y);
        }
        let mut y = Tensor::<T>::zeros(device, &[rows, columns])?;
        match formula {
            OfRows::Softmax | OfRows::LogSumExp => job!(softmax_rows(&x) => &mut y),
            OfRows::RmsNorm => job!(rms_norm_rows(&x, &gain, EPSILON) => &mut y),
            OfRows::LayerNorm => job!(layer_norm_rows(&x, &gain, &gain, EPSILON) => &mut y),
        }
    };
    let moved = if let OfRows::LogSumExp = formula { 1 } else { 2 };
    workload::<T>(name, 0.0, moved * rows * columns, make)
}

/// Extents that nobody chose: `count` of each family, the same for a seed.
pub fn fresh(seed: u64, count: usize) -> Vec<Workload> {
    let mut random = Normal::new(seed);
    // about evenly over the octaves
    let mut extent = |low: usize, high: usize| {
        let octaves = (high as f64 / low as f64).log2();
        let uniform = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        (low as f64 * (octaves * uniform).exp2()).round() as usize
    };
    let mut all = vec![];
    for _ in 0..count {
        let (dim, key_heads) = ([64, 128][extent(1, 4) % 2], extent(1, 16));
        let (heads, length) = (key_heads * extent(1, 4), extent(64, 8192));
        let causal = extent(1, 8) % 2 == 0;
        let prefill = Attention::new([extent(1, 4), heads, key_heads, length, length, dim], causal);
        all.push(prefill.workload::<bf16>(format!("fresh prefill {prefill:?}")));
        let decode = Attention::new([extent(1, 64), heads, key_heads, 1, extent(64, 16384), dim], true);
        all.push(decode.workload::<bf16>(format!("fresh decode {decode:?}")));
        for (name, formula) in [("product", Matrix::Product), ("norm linear", Matrix::NormLinear), ("gated mlp", Matrix::GatedMlp)] {
            let extents = [extent(1, 4096), 8 * extent(32, 1024), 8 * extent(32, 1024)];
            all.push(matrix::<bf16>(format!("fresh {name} {extents:?}"), formula, extents))
        }
        for (name, formula) in [("softmax", OfRows::Softmax), ("rmsnorm", OfRows::RmsNorm)] {
            let extents = [extent(1, 8192), 8 * extent(8, 4096)];
            all.push(of_rows::<bf16>(format!("fresh {name} {extents:?}"), formula, extents))
        }
    }
    all
}

/// The workloads of `peers_cpu.py`, in f32.
pub fn cpu() -> Vec<Workload> {
    let mut all = vec![matrix::<f32>("matmul 1024".into(), Matrix::Product, [1024; 3])];
    for (heads, length) in [(8, 1024), (4, 4096)] {
        for (causal, suffix) in [(false, ""), (true, " causal")] {
            let extents = [1, heads, heads, length, length, 64];
            all.push(Attention::new(extents, causal).workload::<f32>(format!("attention H{heads} S{length} D64{suffix}")))
        }
    }
    all.push(Attention::new([1, 32, 8, 1, 4096, 128], false).workload::<f32>("decode GQA H32/8 N4096 D128".into()));
    for (name, formula) in [("softmax", OfRows::Softmax), ("rmsnorm", OfRows::RmsNorm), ("layernorm", OfRows::LayerNorm)] {
        all.push(of_rows::<f32>(format!("{name} 2048x4096"), formula, [2048, 4096]))
    }
    all.push(matrix::<f32>("rmsnorm+matmul 128x1024->1536".into(), Matrix::NormProduct, [128, 1024, 1536]));
    all.push(matrix::<f32>("swiglu 128x1024->2816".into(), Matrix::SwiGlu, [128, 1024, 2816]));
    all.push(product_chain::<f32>("matmul+matmul 8x512x4096x64".into(), [8, 512, 4096, 64]));
    all
}

/// The workloads of `peers.py` that are in the language's reach.
pub fn cuda() -> Vec<Workload> {
    let mut all = vec![];
    attentions(&mut all);
    nine(&mut all);
    subgraphs(&mut all);
    sparse(&mut all);
    all
}

fn attentions(all: &mut Vec<Workload>) {
    let prefill = [
        ("MHA B16 S1024 H16 D128", [16, 16, 16, 1024, 1024, 128], false),
        ("MHA B4 S4096 H16 D128", [4, 16, 16, 4096, 4096, 128], false),
        ("MHA B1 S16384 H16 D128", [1, 16, 16, 16384, 16384, 128], false),
        ("MHA B4 S4096 H16 D128 causal", [4, 16, 16, 4096, 4096, 128], true),
        ("MHA B1 S16384 H16 D128 causal", [1, 16, 16, 16384, 16384, 128], true),
        ("GQA B4 S4096 H32/8 D128 causal", [4, 32, 8, 4096, 4096, 128], true),
        ("MHA B4 S4096 H32 D64 causal", [4, 32, 32, 4096, 4096, 64], true),
    ];
    let decode = [
        ("GQA B1 N8192 H32/8 D128", [1, 32, 8, 1, 8192, 128]),
        ("GQA B1 N32768 H32/8 D128", [1, 32, 8, 1, 32768, 128]),
        ("GQA B8 N8192 H32/8 D128", [8, 32, 8, 1, 8192, 128]),
        ("GQA B64 N1024 H32/8 D128", [64, 32, 8, 1, 1024, 128]),
        ("GQA B64 N8192 H32/8 D128", [64, 32, 8, 1, 8192, 128]),
        ("MHA B8 N4096 H32 D128", [8, 32, 32, 1, 4096, 128]),
    ];
    for (name, extents, causal) in prefill {
        all.push(Attention::new(extents, causal).workload::<bf16>(format!("prefill {name}")))
    }
    for (name, extents) in decode {
        all.push(Attention::new(extents, false).workload::<bf16>(format!("decode {name}")))
    }
}

/// The subgraphs that the Cleave paper measures (tables 3 and 4), in f16.
fn nine(all: &mut Vec<Workload>) {
    const KEYS: usize = 4096;
    let sizes = [("prefill", [256, 1024, 4096]), ("decode", [16, 64, 128])];
    for (phase, s) in sizes.into_iter().flat_map(|(phase, sizes)| sizes.map(|s| (phase, s))) {
        let name = |what: &str| format!("nine {phase} {what} s{s}");
        let columns = if phase == "prefill" { 4096 } else { s };
        all.push(matrix::<f16>(name("matmul"), Matrix::Product, [s, 4096, columns]));
        all.push(product_chain::<f16>(name("matmul+matmul"), [32, s, KEYS, 64]));
        all.push(matrix::<f16>(name("matmul+rowsum"), Matrix::RowSum, [s, 64, 4096]));
        all.push(matrix::<f16>(name("swiglu"), Matrix::SwiGlu, [s, 4096, 14336]));
        all.push(matrix::<f16>(name("rmsnorm+matmul"), Matrix::NormProduct, [s, 4096, 6144]));
        for (kind, key_heads) in [("mha", 32), ("gqa", 8), ("mqa", 1)] {
            for dim in [64, 128] {
                all.push(Attention::new([1, 32, key_heads, s, KEYS, dim], false).workload::<f16>(format!("{} d{dim}", name(kind))))
            }
        }
        if phase == "prefill" {
            let mla = Attention { value_dim: 128, ..Attention::new([1, 128, 128, s, KEYS, 192], false) };
            all.push(mla.workload::<f16>(name("mla")))
        }
    }
    for keys in [1024, 2048, 4096] {
        all.push(latent::<f16>(format!("nine decode mla L{keys}"), [128, 128, keys, 512, 64], 1.0 / 192f32.sqrt()))
    }
}

fn subgraphs(all: &mut Vec<Workload>) {
    for tokens in [1, 8, 16, 4096] {
        all.push(matrix::<bf16>(format!("rmsnorm+linear T{tokens} 4096->4096"), Matrix::NormLinear, [tokens, 4096, 4096]));
        all.push(matrix::<bf16>(format!("gated mlp T{tokens} 4096->14336"), Matrix::GatedMlp, [tokens, 4096, 14336]));
        all.push(low_rank::<bf16>(format!("lora T{tokens} 4096->4096 r16"), [tokens, 4096, 4096, 16]))
    }
    for (name, extents) in [("attention B4 M4096", [4, 32, 8, 4096, 4096, 128]), ("decode B8 N8192", [8, 32, 8, 1, 8192, 128])] {
        all.push(normalised::<bf16>(format!("qknorm {name} H32/8 D128"), extents))
    }
    for [rows, columns] in [[8192, 4096], [4096, 32768], [128, 131072]] {
        for (name, formula) in [("softmax", OfRows::Softmax), ("rmsnorm", OfRows::RmsNorm), ("logsumexp", OfRows::LogSumExp)] {
            all.push(of_rows::<bf16>(format!("{name} {rows}x{columns}"), formula, [rows, columns]))
        }
    }
}

fn sparse(all: &mut Vec<Workload>) {
    let masks = [
        ("window 1024 causal", Mask::Window),
        ("blocked 512", Mask::Blocked),
        ("strided 64 + window 256", Mask::Strided),
        ("sink 64 + window 1024", Mask::Sink),
        ("longformer 256 + global 64", Mask::Global),
    ];
    for (name, mask) in masks {
        all.push(masked::<bf16>(format!("sparse {name} S16384 H16 D128"), mask, [1, 16, 16384, 128]))
    }
}
