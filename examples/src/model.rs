//! SmolLM2 as Cleave kernels: token ids in, logits out. Every tensor operation of the layers is a kernel; the host looks up the embedding's rows.
//!
//! One sequence at a time. Activations are stored token by token, `[M, channels]`; what splits a row into heads is a view. A layer's
//! keys and values go straight to their rows of the cache, whose unused rest is never read.
use crate::kernels::{attention, norm_logits, norm_qkv, norm_swiglu, project_add};
use crate::weights::{Config, Gguf};
use anyhow::{Result, ensure};
use cleave::{Device, Element, Tensor, View};

/// The weights on a device.
pub struct Model<T> {
    config: Config,
    device: Device,
    /// A row for each token, on the host.
    rows: Vec<T>,
    /// The same on the device: the logits' weights are tied to it.
    embedding: Tensor<T>,
    norm: Tensor<T>,
    layers: Vec<Layer<T>>,
    /// RoPE's tables `[context, head_dim / 2]`.
    cos: Tensor<f32>,
    sin: Tensor<f32>,
}

struct Layer<T> {
    attention_norm: Tensor<T>,
    query: Tensor<T>,
    key: Tensor<T>,
    value: Tensor<T>,
    output: Tensor<T>,
    mlp_norm: Tensor<T>,
    gate: Tensor<T>,
    up: Tensor<T>,
    down: Tensor<T>,
}

/// Keys and values of the tokens seen so far, for each layer `[capacity, kv_heads, head_dim]`.
pub struct Cache<T> {
    keys: Vec<Tensor<T>>,
    values: Vec<Tensor<T>>,
    filled: usize,
    capacity: usize,
}

/// Which tokens' logits are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Last,
    Every,
}

impl<T: Element> Model<T> {
    /// Reads the weights, rounding them to `T`.
    pub fn load(device: &Device, file: &mut Gguf) -> Result<Self> {
        let config = file.config()?;
        let Config { hidden, intermediate, vocabulary, .. } = config;
        let (queries, keys) = (config.query_heads * config.head_dim, config.kv_heads * config.head_dim);
        let rows = rounded(file.tensor("token_embd.weight", &[vocabulary, hidden])?);
        let embedding = Tensor::from_slice_on(device, &rows, &[vocabulary, hidden])?;
        let mut read = |name: &str, shape: &[usize]| -> Result<Tensor<T>> { Ok(Tensor::from_slice_on(device, &rounded(file.tensor(name, shape)?), shape)?) };
        let layer = |l: usize| {
            let mut read = |name: &str, shape: &[usize]| read(&format!("blk.{l}.{name}.weight"), shape);
            Ok(Layer {
                attention_norm: read("attn_norm", &[hidden])?,
                query: read("attn_q", &[queries, hidden])?,
                key: read("attn_k", &[keys, hidden])?,
                value: read("attn_v", &[keys, hidden])?,
                output: read("attn_output", &[hidden, queries])?,
                mlp_norm: read("ffn_norm", &[hidden])?,
                gate: read("ffn_gate", &[intermediate, hidden])?,
                up: read("ffn_up", &[intermediate, hidden])?,
                down: read("ffn_down", &[hidden, intermediate])?,
            })
        };
        let layers = (0..config.layers).map(layer).collect::<Result<Vec<_>>>()?;
        let norm = read("output_norm.weight", &[hidden])?;
        let table = |f: fn(f32) -> f32| Tensor::from_slice_on(device, &rope_table(&config, f), &[config.context, config.head_dim / 2]);
        Ok(Model { config, device: device.clone(), rows, embedding, norm, layers, cos: table(f32::cos)?, sin: table(f32::sin)? })
    }

