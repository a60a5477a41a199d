//! A text in the making: token ids in, logits out. Every tensor operation of the layers is a kernel; the host looks up the rows of the embedding and of RoPE's
//! tables.
//!
//! One sequence. Activations are stored token by token, `[M, channels]`; what splits a row into heads is a view. The tokens of a prompt put their keys and values
//! into the cache and attend to it. A step, which is one token, attends to the cache and to itself, and its rows are put into the cache at the end of it: so nothing in a step
//! lies elsewhere than in the step before, and on CUDA it is recorded and replayed while the cache grows.
use crate::kernels::{append, attention, attention_step, norm_logits, norm_qkv, norm_swiglu, project_add};
use crate::model::Model;
use crate::weights::Config;
use anyhow::{Result, ensure};
use cleave::{AsViewMut, Device, Element, Recording, Stream, Tensor, View, ViewMut};
use cudarc::driver::sys::CUevent_flags;
use std::time::{Duration, Instant};

/// Which tokens' logits are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Last,
    Every,
}

pub struct Session<'m, T> {
    model: &'m Model<T>,
    cache: Cache<T>,
    step: Pass<T>,
    /// Of a CUDA device: what is recorded must not run on its own stream.
    stream: Option<Stream>,
    recorded: Option<Recording>,
    /// Steps that ran. The first loads kernels, the second is recorded.
    steps: usize,
    replays: Replays,
}

/// Keys and values of the tokens so far, `[layers, capacity, channels]`, whose unused rest is never read.
struct Cache<T> {
    keys: Tensor<T>,
    values: Tensor<T>,
    filled: usize,
    capacity: usize,
}

/// The inputs and activations of tokens that run together. Each layer writes over those of the layer before.
struct Pass<T> {
    tokens: usize,
    /// Whether this is a step: see the top of the file.
    step: bool,
    x: Tensor<T>,
    /// The residual stream in the middle of a layer.
    y: Tensor<T>,
    cos: Tensor<f32>,
    sin: Tensor<f32>,
    /// Rows of the cache that attention may read.
    len: Tensor<i32>,
    query: Tensor<T>,
    mixed: Tensor<T>,
    log_sum_exp: Tensor<f32>,
    gated: Tensor<T>,
    /// A step's rows of the cache, `[layers, 1, channels]`.
    keys: Tensor<T>,
    values: Tensor<T>,
    /// Of the last token.
    logits: Tensor<f32>,
}

/// What steps took that were replayed.
#[derive(Clone, Copy, Default)]
pub struct Replays {
    pub count: usize,
    /// From the inputs' way to the device to the logits on the host.
    pub total: Duration,
    /// Of that, the time in which the device ran kernels: from the first one's start to the last one's end.
    pub kernels: Duration,
}

impl<'m, T: Element> Session<'m, T> {
    pub(crate) fn new(model: &'m Model<T>, capacity: usize) -> Result<Self> {
        let config = &model.config;
        ensure!(capacity <= config.context, "the model was trained for {} positions, {capacity} are asked for", config.context);
        // without a device that has streams there is none
        let stream = if model.device == Device::cpu() { None } else { Some(Stream::new(&model.device)?) };
        let empty = || Tensor::zeros(&model.device, &[config.layers, capacity, config.kv_heads * config.head_dim]);
        let cache = Cache { keys: empty()?, values: empty()?, filled: 0, capacity };
        Ok(Session { model, cache, step: Pass::new(model, 1, true)?, stream, recorded: None, steps: 0, replays: Replays::default() })
    }

    /// Runs `tokens`, which follow those before, and keeps them. Gives the logits after the last of them, or after every one: `[tokens, vocabulary]`.
    pub fn forward(&mut self, tokens: &[u32], wanted: Rows) -> Result<Vec<f32>> {
        let Cache { filled, capacity, .. } = self.cache;
        ensure!(!tokens.is_empty(), "there are no tokens to run");
        ensure!(filled + tokens.len() <= capacity, "{} tokens do not fit the cache of {capacity}", filled + tokens.len());
        if tokens.len() == 1 && filled > 0 { self.step(tokens[0]) } else { self.prompt(tokens, wanted) }
    }

    /// What the steps took that were replayed; nothing on the CPU.
    pub fn replays(&self) -> Replays {
        self.replays
    }

