//! An ONNX Runtime with a known defect: everything is done by the real library, but each run also loses memory, or takes
//! longer. Verdicts about leaks and slowdowns are tested with it, because here the truth is known.
//!
//! Not a module of anything: tests and `cargo xtask bench verdicts` compile it with `rustc --crate-type cdylib`. What is
//! wrong with it is fixed then, by variables of the compiler's environment, so that two sides can differ:
//! - `ALTERED_REAL`: the path of the real library;
//! - `ALTERED_HEAP_BYTES`: lost per run, from the allocator of this library, which is the process's `malloc`;
//! - `ALTERED_ARENA_BYTES`: lost per run, from the arena of the session that runs;
//! - `ALTERED_SLOWER_PERCENT`: how much longer a run takes, by work of that length after it;
//! - `ALTERED_OPENVINO_COUNTERS`: after each run a file of counters as newer providers of OpenVINO write it, for one part with
//!   two layers of 40 % and 20 % of the run, where `ORT_OPENVINO_PERF_COUNT` names a directory;
//! - `ALTERED_DIES_AFTER`: runs after which the process aborts, as a defective provider's does, from the process number
//!   `ALTERED_DIES_IN` on; processes are counted in the file `ALTERED_COUNTER`.

// The same table that the program checks its calls against.
#[path = "../../../ort/src/gates.rs"]
#[allow(dead_code)]
mod gates;

use std::alloc::{Layout, alloc};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

const REAL: &str = env!("ALTERED_REAL");
const HEAP_BYTES: usize = number(option_env!("ALTERED_HEAP_BYTES"));
const ARENA_BYTES: usize = number(option_env!("ALTERED_ARENA_BYTES"));
const SLOWER_PERCENT: usize = number(option_env!("ALTERED_SLOWER_PERCENT"));
const OPENVINO_COUNTERS: usize = number(option_env!("ALTERED_OPENVINO_COUNTERS"));
const DIES_AFTER: usize = number(option_env!("ALTERED_DIES_AFTER"));

const DIES_IN: usize = number(option_env!("ALTERED_DIES_IN"));
const COUNTER: Option<&str> = option_env!("ALTERED_COUNTER");

const fn number(text: Option<&str>) -> usize {
    let Some(text) = text else { return 0 };
    let (bytes, mut index, mut value) = (text.as_bytes(), 0, 0);
    while index < bytes.len() {
        value = 10 * value + (bytes[index] - b'0') as usize;
        index += 1;
    }
    value
}

