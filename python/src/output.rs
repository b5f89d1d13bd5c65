//! Where the records of this process go: its own directory below the observer's.
//!
//! The writer itself is part of the hot state ([`crate::call::hot`]). All of this happens with the GIL held, so locks
//! are never contended here, and a fork never finds one taken.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ortscope_channel::ChannelWriter;
use ortscope_channel::disk::remove_temporary_file;
use ortscope_core::clock;
use ortscope_core::identity::ProcessIdentity;
use ortscope_sources::programs::{ProgramMessage, SessionNote};
use pyo3::prelude::*;

use crate::call::hot::HOT;
use crate::errors;

/// Room of each thread's ring: 32,000 inferences, while the reader comes 20 times a second, and sooner when it fills up.
const RING_BYTES: u64 = 2 << 20;
/// Sessions are numbered; those beyond share the last number.
const MAX_SESSIONS: usize = u16::MAX as usize;

/// One directory of rings, below the one that an observer reads.
#[derive(Debug)]
struct Output {
    base: PathBuf,
    directory: PathBuf,
}

static CURRENT: Mutex<Option<Output>> = Mutex::new(None);
/// By their numbers; `None` once a session is gone. Numbers are not used again: records may still carry them.
static SESSIONS: Mutex<Vec<Option<SessionNote>>> = Mutex::new(Vec::new());
static NEXT_STREAM: AtomicU16 = AtomicU16::new(0);

/// A thread that has no number yet.
const NO_STREAM: u32 = u32::MAX;

thread_local! {
    // Without anything to drop, so that reading it is one load.
    static STREAM: Cell<u32> = const { Cell::new(NO_STREAM) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of the calling thread.
#[inline]
pub fn stream() -> u16 {
    let known = STREAM.get();
    if known == NO_STREAM { new_stream() } else { known as u16 }
}

#[cold]
fn new_stream() -> u16 {
    let number = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
    STREAM.set(u32::from(number));
    number
}

/// Writes a message, while anything is recorded.
pub fn send(py: Python<'_>, message: &ProgramMessage) {
    if let Ok(text) = serde_json::to_vec(message) {
        HOT.write_message(py, &text);
    }
}

/// Assigns a number to a session and announces it, now and whenever a new output begins.
pub fn register(py: Python<'_>, mut note: SessionNote) -> u16 {
    let mut sessions = lock(&SESSIONS);
    let number = sessions.len().min(MAX_SESSIONS) as u16;
    note.session = number;
    if sessions.len() < MAX_SESSIONS {
        sessions.push(Some(note.clone()));
    }
    drop(sessions);
    send(py, &ProgramMessage::Session(note));
    number
}

/// A session is gone: later recordings need not know of it.
pub fn forget(session: u16) {
    if let Some(note) = lock(&SESSIONS).get_mut(usize::from(session)) {
        *note = None;
    }
}

fn identity() -> ProcessIdentity {
    let start = ortscope_sources::own_usage().map_or(0, |usage| usage.identity.start);
    ProcessIdentity { pid: std::process::id(), start }
}

/// A directory for this process that no other one has.
pub fn directory_below(base: &Path) -> PathBuf {
    base.join(format!("process-{}-{:x}", std::process::id(), now_ns()))
}

fn open(py: Python<'_>, base: &Path, directory: PathBuf) -> PyResult<()> {
    let writer = ChannelWriter::new(&directory, RING_BYTES, identity).map_err(errors::monitor)?;
    *lock(&CURRENT) = Some(Output { base: base.to_owned(), directory });
    drop(HOT.set_writer(py, Some(writer)));
    let sessions = lock(&SESSIONS).clone();
    for note in sessions.into_iter().flatten() {
        send(py, &ProgramMessage::Session(note));
    }
    Ok(())
}

/// Begins to write below `base`, in a directory of this process's own; the observer may have one ready.
#[pyfunction]
#[pyo3(signature = (base, directory=None))]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn write_to(py: Python<'_>, base: PathBuf, directory: Option<PathBuf>) -> PyResult<()> {
    let directory = directory.unwrap_or_else(|| directory_below(&base));
    open(py, &base, directory)
}

#[pyfunction]
pub fn stop_writing(py: Python<'_>) {
    *lock(&CURRENT) = None;
    // With the writer the rings of all threads are closed, also of those that never run a model again.
    drop(HOT.set_writer(py, None));
}

#[pyfunction]
pub fn is_writing() -> bool {
    HOT.is_recording()
}

/// In a child of `fork`: continues in its own directory, next to the parent's, where the parent's observer finds it.
#[pyfunction]
pub fn after_fork(py: Python<'_>) -> PyResult<()> {
    let base = lock(&CURRENT).as_ref().map(|output| output.base.clone());
    base.map_or(Ok(()), |base| open(py, &base, directory_below(&base)))
}

/// Sends a message given as JSON text.
#[pyfunction]
pub fn send_message(py: Python<'_>, message: &str) -> PyResult<()> {
    let message: ProgramMessage = serde_json::from_str(message).map_err(errors::monitor)?;
    send(py, &message);
    Ok(())
}

/// Where profiles of single runs go, until the observer has read them; `None` while nothing is recorded.
#[pyfunction]
pub fn profile_directory() -> Option<PathBuf> {
    lock(&CURRENT).as_ref().map(|output| output.directory.clone())
}

/// Removes a profile that the observer does not read, overwritten where the recording is encrypted.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn remove_profile(path: PathBuf) -> PyResult<()> {
    Ok(remove_temporary_file(&path)?)
}

/// The clock of all records.
#[pyfunction]
pub fn now_ns() -> u64 {
    clock::now_ns()
}

/// Number of the calling thread in records.
#[pyfunction]
pub fn stream_number() -> u16 {
    stream()
}

/// Resident memory of this process; `None` if the system does not report it.
#[pyfunction]
pub fn own_memory_bytes() -> Option<u64> {
    ortscope_sources::own_usage().ok().map(|usage| usage.working_set_bytes)
}
