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

/// The architectures that a module for `target` is compiled for, each with whether its PTX is kept too: that of the lowest, for the
/// devices to come. PTX with features of one architecture would run nowhere else.
pub fn compilations(target: Target, archs: &[Arch]) -> Vec<(Arch, bool)> {
    let mut taking: Vec<Arch> = archs.iter().copied().filter(|a| a.takes(target)).collect();
    taking.sort();
    taking.dedup();
    taking.iter().enumerate().map(|(i, a)| (*a, i == 0 && !a.exact)).collect()
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
    /// Compiles one source to machine code and, where wanted, to the PTX that lies on the way. `scratch` is an existing directory of
    /// this call's own.
    pub fn compile(&self, source: &str, arch: Arch, with_ptx: bool, scratch: &Path) -> Result<Vec<Image>, String> {
        let file = scratch.join("kernel.cu");
        std::fs::write(&file, source).map_err(|e| format!("{}: {e}", file.display()))?;
        let code = format!("arch=compute_{0},code=sm_{0}", arch.name());
        let mut build = cc::Build::new();
        build.cuda(true).cudart("none").ccbin(false).debug(false).opt_level(3).out_dir(scratch);
        // the default flags are the host compiler's, which nvcc does not know
        build.cargo_metadata(false).cargo_warnings(false).no_default_flags(true).inherit_rustflags(false);
        if std::env::var_os("TARGET").is_none() {
            build.target(HOST).host(HOST); // outside a build script
        }
        if with_ptx {
            build.flag("--keep").flag("--keep-dir").flag(scratch);
        }
        let objects = build
            .flag("-std=c++17")
            .flag("-O3")
            .flag("-cubin")
            .flag(format!("-gencode={code}"))
            .file(&file)
            .try_compile_intermediates()
            .map_err(|e| format!("nvcc -gencode={code}: {e}"))?;
        let object = objects.first().ok_or("nvcc wrote nothing")?;
        let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        let mut images = vec![Image { kind: ImageKind::Cubin { capability: arch.capability, exact: arch.exact }, bytes: read(object)? }];
        if with_ptx {
            images.push(Image { kind: ImageKind::Ptx { capability: arch.capability }, bytes: read(&scratch.join("kernel.ptx"))? })
        }
        Ok(images)
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
        let [a80, a86, a90] = [(80, false), (86, false), (90, true)].map(|(capability, exact)| Arch { capability, exact });
        assert_eq!(compilations(Target::Portable, &[a86, a80, a90]), [(a80, true), (a86, false)]);
        assert_eq!(compilations(Target::Hopper, &[a86, a80, a90]), [(a90, false)]);
        assert_eq!(compilations(Target::Cpu, &[a86, a80, a90]), []);
    }

    #[test]
    fn compiled_code_is_an_elf_file_and_its_ptx_text() {
        let Some(nvcc) = Nvcc::find() else { return };
        let scratch = std::env::temp_dir().join(format!("cleave-nvcc-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).unwrap();
        let source = "extern \"C\" __global__ void f(float* x) { x[threadIdx.x] = 1.0f; }\n";
        let images = nvcc.compile(source, Arch { capability: 80, exact: false }, true, &scratch);
        let refused = nvcc.compile("this is no CUDA\n", Arch { capability: 80, exact: false }, false, &scratch);
        std::fs::remove_dir_all(&scratch).unwrap();
        let images = images.unwrap();
        assert!(images[0].bytes.starts_with(b"\x7fELF"));
        assert!(String::from_utf8_lossy(&images[1].bytes).contains(".target sm_80"));
        assert!(refused.is_err())
    }
}
