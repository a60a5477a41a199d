use examples::{fetch, tokenizer::Tokenizer, weights::Gguf};
#[test]
fn t() {
    let file = Gguf::open(&fetch::gguf().unwrap()).unwrap();
    println!("{:?}", file.config().unwrap());
    let t = Tokenizer::new(&file).unwrap();
    for s in ["The capital of France is", "In 2024, 3.14 naïve 日本語 🦀 don't\n\n  x<|im_end|>"] {
        let ids = t.encode(s).unwrap();
        println!("{ids:?} {:?}", t.decode(&ids));
        let mut st = t.stream();
        for i in ids {
            print!("{:?} ", st.push(i).unwrap())
        }
        println!();
    }
}
