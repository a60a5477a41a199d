//! Devices: the host's cores, and CUDA devices through their driver.
use crate::cuda::CudaDevice;
use crate::error::{Error, Result};
use cleave_core::device::{DeviceModel, Target};
use once_cell::sync::Lazy;
use std::fmt;
use std::sync::Arc;

/// Where tensors live and kernels run. Cheap to clone.
#[derive(Clone)]
pub struct Device {
    pub(crate) kind: DeviceKind,
}

#[derive(Clone)]
pub(crate) enum DeviceKind {
    Cpu,
    Cuda(CudaDevice),
}

/// Assumed, not measured on the machine at hand: what one core gives to a blocked f32 product of a tuned library, and to a
/// stream of memory while its neighbours stream too.
const CORE_FLOPS: f64 = 70e9;
const CORE_BANDWIDTH: f64 = 10e9;
/// Beyond some cores the memory, not the cores, limits a stream.
const SOCKET_BANDWIDTH: f64 = 200e9;

static CPU: Lazy<DeviceModel> = Lazy::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
    DeviceModel {
        name: format!("cpu with {cores} cores"),
        target: Target::Cpu,
        units: cores as u32,
        chip_bytes: 1 << 20,
        half_flops: CORE_FLOPS * cores,
        single_flops: CORE_FLOPS * cores,
        bandwidth: (CORE_BANDWIDTH * cores).min(SOCKET_BANDWIDTH),
        launch_seconds: 5e-6,
        merge_seconds: 2e-6,
    }
});

impl Device {
    /// The host: every kernel runs here, on all cores.
    pub fn cpu() -> Device {
        Device { kind: DeviceKind::Cpu }
    }
    /// The CUDA device of this ordinal, in its primary context. Fails without libcuda or without such a device.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        Ok(Device { kind: DeviceKind::Cuda(CudaDevice::open(ordinal)?) })
    }
    /// The device of a context that the application made.
    pub fn from_cuda(context: &Arc<cudarc::driver::CudaContext>) -> Result<Device> {
        Ok(Device { kind: DeviceKind::Cuda(CudaDevice::of(context)?) })
    }
    /// The numbers by which plans are chosen.
    pub fn model(&self) -> &DeviceModel {
        match &self.kind {
            DeviceKind::Cpu => &CPU,
            DeviceKind::Cuda(c) => c.model(),
        }
    }
    /// Waits until everything that was launched on the device's own stream is done.
    pub fn synchronize(&self) -> Result<()> {
        match &self.kind {
            DeviceKind::Cpu => Ok(()),
            DeviceKind::Cuda(c) => c.stream().synchronize().map_err(|source| Error::Driver { doing: "waiting for the device".into(), source }),
        }
    }
    /// The device's name without its number: what equal devices share.
    pub(crate) fn product(&self) -> &str {
        let name = &self.model().name;
        name.rsplit_once(" (cuda:").map_or(name, |n| n.0)
    }
    /// A number that tells devices apart within this process.
    pub(crate) fn id(&self) -> u64 {
        match &self.kind {
            DeviceKind::Cpu => 0,
            DeviceKind::Cuda(c) => c.id(),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            DeviceKind::Cpu => f.write_str("cpu"),
            DeviceKind::Cuda(c) => write!(f, "cuda:{}", c.ordinal()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_libcuda_says_so() {
        // SAFETY: only asks whether the library can be loaded
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            let error = Device::cuda(0).unwrap_err();
            assert_eq!(error.to_string(), "libcuda was not found; install the NVIDIA driver, or use `Device::cpu()`");
        }
    }
}
