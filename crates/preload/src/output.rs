//! Where the records of this process go: a directory of its own below the one that the recorder reads.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use ortscope_channel::message::ProgramMessage;
use ortscope_channel::{CHANNEL_VARIABLE, ChannelWriter, FrameKind, process_directory};
use ortscope_core::identity::ProcessIdentity;

/// Room of each thread's ring: 23,000 inferences, while the reader comes 20 times a second, and sooner when it fills up.
const RING_BYTES: u64 = 2 << 20;
/// Locks are held for microseconds; after a fork one may be held forever.
const LOCK_TRIES: usize = 10_000;

static OUTPUT: RwLock<Option<Output>> = RwLock::new(None);
/// Nothing could be opened; it is not tried again.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Set in a child of `fork`, whose state is its parent's.
static FORKED: AtomicBool = AtomicBool::new(false);
static NEXT_STREAM: AtomicU16 = AtomicU16::new(0);

thread_local! {
    static STREAM: Cell<Option<u16>> = const { Cell::new(None) };
}

#[derive(Debug)]
struct Output {
    directory: PathBuf,
    writer: ChannelWriter,
}

/// The directory that the recorder reads; `None` if this program is not recorded.
pub fn base() -> Option<&'static PathBuf> {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    BASE.get_or_init(|| {
        let base = PathBuf::from(std::env::var_os(CHANNEL_VARIABLE).filter(|value| !value.is_empty())?);
        base.is_dir().then_some(base)
    })
    .as_ref()
}

/// One of this many inferences is profiled; 0 means none.
pub fn profile_every() -> u64 {
    static EVERY: OnceLock<u64> = OnceLock::new();
    *EVERY.get_or_init(|| {
        let value = std::env::var("ORTSCOPE_PROFILE_EVERY").unwrap_or_default();
        value.parse().unwrap_or(0)
    })
}

/// Number of the calling thread.
pub fn stream() -> u16 {
    STREAM
        .try_with(|known| {
            known.get().unwrap_or_else(|| {
                let number = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
                known.set(Some(number));
                number
            })
        })
        .unwrap_or(u16::MAX)
}

/// A lock for reading, unless it cannot be had.
pub fn read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    for _ in 0..LOCK_TRIES {
        match lock.try_read() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// A lock for writing, unless it cannot be had.
pub fn write<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
    for _ in 0..LOCK_TRIES {
        match lock.try_write() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// In a child of `fork`, which must do as little as possible.
pub fn note_fork() {
    FORKED.store(true, Ordering::SeqCst);
}

/// Passes the writer to `use_it`. For a new output, `begin` is called first, to announce the sessions.
pub fn with_writer(begin: impl Fn(&ChannelWriter), use_it: impl FnOnce(&ChannelWriter)) {
    if FAILED.load(Ordering::Relaxed) {
        return;
    }
    if !FORKED.load(Ordering::Relaxed)
        && let Some(output) = read(&OUTPUT)
        && let Some(output) = &*output
    {
        use_it(&output.writer);
        return;
    }
    let Some(mut output) = write(&OUTPUT) else { return };
    if FORKED.swap(false, Ordering::SeqCst) || output.is_none() {
        // The parent's writer closes nothing when it goes here.
        *output = open();
        match &*output {
            Some(output) => begin(&output.writer),
            None => FAILED.store(true, Ordering::Relaxed),
        }
    }
    if let Some(output) = &*output {
        use_it(&output.writer);
    }
}

/// Where profiles of single runs go.
pub fn directory() -> Option<PathBuf> {
    Some(read(&OUTPUT)?.as_ref()?.directory.clone())
}

pub fn send(writer: &ChannelWriter, message: &ProgramMessage) {
    if let Ok(text) = serde_json::to_vec(message) {
        writer.write(FrameKind::MESSAGE, &text);
    }
}

fn open() -> Option<Output> {
    let directory = process_directory(base()?, std::process::id());
    match ChannelWriter::new(&directory, RING_BYTES, identity) {
        Ok(writer) => Some(Output { directory, writer }),
        Err(error) => {
            complain(&format!("the inferences of this program are not recorded: {error}"));
            None
        }
    }
}

/// Says something on the program's stderr; a program that has none hears nothing.
pub fn complain(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "ortscope: {text}").ok();
}

/// As the recorder knows this process. The start is the 22nd field of `stat`; the second, in brackets, may have spaces.
fn identity() -> ProcessIdentity {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let start = after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    ProcessIdentity { pid: std::process::id(), start }
}
