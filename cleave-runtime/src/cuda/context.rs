//! CUDA devices: one record for each context of the process, with the device's numbers and the modules loaded in it.
use crate::error::{Doing, Error, Result};
use cleave_core::device::{DeviceModel, Target};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaModule, CudaStream, DriverError, sys};
use once_cell::sync::Lazy;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Contexts live as long as the process: modules and plans refer to them.
#[derive(Clone, Copy)]
pub(crate) struct CudaDevice(&'static Inner);

pub(crate) struct Inner {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// 90 is 9.0.
    capability: u32,
    model: DeviceModel,
    /// Loaded modules, by kernel and position in its plan file.
    pub modules: Mutex<HashMap<ModuleKey, Arc<CudaModule>>>,
}

/// A module of a plan file: the kernel's record, its instance, the module.
pub(super) type ModuleKey = (usize, usize, u32);

/// Every context seen so far.
static DEVICES: Lazy<Mutex<Vec<CudaDevice>>> = Lazy::new(Default::default);

/// Operations per multiprocessor and clock of a dense 16-bit matrix product, and of f32 multiply-adds, by compute capability (CUDA
/// programming guide, table of throughputs; vendor data sheets).
const THROUGHPUT: [(u32, f64, f64); 6] =
    [(80, 2048.0, 128.0), (86, 1024.0, 256.0), (87, 2048.0, 256.0), (89, 1024.0, 256.0), (90, 4096.0, 256.0), (100, 8192.0, 256.0)];

impl CudaDevice {
    /// The device's primary context.
    pub fn open(ordinal: usize) -> Result<CudaDevice> {
        // SAFETY: only asks whether the library can be loaded
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoCuda);
        }
        let count = CudaContext::device_count().unwrap_or(0).max(0) as usize;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        Self::of(&CudaContext::new(ordinal).doing(|| format!("opening cuda:{ordinal}"))?)
    }
    /// The record of a context, made when it is first seen.
    pub fn of(context: &Arc<CudaContext>) -> Result<CudaDevice> {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(d) = devices.iter().find(|d| d.0.context.cu_ctx() == context.cu_ctx()) {
            return Ok(*d);
        }
        let reading = || format!("reading the attributes of cuda:{}", context.ordinal());
        let (major, minor) = context.compute_capability().doing(reading)?;
        let capability = (major * 10 + minor) as u32;
        let device = CudaDevice(Box::leak(Box::new(Inner {
            context: context.clone(),
            stream: context.default_stream(),
            capability,
            model: model(context, capability).doing(reading)?,
            modules: Mutex::default(),
        })));
        devices.push(device);
        Ok(device)
    }
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.0.context
    }
    /// The context's default stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }
    pub fn ordinal(&self) -> usize {
        self.0.context.ordinal()
    }
    pub fn id(&self) -> u64 {
        self.0.context.cu_ctx() as u64
    }
    pub fn model(&self) -> &DeviceModel {
        &self.0.model
    }
    pub fn capability(&self) -> u32 {
        self.0.capability
    }
    pub(super) fn inner(&self) -> &'static Inner {
        self.0
    }
    /// The error of a failed allocation.
    pub fn allocation_error(&self, error: DriverError, bytes: usize) -> Error {
        match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { device: format!("cuda:{}", self.ordinal()), bytes },
            _ => Error::Driver { doing: format!("allocating {bytes} bytes on cuda:{}", self.ordinal()), source: error },
        }
    }
}

fn model(context: &CudaContext, capability: u32) -> Result<DeviceModel, DriverError> {
    let read = |a: Attribute| context.attribute(a).map(|v| v.max(0) as f64);
    let units = read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1.0);
    // some integrated devices and virtual machines hide their clocks
    let told = |a: Attribute| read(a).unwrap_or(0.0);
    let clock = told(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3;
    let memory_clock = told(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3;
    let bus_bytes = told(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
    let chip_bytes = read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u64;
    let (_, half, single) = THROUGHPUT.iter().rev().find(|t| t.0 <= capability).unwrap_or(&THROUGHPUT[0]);
    let or = |value: f64, fallback: f64| if value > 0.0 { value } else { fallback };
    let clock = or(clock, 1.5e9);
    Ok(DeviceModel {
        name: format!("{} (cuda:{})", context.name()?, context.ordinal()),
        target: if capability == 90 { Target::Hopper } else { Target::Portable },
        units: units as u32,
        chip_bytes,
        half_flops: half * units * clock,
        single_flops: single * units * clock,
        // both edges of the clock carry data; nine tenths are what kernels reach
        bandwidth: or(0.9 * 2.0 * memory_clock * bus_bytes, 500e9),
        launch_seconds: 2.4e-6,
        merge_seconds: 0.7e-6,
    })
}
