//! Calls of emitted kernels on made-up data: tensors with strides, gaps that hold NaN, the words of every launch resolved, and
//! what the oracle says. Used by the emulation test and by the bundle for a GPU.
#![allow(dead_code)]
use cleave_core::axis::AxisId;
use cleave_core::choose::Facts;
use cleave_core::dtype::DType;
use cleave_core::extent;
use cleave_core::graph::{Access, Factor};
use cleave_core::kernel::Kernel;
use cleave_core::oracle::{self, Tensor};
use cleave_core::plan::{Entry, Guard, TensorRef, Word};
use cleave_core::tile::{DimId, Program};
use std::path::PathBuf;

pub fn corpus() -> Vec<Kernel> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/pass");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    let texts = files.into_iter().map(|f| std::fs::read_to_string(f).unwrap());
    texts.flat_map(|t| cleave_core::frontend::from_source(&t).unwrap_or_else(|e| panic!("{}", e.render(&t)))).collect()
}

pub fn programs(kernel: &Kernel) -> (Vec<String>, Vec<Program>) {
    let search = cleave_core::algebra::search(kernel);
    let mut all = vec![];
    for (i, a) in search.algorithms.iter().enumerate() {
        all.extend(cleave_core::schedule::programs(i as u32, &a.graph, &kernel.bounds))
    }
    (search.algorithms.into_iter().map(|a| a.name).collect(), all)
}

/// A reproducible stream of numbers.
pub struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D049BB133111EB);
        z ^ z >> 31
    }
    /// About normal, variance 1.
    pub fn normal(&mut self) -> f64 {
        let x = self.next();
        (0..4).map(|i| (x >> (16 * i) & 0xffff) as f64 / 65536.0 - 0.5).sum::<f64>() * 1.7320508
    }
}

pub fn encode(x: f64, t: DType) -> Vec<u8> {
    match t {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::I32 => (x as i32).to_le_bytes().to_vec(),
        DType::BF16 => {
            let u = (x as f32).to_bits();
            let r = if x.is_nan() { 0x7fff } else { (u.wrapping_add(0x7fff + (u >> 16 & 1)) >> 16) as u16 };
            r.to_le_bytes().to_vec()
        }
        DType::F16 => {
            let (x, sign) = (x as f32, if (x as f32).is_sign_negative() { 0x8000u16 } else { 0 });
            let a = x.abs();
            let bits = if a.is_nan() {
                0x7fff
            } else if a >= 65520.0 {
                0x7c00
            } else if a < 2f32.powi(-14) {
                (a * 2f32.powi(24)).round_ties_even() as u16
            } else {
                let u = a.to_bits() - ((127 - 15) << 23);
                ((u + 0xfff + (u >> 13 & 1)) >> 13) as u16
            };
            (sign | bits).to_le_bytes().to_vec()
        }
    }
}

pub fn decode(b: &[u8], t: DType) -> f64 {
    match t {
        DType::F32 => f32::from_le_bytes(b.try_into().unwrap()) as f64,
        DType::I32 => i32::from_le_bytes(b.try_into().unwrap()) as f64,
        DType::BF16 => f32::from_bits((u16::from_le_bytes(b.try_into().unwrap()) as u32) << 16) as f64,
        DType::F16 => {
            let u = u16::from_le_bytes(b.try_into().unwrap());
            let (e, m) = ((u >> 10 & 31) as i32, (u & 1023) as f64);
            let a = match e {
                0 => m * 2f64.powi(-24),
                31 if m == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                e => (1024.0 + m) * 2f64.powi(e - 25),
            };
            if u >> 15 == 1 { -a } else { a }
        }
    }
}

/// From the length of a row of a tensor to the next one's start, in elements.
pub type Row = fn(i64) -> i64;
pub const DENSE: Row = |n| n;
pub const ROWS: [Row; 3] = [DENSE, |n| n + 3, |n| n + 8];
/// Multiples of 16 bytes for 16-bit types, as TMA asks.
pub const ALIGNED_ROWS: [Row; 3] = [|n| (n + 7) / 8 * 8, |n| (n + 7) / 8 * 8 + 8, |n| (n + 7) / 8 * 8 + 16];

/// A tensor in a buffer: strides in elements, rows as far apart as told.
#[derive(Clone)]
pub struct Placed {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    pub elements: usize,
}

