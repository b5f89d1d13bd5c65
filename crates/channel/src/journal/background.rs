//! The two threads behind a journal: one writes new data to the disk, one creates the next file in advance. They are
//! separate because a slow disk must not delay the second.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file::{MappedFile, Place};
use super::header;
use crate::seal::Sealer;

/// How long an append waits for the next file if it is not there in time. Then the append fails, and later ones try again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Full files waiting for a slow or failing disk. Beyond this number the oldest is released: the system still writes
/// it when it can, but its durability is no longer confirmed.
const MAX_UNSYNCED: usize = 32;

/// State shared by the writer and its threads.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) directory: PathBuf,
    pub(super) file_bytes: u64,
    pub(super) schema: Vec<u8>,
    sealer: Option<Arc<dyn Sealer>>,
    pub(super) sync_period: Duration,
}

#[derive(Debug)]
struct State {
    /// Files with something that may not be on the disk yet; the one in use is the last.
    files: Vec<Arc<MappedFile>>,
    next: Next,
    sync_error: Option<String>,
    stop: bool,
}

impl State {
    fn bound_unsynced(&mut self) {
        while self.files.len() > MAX_UNSYNCED + 1 {
            let oldest = self.files.remove(0);
            let problem =
                format!("the disk is {MAX_UNSYNCED} files behind: file {} is not safe", oldest.number);
            self.sync_error.get_or_insert(problem);
        }
    }
}

/// The file that follows the one in use.
#[derive(Debug)]
enum Next {
    NotYet,
    Wanted(u64),
    Ready(MappedFile, Place),
    /// Tried again after a sync period.
    Failed(u64, String),
}

impl Shared {
    pub(super) fn new(
        directory: PathBuf,
        file_bytes: u64,
        schema: Vec<u8>,
        sealer: Option<Arc<dyn Sealer>>,
        sync_period: Duration,
        first: Arc<MappedFile>,
    ) -> Self {
        let state = State { files: vec![first], next: Next::NotYet, sync_error: None, stop: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { state, changed, directory, file_bytes, schema, sealer, sync_period }
    }

    /// Asks for the file `number` unless it is there or on its way.
    pub(super) fn want_next(&self, number: u64) {
        let mut state = self.lock();
        if matches!(state.next, Next::NotYet) {
            state.next = Next::Wanted(number);
            self.changed.notify_all();
        }
    }

    /// Seals the file in use and gives the next, `number`. It is there already, unless rows come faster than the disk
    /// can allocate.
    pub(super) fn take_next(&self, number: u64) -> Result<(Arc<MappedFile>, Place), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut state.next, Next::NotYet) {
                Next::Ready(file, place) => {
                    // Sealed while it is still the last one, so that the sync that releases it has seen the change.
                    if let Some(full) = state.files.last() {
                        full.seal();
                    }
                    file.set_state(header::State::InUse);
                    let file = Arc::new(file);
                    state.files.push(Arc::clone(&file));
                    state.bound_unsynced();
                    return Ok((file, place));
                }
                Next::Failed(number, error) => {
                    state.next = Next::Failed(number, error.clone());
                    return Err(error);
                }
                Next::NotYet => {
                    state.next = Next::Wanted(number);
                    self.changed.notify_all();
                }
                wanted @ Next::Wanted(_) => {
                    state.next = wanted;
                    let wait = deadline.saturating_duration_since(Instant::now());
                    if wait.is_zero() {
                        return Err("the disk does not answer".into());
                    }
                    state = self.wait(state, wait);
                }
            }
        }
    }

    /// Waits until a requested file exists or has failed.
    pub(super) fn settle(&self) {
        let mut state = self.lock();
        while matches!(state.next, Next::Wanted(_)) && !state.stop {
            state = self.wait(state, PATIENCE);
        }
    }

    /// Writes everything to the disk; the first problem since the last call.
    pub(super) fn sync(&self) -> Result<(), String> {
        self.sync_files();
        self.lock().sync_error.take().map_or(Ok(()), Err)
    }

    /// Ends the threads.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Lets go of all files; removes the spare one.
    pub(super) fn let_go(&self) {
        let mut state = self.lock();
        state.files.clear();
        if let Next::Ready(file, _) = std::mem::replace(&mut state.next, Next::NotYet) {
            file.remove();
        }
    }

    /// The thread that syncs.
    pub(super) fn keep_syncing(&self) {
        let mut next_sync = Instant::now() + self.sync_period;
        loop {
            let state = self.lock();
            if state.stop {
                return;
            }
            let wait = next_sync.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                drop(self.wait(state, wait));
                continue;
            }
            drop(state);
            self.sync_files();
            next_sync = Instant::now() + self.sync_period;
        }
    }

    /// The thread that makes files.
    pub(super) fn keep_making_files(&self) {
        let mut state = self.lock();
        while !state.stop {
            let number = match state.next {
                Next::Wanted(number) => number,
                Next::Failed(number, _) => {
                    let retry = Instant::now() + self.sync_period;
                    while !state.stop && Instant::now() < retry {
                        state = self.wait(state, retry.saturating_duration_since(Instant::now()));
                    }
                    number
                }
                Next::NotYet | Next::Ready(..) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            if state.stop {
                return;
            }
            drop(state);
            let sealer = self.sealer.as_deref();
            let made = MappedFile::create(&self.directory, number, self.file_bytes, &self.schema, sealer);
            let next = match made {
                Ok((file, place)) => Next::Ready(file, place),
                Err(error) => Next::Failed(number, error.to_string()),
            };
            state = self.lock();
            state.next = next;
            self.changed.notify_all();
        }
    }

    /// The lock is not held during the sync: appending continues.
    fn sync_files(&self) {
        let files = self.lock().files.clone();
        // All but the last of these were complete before the sync began: one that is synced is done.
        let in_use = files.last().map(|file| file.number);
        let (mut problem, mut done) = (None, Vec::new());
        for file in files {
            match file.sync() {
                Ok(()) if Some(file.number) != in_use => done.push(file.number),
                Ok(()) => {}
                Err(error) => {
                    problem.get_or_insert(error.to_string());
                }
            }
        }
        let mut state = self.lock();
        state.files.retain(|file| !done.contains(&file.number));
        if let Some(problem) = problem {
            state.sync_error.get_or_insert(problem);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics is done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
