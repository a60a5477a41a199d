pub mod device;
pub mod fetch;
pub mod kernels;
pub mod model;
pub mod tokenizer;
pub mod weights;