impl Placed {
    pub fn new(name: &str, dtype: DType, shape: Vec<i64>, row: Row) -> Self {
        let mut strides = vec![1; shape.len()];
        for d in (0..shape.len().saturating_sub(1)).rev() {
            let inner = strides[d + 1] * shape[d + 1].max(1);
            strides[d] = if d + 2 == shape.len() { row(inner) } else { inner }
        }
        let elements = shape.first().map_or(1, |n| n * strides[0]).max(1) as usize;
        Placed { name: name.into(), dtype, shape, strides, elements }
    }
    /// What guards ask of it, at an aligned address.
    pub fn facts(&self) -> Facts {
        Facts::of(Facts::MOST_ALIGNED as u64, self.shape.iter().zip(&self.strides).map(|(n, s)| (*n as u64, *s as u64)), self.dtype.bytes() as u64)
    }
    pub fn offsets(&self) -> Vec<usize> {
        let mut all = vec![0usize];
        for (n, s) in self.shape.iter().zip(&self.strides) {
            all = all.iter().flat_map(|a| (0..*n).map(move |i| a + (i * s) as usize)).collect()
        }
        all
    }
    /// Bytes with the values in place and NaN everywhere else.
    pub fn bytes(&self, values: &[f64]) -> Vec<u8> {
        let nan = encode(if self.dtype == DType::I32 { -1.0 } else { f64::NAN }, self.dtype);
        let mut b = nan.repeat(self.elements);
        let w = self.dtype.bytes();
        for (o, x) in self.offsets().into_iter().zip(values) {
            b[o * w..(o + 1) * w].copy_from_slice(&encode(*x, self.dtype))
        }
        b
    }
    pub fn values(&self, bytes: &[u8]) -> Vec<f64> {
        let w = self.dtype.bytes();
        self.offsets().into_iter().map(|o| decode(&bytes[o * w..(o + 1) * w], self.dtype)).collect()
    }
}

/// A kernel on data.
pub struct Problem {
    pub extents: Vec<i64>,
    pub types: Vec<DType>,
    /// Every input; scalars have no shape.
    pub inputs: Vec<Placed>,
    pub values: Vec<Vec<f64>>,
    pub outputs: Vec<Placed>,
    pub expected: Vec<Vec<f64>>,
}

/// Extents by axis name; axes without a name here get 1.
pub fn extents(kernel: &Kernel, by_name: &[(&str, i64)]) -> Vec<i64> {
    let mut extents: Vec<i64> = kernel.graph.axes.iter().map(|a| by_name.iter().find(|b| b.0 == a.name).map_or(1, |b| b.1)).collect();
    // an axis that renames another has its extent
    for (a, b) in &kernel.graph.equal {
        extents[b.0 as usize] = extents[a.0 as usize]
    }
    extents
}

impl Problem {
    /// Random inputs; an i32 tensor holds lengths up to `longest` (its own extents' rows in turn), scalars are 0.3 or the like.
    pub fn new(kernel: &Kernel, types: &[DType], extents: Vec<i64>, row: Row, lengths: &[i64], amplitude: f64, check: bool) -> Self {
        let g = &kernel.graph;
        let mut random = Random(extents.iter().fold(17, |s, e| s * 31 + *e as u64));
        let (mut inputs, mut values) = (vec![], vec![]);
        for i in &g.inputs {
            let dtype = i.element.resolve(types);
            let shape = extent::shape(&i.storage, &extents);
            let n = shape.iter().product::<i64>() as usize;
            let placed = Placed::new(&i.name, dtype, shape, row);
            let v: Vec<f64> = (0..if check || i.storage.dims.is_empty() || dtype == DType::I32 { n } else { 0 })
                .map(|k| match dtype {
                    DType::I32 => lengths[k % lengths.len()] as f64,
                    _ if i.storage.dims.is_empty() => decode(&encode(if i.name.contains("eps") { 1e-5 } else { 0.3 }, DType::F32), DType::F32),
                    t => decode(&encode(random.normal() * amplitude, t), t),
                })
                .collect();
            inputs.push(placed);
            values.push(v)
        }
        let outputs: Vec<Placed> = g.outputs.iter().map(|o| Placed::new(&o.name, o.element.resolve(types), extent::shape(&o.storage, &extents), row)).collect();
        let expected = if check {
            let tensors: Vec<Tensor> = inputs.iter().zip(&values).map(|(p, v)| Tensor::new(p.shape.clone(), v.clone())).collect();
            oracle::evaluate(g, &extents, &tensors).into_iter().map(|t| t.values).collect()
        } else {
            vec![]
        };
        Problem { extents, types: types.to_vec(), inputs, values, outputs, expected }
    }
    /// Whether an entry serves these extents and tensors.
    pub fn admits(&self, kernel: &Kernel, entry: &Entry) -> bool {
        entry.guards.iter().all(|g| match g {
            Guard::AtMost(a, n) => self.extents[a.0 as usize] <= *n,
            Guard::Multiple(a, n) => self.extents[a.0 as usize] % n == 0,
            Guard::NotNegative(i) => self.values[i.index()].first().is_none_or(|x| *x >= 0.0),
            Guard::Contiguous(t, d) => self.placed(*t).is_none_or(|p| p.facts().unit >> *d & 1 == 1),
            Guard::Aligned(t, bytes) => self.placed(*t).is_none_or(|p| p.facts().aligned >= *bytes),
        }) && kernel.graph.inputs.len() == self.inputs.len()
    }
    fn placed(&self, t: TensorRef) -> Option<&Placed> {
        match t {
            TensorRef::Input(i) => Some(&self.inputs[i.index()]),
            TensorRef::Output(o) => Some(&self.outputs[o as usize]),
            TensorRef::Workspace(_) => None,
        }
    }
}

