//! The language model beside an independent implementation: candle's llama, over the same weights.
//!
//! Candle's own path for this file rounds activations to 8 bits before every product. Given the file's weights dequantised, it computes in f32 as the model does.
use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use cleave::Element;
use examples::model::{Model, likeliest};
use examples::session::{Rows, Session};
use examples::{fetch, tokenizer::Tokenizer, weights::Config, weights::Gguf};
use std::fs::File;
use std::io::{BufReader, Cursor};

const PROMPTS: [&str; 2] = ["The capital of France is", "def fibonacci(n):\n    if n < 2:\n        return n\n    return"];

/// Candle's model over the dequantised weights.
fn candle() -> candle_core::Result<ModelWeights> {
    let mut file = BufReader::new(File::open(fetch::gguf().expect("the weights can be fetched"))?);
    let content = gguf_file::Content::read(&mut file)?;
    let mut dequantised = vec![];
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        dequantised.push((name.as_str(), QTensor::quantize(&tensor, GgmlDType::F32)?))
    }
    let tensors: Vec<(&str, &QTensor)> = dequantised.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let metadata: Vec<_> = content.metadata.iter().filter(|(key, _)| !key.starts_with("tokenizer.")).map(|(key, value)| (key.as_str(), value)).collect();
    let mut rewritten = Cursor::new(vec![]);
    gguf_file::write(&mut rewritten, &metadata, &tensors)?;
    drop(dequantised);
    rewritten.set_position(0);
    let content = gguf_file::Content::read(&mut rewritten)?;
    ModelWeights::from_gguf(content, &mut rewritten, &Device::Cpu)
}

/// Candle's logits after `token` at `position`; its cache holds what was before.
fn candle_step(model: &mut ModelWeights, token: u32, position: usize) -> Vec<f32> {
    let input = Tensor::new(&[[token]], &Device::Cpu).expect("a token is a tensor");
    let logits = model.forward(&input, position).and_then(|l| l.flatten_all()?.to_vec1());
    logits.expect("candle runs")
}

struct Ours<T> {
    model: Model<T>,
    tokenizer: Tokenizer,
    config: Config,
}

fn ours<T: Element>() -> Ours<T> {
    let mut file = Gguf::open(&fetch::gguf().expect("the weights can be fetched")).expect("the file opens");
    let tokenizer = Tokenizer::new(&file).expect("the file holds a tokenizer");
    let model = Model::load(&cleave::Device::cpu(), &mut file).expect("the weights load");
    Ours { model, tokenizer, config: file.config().expect("the file holds a configuration") }
}

impl<T: Element> Ours<T> {
    fn session(&self, capacity: usize) -> Session<'_, T> {
        self.model.session(capacity).expect("there is memory for a session")
    }
}

fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// The sums of two f32 implementations differ by about 5e-5 where logits reach 40; a wrong position, scale or mask by 1 and more.
#[test]
fn logits_at_every_position_are_candles_and_so_is_the_text() {
    const BOUND: f32 = 5e-4;
    const GENERATED: usize = 16;
    let ours = ours::<f32>();
    let mut candle = candle().expect("candle loads the weights");
    for prompt in PROMPTS {
        let tokens = ours.tokenizer.encode(prompt).unwrap();
        let mut session = ours.session(tokens.len() + GENERATED);
        let mut logits = session.forward(&tokens, Rows::Every).unwrap();
        candle.clear_kv_cache();
        let (mut text, mut candles) = (tokens.clone(), tokens.clone());
        for (position, row) in logits.chunks(ours.config.vocabulary).enumerate() {
            let expected = candle_step(&mut candle, tokens[position], position);
            let error = greatest_difference(row, &expected);
            assert!(error < BOUND, "{prompt:?}, position {position}: logits differ by {error}");
            if position == tokens.len() - 1 {
                candles.push(likeliest(&expected))
            }
        }
        for _ in 0..GENERATED {
            let last = &logits[logits.len() - ours.config.vocabulary..];
            text.push(likeliest(last));
            logits = session.forward(&text[text.len() - 1..], Rows::Last).unwrap();
            let expected = candle_step(&mut candle, candles[candles.len() - 1], candles.len() - 1);
            let error = greatest_difference(&logits, &expected);
            assert!(error < BOUND, "{prompt:?}, position {}: logits differ by {error}", text.len() - 1);
            candles.push(likeliest(&expected))
        }
        text.push(likeliest(&logits));
        assert_eq!(ours.tokenizer.decode(&text).unwrap(), ours.tokenizer.decode(&candles).unwrap());
    }
}

#[test]
fn rounded_to_bf16_the_model_still_knows_the_capital_of_france() {
    let ours = ours::<half::bf16>();
    let tokens = ours.tokenizer.encode(PROMPTS[0]).unwrap();
    let logits = ours.session(tokens.len()).forward(&tokens, Rows::Last).unwrap();
    assert_eq!(ours.tokenizer.decode(&[likeliest(&logits)]).unwrap(), " Paris");
}

#[test]
fn a_full_cache_and_an_unknown_token_are_errors() {
    let ours = ours::<half::bf16>();
    let message = |tokens: &[u32]| ours.session(2).forward(tokens, Rows::Last).unwrap_err().to_string();
    assert_eq!(message(&[1, 2, 3]), "3 tokens do not fit the cache of 2");
    assert_eq!(message(&[49152]), "token 49152 is not in the vocabulary of 49152");
    assert_eq!(message(&[]), "there are no tokens to run");
}

/// Steps read the cache that prompts wrote and the other way round, wherever a text is cut.
#[test]
fn a_text_may_be_cut_in_prompts_and_steps_anywhere() {
    let ours = ours::<f32>();
    let tokens = ours.tokenizer.encode(PROMPTS[1]).unwrap();
    let whole = ours.session(tokens.len()).forward(&tokens, Rows::Last).unwrap();
    for cuts in [&[1][..], &[4, 5, 6, 9], &[2, 7]] {
        let mut session = ours.session(tokens.len());
        let ends = cuts.iter().copied().chain([tokens.len()]);
        let (_, logits) = ends.fold((0, vec![]), |(start, _), end| (end, session.forward(&tokens[start..end], Rows::Last).unwrap()));
        let error = greatest_difference(&whole, &logits);
        assert!(error < 5e-4, "cut at {cuts:?}: logits differ by {error}")
    }
}
