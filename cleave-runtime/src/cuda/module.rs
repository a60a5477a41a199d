//! Which image of a module runs on a device, and loading it once for each context.
use super::CudaDevice;
use super::compiled::Origin;
use crate::error::{Doing, Error, Result};
use cleave_core::device::Target;
use cleave_core::plan::{Image, ImageKind, Instance, Module};
use cudarc::driver::{CudaModule, sys};
use cudarc::nvrtc::{self, CompileError, CompileOptions, Ptx};
use once_cell::sync::Lazy;
use std::sync::{Arc, PoisonError};

/// Whether NVRTC can be loaded. Looked up once: where it is not, every look goes through all folders of libraries.
// SAFETY: only asks whether the library can be loaded
static NVRTC: Lazy<bool> = Lazy::new(|| unsafe { nvrtc::sys::is_culib_present() });

/// How a module gets onto a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Usable {
    /// The image at this position of [`Module::images`].
    Image(usize),
    /// Its source, compiled now.
    Source,
    No,
}

/// Machine code of the device's own capability first, then of an earlier minor version, then PTX; the source where NVRTC is.
pub(crate) fn usable(module: &Module, capability: u32, nvrtc: bool) -> Usable {
    let fits_target = match module.target {
        Target::Cpu => false,
        Target::Portable => capability >= 80,
        Target::Hopper => capability == 90,
    };
    if !fits_target {
        return Usable::No;
    }
    let rank = |image: &Image| match image.kind {
        ImageKind::Cubin { capability: c, exact: true } => (c == capability).then_some((3, c)),
        ImageKind::Cubin { capability: c, exact: false } => (c <= capability && c / 10 == capability / 10).then_some((2, c)),
        ImageKind::Ptx { capability: c } => (c <= capability).then_some((1, c)),
    };
    let best = module.images.iter().enumerate().filter_map(|(i, image)| Some((rank(image)?, i))).max();
    match best {
        Some((_, i)) => Usable::Image(i),
        None if nvrtc => Usable::Source,
        None => Usable::No,
    }
}

/// NVRTC's version, which is loaded.
fn version() -> (i32, i32) {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are written to
    let _ = unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) };
    (major, minor)
}

