//! Runs kernels on a GPU as a server does, and looks at every result: recorded calls replayed while a cache grows, two streams at once, thousands of times the same bits.
//! Every output holds NaN before it is written. A line for each case; the exit code is 1 if one is wrong.
use anyhow::Result;
use clap::Parser;
use cleave::{Device, Element, Recording, Stream, Tensor, View};
use examples::bench::kernels::attention_grouped;
use examples::data::Normal;
use examples::device::{Kind, open};
use examples::kernels::{attention, attention_full, attention_step, matmul, norm_swiglu, softmax_rows};
use half::bf16;

/// Replays recorded calls while a cache grows, and on two streams, and checks every result.
#[derive(Parser)]
struct Options {
    /// On the CPU the same calls run, without streams and recordings.
    #[arg(long, value_enum, default_value = "cuda")]
    device: Kind,
    /// How often the result of a split kernel must be the same.
    #[arg(long, default_value_t = 10_000)]
    rounds: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = open(options.device)?;
    let mut all = Table::default();
    for pieces in [None, Some(1), Some(7)] {
        all.add(&format!("a growing cache, {}", split(pieces)), growing(&device, pieces));
        all.add(&format!("a growing cache and the token itself, {}", split(pieces)), stepping(&device, pieces))
    }
    let mut data = Normal::new(3);
    let mut tensor = |shape: &[usize]| data.tensor::<bf16>(&device, shape, 1.0);
    let rounds = options.rounds;

    let (q, k, v) = (tensor(&[1, 32, 1, 128])?, tensor(&[1, 8, 8192, 128])?, tensor(&[1, 8, 8192, 128])?);
    for pieces in [None, Some(16)] {
        let decode = |y: &mut Tensor<bf16>, on: Option<&Stream>| splits(attention_grouped(&q, &k, &v, 0.09), pieces).on(on).run_into(y);
        all.add(&format!("decode of 8192 keys, {}", split(pieces)), same_bits(&device, rounds, &[1, 32, 1, 128], decode))
    }
    let (q, k, v) = (tensor(&[1, 8, 700, 128])?, tensor(&[1, 8, 700, 128])?, tensor(&[1, 8, 700, 128])?);
    let prefill = |y: &mut Tensor<bf16>, on: Option<&Stream>| attention_full(&q, &k, &v, 0.09).on(on).run_into(y);
    all.add("prefill of 700 keys", same_bits(&device, (rounds / 5).max(1), &[1, 8, 700, 128], prefill));
    let (x, w) = (tensor(&[16, 4096])?, tensor(&[512, 4096])?);
    let product = |y: &mut Tensor<bf16>, on: Option<&Stream>| matmul(&x, &w).splits(8).on(on).run_into(y);
    all.add("product of 16 rows, 8 pieces", same_bits(&device, rounds, &[16, 512], product));
    let (x, gain, gate, up) = (tensor(&[1, 4096])?, tensor(&[4096])?, tensor(&[1024, 4096])?, tensor(&[1024, 4096])?);
    let mlp = |y: &mut Tensor<bf16>, on: Option<&Stream>| norm_swiglu(&x, &gain, &gate, &up, 1e-5).splits(4).on(on).run_into(y);
    all.add("norm and gated mlp of a row, 4 pieces", same_bits(&device, rounds, &[1, 1024], mlp));
    let x = tensor(&[4, 131072])?;
    let rows = |y: &mut Tensor<bf16>, on: Option<&Stream>| softmax_rows(&x).on(on).run_into(y);
    all.add("softmax of 4 long rows", same_bits(&device, (rounds / 20).max(1), &[4, 131072], rows));
    std::process::exit(all.wrong.min(1))
}

fn split(pieces: Option<u32>) -> String {
    pieces.map_or("split as chosen".into(), |n| format!("{n} pieces"))
}

fn splits<O: cleave::Outputs>(call: cleave::Call<O>, pieces: Option<u32>) -> cleave::Call<O> {
    if let Some(n) = pieces { call.splits(n) } else { call }
}

