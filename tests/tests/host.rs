//! The host's side of CUDA, on a driver without a device (`driver/cuda.c`) that writes down what it is asked: words, order, memory, streams, recordings, and what a call
//! costs. Its kernels do nothing, so no result is looked at.
use cleave::{Device, Error, Recording, Stream, Tensor, Workspace, bf16};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

#[cleave::kernel]
fn scaled(x: Tensor<f32, M, N>, w: Tensor<f32, N>, a: f32) -> Tensor<f32, M, N> {
    a * x * w
}

/// Attention of one query a head, which is split.
#[cleave::kernel(dtypes(T = bf16), bound(D <= 64))]
fn decode<T>(q: Tensor<T, H, M, D>, k: Tensor<T, H, N, D>, v: Tensor<T, H, N, E>, len: Tensor<i32, H>) -> Tensor<T, H, M, E> {
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), index::<N>() < len)) * v)
}

#[cleave::kernel]
fn grow(x: &mut Tensor<f32, M>, y: Tensor<f32, M>) {
    *x += y;
}

// ---- the driver ---------------------------------------------------------------------------------------------------------------------------------
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

struct Driver {
    take: unsafe extern "C" fn() -> *const c_char,
    calls: unsafe extern "C" fn() -> u64,
    words: unsafe extern "C" fn(u32),
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/driver/build")).output().expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = String::from_utf8(output.stdout).expect("a path").trim().to_string();
    // SAFETY: every test of this program waits here before it does anything else
    unsafe { std::env::set_var("CLEAVE_COMPILED", format!("{folder}/compiled")) };
    // a library that is loaded is found by its name from then on, wherever it lies
    let load = |name: &str| {
        let path = CString::new(format!("{folder}/lib{name}.so")).expect("a path");
        // SAFETY: the library has no initialisers
        let library = unsafe { dlopen(path.as_ptr(), 0x102) };
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        library
    };
    load("nvrtc");
    let library = load("cuda");
    // SAFETY: the functions have these types
    unsafe {
        Mutex::new(Driver {
            take: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(dlsym(library, c"fake_take".as_ptr())),
            calls: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(dlsym(library, c"fake_calls".as_ptr())),
            words: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32)>(dlsym(library, c"fake_words".as_ptr())),
        })
    }
});

/// One test at a time: the lines are the process's.
fn driver() -> (MutexGuard<'static, Driver>, Device) {
    let driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::cuda(0).expect("the driver has a device");
    driver.take();
    driver.words(0);
    (driver, device)
}

impl Driver {
    /// What it was asked since the last time.
    fn take(&self) -> Vec<String> {
        // SAFETY: the text lives until the next call
        unsafe { CStr::from_ptr((self.take)()) }.to_string_lossy().lines().map(String::from).collect()
    }
    fn calls(&self) -> u64 {
        // SAFETY: it only counts
        unsafe { (self.calls)() }
    }
    fn words(&self, n: u32) {
        // SAFETY: kernels of these tests have as many
        unsafe { (self.words)(n) }
    }
}

struct Counting;
thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });
// SAFETY: the system's allocator does the work
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn zeros(device: &Device, shape: &[usize]) -> Tensor<f32> {
    Tensor::zeros(device, shape).unwrap()
}

/// Operands of `decode` over this many keys.
struct Decode {
    q: Tensor<bf16>,
    k: Tensor<bf16>,
    len: Tensor<i32>,
    out: Tensor<bf16>,
}

impl Decode {
    fn new(device: &Device, keys: usize) -> Decode {
        let tensor = |shape: &[usize]| Tensor::<bf16>::zeros(device, shape).unwrap();
        Decode { q: tensor(&[2, 1, 64]), k: tensor(&[2, keys, 64]), len: Tensor::zeros(device, &[2]).unwrap(), out: tensor(&[2, 1, 64]) }
    }
    fn run(&mut self, stream: &Stream) -> cleave::Result<()> {
        decode(&self.q, &self.k, &self.k, &self.len).splits(4).on(stream).run_into(&mut self.out)
    }
}

fn launches(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|l| l.starts_with("launch ")).collect()
}

