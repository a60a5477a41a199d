//! SmolLM2's weights on a device, and how its tables are made. [`Session`](crate::session::Session) runs it.
use crate::session::Session;
use crate::weights::{Config, Gguf};
use anyhow::{Result, ensure};
use cleave::{Device, Element, Tensor};
use std::ops::Range;

pub struct Model<T> {
    pub config: Config,
    pub(crate) device: Device,
    /// A row for each token, on the host.
    rows: Vec<T>,
    /// The same on the device: the logits' weights are tied to it.
    pub(crate) embedding: Tensor<T>,
    pub(crate) norm: Tensor<T>,
    pub(crate) layers: Vec<Layer<T>>,
    /// RoPE's tables `[context, head_dim / 2]`, on the host.
    cos: Vec<f32>,
    sin: Vec<f32>,
}

pub(crate) struct Layer<T> {
    pub attention_norm: Tensor<T>,
    pub query: Tensor<T>,
    pub key: Tensor<T>,
    pub value: Tensor<T>,
    pub output: Tensor<T>,
    pub mlp_norm: Tensor<T>,
    pub gate: Tensor<T>,
    pub up: Tensor<T>,
    pub down: Tensor<T>,
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
        let (cos, sin) = (rope_table(&config, f32::cos), rope_table(&config, f32::sin));
        Ok(Model { config, device: device.clone(), rows, embedding, norm, layers, cos, sin })
    }

    /// A text of at most `capacity` tokens, of which there is none yet.
    pub fn session(&self, capacity: usize) -> Result<Session<'_, T>> {
        Session::new(self, capacity)
    }

    /// The embedding's rows of these tokens.
    pub(crate) fn embedded(&self, tokens: &[u32]) -> Result<Vec<T>> {
        let Config { hidden, vocabulary, .. } = self.config;
        let mut rows = Vec::with_capacity(tokens.len() * hidden);
        for t in tokens.iter().map(|t| *t as usize) {
            ensure!(t < vocabulary, "token {t} is not in the vocabulary of {vocabulary}");
            rows.extend_from_slice(&self.rows[t * hidden..(t + 1) * hidden])
        }
        Ok(rows)
    }

    /// The rows of RoPE's tables for these positions: cosines and sines.
    pub(crate) fn turns(&self, positions: Range<usize>) -> (&[f32], &[f32]) {
        let pairs = self.config.head_dim / 2;
        let range = positions.start * pairs..positions.end * pairs;
        (&self.cos[range.clone()], &self.sin[range])
    }
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