#[derive(Default)]
struct Table {
    wrong: i32,
}

impl Table {
    /// `found`: how many results were looked at, and what is wrong with them.
    fn add(&mut self, name: &str, found: Result<(usize, Option<String>)>) {
        let (word, rest) = match found {
            Ok((count, None)) => ("ok", format!("{count} results")),
            Ok((count, Some(fault))) => ("WRONG", format!("after {count} results: {fault}")),
            Err(e) => ("FAILED", format!("{e:#}")),
        };
        self.wrong += (word != "ok") as i32;
        println!("{name:56} {word:6} {rest}")
    }
}

/// Something that runs again and again: recorded where there are streams.
struct Repeated<'a> {
    stream: Option<(Stream, Stream)>,
    recording: Option<Recording>,
    run: Box<dyn FnMut(Option<&Stream>) -> Result<()> + 'a>,
}

impl<'a> Repeated<'a> {
    /// Runs once, so that all is ready, and is recorded.
    fn new(device: &Device, mut run: impl FnMut(Option<&Stream>) -> Result<()> + 'a) -> Result<Self> {
        let stream = if *device == Device::cpu() { None } else { Some((Stream::new(device)?, Stream::own(device)?)) };
        run(stream.as_ref().map(|s| &s.0))?;
        let recording = stream.as_ref().map(|s| Recording::new(&s.0, || run(Some(&s.0)))).transpose()?;
        Ok(Repeated { stream, recording, run: Box::new(run) })
    }
    /// `fresh`: not as recorded, but as a new call.
    fn start(&mut self, fresh: bool) -> Result<()> {
        if let Some((stream, own)) = &self.stream {
            stream.after(own)?
        }
        match &self.recording {
            // SAFETY: the closure borrows what was recorded, and lives as long
            Some(recording) if !fresh => unsafe { recording.replay()? },
            _ => (self.run)(self.stream.as_ref().map(|s| &s.0))?,
        }
        Ok(())
    }
    /// Copies from the device come after what was started.
    fn end(&self) -> Result<()> {
        match &self.stream {
            Some((stream, own)) => Ok(own.after(stream)?),
            None => Ok(()),
        }
    }
}

/// A tensor that closures share with the loop around them.
struct Cell<T>(std::cell::RefCell<Tensor<T>>);

impl<T: Element> Cell<T> {
    fn new(device: &Device, shape: &[usize], value: f32) -> Result<Self> {
        let cell = Cell(std::cell::RefCell::new(Tensor::zeros(device, shape)?));
        cell.fill(value)?;
        Ok(cell)
    }
    fn fill(&self, value: f32) -> Result<()> {
        let mut tensor = self.0.borrow_mut();
        let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
        let values = vec![T::from_f32(value); tensor.len()];
        Ok(tensor.view_mut().copy_from(View::from_slice(&values, &shape, &strides)?)?)
    }
    fn values(&self) -> Result<Vec<f64>> {
        Ok(self.0.borrow().to_vec()?.iter().map(|x| x.to_f32() as f64).collect())
    }
}

// ---- results that are known -------------------------------------------------------------------------------------------------------------------
const HEADS: usize = 6;
const KEY_HEADS: usize = 2;
const CAPACITY: usize = 2500;
const DIM: usize = 128;
const SCALE: f32 = 0.088;
/// Scores deviate by this from 0: exp of them overflows f32.
const QUERY: f32 = 60.0;
const LENGTHS: [usize; 19] = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 500, 1023, 1024, 1025, 2047, 2049, CAPACITY];

/// A cache of which ever more rows are filled; the others hold NaN.
struct Growing {
    keys: Cell<bf16>,
    values: Cell<bf16>,
    len: Cell<i32>,
    query: Tensor<bf16>,
    /// All rows, on the host.
    all: [Tensor<bf16>; 2],
}

