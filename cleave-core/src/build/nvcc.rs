//! Compiling generated sources. In: CUDA text and an architecture. Out: a cubin or PTX. nvcc is run through cc, which finds it
//! (NVCC, else PATH) and its host compiler; no CUDA runtime is linked.
use crate::device::Target;
use crate::plan::{Image, ImageKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compute capability as written in CLEAVE_ARCHS: `80`, `sm_86`, `90a`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Arch {
    pub capability: u32,
    /// With its own features (`a`).
    pub exact: bool,
}

impl Arch {
    pub fn parse(text: &str) -> Option<Arch> {
        let digits = text.strip_prefix("sm_").unwrap_or(text);
        let (digits, exact) = digits.strip_suffix('a').map_or((digits, false), |d| (d, true));
        let capability = digits.parse().ok().filter(|c| (80..200).contains(c))?;
        Some(Arch { capability, exact })
    }
    fn name(self) -> String {
        format!("{}{}", self.capability, if self.exact { "a" } else { "" })
    }
    /// Whether a module for `target` is compiled for this architecture.
    pub fn takes(self, target: Target) -> bool {
        match target {
            Target::Cpu => false,
            Target::Portable => !self.exact,
            Target::Hopper => self.exact && self.capability == 90,
        }
    }
}

/// What a release build compiles for unless it is told otherwise.
pub const DEFAULT: [Arch; 2] = [Arch { capability: 80, exact: false }, Arch { capability: 90, exact: true }];

/// The images that a module for `target` is compiled to: machine code for each architecture that takes it, and PTX of the
/// lowest for the devices to come. PTX with features of one architecture would run nowhere else.
pub fn images(target: Target, archs: &[Arch]) -> Vec<ImageKind> {
    let mut taking: Vec<Arch> = archs.iter().copied().filter(|a| a.takes(target)).collect();
    taking.sort();
    taking.dedup();
    let mut kinds: Vec<ImageKind> = taking.iter().map(|a| ImageKind::Cubin { capability: a.capability, exact: a.exact }).collect();
    if let Some(lowest) = taking.first().filter(|a| !a.exact) {
        kinds.push(ImageKind::Ptx { capability: lowest.capability })
    }
    kinds
}

pub struct Nvcc {
    /// Its own words about itself: part of a cache key.
    pub version: String,
}

impl Nvcc {
    /// NVCC, else the PATH, as cc looks for it. `None` where it does not run.
    pub fn find() -> Option<Nvcc> {
        let path = std::env::var_os("NVCC").map_or_else(|| PathBuf::from("nvcc"), PathBuf::from);
        let output = Command::new(path).arg("--version").output().ok().filter(|o| o.status.success())?;
        Some(Nvcc { version: String::from_utf8_lossy(&output.stdout).into_owned() })
    }
    /// Compiles one source. `scratch` is an existing directory of this call's own.
    pub fn compile(&self, source: &str, kind: ImageKind, scratch: &Path) -> Result<Image, String> {
        let file = scratch.join("kernel.cu");
        std::fs::write(&file, source).map_err(|e| format!("{}: {e}", file.display()))?;
        let (output, code) = match kind {
            ImageKind::Cubin { capability, exact } => {
                let arch = Arch { capability, exact }.name();
                ("-cubin", format!("arch=compute_{arch},code=sm_{arch}"))
            }
            ImageKind::Ptx { capability } => ("-ptx", format!("arch=compute_{capability},code=compute_{capability}")),
        };
        let mut build = cc::Build::new();
        build.cuda(true).cudart("none").ccbin(false).debug(false).opt_level(3).out_dir(scratch);
        // the default flags are the host compiler's, which nvcc does not know
        build.cargo_metadata(false).cargo_warnings(false).no_default_flags(true).inherit_rustflags(false);
        if std::env::var_os("TARGET").is_none() {
            build.target(HOST).host(HOST); // outside a build script
        }
        let objects = build
            .flag("-std=c++17")
            .flag("-O3")
            .flag(output)
            .flag(format!("-gencode={code}"))
            .file(&file)
            .try_compile_intermediates()
            .map_err(|e| format!("nvcc -gencode={code}: {e}"))?;
        let object = objects.first().ok_or("nvcc wrote nothing")?;
        let bytes = std::fs::read(object).map_err(|e| format!("{}: {e}", object.display()))?;
        Ok(Image { kind, bytes })
    }
}

const HOST: &str = if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read_as_nvidia_writes_them() {
        let arch = |capability, exact| Some(Arch { capability, exact });
        assert_eq!(["80", "sm_86", "90a", "sm_90a"].map(Arch::parse), [arch(80, false), arch(86, false), arch(90, true), arch(90, true)]);
        assert_eq!(["", "70", "x", "90b"].map(Arch::parse), [None; 4]);
    }

    #[test]
    fn ptx_is_of_the_lowest_architecture_and_never_of_one_with_its_own_features() {
        let archs = [Arch { capability: 86, exact: false }, Arch { capability: 80, exact: false }, Arch { capability: 90, exact: true }];
        let cubin = |capability, exact| ImageKind::Cubin { capability, exact };
        assert_eq!(images(Target::Portable, &archs), [cubin(80, false), cubin(86, false), ImageKind::Ptx { capability: 80 }]);
        assert_eq!(images(Target::Hopper, &archs), [cubin(90, true)]);
        assert_eq!(images(Target::Cpu, &archs), []);
    }

    #[test]
    fn compiled_code_is_an_elf_file_or_ptx() {
        let Some(nvcc) = Nvcc::find() else { return };
        let scratch = std::env::temp_dir().join(format!("cleave-nvcc-test-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).unwrap();
        let source = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }";
        let cubin = nvcc.compile(source, ImageKind::Cubin { capability: 80, exact: false }, &scratch).unwrap();
        assert!(cubin.bytes.starts_with(b"\x7fELF"));
        let ptx = nvcc.compile(source, ImageKind::Ptx { capability: 80 }, &scratch).unwrap();
        assert!(String::from_utf8_lossy(&ptx.bytes).contains(".visible .entry twice"));
        assert!(nvcc.compile("not CUDA", ImageKind::Ptx { capability: 80 }, &scratch).is_err());
        let _ = std::fs::remove_dir_all(scratch);
    }
}