// ---- words --------------------------------------------------------------------------------------------------------------------------------------
#[test]
fn a_launch_is_given_the_addresses_strides_and_scalars_of_its_call() {
    let (driver, device) = driver();
    let (x, w) = (zeros(&device, &[5, 80]), zeros(&device, &[64]));
    let mut y = zeros(&device, &[7, 96]);
    let file = scaled(&x, &w, 3.0).file().unwrap();
    let mut run = |a: f32| {
        let x = x.slice(1, 8..72).unwrap();
        let target = y.view_mut().slice(0, 1..6).unwrap().slice(1, 0..64).unwrap();
        scaled(x, &w, a).run_into(target).unwrap();
        driver.take()
    };
    run(1.0);
    let line = run(1.0).pop().unwrap();
    let symbol = line.split(' ').nth(1).unwrap();
    let launch = file.instances[0].entries.iter().flat_map(|e| &e.launches).find(|l| l.symbol == symbol).unwrap();
    assert!(launch.maps.is_empty());
    driver.words(launch.words.len() as u32);
    let words = |line: &str| -> Vec<u64> { line.split(": ").nth(2).unwrap().split(' ').map(|w| u64::from_str_radix(w, 16).unwrap()).collect() };
    let (one, two) = (run(1.0).pop().unwrap(), run(-2.5).pop().unwrap());
    use cleave_core::plan::{TensorRef, Word};
    let graph = &file.kernel.graph;
    for ((word, a), b) in launch.words.iter().zip(words(&one)).zip(words(&two)) {
        let name = |t: &TensorRef| match t {
            TensorRef::Input(i) => graph.input(*i).name.as_str(),
            _ => "output",
        };
        match word {
            Word::Scalar(_) => assert_eq!((a as u32, b as u32), (1f32.to_bits(), (-2.5f32).to_bits())),
            Word::Extent(axis) => assert_eq!(a, if graph.axis(*axis) == "M" { 5 } else { 64 }),
            Word::Stride { tensor, dim: 0, .. } if name(tensor) != "w" => assert_eq!(a, if name(tensor) == "x" { 80 } else { 96 }),
            Word::Stride { .. } => assert_eq!(a, 1),
            // the driver gives memory at multiples of 256 bytes: what is left is the offset of the view
            Word::Address(tensor) => assert_eq!(
                (a % 256, a),
                (
                    if name(tensor) == "x" {
                        32
                    } else if name(tensor) == "w" {
                        0
                    } else {
                        96 * 4 % 256
                    },
                    b
                )
            ),
            _ => assert_eq!(a, b),
        }
    }
}

#[test]
fn tensor_maps_are_encoded_only_where_a_tensor_moved() {
    #[cleave::kernel(dtypes(T = bf16), bound(D <= 64, E <= 64))]
    fn full<T>(q: Tensor<T, H, M, D>, k: Tensor<T, H, N, D>, v: Tensor<T, H, N, E>) -> Tensor<T, H, M, E> {
        sum::<N>(softmax::<N>(sum::<D>(q * k)) * v)
    }
    let (driver, device) = driver();
    let tensor = || Tensor::<bf16>::zeros(&device, &[64, 2048, 64]).unwrap();
    let (q, k, other) = (tensor(), tensor(), tensor());
    let mut out = tensor();
    let mut maps = |k: &Tensor<bf16>| {
        full(&q, k, k).run_into(&mut out).unwrap();
        driver.take().iter().filter(|l| l.starts_with("encode")).count()
    };
    let first = maps(&k);
    assert!(first >= 3, "code without tensor maps was chosen");
    assert_eq!([maps(&k), maps(&other), maps(&other), maps(&k)], [0, 2, 0, 2]);
}

// ---- memory and streams -------------------------------------------------------------------------------------------------------------------------
#[test]
fn scratch_memory_is_kept_for_each_stream_and_while_a_recording_may_use_it() {
    let (driver, device) = driver();
    let (a, b) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut small = Decode::new(&device, 512);
    let allocated = |lines: Vec<String>| lines.iter().filter(|l| l.starts_with("allocate")).count();
    driver.take();
    small.run(&a).unwrap();
    let first = allocated(driver.take());
    assert!(first > 0, "a split keeps states between blocks");
    small.run(&a).unwrap();
    assert_eq!(allocated(driver.take()), 0);
    small.run(&b).unwrap();
    assert_eq!(allocated(driver.take()), first);
    let recording = Recording::new(&a, || small.run(&a)).unwrap();
    let mut large = Decode::new(&device, 512);
    driver.take();
    // more pieces need more memory: what the recording uses is not given back
    decode(&large.q, &large.k, &large.k, &large.len).splits(8).on(&a).run_into(&mut large.out).unwrap();
    let lines = driver.take();
    assert!(!lines.iter().any(|l| l.starts_with("free")), "{lines:?}");
    // SAFETY: `small` is where it was
    unsafe { recording.replay().unwrap() };
    let mut own = Workspace::new();
    let mut third = Decode::new(&device, 512);
    driver.take();
    decode(&third.q, &third.k, &third.k, &third.len).splits(4).on(&a).workspace(&mut own).run_into(&mut third.out).unwrap();
    assert_eq!(allocated(driver.take()), first);
    assert!(own.bytes() > 0);
}