/// A word: a byte offset in a buffer, or a value.
#[derive(Clone, Copy, Debug)]
pub enum Resolved {
    Address(usize),
    Value(u64),
}

/// A tensor map: its buffer, the byte at which it starts, and `(size, stride in bytes, box)` of each dim, innermost first.
pub struct ResolvedMap {
    pub buffer: usize,
    pub first: u64,
    pub dtype: DType,
    pub dims: Vec<(u64, u64, u32)>,
}

pub struct Launched {
    pub module: usize,
    pub symbol: String,
    pub blocks: u64,
    /// At most as many blocks as multiprocessors are to be started.
    pub persistent: bool,
    pub threads: u32,
    pub shared_bytes: u32,
    pub maps: Vec<ResolvedMap>,
    pub words: Vec<Resolved>,
}

/// Buffers beyond inputs and outputs: `(bytes, zeroed)`; unzeroed ones are to be poisoned.
pub struct Plan {
    pub launches: Vec<Launched>,
    pub extra: Vec<(u64, bool)>,
}

/// Resolves the launches of an entry. Buffers are numbered: inputs, outputs, then the extra ones.
pub fn plan(kernel: &Kernel, program: &Program, entry: &Entry, problem: &Problem, splits: u64) -> Plan {
    let g = &kernel.graph;
    let (ins, outs) = (g.inputs.len(), g.outputs.len());
    let extent = |a: &AxisId| problem.extents[a.0 as usize];
    let mut extra: Vec<(u64, bool)> = program.workspaces.iter().map(|w| ((w.axes.iter().map(extent).product::<i64>().max(1) * 4) as u64, false)).collect();
    let buffer = |t: TensorRef| match t {
        TensorRef::Input(i) => i.index(),
        TensorRef::Output(o) => ins + o as usize,
        TensorRef::Workspace(w) => ins + outs + w as usize,
    };
    let mut launches = vec![];
    for ((parts, launch), tiles) in program.launches.iter().zip(&entry.launches).zip(&entry.tiles) {
        let count = |part: usize, dim: DimId| -> u64 {
            let n: i64 = parts[part].dim(dim).axes.iter().map(extent).product();
            (n.max(0) as u64).div_ceil(tiles[part][dim.0 as usize] as u64).max(1)
        };
        let items: Vec<u64> = (0..parts.len()).map(|p| parts[p].grid.iter().map(|d| count(p, *d)).product()).collect();
        let pieces: Vec<u64> = parts.iter().zip(&launch.partial_bytes).map(|(p, b)| if p.split && *b > 0 { splits } else { 1 }).collect();
        let first: Vec<u64> = (0..parts.len()).map(|p| (0..p).map(|q| items[q] * pieces[q]).sum()).collect();
        let blocks = (0..parts.len()).map(|p| items[p] * pieces[p]).sum();
        let mut places = vec![];
        for p in 0..parts.len() {
            places.push((ins + outs + extra.len(), ins + outs + extra.len() + 1));
            extra.push(((items[p] * pieces[p] * launch.partial_bytes[p]).max(16), false));
            extra.push((items[p] * 4, true))
        }
        let claims = ins + outs + extra.len();
        extra.push((16, true));
        let words = launch.words.iter().map(|w| match w {
            Word::Address(t) => Resolved::Address(buffer(*t)),
            Word::Scalar(i) => {
                let x = problem.values[i.index()][0];
                Resolved::Value(u32::from_le_bytes(encode(x, problem.inputs[i.index()].dtype).try_into().unwrap()) as u64)
            }
            Word::Extent(a) => Resolved::Value(extent(a) as u64),
            Word::Stride { tensor, dim, factor } => Resolved::Value(stride(kernel, program, problem, *tensor, *dim as usize, *factor as usize) as u64),
            Word::FirstBlock(p) => Resolved::Value(first[*p as usize]),
            Word::Tiles { part, dim } => Resolved::Value(count(*part as usize, *dim)),
            Word::Pieces(p) => Resolved::Value(pieces[*p as usize]),
            Word::Partials(p) => Resolved::Address(places[*p as usize].0),
            Word::Counters(p) => Resolved::Address(places[*p as usize].1),
            Word::Blocks => Resolved::Value(blocks),
            Word::Claims => Resolved::Address(claims),
        });
        let stride_of = |tensor, dim: u32, factor: u32| stride(kernel, program, problem, tensor, dim as usize, factor as usize);
        let maps = launch.maps.iter().map(|m| {
            let dtype = match m.tensor {
                TensorRef::Input(i) => problem.inputs[i.index()].dtype,
                TensorRef::Output(o) => problem.outputs[o as usize].dtype,
                TensorRef::Workspace(_) => DType::F32,
            };
            let first: i64 = m.first.iter().map(|(d, f, i)| stride_of(m.tensor, *d, *f) * *i as i64).sum();
            let bytes = dtype.bytes() as u64;
            let dims = m.dims.iter().map(|d| {
                let size = d.axes.iter().map(extent).product::<i64>().max(1) as u64 * d.parts as u64;
                // the stride of a dim of one position is not used, but must be one that could be
                let stride = if size == 1 { 16 } else { stride_of(m.tensor, d.dim, d.factor) as u64 * bytes };
                (size, stride, d.length)
            });
            ResolvedMap { buffer: buffer(m.tensor), first: first as u64 * bytes, dtype, dims: dims.collect() }
        });
        launches.push(Launched {
            module: launch.module as usize,
            symbol: launch.symbol.clone(),
            blocks,
            persistent: launch.persistent,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            maps: maps.collect(),
            words: words.collect(),
        })
    }
    Plan { launches, extra }
}

