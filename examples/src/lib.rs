//! Programs that use Cleave: a language model, a benchmark, and a view into what a build found.
pub mod bench;
pub mod catalogue;
pub mod data;
pub mod device;
pub mod facts;
pub mod fetch;
pub mod kernels;
pub mod model;
pub mod session;
pub mod tokenizer;
pub mod variants;
pub mod weights;
