//! What a build script does: find the kernels of a package, make their plans, compile them, write the plan files.
//!
//! The files in order: [`settings`] reads the environment, [`scan`] finds sources, [`pipeline`] takes a kernel through the stages
//! ([`rules`] judges the package's own rules, [`screen`] drops algorithms that are less accurate than the source), [`nvcc`] compiles, [`cache`] keeps results by content. A fault in
//! a kernel never fails the script: the macro reports it at its place, and a kernel without a plan file is the macro's to report too.
pub mod cache;
pub mod nvcc;
mod parallel;
pub mod pipeline;
pub mod rules;
pub mod scan;
pub mod screen;
pub mod settings;

use crate::algebra::Unused;
use crate::algebra::check::Unequal;
use crate::algebra::schema::Row;
use crate::frontend;
use crate::frontend::shared::{self, Shared};
use crate::kernel::Kernel;
use crate::plan::PlanFile;
use cache::{Cache, hash, write_whole};
use nvcc::{Arch, Nvcc, compilations};
use pipeline::{Planned, STAGES, Times};
use rules::Settled;
use settings::{Settings, VARIABLES};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

/// The whole build script: reads cargo's environment, writes `OUT_DIR/cleave/<key>.plan` for every kernel, talks to cargo on standard output.
pub fn run() {
    let Some((settings, mut warnings)) = Settings::from_environment() else {
        println!("cargo::warning=cleave::build() does nothing outside a build script");
        return;
    };
    for d in scan::DIRECTORIES.iter().filter(|d| settings.manifest.join(d).is_dir()) {
        println!("cargo::rerun-if-changed={d}")
    }
    println!("cargo::rerun-if-changed=build.rs");
    for v in VARIABLES {
        println!("cargo::rerun-if-env-changed={v}")
    }
    let report = build(&settings);
    // of a file that is missing cargo always thinks that it has changed: right where a rule waits for its proof
    if report.open || settings.manifest.join(rules::PROOFS).is_file() {
        println!("cargo::rerun-if-changed={}", rules::PROOFS)
    }
    warnings.extend(report.warnings.iter().cloned());
    if settings.log {
        warnings.extend(report.table().lines().map(str::to_string))
    }
    for w in warnings {
        println!("cargo::warning={w}")
    }
    for e in report.errors {
        println!("cargo::error={}", one_line(&e))
    }
}

/// What a build did.
#[derive(Default)]
pub struct Report {
    /// In order of name.
    pub kernels: Vec<Built>,
    pub warnings: Vec<String>,
    /// What fails the build: an algorithm that is not equal to its source.
    pub errors: Vec<String>,
    /// A rule of the package waits for a solver or a committed proof.
    pub open: bool,
    /// Reading and parsing the sources.
    pub scan: Duration,
}

/// A kernel whose plan file was written.
pub struct Built {
    pub name: String,
    pub key: u64,
    /// Taken from the cache.
    pub cached: bool,
    pub times: Times,
    pub algorithms: usize,
    pub programs: usize,
}

impl Report {
    /// The times of all stages, a line a kernel.
    pub fn table(&self) -> String {
        let milliseconds = |t: &Duration| format!("{:9.1}", t.as_secs_f64() * 1e3);
        // writing to a string cannot fail
        let mut out = String::new();
        let _ = writeln!(out, "scan: {} ms; by kernel, in ms:", milliseconds(&self.scan).trim());
        let _ = writeln!(out, "{:24}{}  algorithms  programs", "", STAGES.iter().map(|s| format!("{s:>9}")).collect::<String>());
        for k in &self.kernels {
            let times = if k.cached { format!("{:>1$}", "cached", 9 * STAGES.len()) } else { k.times.iter().map(milliseconds).collect() };
            let _ = writeln!(out, "{:24}{times}  {:>10}  {:>8}", k.name, k.algorithms, k.programs);
        }
        out
    }
}

