//! A call: typed arguments that have met their kernel. It is checked, planned and run by its methods; nothing happens before.
use crate::argument::{Argument, ArgumentKind, Place, Target, TargetPlace, TensorArgument};
use crate::cpu;
use crate::cuda::{Binding, CudaDevice, Loaded, Scratch};
use crate::device::{Device, DeviceKind};
use crate::embedded::{Decoded, Embedded};
use crate::error::{Doing, Error, Result};
use crate::key::Key;
use crate::layout::{Dims, Layout, row_major};
use crate::memory::{CUDA_ALIGNMENT, HOST_ALIGNMENT};
use crate::outputs::{Allocation, Outputs, Targets};
use crate::plan::Plan;
use crate::ready::{Code, Ready, Wanted};
use crate::stream::{Stream, Workspace};
use crate::tuned::ALWAYS;
use cleave_core::choose::{Choice, Facts, bucket};
use cleave_core::dtype::DType;
use cleave_core::extent;
use cleave_core::graph::{Graph, Output};
use cleave_core::plan::{PlanFile, TensorRef};
use cleave_core::tile::in_place::reads_where_it_writes;
use cudarc::driver::{CudaStream, SyncOnDrop, sys};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::sync::Arc;

/// A kernel with its arguments. Nothing is checked or run until a method that returns a `Result` is called.
#[must_use = "a call does nothing until it is run"]
pub struct Call<'call, O> {
    pub(crate) kernel: &'static Embedded,
    pub(crate) types: SmallVec<[DType; 4]>,
    pub(crate) arguments: Vec<Argument<'call>>,
    stream: Option<&'call Stream>,
    workspace: Option<&'call mut Workspace>,
    pub(crate) pieces: Option<u32>,
    marker: PhantomData<fn() -> O>,
}

/// What the macro's expansion calls: `types` are the types of the kernel's generic parameters, `arguments` stand in declared order.
pub fn call<'call, O: Outputs>(kernel: &'static Embedded, types: &[DType], arguments: Vec<Argument<'call>>) -> Call<'call, O> {
    Call { kernel, types: SmallVec::from_slice(types), arguments, stream: None, workspace: None, pieces: None, marker: PhantomData }
}

/// A call whose arguments were found to fit its kernel.
pub(crate) struct Checked {
    pub decoded: &'static Decoded,
    pub instance: usize,
    pub extents: Vec<i64>,
    pub device: Device,
}

impl Checked {
    /// The shapes of the outputs that are not written in place.
    pub fn returned(&self) -> Vec<Vec<usize>> {
        let outputs = self.decoded.file.kernel.graph.outputs.iter().filter(|o| o.in_place.is_none());
        outputs.map(|o| extent::shape(&o.storage, &self.extents).iter().map(|n| *n as usize).collect()).collect()
    }
    /// To what new memory is aligned.
    pub fn alignment(&self) -> u64 {
        if matches!(self.device.kind, DeviceKind::Cpu) { HOST_ALIGNMENT as u64 } else { CUDA_ALIGNMENT }
    }
}

/// One for each argument or output, and strides of a tensor: as many as there mostly are without an allocation.
type Few<T> = SmallVec<[T; 8]>;
type Signed = SmallVec<[i64; 6]>;

/// What a choice depends on.
pub(crate) struct Question {
    /// Of the inputs, then of the outputs.
    facts: Vec<Facts>,
    inputs: usize,
    /// Instance, device, asked split, buckets of extents, facts.
    nearby: Key,
}

impl Question {
    /// The same for all extents near by.
    pub fn nearby(&self) -> Key {
        self.nearby.clone()
    }
    /// The same in every process.
    pub fn class(&self) -> Key {
        let mut key = self.nearby();
        key[1] = 0;
        key
    }
    fn facts(&self, tensor: TensorRef) -> Facts {
        let at = match tensor {
            TensorRef::Input(i) => Some(i.index()),
            TensorRef::Output(o) => Some(self.inputs + o as usize),
            TensorRef::Workspace(_) => None,
        };
        at.and_then(|i| self.facts.get(i).copied()).unwrap_or(ANY)
    }
}

/// Of what no guard can ask.
const ANY: Facts = Facts { unit: u64::MAX, aligned: Facts::MOST_ALIGNED };

/// Of the word of an f32.
pub(crate) fn negative(word: u64) -> bool {
    f32::from_bits(word as u32) < 0.0
}