#[test]
fn a_stream_waits_for_another_when_memory_changes_hands_and_not_again() {
    let (driver, device) = driver();
    let (a, b) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (x, w) = (zeros(&device, &[4, 64]), zeros(&device, &[64]));
    let (mut y, mut z) = (zeros(&device, &[4, 64]), zeros(&device, &[4, 64]));
    let waits = || driver.take().iter().filter(|l| l.contains("waits")).count();
    scaled(&x, &w, 1.0).on(&a).run_into(&mut y).unwrap();
    assert_eq!(waits(), 3, "for the two inputs and the output, which the device's own stream made");
    scaled(&x, &w, 1.0).on(&a).run_into(&mut y).unwrap();
    assert_eq!(waits(), 0);
    scaled(&y, &w, 1.0).on(&b).run_into(&mut z).unwrap();
    assert_eq!(waits(), 3, "for `y`, which the first stream wrote, for `w` and for the output");
    scaled(&y, &w, 1.0).on(&b).run_into(&mut z).unwrap();
    assert_eq!(waits(), 0, "both streams may read `w`");
    scaled(&x, &w, 1.0).on(&a).run_into(&mut y).unwrap();
    assert_eq!(waits(), 1, "the second stream may still read `y`");
    y.to_vec().unwrap();
    assert_eq!(waits(), 1);
    scaled(&y, &w, 1.0).on(&b).run_into(&mut z).unwrap();
    assert_eq!(waits(), 1, "`y` was written since");
    drop(z);
    let lines = driver.take();
    assert!(lines[0].contains("waits") && lines[1].starts_with("free on stream 0"), "{lines:?}");
    let (mut x, more) = (x, zeros(&device, &[256]));
    driver.take();
    grow(x.view_mut().reshape(&[256]).unwrap(), &more).on(&b).run().unwrap();
    assert_eq!(
        driver.take().iter().filter(|l| l.contains("waits")).count(),
        3,
        "for `x`, which the device's stream wrote and the first stream may read, and for `more`"
    );
}

// ---- recordings ---------------------------------------------------------------------------------------------------------------------------------
#[test]
fn a_recording_holds_the_launches_of_its_calls_in_order_and_nothing_else() {
    let (driver, device) = driver();
    let stream = Stream::new(&device).unwrap();
    let (x, w) = (zeros(&device, &[4, 64]), zeros(&device, &[64]));
    let (mut y, mut z) = (zeros(&device, &[4, 64]), zeros(&device, &[4, 64]));
    let mut step = Decode::new(&device, 512);
    let mut run = || {
        scaled(&x, &w, 1.0).on(&stream).run_into(&mut y)?;
        step.run(&stream)?;
        scaled(&y, &w, 2.0).on(&stream).run_into(&mut z)
    };
    driver.take();
    run().unwrap();
    let eager = driver.take();
    let recording = Recording::new(&stream, &mut run).unwrap();
    assert_eq!(driver.take(), [""; 0], "nothing runs, is allocated or waited for while it is recorded");
    // SAFETY: all tensors are where they were
    unsafe { recording.replay().unwrap() };
    let replayed = driver.take();
    assert!(replayed[0].starts_with("replay"));
    assert_eq!(launches(&replayed), launches(&eager));
    assert_eq!(replayed.iter().filter(|l| !l.is_empty()).count(), 1 + launches(&eager).len());
}

#[test]
fn a_call_that_cannot_be_recorded_says_so_and_the_stream_is_usable_afterwards() {
    let (_driver, device) = driver();
    let stream = Stream::new(&device).unwrap();
    let (x, w) = (zeros(&device, &[9, 48]), zeros(&device, &[48]));
    let mut y = zeros(&device, &[9, 48]);
    let refusal = |work: &mut dyn FnMut() -> cleave::Result<()>| Recording::new(&stream, work).err().unwrap().to_string();
    let unknown = refusal(&mut || scaled(&x, &w, 1.0).on(&stream).run_into(&mut y));
    assert_eq!(unknown, "`scaled` is not loaded for these shapes yet, and the stream is capturing; call `.prepare()` before the capture begins");
    let allocating = refusal(&mut || scaled(&x, &w, 1.0).on(&stream).run().map(drop));
    assert_eq!(allocating, "`scaled`: outputs cannot be allocated while the stream is capturing; use `run_into` with tensors that are there");
    scaled(&x, &w, 1.0).on(&stream).prepare().unwrap();
    Recording::new(&stream, || scaled(&x, &w, 1.0).on(&stream).run_into(&mut y)).unwrap();
    scaled(&x, &w, 1.0).on(&stream).run_into(&mut y).unwrap();
    stream.synchronize().unwrap();
    // the device's own stream cannot capture
    assert!(matches!(Recording::new(&Stream::own(&device).unwrap(), || Ok::<(), Error>(())), Err(Error::Driver { .. })));
}

// ---- what a call costs --------------------------------------------------------------------------------------------------------------------------
#[test]
fn a_known_call_asks_the_driver_for_its_context_for_a_capture_and_for_a_launch() {
    let (driver, device) = driver();
    let stream = Stream::new(&device).unwrap();
    let (x, w) = (zeros(&device, &[4, 64]), zeros(&device, &[64]));
    let mut y = zeros(&device, &[4, 64]);
    let mut step = Decode::new(&device, 512);
    for _ in 0..2 {
        scaled(&x, &w, 1.0).on(&stream).run_into(&mut y).unwrap();
        step.run(&stream).unwrap();
    }
    driver.calls();
    ALLOCATIONS.set(0);
    scaled(&x, &w, 1.0).on(&stream).run_into(&mut y).unwrap();
    assert_eq!((driver.calls(), ALLOCATIONS.get()), (3, 4), "calls of the driver, and allocations: arguments, targets, key and words");
    driver.take();
    step.run(&stream).unwrap();
    let launched = launches(&driver.take()).len() as u64;
    assert_eq!(driver.calls(), 2 + launched);
}
