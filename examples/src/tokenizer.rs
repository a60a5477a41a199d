//! Text to token ids and back, from the tokenizer data in the model's file: byte-level BPE whose pre-tokenizer splits digits.
use crate::weights::Gguf;
use anyhow::{Context, Result, anyhow, ensure};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::pre_tokenizers::{PreTokenizerWrapper, digits::Digits, sequence::Sequence};
use tokenizers::{AddedToken, DecodeStream, DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper};

/// Entries of `tokenizer.ggml.token_type` that stand for no text: `<|im_end|>` and the like.
const CONTROL: i32 = 3;

pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The token that ends a text.
    pub end: u32,
}

impl Tokenizer {
    /// Fails for a file whose tokenizer is of another kind.
    pub fn new(file: &Gguf) -> Result<Self> {
        for (key, supported) in [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "smollm")] {
            let found = file.value(key)?.to_string()?;
            ensure!(found == supported, "`{key}` is `{found}`: only `{supported}` is supported");
        }
        let tokens = file.strings("tokenizer.ggml.tokens")?;
        let vocabulary: Vocab = tokens.iter().map(|t| t.to_string()).zip(0..).collect();
        let merges = file.strings("tokenizer.ggml.merges")?.into_iter();
        let merges = merges.map(|m| m.split_once(' ').map(|(l, r)| (l.to_string(), r.to_string())).with_context(|| format!("`{m}` is no merge")));
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges.collect::<Result<Merges>>()?).build().map_err(|e| anyhow!(e))?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        let bytes = ByteLevel::new(false, true, true);
        inner.with_pre_tokenizer(Some(Sequence::new(vec![PreTokenizerWrapper::Digits(Digits::new(true)), PreTokenizerWrapper::ByteLevel(bytes)])));
        inner.with_decoder(Some(bytes));
        let kinds = file.value("tokenizer.ggml.token_type")?.to_vec()?;
        let control = tokens.iter().zip(kinds).filter(|(_, kind)| kind.to_i32().is_ok_and(|k| k == CONTROL));
        let control: Vec<AddedToken> = control.map(|(token, _)| AddedToken::from(*token, true)).collect();
        inner.add_special_tokens(control).map_err(|e| anyhow!(e))?;
        Ok(Tokenizer { inner, end: file.value("tokenizer.ggml.eos_token_id")?.to_u32()? })
    }

    /// The ids of a plain text. Control tokens that it spells out are taken as such.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false).map_err(|e| anyhow!(e))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of all `ids`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|e| anyhow!(e))
    }

    /// Turns tokens to text one at a time.
    pub fn stream(&self) -> Stream<'_> {
        Stream(self.inner.decode_stream(true))
    }
}

/// Text of tokens as they come: a character whose bytes several tokens share appears with the last of them.
pub struct Stream<'a>(DecodeStream<'a, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>);

impl Stream<'_> {
    /// The characters that `token` completes.
    pub fn push(&mut self, token: u32) -> Result<String> {
        Ok(self.0.step(token).map_err(|e| anyhow!(e))?.unwrap_or_default())
    }
}