impl Growing {
    fn new(device: &Device) -> Result<Self> {
        let mut data = Normal::new(5);
        let shape = [1, KEY_HEADS, CAPACITY, DIM];
        let cache = || Cell::new(device, &shape, f32::NAN);
        let all = [data.tensor(&Device::cpu(), &shape, 1.0)?, data.tensor(&Device::cpu(), &shape, 1.0)?];
        Ok(Growing { keys: cache()?, values: cache()?, len: Cell::new(device, &[1], 0.0)?, query: data.tensor(device, &[1, HEADS, 1, DIM], QUERY)?, all })
    }
    fn grow(&self, from: usize, to: usize) -> Result<()> {
        for (cell, all) in [&self.keys, &self.values].into_iter().zip(&self.all) {
            cell.0.borrow_mut().view_mut().slice(2, from..to)?.copy_from(all.slice(2, from..to)?)?
        }
        self.len.fill(to as f32)
    }
    /// The formula in f64 over the first rows, and the log-sum-exp of each head.
    fn expected(&self, rows: usize) -> Result<(Vec<f64>, Vec<f64>)> {
        let wide = |t: &Tensor<bf16>| -> Result<Vec<f64>> { Ok(t.to_vec()?.iter().map(|x| x.to_f32() as f64).collect()) };
        let (q, k, v) = (wide(&self.query)?, wide(&self.all[0])?, wide(&self.all[1])?);
        let (mut out, mut log_sum_exp) = (vec![], vec![]);
        for h in 0..HEADS {
            let row = |all: &[f64], n: usize| all[(h / (HEADS / KEY_HEADS) * CAPACITY + n) * DIM..][..DIM].to_vec();
            let dot = |n: usize| row(&k, n).iter().zip(&q[h * DIM..]).map(|(a, b)| a * b).sum::<f64>() * SCALE as f64;
            let scores: Vec<f64> = (0..rows).map(dot).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
            let mut mixed = vec![0.0; DIM];
            for (n, s) in scores.iter().enumerate() {
                let weight = (s - most).exp() / total;
                mixed.iter_mut().zip(row(&v, n)).for_each(|(m, x)| *m += weight * x)
            }
            out.extend(mixed);
            log_sum_exp.push(if rows == 0 { f64::NEG_INFINITY } else { most + total.ln() })
        }
        Ok((out, log_sum_exp))
    }
}

/// The first value that is off by more than a few roundings of bf16.
fn fault(what: &str, len: usize, found: &[f64], expected: &[f64]) -> Option<String> {
    let wrong = |(f, e): &(&f64, &f64)| !(f == e || (**f - **e).abs() <= 0.012 * e.abs().max(0.25));
    let at = found.iter().zip(expected).position(|p| wrong(&p))?;
    Some(format!("{what} {at} is {} instead of {} at a length of {len}", found[at], expected[at]))
}

fn growing(device: &Device, pieces: Option<u32>) -> Result<(usize, Option<String>)> {
    let x = Growing::new(device)?;
    let (out, log_sum_exp) = (Cell::<bf16>::new(device, &[1, HEADS, 1, DIM], f32::NAN)?, Cell::<f32>::new(device, &[1, HEADS, 1], f32::NAN)?);
    let mut call = Repeated::new(device, |on| {
        let (keys, values, len) = (x.keys.0.borrow(), x.values.0.borrow(), x.len.0.borrow());
        let call = splits(attention(&x.query, &*keys, &*values, &*len, SCALE), pieces);
        Ok(call.on(on).run_into((&mut *out.0.borrow_mut(), &mut *log_sum_exp.0.borrow_mut()))?)
    })?;
    let mut filled = 0;
    for (count, len) in LENGTHS.into_iter().enumerate() {
        x.grow(filled, len)?;
        filled = len;
        out.fill(f32::NAN)?;
        log_sum_exp.fill(f32::NAN)?;
        call.start(false)?;
        call.end()?;
        let (want, want_lse) = x.expected(len)?;
        if let Some(fault) = fault("element", len, &out.values()?, &want).or(fault("log-sum-exp", len, &log_sum_exp.values()?, &want_lse)) {
            return Ok((count, Some(fault)));
        }
    }
    Ok((LENGTHS.len(), None))
}

