pub mod fetch;
pub mod tokenizer;
pub mod weights;
