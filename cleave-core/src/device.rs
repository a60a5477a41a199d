//! A device as the choice of a plan sees it: numbers only, so that a test can make one up.
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceModel {
    pub name: String,
    pub target: Target,
    /// Multiprocessors, or cores.
    pub units: u32,
    /// Bytes of fast memory that a block may use.
    pub chip_bytes: u64,
    /// Operations a second of a contraction in 16-bit types, and in f32, over the whole device.
    pub half_flops: f64,
    pub single_flops: f64,
    /// Bytes a second between the device's memory and its chips.
    pub bandwidth: f64,
    /// Seconds that a launch, and that the merge of a split, add.
    pub launch_seconds: f64,
    pub merge_seconds: f64,
}

/// What code an entry of the menu holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Target {
    /// The tile program itself, run by the executor of the run time.
    Cpu,
    /// CUDA, compute capability 8.0 and up: mma.sync and cp.async.
    Portable,
    /// CUDA, compute capability 9.0 with its own features: TMA and wgmma.
    Hopper,
}