    fn prompt(&mut self, tokens: &[u32], wanted: Rows) -> Result<Vec<f32>> {
        let (model, stream) = (self.model, self.stream.as_ref());
        let mut pass = Pass::new(model, tokens.len(), false)?;
        pass.fill(model, tokens, self.cache.filled, self.cache.filled + tokens.len())?;
        pass.layers(model, &mut self.cache, stream)?;
        self.cache.filled += tokens.len();
        if wanted == Rows::Last {
            pass.predict(model, stream)?;
            return Ok(pass.logits.to_vec()?);
        }
        Ok(norm_logits(&pass.x, &model.norm, &model.embedding, model.config.epsilon).on(stream).run()?.to_vec()?)
    }

    fn step(&mut self, token: u32) -> Result<Vec<f32>> {
        let start = Instant::now();
        let Session { model, cache, step, stream, recorded, .. } = self;
        let stream = stream.as_ref();
        step.fill(model, &[token], cache.filled, cache.filled)?;
        let mut run = || {
            step.layers(model, cache, stream)?;
            step.predict(model, stream)
        };
        if let (Some(stream), None, 1..) = (stream, &recorded, self.steps) {
            *recorded = Some(Recording::new(stream, &mut run)?)
        }
        let own = stream.map(|_| Stream::own(&model.device)).transpose()?;
        let event = |s: &Stream| s.as_cuda().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        if let (Some(stream), Some(own)) = (stream, &own) {
            stream.after(own)? // which brings the inputs
        }
        let begin = stream.map(event).transpose()?;
        match recorded {
            // SAFETY: all that it names belongs to the session or to the model, which hold it where it was; what else is done with it is on the device's own stream
            Some(recorded) => unsafe { recorded.replay()? },
            None => run()?,
        }
        cache.append(step, stream)?;
        let end = stream.map(event).transpose()?;
        if let (Some(stream), Some(own)) = (stream, &own) {
            own.after(stream)?
        }
        let logits = step.logits.to_vec()?;
        self.steps += 1;
        if let (Some(begin), Some(end), Some(_)) = (begin, end, &self.recorded) {
            self.replays.count += 1;
            self.replays.kernels += Duration::from_secs_f32(begin.elapsed_ms(&end)? * 1e-3);
            self.replays.total += start.elapsed()
        }
        Ok(logits)
    }
}

impl<T: Element> Cache<T> {
    /// Puts a step's rows behind the others.
    fn append(&mut self, step: &Pass<T>, stream: Option<&Stream>) -> Result<()> {
        let row = self.filled..self.filled + 1;
        let targets = (self.keys.view_mut().slice(1, row.clone())?, self.values.view_mut().slice(1, row)?);
        append(&step.keys, &step.values).on(stream).run_into(targets)?;
        self.filled += 1;
        Ok(())
    }
}

impl<T: Element> Pass<T> {
    fn new(model: &Model<T>, tokens: usize, step: bool) -> Result<Self> {
        let Config { layers, hidden, intermediate, vocabulary, query_heads, kv_heads, head_dim, .. } = model.config;
        let rows = |channels: usize| Tensor::<T>::zeros(&model.device, &[tokens, channels]);
        let new = || Tensor::<T>::zeros(&model.device, &[if step { layers } else { 0 }, 1, kv_heads * head_dim]);
        let single = |shape: &[usize]| Tensor::<f32>::zeros(&model.device, shape);
        Ok(Pass {
            tokens,
            step,
            x: rows(hidden)?,
            y: rows(hidden)?,
            cos: single(&[tokens, head_dim / 2])?,
            sin: single(&[tokens, head_dim / 2])?,
            len: Tensor::zeros(&model.device, &[1])?,
            query: rows(query_heads * head_dim)?,
            mixed: rows(query_heads * head_dim)?,
            log_sum_exp: single(&[1, query_heads, tokens])?,
            gated: rows(intermediate)?,
            keys: new()?,
            values: new()?,
            logits: single(&[1, vocabulary])?,
        })
    }

    /// The inputs of these tokens, the first of which stands at `position`.
    fn fill(&mut self, model: &Model<T>, tokens: &[u32], position: usize, len: usize) -> Result<()> {
        let (cos, sin) = model.turns(position..position + tokens.len());
        put(&mut self.x, &model.embedded(tokens)?)?;
        put(&mut self.cos, cos)?;
        put(&mut self.sin, sin)?;
        put(&mut self.len, &[len as i32])
    }

