//! The `--device` option that the programs share.
use anyhow::Result;
use cleave::Device;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    Cpu,
    Cuda,
}

/// The host, or the first CUDA device.
pub fn open(kind: Kind) -> Result<Device> {
    Ok(match kind {
        Kind::Cpu => Device::cpu(),
        Kind::Cuda => Device::cuda(0)?,
    })
}
