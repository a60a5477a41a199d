//! A kernel as the macro embeds it: the bytes of its plan file, decoded at the first call, and the plans chosen so far.
use crate::cpu;
use crate::cuda::Scratch;
use crate::device::Device;
use crate::disk;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::ready::Ready;
use crate::tuned::{Subject, Tuned};
use cleave_core::choose::Choice;
use cleave_core::plan::PlanFile;
use cudarc::driver::CudaStream;
use lru::LruCache;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans kept for one kernel. A decode loop meets a new extent at every token; each costs a few kilobytes.
const PLANS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

pub struct Embedded {
    name: &'static str,
    bytes: &'static [u8],
    /// Calls look whether the data are as their algorithms assume.
    looks: bool,
    decoded: OnceCell<Option<Box<Decoded>>>,
}

pub(crate) struct Decoded {
    pub file: PlanFile,
    /// Of each input whether it is a number that extents or assertions depend on.
    pub asked: Vec<bool>,
    /// How many outputs are not written in place.
    pub returned: usize,
    /// Every program of every instance as the executor runs it, made when it is first chosen.
    programs: Vec<Vec<OnceCell<Arc<cpu::Decoded>>>>,
    plans: Mutex<LruCache<Key, Arc<Ready>>>,
    /// Choices by [bucket](cleave_core::choose::bucket) of extents: a cache that grows by a row a step is not weighed anew at each.
    choices: Mutex<LruCache<Key, Choice>>,
    /// Choices that were timed, by the device's name; read from disk when a device is first asked for.
    tuned: Mutex<HashMap<String, Tuned>>,
    /// A hash of the plan file.
    menu: OnceCell<u64>,
    bytes: &'static [u8],
    /// Scratch memory of calls that bring none, by stream; a stream is kept alive with its memory.
    scratch: Mutex<HashMap<usize, (Arc<CudaStream>, Scratch)>>,
    /// Calls that looked at what they assume.
    pub looked: AtomicU64,
}

impl Embedded {
    pub const fn new(name: &'static str, bytes: &'static [u8]) -> Embedded {
        Embedded { name, bytes, looks: false, decoded: OnceCell::new() }
    }
    /// The first calls look whether the data are as assumed: the macro asks for it in debug builds of the user's crate.
    pub const fn looking(mut self, looks: bool) -> Embedded {
        self.looks = looks;
        self
    }
    pub(crate) fn looks(&self) -> bool {
        self.looks
    }
    /// Tells kernels of this process apart.
    pub(crate) fn record(&'static self) -> usize {
        self as *const Self as usize
    }
    pub(crate) fn decoded(&'static self) -> Result<&'static Decoded> {
        let decode = || {
            let file = PlanFile::from_bytes(self.bytes).filter(consistent)?;
            let programs = file.instances.iter().map(|_| file.programs.iter().map(|_| OnceCell::new()).collect()).collect();
            let (plans, choices) = (Mutex::new(LruCache::new(PLANS)), Mutex::new(LruCache::new(PLANS)));
            let (tuned, menu) = Default::default();
            let kernel = &file.kernel;
            let asserted = kernel.assertions.iter().flat_map(|a| a.predicate.clauses.iter().flatten()).flat_map(|a| a.all_tables()).map(|t| t.input.index());
            let mut asked: Vec<bool> = kernel.graph.inputs.iter().map(|i| i.extent.is_some()).collect();
            asserted.filter_map(|i| asked.get_mut(i).map(|a| *a = true)).for_each(drop);
            let returned = kernel.graph.outputs.iter().filter(|o| o.in_place.is_none()).count();
            let looked = AtomicU64::new(0);
            Some(Box::new(Decoded { file, asked, returned, programs, plans, choices, tuned, menu, bytes: self.bytes, scratch: Mutex::default(), looked }))
        };
        self.decoded.get_or_init(decode).as_deref().ok_or_else(|| Error::Plan { kernel: self.name.into() })
    }
}

/// Whether the file's references into itself hold, as far as this crate follows them without asking.
fn consistent(file: &PlanFile) -> bool {
    let types = file.instances.iter().all(|i| i.types.len() == file.kernel.params.len());
    let entries = file.instances.iter().flat_map(|i| &i.entries).all(|e| (e.program as usize) < file.programs.len());
    let algorithms = file.programs.iter().all(|p| (p.algorithm as usize) < file.algorithms.len());
    types && entries && algorithms
}

impl Decoded {
    pub fn program(&self, instance: usize, program: u32) -> Result<Arc<cpu::Decoded>> {
        let decode = || {
            let decoded = cpu::Decoded::new(&self.file.programs[program as usize], &self.file.instances[instance].types);
            decoded.map(Arc::new).map_err(|source| Error::Execute { kernel: self.file.kernel.name.clone(), source })
        };
        self.programs[instance][program as usize].get_or_try_init(decode).cloned()
    }
    /// Lends the kernel's own scratch memory on a stream. It is held until every launch of a call is queued: another thread's call on this
    /// stream must not come between.
    pub fn with_scratch<T>(&self, stream: &Arc<CudaStream>, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let mut all = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut all.entry(stream.cu_stream() as usize).or_insert_with(|| (stream.clone(), Scratch::default())).1)
    }
    /// Lends the choices that were timed on devices of this kind.
    pub fn tuned<T>(&self, device: &Device, work: impl FnOnce(&mut Tuned, &Subject) -> T) -> T {
        let menu = *self.menu.get_or_init(|| disk::hash(self.bytes));
        let subject = Subject { kernel: &self.file.kernel.name, menu, device: device.product() };
        let mut all = self.tuned.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(subject.device.to_string()).or_insert_with(|| Tuned::load(&subject)), &subject)
    }
    pub fn near(&self, bucket: &Key) -> Option<Choice> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).cloned()
    }
    pub fn remember(&self, bucket: Key, choice: Choice) {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner).put(bucket, choice);
    }
    pub fn cached(&self, key: &Key) -> Option<Arc<Ready>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
    pub fn cache(&self, key: Key, ready: Arc<Ready>) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).put(key, ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_plan_file_is_an_error_that_names_the_kernel() {
        static KERNEL: Embedded = Embedded::new("attention", &[7, 7, 7, 255]);
        assert_eq!(KERNEL.decoded().err().unwrap().to_string(), "the plan file of `attention` is damaged or of another version of cleave; rebuild the crate");
    }
}
