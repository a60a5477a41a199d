//! The tokenizer made from the model's file. Right ids were worked out apart, by merging pairs in a script of a few lines.
use examples::{fetch, tokenizer::Tokenizer, weights::Gguf};

const MIXED: &str = "In 2024, 3.14 naïve 日本語 🦀 don't\n\n  x<|im_end|>";

fn tokenizer() -> Tokenizer {
    let path = fetch::gguf().expect("the weights can be fetched");
    Tokenizer::new(&Gguf::open(&path).expect("the file opens")).expect("the file holds a tokenizer")
}

#[test]
fn digits_stand_alone_and_control_tokens_are_one_token() {
    let mixed =
        [788, 216, 34, 32, 34, 36, 28, 216, 35, 30, 33, 36, 15486, 46494, 17097, 241, 115, 40993, 179, 120, 248, 15107, 116, 218, 1326, 982, 8866, 1792, 2];
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.encode("The capital of France is").unwrap(), [504, 3575, 282, 4649, 314]);
    assert_eq!(tokenizer.encode(MIXED).unwrap(), mixed);
    assert_eq!(tokenizer.encode("<|im_start|>user\nHi!<|im_end|>\n").unwrap(), [1, 4093, 198, 26843, 17, 2, 198]);
    assert_eq!(tokenizer.end, 2);
}

#[test]
fn a_stream_gives_whole_characters_and_loses_none() {
    let tokenizer = tokenizer();
    let mut stream = tokenizer.stream();
    let pieces: Vec<String> = tokenizer.encode(MIXED).unwrap().into_iter().map(|t| stream.push(t).unwrap()).collect();
    assert!(pieces.iter().all(|p| !p.contains('\u{fffd}')), "{pieces:?}");
    assert_eq!(pieces.concat(), MIXED.replace("<|im_end|>", ""));
}
