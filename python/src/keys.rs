//! Keys of encrypted recordings: where they are searched, and the key files named by monitors of this process.
//!
//! The store knows one key file per process. A program may name another with every monitor, and must be able to read
//! all its recordings, so reading is tried with each file in turn. The file is passed to the store in place of the
//! system's key store, which is queried on the reading thread: threads that read with different keys do not
//! interfere.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ortscope_store::{Entry, Key, KeySources, Recording, Store, StoreError, set_key_sources};

/// Files that are remembered; beyond, the one that was named longest ago is forgotten.
const MAX_FILES: usize = 64;

/// The file that was named last comes first.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

thread_local! {
    /// The file that this thread reads with now.
    static CURRENT: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

fn named() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a key file for reading.
pub fn remember(file: &Path) {
    // The program may change its directory.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut named = named();
    named.retain(|known| *known != file);
    named.insert(0, file);
    named.truncate(MAX_FILES);
}

/// Sources of keys, as in the program: a file, `ORTSCOPE_KEY`, the system's key store.
pub fn sources(file: Option<PathBuf>) -> KeySources {
    KeySources { file, system: Some(ask) }
}

/// Sets where readers in this process find keys; `configured` is the file named by the configuration.
pub fn look_for_keys(configured: Option<PathBuf>) {
    set_key_sources(sources(configured));
}

fn ask() -> Result<Option<String>, String> {
    match CURRENT.with_borrow(Clone::clone) {
        // A file that is gone by now has no key; another one may fit.
        Some(file) => Ok(Key::from_file(&file).ok().map(|key| key.to_text())),
        None => ortscope_sources::key_store::read("ortscope:recordings"),
    }
}

/// Does the work with each named file in turn, and at last without one.
fn with_each<T>(mut work: impl FnMut() -> Option<T>) -> Option<T> {
    let files: Vec<_> = named().iter().cloned().map(Some).collect();
    let found = files.into_iter().chain([None]).find_map(|file| {
        CURRENT.set(file);
        work()
    });
    CURRENT.set(None);
    found
}

/// Tries the key files until none is missing; otherwise returns the first error.
fn try_each<T>(work: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut first = None;
    let found = with_each(|| match work() {
        // A name is encrypted too.
        Err(error @ (StoreError::NoKey { .. } | StoreError::Key { .. } | StoreError::Unknown { .. })) => {
            first.get_or_insert(error);
            None
        }
        done => Some(done),
    });
    found.or_else(|| first.map(Err)).unwrap_or_else(|| Err(StoreError::Failed("nothing was tried".into())))
}

pub fn resolve(store: &Store, run: &str) -> Result<PathBuf, StoreError> {
    try_each(|| store.resolve(run))
}

pub fn open(path: &Path) -> Result<Recording, StoreError> {
    try_each(|| Recording::open(path))
}

/// The recordings, newest first, each read with its own key.
pub fn list(store: &Store) -> Result<Vec<Entry>, StoreError> {
    let is_locked = |entry: &Entry| entry.encrypted && entry.problem.is_some();
    let mut all: Option<Vec<Entry>> = None;
    let problem = with_each(|| {
        let entries = match store.list() {
            Ok(entries) => entries,
            Err(error) => return Some(Some(error)),
        };
        let known = all.get_or_insert_with(|| entries.clone());
        for entry in known.iter_mut().filter(|entry| is_locked(entry)) {
            if let Some(opened) = entries.iter().find(|other| other.id == entry.id && !is_locked(other)) {
                entry.clone_from(opened);
            }
        }
        (!known.iter().any(is_locked)).then_some(None)
    });
    if let Some(error) = problem.flatten() {
        return Err(error);
    }
    let mut all = all.unwrap_or_default();
    // The start time is encrypted too.
    all.sort_by(|a, b| b.started_unix_ns.cmp(&a.started_unix_ns).then_with(|| b.id.cmp(&a.id)));
    Ok(all)
}

/// The named file with the key of a recording; `None` where it needs none of them.
pub fn file_of(recording: &Recording) -> Option<PathBuf> {
    let wanted = recording.manifest().encryption.as_ref()?.key_id();
    let files = named().clone();
    files.into_iter().find(|file| Key::from_file(file).is_ok_and(|key| key.id() == wanted))
}

/// Whether any file was named.
pub fn has_files() -> bool {
    !named().is_empty()
}

/// Removes channels orphaned by killed recorders; their recordings are completed first. Failures are retried next
/// time.
pub fn sweep() {
    with_each(|| {
        let left = ortscope_store::sweep(ortscope_sources::programs::is_alive);
        left.is_empty().then_some(())
    });
}