/// A kernel's plan on its way.
struct Draft {
    file: PlanFile,
    cache_key: u64,
    cached: bool,
    times: Times,
    /// Every image could be made.
    complete: bool,
    rejected: Vec<Unequal>,
    unused: Vec<Unused>,
    unfinished: bool,
}

/// Makes the plan files of a package.
pub fn build(settings: &Settings) -> Report {
    let mut report = Report::default();
    let start = Instant::now();
    // equal kernels in two files, or under two paths, are one
    let mut kernels: BTreeMap<(String, u64), Kernel> = BTreeMap::new();
    let sources = scan::sources(&settings.manifest);
    let mut shared = Shared::default();
    sources.iter().for_each(|s| shared.extend(Shared::of_text(&s.text)));
    let mut rules = vec![];
    for source in sources {
        rules.extend(frontend::rule::in_file(&source.text));
        for found in frontend::scan(&source.text, &shared).unwrap_or_default() {
            if let Ok(kernel) = found.kernel {
                kernels.insert((kernel.name.clone(), frontend::key(&kernel)), kernel);
            }
        }
    }
    report.scan = start.elapsed();
    if let Err(e) = fs::create_dir_all(&settings.out) {
        report.warnings.push(format!("{}: {e}", settings.out.display()));
        return report;
    }
    if let Err(e) = write_whole(&settings.out.join(shared::FILE), shared.text().as_bytes()) {
        report.warnings.push(format!("{}: {e}", settings.out.display()))
    }
    let Settled { rows: own, open } = rules::settle(settings, &rules, &mut report.warnings);
    report.open = open;
    let kernels: Vec<Kernel> = kernels.into_values().collect();
    let nvcc = if kernels.is_empty() || settings.archs.is_empty() { None } else { Nvcc::find() };
    if nvcc.is_none() && !settings.archs.is_empty() && !kernels.is_empty() {
        let missing = "nvcc was not found, so kernels are compiled by NVRTC at their first use on a CUDA device; set NVCC, or CLEAVE_ARCHS=none to say that this is meant";
        report.warnings.push(missing.into())
    }
    let cache = Cache::new(settings.cache.clone());
    let basis = basis(settings, nvcc.as_ref(), &own);
    let drafts = parallel::map(settings.jobs, &kernels, |kernel| draft(kernel, &own, basis, &cache));
    let mut drafts: Vec<Draft> = kernels
        .iter()
        .zip(drafts)
        .filter_map(|(kernel, draft)| draft.map_err(|e| report.warnings.push(format!("`{}` could not be planned: {}", kernel.name, one_line(&e)))).ok())
        .collect();
    if let Some(nvcc) = &nvcc {
        compile(settings, nvcc, &mut drafts, &mut report.warnings)
    }
    for d in drafts {
        report.errors.extend(d.rejected.iter().map(|r| r.to_string()));
        report.warnings.extend(d.unused.iter().map(|u| u.to_string()));
        if d.unfinished {
            let kernel = &d.file.kernel.name;
            report.warnings.push(format!("the search for algorithms of `{kernel}` needs more than {} terms: it is computed as written", crate::algebra::CAP))
        }
        let bytes = d.file.to_bytes();
        let path = settings.out.join(format!("{:016x}.plan", d.file.key));
        if let Err(e) = write_whole(&path, &bytes) {
            report.warnings.push(format!("{}: {e}", path.display()))
        }
        if !d.cached && d.complete {
            cache.put(d.cache_key, &bytes)
        }
        let (algorithms, programs) = (d.file.algorithms.len(), d.file.programs.len());
        report.kernels.push(Built { name: d.file.kernel.name, key: d.file.key, cached: d.cached, times: d.times, algorithms, programs })
    }
    remove_stale(settings, &report);
    // the macro compares it with its own: cargo test hands OUT_DIR down to builds of other packages
    if let Err(e) = write_whole(&settings.out.join("manifest-dir"), settings.manifest.to_string_lossy().as_bytes()) {
        report.warnings.push(format!("{}: {e}", settings.out.display()))
    }
    cache.prune();
    report
}