impl CudaDevice {
    /// How `module` would be loaded here.
    pub fn usable(&self, module: &Module) -> Usable {
        usable(module, self.capability(), *NVRTC)
    }
    /// The module, loaded unless it has been already. `record` tells kernels apart.
    pub(super) fn module(&self, kernel: &str, record: usize, instance: (usize, &Instance), index: u32) -> Result<Arc<CudaModule>> {
        let mut modules = self.inner().modules.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (record, instance.0, index);
        if let Some(m) = modules.get(&key) {
            return Ok(m.clone());
        }
        let module = instance.1.modules.get(index as usize).ok_or_else(|| Error::Plan { kernel: kernel.into() })?;
        let image = match self.usable(module) {
            Usable::Image(i) => match module.images[i].kind {
                ImageKind::Cubin { .. } => Ptx::from_binary(module.images[i].bytes.clone()),
                ImageKind::Ptx { .. } => {
                    let text = String::from_utf8_lossy(&module.images[i].bytes);
                    Ptx::from_src(text.trim_end_matches('\0'))
                }
            },
            Usable::Source => self.compile(kernel, module)?,
            Usable::No => return Err(self.no_code(kernel, instance.1)),
        };
        let loaded = self.context().load_module(image).map_err(|source| match source.0 {
            sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => self.no_code(kernel, instance.1),
            _ => Error::Driver { doing: format!("loading `{kernel}`"), source },
        })?;
        modules.insert(key, loaded.clone());
        Ok(loaded)
    }
    fn compile(&self, kernel: &str, module: &Module) -> Result<Ptx> {
        let architecture = if module.target == Target::Hopper { "90a".into() } else { self.capability().to_string() };
        // lambdas of the tile primitives carry no annotation: nvcc takes them for device code where they are used, NVRTC asks
        let flags = vec![format!("--gpu-architecture=compute_{architecture}"), "--std=c++17".into(), "--device-as-default-execution-space".into()];
        if module.source.contains('\0') {
            return Err(Error::Plan { kernel: kernel.into() });
        }
        let origin = Origin { source: &module.source, flags: &flags, compiler: version() };
        if let Some(ptx) = origin.load() {
            return Ok(Ptx::from_src(ptx));
        }
        let options = CompileOptions { options: flags.clone(), ..Default::default() };
        let ptx = nvrtc::compile_ptx_with_opts(&module.source, options).map_err(|e| Error::Compile {
            kernel: kernel.into(),
            log: match e {
                CompileError::CompileError { log, .. } => log.to_string_lossy().trim().to_string(),
                other => other.to_string(),
            },
        })?;
        origin.keep(ptx.to_src().trim_end_matches('\0'));
        Ok(ptx)
    }
    pub(crate) fn no_code(&self, kernel: &str, instance: &Instance) -> Error {
        let mut built: Vec<String> = instance
            .modules
            .iter()
            .flat_map(|m| &m.images)
            .map(|i| match i.kind {
                ImageKind::Cubin { capability, exact } => format!("sm_{capability}{}", if exact { "a" } else { "" }),
                ImageKind::Ptx { capability } => format!("PTX of {capability}"),
            })
            .collect();
        built.sort();
        built.dedup();
        let (major, minor) = (self.capability() / 10, self.capability() % 10);
        Error::NoCode {
            kernel: kernel.into(),
            device: self.model().name.clone(),
            capability: format!("{major}.{minor}"),
            built: if built.is_empty() { "the cpu".into() } else { built.join(", ") },
            wanted: self.capability().to_string(),
        }
    }
    pub(super) fn function(&self, kernel: &str, module: &Arc<CudaModule>, symbol: &str, shared_bytes: u32) -> Result<cudarc::driver::CudaFunction> {
        if symbol.contains('\0') {
            return Err(Error::Plan { kernel: kernel.into() });
        }
        let function = module.load_function(symbol).doing(|| format!("finding `{symbol}` of `{kernel}`"))?;
        // above 48 KiB a kernel must ask
        if shared_bytes > 48 << 10 {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, shared_bytes as i32).doing(|| format!("giving `{symbol}` {shared_bytes} bytes of shared memory"))?
        }
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(target: Target, kinds: &[ImageKind]) -> Module {
        Module { target, source: String::new(), images: kinds.iter().map(|k| Image { kind: *k, bytes: vec![] }).collect() }
    }

    #[test]
    fn machine_code_of_the_nearest_lower_minor_version_comes_before_ptx() {
        let cubin = |capability| ImageKind::Cubin { capability, exact: false };
        let m = module(Target::Portable, &[ImageKind::Ptx { capability: 80 }, cubin(80), cubin(86), cubin(90)]);
        let picks: Vec<Usable> = [80, 86, 89, 90, 100].iter().map(|c| usable(&m, *c, false)).collect();
        assert_eq!(picks, [Usable::Image(1), Usable::Image(2), Usable::Image(2), Usable::Image(3), Usable::Image(0)]);
    }

    #[test]
    fn code_for_one_architecture_runs_there_only() {
        let m = module(Target::Hopper, &[ImageKind::Cubin { capability: 90, exact: true }]);
        assert_eq!([80, 90, 100].map(|c| usable(&m, c, true)), [Usable::No, Usable::Image(0), Usable::No]);
    }

    #[test]
    fn the_source_is_compiled_only_where_no_image_fits() {
        let m = module(Target::Portable, &[ImageKind::Cubin { capability: 90, exact: false }]);
        assert_eq!(
            [usable(&m, 80, true), usable(&m, 80, false), usable(&m, 90, true), usable(&m, 75, true)],
            [Usable::Source, Usable::No, Usable::Image(0), Usable::No]
        );
    }
}
