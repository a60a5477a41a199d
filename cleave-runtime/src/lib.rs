
pub mod cpu;