/// Everything but the kernel that a plan file depends on: this compiler (the running script holds it) and what sources are compiled by and for.
fn basis(settings: &Settings, nvcc: Option<&Nvcc>, own: &[Row]) -> u64 {
    let compiler = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let archs = if nvcc.is_some() { format!("{:?}", settings.archs) } else { String::new() };
    hash(&[
        env!("CARGO_PKG_VERSION").as_bytes(),
        &compiler,
        archs.as_bytes(),
        nvcc.map_or("", |n| &n.version).as_bytes(),
        crate::prove::cache::print(own).as_bytes(),
    ])
}

fn draft(kernel: &Kernel, own: &[Row], basis: u64, cache: &Cache) -> Draft {
    let cache_key = hash(&[&basis.to_le_bytes(), frontend::print(kernel).as_bytes()]);
    if let Some(file) = cache.get(cache_key).and_then(|bytes| PlanFile::from_bytes(&bytes)) {
        return Draft { file, cache_key, cached: true, times: Times::default(), complete: true, rejected: vec![], unused: vec![], unfinished: false };
    }
    let Planned { file, times, rejected, unused, unfinished } = pipeline::plan(kernel, own);
    // what is warned of is found anew, so that the warning stays
    let complete = rejected.is_empty() && unused.is_empty() && !unfinished;
    Draft { file, cache_key, cached: false, times, complete, rejected, unused, unfinished }
}

/// An image to make.
struct Job {
    draft: usize,
    instance: usize,
    module: usize,
    arch: Arch,
    with_ptx: bool,
}

/// Compiles the sources of all drafts that did not come from the cache.
fn compile(settings: &Settings, nvcc: &Nvcc, drafts: &mut [Draft], warnings: &mut Vec<String>) {
    let mut jobs = vec![];
    for (draft, d) in drafts.iter().enumerate().filter(|d| !d.1.cached) {
        for (instance, i) in d.file.instances.iter().enumerate() {
            for (module, m) in i.modules.iter().enumerate() {
                jobs.extend(compilations(m.target, &settings.archs).into_iter().map(|(arch, with_ptx)| Job { draft, instance, module, arch, with_ptx }))
            }
        }
    }
    let numbered: Vec<(usize, Job)> = jobs.into_iter().enumerate().collect();
    let made = parallel::map(settings.jobs, &numbered, |(number, job)| {
        let scratch = settings.out.join(format!("nvcc-{number}"));
        let start = Instant::now();
        let source = &drafts[job.draft].file.instances[job.instance].modules[job.module].source;
        let images = fs::create_dir_all(&scratch).map_err(|e| e.to_string()).and_then(|()| nvcc.compile(source, job.arch, job.with_ptx, &scratch));
        let _ = fs::remove_dir_all(&scratch); // what stays behind is in OUT_DIR and harmless
        (images, start.elapsed())
    });
    for ((_, job), made) in numbered.iter().zip(made) {
        let draft = &mut drafts[job.draft];
        let images = made.and_then(|(images, time)| {
            draft.times[STAGES.len() - 1] += time;
            images
        });
        match images {
            Ok(images) => draft.file.instances[job.instance].modules[job.module].images.extend(images),
            Err(e) => {
                if draft.complete {
                    warnings.push(format!("`{}` could not be compiled: {}", draft.file.kernel.name, one_line(&e)))
                }
                draft.complete = false
            }
        }
    }
}

/// Plan files of kernels that are no more.
fn remove_stale(settings: &Settings, report: &Report) {
    for entry in fs::read_dir(&settings.out).into_iter().flatten().flatten() {
        let path = entry.path();
        let key = path.file_stem().and_then(|s| u64::from_str_radix(&s.to_string_lossy(), 16).ok());
        if path.extension().is_some_and(|e| e == "plan") && !report.kernels.iter().any(|k| Some(k.key) == key) {
            let _ = fs::remove_file(path); // a leftover file is never read
        }
    }
}

/// Cargo takes a warning as one line.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}
