//! Continues a text with SmolLM2-135M: `generate "The capital of France is"`. The text goes to standard output as it comes, the rates to standard error.
use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use cleave::{Device, Element};
use examples::device::{Kind, open};
use examples::model::{Model, likeliest};
use examples::session::Rows;
use examples::{fetch, tokenizer::Tokenizer, weights::Gguf};
use half::{bf16, f16};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Continues a text with SmolLM2-135M-Instruct, greedily. Every layer runs as Cleave kernels.
#[derive(Parser)]
struct Options {
    /// The text to continue.
    #[arg(required_unless_present = "prompt_file")]
    prompt: Option<String>,
    /// Reads the text to continue from a file.
    #[arg(long, conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "cpu")]
    device: Kind,
    /// Storage of weights and activations: f32 on the CPU and bf16 on CUDA, if not given.
    #[arg(long, value_enum)]
    dtype: Option<Storage>,
    /// The most tokens to generate.
    #[arg(long, default_value_t = 64)]
    tokens: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Storage {
    F32,
    Bf16,
    F16,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = open(options.device)?;
    let storage = options.dtype.unwrap_or(match options.device {
        Kind::Cpu => Storage::F32,
        Kind::Cuda => Storage::Bf16,
    });
    match storage {
        Storage::F32 => generate::<f32>(&options, &device),
        Storage::Bf16 => generate::<bf16>(&options, &device),
        Storage::F16 => generate::<f16>(&options, &device),
    }
}

fn generate<T: Element>(options: &Options, device: &Device) -> Result<()> {
    let text = match (&options.prompt, &options.prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
        (None, None) => String::new(),
    };
    let mut file = Gguf::open(&fetch::gguf()?)?;
    let tokenizer = Tokenizer::new(&file)?;
    let prompt = tokenizer.encode(&text)?;
    let config = file.config()?;
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let room = config.context.saturating_sub(prompt.len());
    ensure!(options.tokens <= room, "a prompt of {} tokens leaves room for {room} of the {} positions", prompt.len(), config.context);
    let model = Model::<T>::load(device, &mut file)?;
    let mut session = model.session(prompt.len() + options.tokens)?;

    let mut out = std::io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()?;
    let mut words = tokenizer.stream();
    let start = Instant::now();
    let mut token = likeliest(&session.forward(&prompt, Rows::Last)?);
    let prompt_time = start.elapsed();

    let start = Instant::now();
    let mut generated = 0;
    while generated < options.tokens && token != tokenizer.end {
        write!(out, "{}", words.push(token)?)?;
        out.flush()?;
        generated += 1;
        token = likeliest(&session.forward(&[token], Rows::Last)?);
    }
    let decode_time = start.elapsed();
    writeln!(out)?;
    let rate = |tokens: usize, time: std::time::Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
    eprintln!(
        "prompt: {} tokens, {:.1} tokens/s; decode: {generated} tokens, {:.1} tokens/s",
        prompt.len(),
        rate(prompt.len(), prompt_time),
        rate(generated, decode_time)
    );
    let replays = session.replays();
    if replays.count > 0 {
        let share = replays.kernels.as_secs_f64() / replays.total.as_secs_f64();
        let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / replays.count as f64;
        eprintln!(
            "replayed: {} steps of {:.0} us, of which {:.0} us ({:.0} %) in kernels",
            replays.count,
            each(replays.total),
            each(replays.kernels),
            share * 100.0
        )
    }
    Ok(())
}