    /// Runs `tokens`, which follow those in the cache, and adds them to it. Gives the logits after the last of them, or after every one: `[tokens, vocabulary]`.
    pub fn forward(&self, cache: &mut Cache<T>, tokens: &[u32], wanted: Rows) -> Result<Vec<f32>> {
        let Config { hidden, query_heads, kv_heads, head_dim, vocabulary, epsilon, .. } = self.config;
        let (count, new) = (tokens.len(), cache.filled..cache.filled + tokens.len());
        ensure!(count > 0, "there are no tokens to run");
        ensure!(new.end <= cache.capacity, "{} tokens do not fit the cache of {}", new.end, cache.capacity);
        let mut x = self.embed(tokens)?;
        let len = Tensor::from_slice_on(&self.device, &[new.end as i32], &[1])?;
        let (cos, sin) = (self.cos.slice(0, new.clone())?, self.sin.slice(0, new.clone())?);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let mut query = Tensor::<T>::zeros(&self.device, &[count, query_heads * head_dim])?;
        let mut mixed = Tensor::<T>::zeros(&self.device, &[count, query_heads * head_dim])?;
        let mut log_sum_exp = Tensor::<f32>::zeros(&self.device, &[1, query_heads, count])?;
        for (layer, (keys, values)) in self.layers.iter().zip(cache.keys.iter_mut().zip(&mut cache.values)) {
            let row = [count, kv_heads * head_dim];
            let targets = (&mut query, keys.view_mut().slice(0, new.clone())?.reshape(&row)?, values.view_mut().slice(0, new.clone())?.reshape(&row)?);
            norm_qkv(&x, &layer.attention_norm, &layer.query, &layer.key, &layer.value, &cos, &sin, epsilon).run_into(targets)?;
            let targets = (mixed.view_mut().reshape(&[1, count, query_heads, head_dim])?.permute(&HEADS_FIRST)?, &mut log_sum_exp);
            let heads = query.view().reshape(&[1, count, query_heads, head_dim])?.permute(&HEADS_FIRST)?;
            attention(heads, by_head(keys, &self.config)?, by_head(values, &self.config)?, &len, scale).run_into(targets)?;
            x = project_add(&mixed, &layer.output, &x).run()?;
            let gated = norm_swiglu(&x, &layer.mlp_norm, &layer.gate, &layer.up, epsilon).run()?;
            x = project_add(&gated, &layer.down, &x).run()?;
        }
        cache.filled = new.end;
        let from = if wanted == Rows::Last { count - 1 } else { 0 };
        let logits = norm_logits(x.slice(0, from..count)?, &self.norm, &self.embedding, epsilon).run()?.to_vec()?;
        debug_assert_eq!((logits.len(), x.shape()), ((count - from) * vocabulary, [count, hidden].as_slice()));
        Ok(logits)
    }

    /// The embedding's rows of these tokens.
    fn embed(&self, tokens: &[u32]) -> Result<Tensor<T>> {
        let Config { hidden, vocabulary, .. } = self.config;
        let mut rows = Vec::with_capacity(tokens.len() * hidden);
        for t in tokens.iter().map(|t| *t as usize) {
            ensure!(t < vocabulary, "token {t} is not in the vocabulary of {vocabulary}");
            rows.extend_from_slice(&self.rows[t * hidden..(t + 1) * hidden])
        }
        Ok(Tensor::from_slice_on(&self.device, &rows, &[tokens.len(), hidden])?)
    }
}

impl<T: Element> Cache<T> {
    /// Room for `capacity` tokens.
    pub fn new(device: &Device, config: &Config, capacity: usize) -> Result<Self> {
        ensure!(capacity <= config.context, "the model was trained for {} positions, {capacity} are asked for", config.context);
        let empty = || (0..config.layers).map(|_| Ok(Tensor::zeros(device, &[capacity, config.kv_heads, config.head_dim])?)).collect::<Result<Vec<_>>>();
        Ok(Cache { keys: empty()?, values: empty()?, filled: 0, capacity })
    }
}

/// `[batch, token, head, channel]` read as `[batch, head, token, channel]`.
const HEADS_FIRST: [usize; 4] = [0, 2, 1, 3];

/// A layer's cache as attention reads it: one sequence, heads outermost.
fn by_head<'a, T: Element>(cache: &'a Tensor<T>, config: &Config) -> Result<View<'a, T>> {
    let capacity = cache.shape()[0];
    Ok(cache.view().reshape(&[1, capacity, config.kv_heads, config.head_dim])?.permute(&HEADS_FIRST)?)
}

fn rounded<T: Element>(values: Vec<f32>) -> Vec<T> {
    values.into_iter().map(T::from_f32).collect()
}

/// `f` of the angle of every position and pair of channels: `position / base^(2 pair / head_dim)`.
fn rope_table(config: &Config, f: fn(f32) -> f32) -> Vec<f32> {
    let angle = |position: usize, pair: usize| position as f32 / config.rope_base.powf(2.0 * pair as f32 / config.head_dim as f32);
    let row = |position| (0..config.head_dim / 2).map(move |pair| f(angle(position, pair)));
    (0..config.context).flat_map(row).collect()
}

/// The most likely next token: the first of the greatest logits.
pub fn likeliest(logits: &[f32]) -> u32 {
    logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (i, &x)| if x > best.1 { (i, x) } else { best }).0 as u32
}