const fn place(name: &str) -> usize {
    let mut index = 0;
    while index < gates::SLOTS.len() {
        if equal(gates::SLOTS[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("OrtApi has no slot of this name");
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

const RUN: usize = place("Run");
const RUN_WITH_BINDING: usize = place("RunWithBinding");
const CREATE_CPU_MEMORY_INFO: usize = place("CreateCpuMemoryInfo");
const CREATE_ALLOCATOR: usize = place("CreateAllocator");
const ALLOCATOR_ALLOC: usize = place("AllocatorAlloc");

type Slot = *const c_void;

#[repr(C)]
struct ApiBase {
    get_api: unsafe extern "C" fn(u32) -> *const Slot,
    get_version_string: unsafe extern "C" fn() -> *const c_char,
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The real table, and whether the session has given its arena.
static TABLE: AtomicUsize = AtomicUsize::new(0);
static RUNS: AtomicU64 = AtomicU64::new(0);
static PROCESS: AtomicUsize = AtomicUsize::new(0);
static ARENA_OF: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn real_base() -> &'static ApiBase {
    static BASE: OnceLock<usize> = OnceLock::new();
    let address = *BASE.get_or_init(|| {
        const RTLD_NOW: c_int = 2;
        let path = CString::new(REAL).expect("a path without NUL");
        // SAFETY: the library is ONNX Runtime, whose entry has this signature in every version.
        unsafe {
            let library = dlopen(path.as_ptr(), RTLD_NOW);
            assert!(!library.is_null(), "{REAL} cannot be loaded");
            let entry = dlsym(library, c"OrtGetApiBase".as_ptr());
            assert!(!entry.is_null(), "{REAL} is no ONNX Runtime");
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(entry)()
        }
    });
    // SAFETY: static in a library that is never unloaded.
    unsafe { &*(address as *const ApiBase) }
}

#[unsafe(no_mangle)]
pub extern "C" fn OrtGetApiBase() -> *const c_void {
    static BASE: ApiBase = ApiBase { get_api, get_version_string };
    (&raw const BASE).cast()
}

unsafe extern "C" fn get_version_string() -> *const c_char {
    // SAFETY: takes nothing.
    unsafe { (real_base().get_version_string)() }
}

/// A copy of the real table in which the two ways to run are ours.
unsafe extern "C" fn get_api(minor: u32) -> *const Slot {
    // SAFETY: as the caller's.
    let real = unsafe { (real_base().get_api)(minor) };
    let Some((_, slots)) = gates::SLOTS_AT.iter().rev().find(|(since, _)| *since <= minor) else {
        return null();
    };
    if real.is_null() {
        return null();
    }
    // SAFETY: the table of this version has so many slots.
    let mut table = unsafe { std::slice::from_raw_parts(real, *slots) }.to_vec();
    if TABLE.swap(real as usize, Ordering::SeqCst) == 0 {
        PROCESS.store(count_process(), Ordering::SeqCst);
    }
    table[RUN] = run as *const () as Slot;
    table[RUN_WITH_BINDING] = run_with_binding as *const () as Slot;
    table.leak().as_ptr()
}

/// One byte per process.
fn count_process() -> usize {
    let Some(path) = COUNTER else { return 1 };
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(path).expect("the counter can be opened");
    std::io::Write::write_all(&mut file, b"x").expect("the counter can be written");
    file.metadata().expect("the counter has a length").len() as usize
}

/// # Safety
/// `F` is the type of the function in this slot.
unsafe fn real<F: Copy>(slot: usize) -> F {
    // SAFETY: the table is static, and the type is right by contract.
    unsafe { std::mem::transmute_copy(&*(TABLE.load(Ordering::Relaxed) as *const Slot).add(slot)) }
}

type Run = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_void,
    usize,
    *const *const c_char,
    usize,
    *mut *mut c_void,
) -> *mut c_void;
type RunWithBinding = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void) -> *mut c_void;

unsafe extern "C" fn run(
    session: *mut c_void,
    options: *const c_void,
    inputs: *const *const c_char,
    values: *const *const c_void,
    count: usize,
    outputs: *const *const c_char,
    wanted: usize,
    answers: *mut *mut c_void,
) -> *mut c_void {
    // SAFETY: what the caller gave is handed on.
    altered(session, || unsafe {
        real::<Run>(RUN)(session, options, inputs, values, count, outputs, wanted, answers)
    })
}

unsafe extern "C" fn run_with_binding(
    session: *mut c_void,
    options: *const c_void,
    binding: *const c_void,
) -> *mut c_void {
    // SAFETY: what the caller gave is handed on.
    altered(session, || unsafe { real::<RunWithBinding>(RUN_WITH_BINDING)(session, options, binding) })
}

fn altered(session: *mut c_void, run: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let begin = Instant::now();
    let status = run();
    if SLOWER_PERCENT > 0 {
        let until = begin.elapsed() * (100 + SLOWER_PERCENT as u32) / 100;
        let mut work = 1_u64;
        while begin.elapsed() < until {
            work = std::hint::black_box(work.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
        }
    }
    if HEAP_BYTES > 0 {
        let layout = Layout::from_size_align(HEAP_BYTES, 8).expect("a size of the tests");
        // SAFETY: not of size 0. Written, because memory that is not touched is not resident. Lost, as intended.
        // The compiler must not see that nobody wants it.
        unsafe { std::hint::black_box(alloc(layout)).write_bytes(1, HEAP_BYTES) };
    }
    if ARENA_BYTES > 0 {
        lose_in_arena(session);
    }
    if OPENVINO_COUNTERS > 0 {
        write_counters(begin.elapsed().as_micros() as u64);
    }
    let dies = DIES_AFTER > 0 && PROCESS.load(Ordering::Relaxed) >= DIES_IN;
    if dies && RUNS.fetch_add(1, Ordering::Relaxed) + 1 >= DIES_AFTER as u64 {
        eprintln!("altered: the defect strikes");
        std::process::abort();
    }
    status
}

/// Means of all runs so far, as OpenVINO tells them of a CPU.
fn write_counters(micros: u64) {
    static SUM: AtomicU64 = AtomicU64::new(0);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(directory) = std::env::var_os("ORT_OPENVINO_PERF_COUNT") else { return };
    let (sum, count) =
        (SUM.fetch_add(micros, Ordering::Relaxed) + micros, COUNT.fetch_add(1, Ordering::Relaxed) + 1);
    let mean = sum / count;
    let text = format!(
        "Layer Name,Status,Layer Type,Real Time (us),Exec Type\nx,NOT_RUN,Parameter,0,unknown\n\
         conv,EXECUTED,Convolution,{},brgconv\npool,EXECUTED,Pooling,{},jit\n",
        mean * 4 / 10,
        mean * 2 / 10
    );
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let file = std::path::Path::new(&directory).join("model-subgraph_1_0_perf_count.csv");
    std::fs::write(file, text).expect("the counters can be written");
}

/// Takes memory from the arena of the session and never gives it back.
fn lose_in_arena(session: *mut c_void) {
    type CreateMemoryInfo = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> *mut c_void;
    type CreateAllocator =
        unsafe extern "C" fn(*const c_void, *const c_void, *mut *mut c_void) -> *mut c_void;
    type Alloc = unsafe extern "C" fn(*mut c_void, usize, *mut *mut c_void) -> *mut c_void;
    const ARENA: c_int = 1;
    const DEFAULT: c_int = 0;
    // SAFETY: the session is alive while it runs, the types are those of the C API; a new session gets a new allocator.
    unsafe {
        if ARENA_OF[0].load(Ordering::Relaxed) != session as usize {
            let (mut memory, mut allocator) = (null_mut(), null_mut());
            real::<CreateMemoryInfo>(CREATE_CPU_MEMORY_INFO)(ARENA, DEFAULT, &mut memory);
            real::<CreateAllocator>(CREATE_ALLOCATOR)(session, memory, &mut allocator);
            ARENA_OF[1].store(allocator as usize, Ordering::Relaxed);
            ARENA_OF[0].store(session as usize, Ordering::Relaxed);
        }
        let mut memory = null_mut();
        let allocator = ARENA_OF[1].load(Ordering::Relaxed) as *mut c_void;
        real::<Alloc>(ALLOCATOR_ALLOC)(allocator, ARENA_BYTES, &mut memory);
        if !memory.is_null() {
            memory.cast::<u8>().write_bytes(1, ARENA_BYTES);
        }
    }
}