/// As a step of a language model: the last row is not in the cache.
fn stepping(device: &Device, pieces: Option<u32>) -> Result<(usize, Option<String>)> {
    let x = Growing::new(device)?;
    let out = Cell::<bf16>::new(device, &[1, HEADS, DIM], f32::NAN)?;
    let own = [Cell::<bf16>::new(device, &[1, KEY_HEADS, DIM], 0.0)?, Cell::<bf16>::new(device, &[1, KEY_HEADS, DIM], 0.0)?];
    let mut call = Repeated::new(device, |on| {
        let (keys, values, len) = (x.keys.0.borrow(), x.values.0.borrow(), x.len.0.borrow());
        let query = x.query.view().reshape(&[1, HEADS, DIM])?;
        let (own_key, own_value) = (own[0].0.borrow(), own[1].0.borrow());
        let call = splits(attention_step(query, &*keys, &*values, &*own_key, &*own_value, &*len, SCALE), pieces);
        Ok(call.on(on).run_into(&mut *out.0.borrow_mut())?)
    })?;
    let mut filled = 0;
    for (count, len) in LENGTHS.into_iter().filter(|n| *n < CAPACITY).enumerate() {
        x.grow(filled, len)?;
        filled = len;
        for (own, all) in own.iter().zip(&x.all) {
            own.0.borrow_mut().view_mut().reshape(&[1, KEY_HEADS, 1, DIM])?.copy_from(all.slice(2, len..len + 1)?)?
        }
        out.fill(f32::NAN)?;
        call.start(false)?;
        call.end()?;
        if let Some(fault) = fault("element", len, &out.values()?, &x.expected(len + 1)?.0) {
            return Ok((count, Some(fault)));
        }
    }
    Ok((LENGTHS.len() - 1, None))
}

// ---- results that are the same --------------------------------------------------------------------------------------------------------------
/// Runs a call on two streams at once, in turn as recorded and anew, and compares all bits with those of the first run.
fn same_bits(
    device: &Device,
    rounds: usize,
    shape: &[usize],
    call: impl Fn(&mut Tensor<bf16>, Option<&Stream>) -> cleave::Result<()>,
) -> Result<(usize, Option<String>)> {
    let outputs = [Cell::<bf16>::new(device, shape, f32::NAN)?, Cell::<bf16>::new(device, shape, f32::NAN)?];
    let call = &call;
    let both = outputs.iter().map(|y| Repeated::new(device, move |on| Ok(call(&mut y.0.borrow_mut(), on)?)));
    let mut both: Vec<Repeated> = both.collect::<Result<_>>()?;
    both.iter().try_for_each(|r| r.end())?;
    let bits = |y: &Cell<bf16>| -> Result<Vec<u16>> { Ok(y.0.borrow().to_vec()?.iter().map(|x| x.to_bits()).collect()) };
    let first = bits(&outputs[0])?;
    if first.iter().any(|b| bf16::from_bits(*b).is_nan()) {
        return Ok((0, Some("the first result holds NaN".into())));
    }
    for round in 0..rounds {
        outputs.iter().try_for_each(|y| y.fill(f32::NAN))?;
        // one of them, both, or the other first; sometimes a call between replays
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        order.iter().try_for_each(|&i| both[i].start(round % 3 == i))?;
        both.iter().try_for_each(|r| r.end())?;
        for (stream, y) in outputs.iter().enumerate() {
            let found = bits(y)?;
            if let Some(at) = (0..first.len()).find(|&i| first[i] != found[i]) {
                let [a, b] = [first[at], found[at]].map(bf16::from_bits);
                return Ok((round * 2, Some(format!("element {at} was {a} and is {b} on stream {stream}"))));
            }
        }
    }
    Ok((rounds * 2, None))
}
