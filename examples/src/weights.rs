//! Reads a llama-like model from a GGUF file: its configuration, its tensors as f32 (dequantised), and the data of its tokenizer.
use anyhow::{Context, Result, ensure};
use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A GGUF file, open for reading.
pub struct Gguf {
    content: Content,
    reader: BufReader<File>,
}

/// The numbers that make a model of the llama family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub layers: usize,
    pub hidden: usize,
    pub query_heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    pub rope_base: f32,
    /// What RMSNorm adds to the mean square.
    pub epsilon: f32,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut reader = BufReader::new(file);
        let content = Content::read(&mut reader).with_context(|| format!("{} is no GGUF file", path.display()))?;
        Ok(Gguf { content, reader })
    }

    /// Fails for a model that is not of the llama family, or whose heads do not divide.
    pub fn config(&self) -> Result<Config> {
        let architecture = self.value("general.architecture")?.to_string()?;
        ensure!(architecture == "llama", "the model is of architecture `{architecture}`, not `llama`");
        let size = |key: &str| -> Result<usize> { Ok(self.value(key)?.to_u32().with_context(|| format!("`{key}`"))? as usize) };
        let real = |key: &str| -> Result<f32> { self.value(key)?.to_f32().with_context(|| format!("`{key}`")) };
        let config = Config {
            layers: size("llama.block_count")?,
            hidden: size("llama.embedding_length")?,
            query_heads: size("llama.attention.head_count")?,
            kv_heads: size("llama.attention.head_count_kv")?,
            head_dim: size("llama.rope.dimension_count")?,
            intermediate: size("llama.feed_forward_length")?,
            vocabulary: size("llama.vocab_size")?,
            context: size("llama.context_length")?,
            rope_base: real("llama.rope.freq_base")?,
            epsilon: real("llama.attention.layer_norm_rms_epsilon")?,
        };
        ensure!(
            config.kv_heads > 0
                && config.query_heads.is_multiple_of(config.kv_heads)
                && config.head_dim.is_multiple_of(2)
                && config.query_heads * config.head_dim == config.hidden,
            "heads do not divide: {config:?}"
        );
        Ok(config)
    }

    /// A tensor of this shape as f32, row-major.
    pub fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.content.tensor(&mut self.reader, name, &Device::Cpu)?;
        ensure!(tensor.shape().dims() == shape, "`{name}` has shape {:?}, not {shape:?}", tensor.shape().dims());
        let values = tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1();
        values.with_context(|| format!("cannot dequantise `{name}`"))
    }

    /// An entry of the file's metadata.
    pub fn value(&self, key: &str) -> Result<&Value> {
        self.content.metadata.get(key).with_context(|| format!("the file has no `{key}`"))
    }

    /// A list of strings of the file's metadata.
    pub fn strings(&self, key: &str) -> Result<Vec<&str>> {
        let list = self.value(key)?.to_vec()?;
        list.iter().map(|v| Ok(v.to_string().with_context(|| format!("`{key}`"))?.as_str())).collect()
    }
}