    /// Runs all layers over `x`.
    fn layers(&mut self, model: &Model<T>, cache: &mut Cache<T>, stream: Option<&Stream>) -> Result<()> {
        let Config { query_heads, kv_heads, head_dim, epsilon, .. } = model.config;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let new = cache.filled..cache.filled + self.tokens;
        for (l, layer) in model.layers.iter().enumerate() {
            let projected = norm_qkv(&self.x, &layer.attention_norm, &layer.query, &layer.key, &layer.value, &self.cos, &self.sin, epsilon).on(stream);
            // a layer's part of the cache, heads outermost
            let heads = [1, cache.capacity, kv_heads, head_dim];
            if self.step {
                let own = [1, kv_heads * head_dim];
                projected.run_into((&mut self.query, of_layer_mut(&mut self.keys, l)?.reshape(&own)?, of_layer_mut(&mut self.values, l)?.reshape(&own)?))?;
                let (keys, values) = (of_layer(&cache.keys, l, &heads)?.permute(&HEADS_FIRST)?, of_layer(&cache.values, l, &heads)?.permute(&HEADS_FIRST)?);
                let own = [1, kv_heads, head_dim];
                let (own_key, own_value) = (of_layer(&self.keys, l, &own)?, of_layer(&self.values, l, &own)?);
                let of_heads = [1, query_heads, head_dim];
                let step = attention_step(self.query.view().reshape(&of_heads)?, keys, values, own_key, own_value, &self.len, scale);
                step.on(stream).run_into(self.mixed.view_mut().reshape(&of_heads)?)?
            } else {
                let rows = [self.tokens, kv_heads * head_dim];
                let keys = of_layer_mut(&mut cache.keys, l)?.slice(1, new.clone())?.reshape(&rows)?;
                let values = of_layer_mut(&mut cache.values, l)?.slice(1, new.clone())?.reshape(&rows)?;
                projected.run_into((&mut self.query, keys, values))?;
                let (keys, values) = (of_layer(&cache.keys, l, &heads)?.permute(&HEADS_FIRST)?, of_layer(&cache.values, l, &heads)?.permute(&HEADS_FIRST)?);
                let of_heads = [1, self.tokens, query_heads, head_dim];
                let prompt = attention(self.query.view().reshape(&of_heads)?.permute(&HEADS_FIRST)?, keys, values, &self.len, scale);
                prompt.on(stream).run_into((self.mixed.view_mut().reshape(&of_heads)?.permute(&HEADS_FIRST)?, &mut self.log_sum_exp))?
            }
            project_add(&self.mixed, &layer.output, &self.x).on(stream).run_into(&mut self.y)?;
            norm_swiglu(&self.y, &layer.mlp_norm, &layer.gate, &layer.up, epsilon).on(stream).run_into(&mut self.gated)?;
            project_add(&self.gated, &layer.down, &self.y).on(stream).run_into(&mut self.x)?
        }
        Ok(())
    }

    /// The logits after the last token.
    fn predict(&mut self, model: &Model<T>, stream: Option<&Stream>) -> Result<()> {
        let last = self.x.slice(0, self.tokens - 1..self.tokens)?;
        Ok(norm_logits(last, &model.norm, &model.embedding, model.config.epsilon).on(stream).run_into(&mut self.logits)?)
    }
}

/// `[batch, token, head, channel]` read as `[batch, head, token, channel]`.
const HEADS_FIRST: [usize; 4] = [0, 2, 1, 3];

/// A layer's part of what is stored layer by layer, in another shape.
fn of_layer<'a, T: Element>(all: &'a Tensor<T>, layer: usize, shape: &[usize]) -> Result<View<'a, T>> {
    Ok(all.slice(0, layer..layer + 1)?.reshape(shape)?)
}

fn of_layer_mut<T: Element>(all: &mut Tensor<T>, layer: usize) -> Result<ViewMut<'_, T>> {
    Ok(all.view_mut().slice(0, layer..layer + 1)?)
}

/// Writes over a tensor what lies on the host.
fn put<T: Element>(tensor: &mut Tensor<T>, values: &[T]) -> Result<()> {
    let shape = tensor.shape().to_vec();
    let strides = tensor.strides().to_vec();
    Ok(tensor.as_view_mut().copy_from(View::from_slice(values, &shape, &strides)?)?)
}