fn stride(kernel: &Kernel, program: &Program, problem: &Problem, tensor: TensorRef, dim: usize, factor: usize) -> i64 {
    let g = &kernel.graph;
    let (storage, strides): (Access, Vec<i64>) = match tensor {
        TensorRef::Input(i) => (g.input(i).storage.clone(), problem.inputs[i.index()].strides.clone()),
        TensorRef::Output(o) => (g.outputs[o as usize].storage.clone(), problem.outputs[o as usize].strides.clone()),
        TensorRef::Workspace(w) => {
            let axes = &program.workspaces[w as usize].axes;
            let shape: Vec<i64> = axes.iter().map(|a| problem.extents[a.0 as usize]).collect();
            (Access::plain(axes.iter().copied()), Tensor::strides(&shape))
        }
    };
    let size = |f: &Factor| match f {
        Factor::Axis(a) => problem.extents[a.0 as usize],
        Factor::Part { of, .. } => *of as i64,
    };
    strides[dim] * storage.dims[dim][factor + 1..].iter().map(size).product::<i64>()
}

/// The greatest error of a result in units of what its storage and its size allow; NaN where only one is NaN counts as infinite.
pub fn error(got: &[f64], want: &[f64], t: DType, computed_in: DType) -> f64 {
    let scale = (want.iter().filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>() / want.len().max(1) as f64).sqrt().max(1e-30);
    let unit = t.epsilon().max(computed_in.epsilon()) * 4.0 + 2e-6;
    got.iter()
        .zip(want)
        .map(|(g, w)| {
            if g == w || (g.is_nan() && w.is_nan()) {
                0.0
            } else if !g.is_finite() || !w.is_finite() {
                f64::INFINITY
            } else {
                (g - w).abs() / (w.abs().max(scale) * unit)
            }
        })
        .fold(0.0, f64::max)
}