/// Enters the stream's context on the way.
fn capturing(stream: Option<&Arc<CudaStream>>) -> Result<bool> {
    let Some(stream) = stream else { return Ok(false) };
    let status = stream.capture_status().doing(|| "asking whether the stream captures".into())?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// New elements of a host tensor that is still being read: row-major.
struct Copy {
    strides: Dims,
    /// 64-bit words, so that elements of any type are aligned.
    memory: Vec<u64>,
}

impl Copy {
    fn new(target: &Target) -> Self {
        let bytes = target.layout.len() * target.dtype.bytes();
        Copy { strides: row_major(&target.layout.shape), memory: vec![0; bytes.div_ceil(size_of::<u64>())] }
    }
    fn address(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }
    fn put(&self, target: &Target) {
        let bytes = target.dtype.bytes();
        // the address is that of the first element, the layout's offset is in it
        let layout = Layout { offset: 0, ..target.layout.clone() };
        layout.runs(|at, offset, n| {
            let (from, to) = (self.memory.as_ptr().cast::<u8>(), target.address as *mut u8);
            // SAFETY: the target borrows the elements of its layout exclusively, the copy holds as many
            unsafe { std::ptr::copy_nonoverlapping(from.add(at * bytes), to.add(offset * bytes), n * bytes) }
        })
    }
}

impl<'call, O: Outputs> Call<'call, O> {
    /// Runs on this stream of the tensors' CUDA device. Without it the stream is the one that the first tensor was allocated on.
    /// The first use of a tensor on another stream waits for those that used it before, except in a capture, where order is the caller's.
    /// `None` is as good as no call of `on`, so that one line serves the CPU too.
    pub fn on(mut self, stream: impl Into<Option<&'call Stream>>) -> Self {
        self.stream = stream.into();
        self
    }
    /// Scratch memory for this call. Without it, memory that belongs to the plan and the stream is used.
    pub fn workspace(mut self, workspace: &'call mut Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }
    /// Cuts the split loop in this many pieces (at most one for each of its tiles), whatever the device: with the same number
    /// the sums have the same order, whatever else is in the batch.
    pub fn splits(mut self, pieces: u32) -> Self {
        self.pieces = Some(pieces.max(1));
        self
    }
    /// Runs the kernel; the outputs are new tensors on the device of the inputs. On CUDA it returns before they are computed.
    pub fn run(mut self) -> Result<O> {
        let checked = self.check()?;
        let stream = self.cuda_stream(checked.decoded)?;
        if !O::TYPES.is_empty() && capturing(stream.as_ref())? {
            return Err(Error::CaptureOutput { kernel: checked.decoded.file.kernel.name.clone() });
        }
        let mut outputs = self.allocate(&checked, stream.as_ref())?;
        self.execute(outputs.targets())?;
        Ok(outputs)
    }
    /// Runs the kernel and writes its outputs to `targets`: `&mut Tensor`, [`ViewMut`](crate::ViewMut), or a tuple of them. Once the plan
    /// for these extents is there, nothing is allocated, and on CUDA nothing is waited for.
    pub fn run_into<'t>(mut self, targets: impl Targets<'t, O>) -> Result<()> {
        self.execute(targets.into_targets())
    }
    /// Chooses and loads what `run` would need for outputs that it allocates, so that a capture may follow.
    pub fn prepare(&mut self) -> Result<()> {
        let checked = self.check()?;
        let stream = self.cuda_stream(checked.decoded)?;
        let ready = self.ready(&checked, None)?;
        if let (Code::Cuda(loaded, device), Some(stream)) = (&ready.code, &stream) {
            let name = &checked.decoded.file.kernel.name;
            match &mut self.workspace {
                Some(w) => loaded.reserve(name, device, stream, &mut w.scratch, false)?,
                None => checked.decoded.with_scratch(stream, |scratch| loaded.reserve(name, device, stream, scratch, false))?,
            }
        }
        Ok(())
    }
    /// What `run` would run, and why.
    pub fn plan(&self) -> Result<Plan> {
        let checked = self.check()?;
        Ok(self.ready(&checked, None)?.plan(&checked.decoded.file, &checked.device))
    }
    /// What the build found for the kernel: its algorithms, tile programs and compiled entries. The arguments are not looked at.
    pub fn file(&self) -> Result<&'static PlanFile> {
        Ok(&self.kernel.decoded()?.file)
    }
    /// The CUDA source of what `run` would run, or on the CPU the tile program.
    pub fn source(&self) -> Result<String> {
        let checked = self.check()?;
        let file = &checked.decoded.file;
        let ready = self.ready(&checked, None)?;
        let entry = ready.entry(file);
        if let Code::Cpu(..) = ready.code {
            return Ok(file.programs[entry.program as usize].to_string());
        }
        let mut modules: Vec<u32> = entry.launches.iter().map(|l| l.module).collect();
        modules.dedup();
        Ok(modules.iter().filter_map(|m| file.instances[ready.instance].modules.get(*m as usize)).map(|m| m.source.as_str()).collect::<Vec<_>>().join("\n"))
    }

    /// New outputs for the call's extents.
    pub(crate) fn allocate(&self, checked: &Checked, stream: Option<&Arc<CudaStream>>) -> Result<O> {
        O::allocate(&Allocation { device: &checked.device, stream }, &checked.returned())
    }

    /// Where the first tensor is.
    pub(crate) fn device(&self) -> Device {
        self.arguments.iter().find_map(Argument::as_tensor).map_or(Device::cpu(), TensorArgument::device)
    }

    /// The stream to launch on; `None` on the CPU.
    pub(crate) fn cuda_stream(&self, decoded: &Decoded) -> Result<Option<Arc<CudaStream>>> {
        let device = self.device();
        let wrong = |stream: String| Err(Error::Stream { kernel: decoded.file.kernel.name.clone(), stream, tensors: device.to_string() });
        match (&device.kind, self.stream) {
            (DeviceKind::Cpu, None) => Ok(None),
            (DeviceKind::Cpu, Some(s)) => wrong(format!("cuda:{}", s.stream.context().ordinal())),
            (DeviceKind::Cuda(d), Some(s)) if s.stream.context().cu_ctx() != d.context().cu_ctx() => wrong(format!("cuda:{}", s.stream.context().ordinal())),
            (DeviceKind::Cuda(_), Some(s)) => Ok(Some(s.stream.clone())),
            (DeviceKind::Cuda(d), None) => {
                let home = self.arguments.iter().filter_map(Argument::as_tensor).find_map(|t| match &t.place {
                    Place::Cuda { slice, .. } => Some(slice.home().clone()),
                    Place::Host | Place::Target { .. } => None,
                });
                let home = home.or_else(|| self.arguments.iter().find_map(|a| a.target()?.home().cloned()));
                Ok(Some(home.unwrap_or_else(|| d.stream().clone())))
            }
        }
    }

    /// What the choice for this call depends on. Without targets the outputs are taken to be new tensors.
    pub(crate) fn question(&self, checked: &Checked, targets: Option<&[Target]>) -> Question {
        let graph = &checked.decoded.file.kernel.graph;
        let alignment = checked.alignment();
        let inputs = self.arguments.iter().map(|a| match &a.kind {
            ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) => t.facts(),
            ArgumentKind::Scalar { dtype: DType::F32, word } if negative(*word) => Facts { unit: 0, ..ANY },
            ArgumentKind::Scalar { .. } => ANY,
        });
        let in_place = |o: &Output| self.arguments.get(o.in_place?.index())?.as_tensor().map(TensorArgument::facts);
        let outputs = graph.outputs.iter().enumerate().map(|(i, o)| match (targets.and_then(|t| t.get(i)), in_place(o)) {
            (Some(t), _) => t.facts(),
            (None, Some(facts)) => facts,
            (None, None) => Facts::row_major(&extent::shape(&o.storage, &checked.extents), o.element.resolve(&self.types).bytes() as u64, alignment),
        });
        let facts: Vec<Facts> = inputs.chain(outputs).collect();
        let mut nearby = vec![checked.instance as u64, checked.device.id(), self.pieces.unwrap_or(0) as u64];
        nearby.extend(checked.extents.iter().map(|n| bucket(*n) as u64));
        nearby.extend(facts.iter().flat_map(|f| [f.unit, f.aligned as u64]));
        Question { facts, inputs: graph.inputs.len(), nearby }
    }

    pub(crate) fn with_wanted<R>(&self, checked: &Checked, question: &Question, work: impl FnOnce(&Wanted) -> R) -> R {
        let facts = |t: TensorRef| question.facts(t);
        work(&Wanted { instance: checked.instance, extents: &checked.extents, facts: &facts, pieces: self.pieces, device: &checked.device })
    }

    /// The plan for this call, from the cache or made now. Without targets the outputs are taken to be new tensors.
    fn ready(&self, checked: &Checked, targets: Option<(&[Target], Key)>) -> Result<Arc<Ready>> {
        let decoded = checked.decoded;
        let question = self.question(checked, targets.as_ref().map(|t| t.0));
        let key = targets.map_or_else(|| self.key_of_new(checked), |t| t.1);
        if let Some(ready) = decoded.cached(&key) {
            return Ok(ready);
        }
        let nearby = question.nearby();
        let tuned = || decoded.tuned(&checked.device, |tuned, _| tuned.get(&question.class()).map(Choice::from));
        let near = decoded.near(&nearby).or_else(tuned);
        let ready = Arc::new(self.with_wanted(checked, &question, |wanted| Ready::new(self.kernel, decoded, wanted, near))?);
        decoded.remember(nearby, ready.choice.clone());
        decoded.cache(key, ready.clone());
        Ok(ready)
    }

    /// `returned`: where the outputs that are not written in place go.
    fn execute(&mut self, returned: Vec<Target>) -> Result<()> {
        let decoded = self.kernel.decoded()?;
        let graph = &decoded.file.kernel.graph;
        // a call like one that was found to fit is asked for nothing but where its memory lies
        let key = self.key(decoded, &returned);
        let known = key.as_ref().and_then(|k| decoded.cached(k));
        let unknown = match known {
            Some(_) => None,
            None => Some(self.check().and_then(|checked| self.check_targets(&checked, &returned).map(|()| checked))?),
        };
        self.check_memory(&decoded.file.kernel, &returned)?;
        let stream = self.cuda_stream(decoded)?;
        let capturing = capturing(stream.as_ref())?;
        // taken before what is written in place is
        let looked_at = match self.kernel.looks() && decoded.looks() && !capturing {
            true => Some(self.check()?),
            false => None,
        };
        let mut targets = self.all_targets(graph, returned);
        let ready = match (known, unknown, key) {
            (Some(ready), ..) => ready,
            (None, Some(checked), Some(key)) if !capturing => match *ALWAYS && self.pieces.is_none() && self.written_in_place(&checked).is_none() {
                true => self.tune_into(&checked, &mut targets, stream.as_ref())?,
                // what is written in place can be run once only
                false => self.ready(&checked, Some((&targets, key)))?,
            },
            _ if capturing => return Err(Error::Capture { kernel: decoded.file.kernel.name.clone() }),
            _ => return Err(Error::Plan { kernel: decoded.file.kernel.name.clone() }),
        };
        if let Some(checked) = looked_at {
            self.look(&checked, &ready)?
        }
        self.run_ready(decoded, &ready, &mut targets, stream.as_ref(), capturing)
    }

    /// Where every output goes: those written in place are taken out of their arguments.
    fn all_targets<'t, 'r: 't>(&mut self, graph: &Graph, returned: Vec<Target<'r>>) -> Vec<Target<'t>>
    where
        'call: 't,
    {
        let outputs = &graph.outputs;
        if outputs.iter().all(|o| o.in_place.is_none()) {
            return returned.into_iter().map(Target::shorter).collect();
        }
        let mut returned = returned.into_iter().map(Target::shorter);
        let mut targets = Vec::with_capacity(outputs.len());
        for o in outputs {
            targets.extend(match o.in_place {
                Some(i) => self.arguments.get_mut(i.index()).and_then(Argument::take_target).map(Target::shorter),
                None => returned.next(),
            })
        }
        targets
    }

    /// The name of an argument that the kernel writes in place.
    pub(crate) fn written_in_place(&self, checked: &Checked) -> Option<&'static str> {
        let graph = &checked.decoded.file.kernel.graph;
        graph.outputs.iter().find_map(|o| Some(graph.inputs.get(o.in_place?.index())?.name.as_str()))
    }

    pub(crate) fn run_ready(
        &mut self,
        decoded: &Decoded,
        ready: &Ready,
        targets: &mut [Target],
        stream: Option<&Arc<CudaStream>>,
        capturing: bool,
    ) -> Result<()> {
        match (&ready.code, stream) {
            (Code::Cpu(program, prepared), _) => self.execute_on_cpu(decoded, ready, program, prepared, targets),
            (Code::Cuda(loaded, device), Some(stream)) => self.launch(decoded, loaded, targets, device, stream, capturing),
            _ => Err(Error::Plan { kernel: decoded.file.kernel.name.clone() }),
        }
    }

    fn execute_on_cpu(&self, decoded: &Decoded, ready: &Ready, program: &cpu::Decoded, prepared: &cpu::Prepared, targets: &[Target]) -> Result<()> {
        let signed = |strides: &[usize]| strides.iter().map(|s| *s as i64).collect::<Signed>();
        let strides: Few<Signed> = self.arguments.iter().map(|a| a.as_tensor().map_or(Signed::new(), |t| signed(&t.layout.strides))).collect();
        let inputs = self.arguments.iter().zip(&strides).map(|(a, strides)| match &a.kind {
            ArgumentKind::Scalar { dtype: DType::I32, word } => cpu::Argument::Integer(*word as u32 as i32),
            ArgumentKind::Scalar { word, .. } => cpu::Argument::Float(f32::from_bits(*word as u32)),
            ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) => {
                cpu::Argument::Tensor(cpu::Storage { address: t.address as *mut u8, dtype: t.dtype, strides })
            }
        });
        let inputs: Few<cpu::Argument> = inputs.collect();
        let file = &decoded.file;
        // the executor orders its reads of an input and its writes by tiles; what it may not write over yet, it writes beside
        let in_place = file.kernel.graph.outputs.iter().any(|o| o.in_place.is_some());
        let beside = in_place && !reads_where_it_writes(&file.programs[ready.entry(file).program as usize]);
        let mut copies: Few<Option<Copy>> =
            targets.iter().zip(&file.kernel.graph.outputs).map(|(t, o)| (beside && o.in_place.is_some()).then(|| Copy::new(t))).collect();
        let strides: Few<Signed> =
            targets.iter().zip(&copies).map(|(t, c)| c.as_ref().map_or_else(|| signed(&t.layout.strides), |c| signed(&c.strides))).collect();
        let outputs = targets.iter().zip(&mut copies).zip(&strides).map(|((t, copy), strides)| {
            let address = copy.as_mut().map_or(t.address as *mut u8, Copy::address);
            cpu::Storage { address, dtype: t.dtype, strides }
        });
        let outputs: Few<cpu::Storage> = outputs.collect();
        let tensors = cpu::Tensors { inputs: &inputs, outputs: &outputs };
        program.run_prepared(prepared, &tensors).map_err(|source| Error::Execute { kernel: file.kernel.name.clone(), source })?;
        targets.iter().zip(&copies).for_each(|(target, copy)| copy.iter().for_each(|c| c.put(target)));
        Ok(())
    }

    fn launch(
        &mut self,
        decoded: &Decoded,
        loaded: &Loaded,
        targets: &mut [Target],
        device: &CudaDevice,
        stream: &Arc<CudaStream>,
        capturing: bool,
    ) -> Result<()> {
        let name = &decoded.file.kernel.name;
        // this launch comes after other streams' uses of its memory; of slices that are cudarc's own the guards tell others of it when they are dropped
        let mut guards: Vec<SyncOnDrop> = vec![];
        let events = stream.context().is_managing_stream_synchronization();
        let ordering = || format!("ordering `{name}` after other streams");
        for t in self.arguments.iter().filter_map(Argument::as_tensor) {
            match &t.place {
                _ if capturing => {}
                Place::Cuda { uses: Some(uses), .. } => uses.read(stream).doing(ordering)?,
                Place::Cuda { slice, .. } if events => guards.push(slice.reading(stream)),
                _ => {}
            }
        }
        let mut outputs: SmallVec<[(u64, &[usize]); 8]> = SmallVec::new();
        for Target { address, layout, place, .. } in targets {
            outputs.push((*address, &layout.strides));
            match place {
                _ if capturing => {}
                TargetPlace::Cuda { uses: Some(uses), .. } => uses.write(stream).doing(ordering)?,
                TargetPlace::Cuda { slice, .. } if events => guards.push(slice.writing(stream)),
                _ => {}
            }
        }
        let binding = |t: TensorRef| match t {
            TensorRef::Input(i) => self.arguments.get(i.index()).map(Argument::binding),
            TensorRef::Output(o) => outputs.get(o as usize).map(|(address, strides)| Binding::Tensor { address: *address, strides }),
            TensorRef::Workspace(_) => None,
        };
        let run = |scratch: &mut Scratch| {
            loaded.reserve(name, device, stream, scratch, capturing)?;
            // SAFETY: the arguments were checked against the kernel, live at least until the launch, and their release waits for it
            unsafe { loaded.launch(stream, &binding, scratch) }
        };
        match &mut self.workspace {
            _ if loaded.needs_nothing() => run(&mut Scratch::default()),
            Some(w) => run(&mut w.scratch),
            None => decoded.with_scratch(stream, run),
        }
    }
}
