//! Requests that wait on disk. One file each, whose name says its order, where it goes and how many values it holds; it
//! gets the name when it is complete. A kill at any moment loses at most the one that is being written.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

const ENDING: &str = "request";
const LOCK: &str = "lock";
/// How many values had no room, since the queue was made.
const DROPPED: &str = "dropped";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    #[error("the queue in {0} is used by another ortscope")]
    InUse(PathBuf),
    #[error("the queue in {path} cannot be used: {error}")]
    Io { path: PathBuf, error: std::io::Error },
}

impl QueueError {
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::InUse(_) => Some("name another directory with --queue, or wait"),
            Self::Io { .. } => Some("name a directory that can be written with --queue"),
        }
    }
}

/// Which address of the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    RemoteWrite,
    Metrics,
    Traces,
}

impl Route {
    fn letter(self) -> &'static str {
        match self {
            Self::RemoteWrite => "w",
            Self::Metrics => "m",
            Self::Traces => "t",
        }
    }

    fn of(letter: &str) -> Option<Self> {
        [Self::RemoteWrite, Self::Metrics, Self::Traces].into_iter().find(|route| route.letter() == letter)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) route: Route,
    /// Values or spans in it.
    pub(super) samples: u64,
    pub(super) bytes: u64,
}

impl Entry {
    fn file_name(&self) -> String {
        format!("{:016}-{}-{}.{ENDING}", self.number, self.route.letter(), self.samples)
    }

    fn of(name: &str, bytes: u64) -> Option<Self> {
        let mut parts = name.strip_suffix(ENDING)?.strip_suffix('.')?.splitn(3, '-');
        let number = parts.next()?.parse().ok()?;
        let route = Route::of(parts.next()?)?;
        let samples = parts.next()?.parse().ok()?;
        Some(Self { number, route, samples, bytes })
    }
}

#[derive(Debug)]
pub struct Queue {
    directory: PathBuf,
    most_bytes: u64,
    entries: VecDeque<Entry>,
    bytes: u64,
    next: u64,
    dropped: u64,
    _lock: File,
}

impl Queue {
    /// Opens a queue, with what waits in it from before.
    pub fn open(directory: &Path, most_bytes: u64) -> Result<Self, QueueError> {
        let failed = |error: std::io::Error| QueueError::Io { path: directory.to_owned(), error };
        fs::create_dir_all(directory).map_err(failed)?;
        let lock =
            fs::OpenOptions::new().create(true).append(true).open(directory.join(LOCK)).map_err(failed)?;
        let lock = lock.into_parts().0;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(QueueError::InUse(directory.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut entries = Vec::new();
        for file in fs::read_dir(directory).map_err(failed)? {
            let file = file.map_err(failed)?;
            let bytes = file.metadata().map_err(failed)?.len();
            let name = file.file_name();
            let name = name.to_string_lossy();
            entries.extend(Entry::of(&name, bytes));
            if name.ends_with(".partial") {
                // Of a writer that was killed.
                fs::remove_file(file.path()).ok();
            }
        }
        entries.sort_by_key(|entry| entry.number);
        let dropped = fs::read_to_string(directory.join(DROPPED)).ok();
        Ok(Self {
            directory: directory.to_owned(),
            most_bytes,
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            next: entries.last().map_or(1, |entry| entry.number + 1),
            entries: entries.into(),
            dropped: dropped.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            _lock: lock,
        })
    }

    fn failed(&self, error: std::io::Error) -> QueueError {
        QueueError::Io { path: self.directory.clone(), error }
    }

    /// Adds a request; `false` if there was no room and it was counted as dropped. A disk that is full is no room.
    pub(super) fn push(&mut self, route: Route, samples: u64, body: &[u8]) -> Result<bool, QueueError> {
        let entry = Entry { number: self.next, route, samples, bytes: body.len() as u64 };
        if self.bytes + entry.bytes > self.most_bytes {
            self.drop_samples(samples);
            return Ok(false);
        }
        match self.write(&entry, body) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                self.drop_samples(samples);
                return Ok(false);
            }
            Err(error) => return Err(self.failed(error)),
        }
        self.next += 1;
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
        Ok(true)
    }

    fn write(&self, entry: &Entry, body: &[u8]) -> std::io::Result<()> {
        let mut file =
            tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(&self.directory)?;
        file.write_all(body)?;
        file.persist(self.directory.join(entry.file_name())).map_err(|error| error.error)?;
        Ok(())
    }

    fn drop_samples(&mut self, samples: u64) {
        self.dropped += samples;
        // The count outlives us if the disk allows it; it is in the report in any case.
        fs::write(self.directory.join(DROPPED), self.dropped.to_string()).ok();
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// What an entry holds; `None` for one whose file has gone or is damaged.
    pub(super) fn body(&self, entry: &Entry) -> Option<Vec<u8>> {
        fs::read(self.directory.join(entry.file_name())).ok()
    }

    /// The first one is done with.
    pub(super) fn pop(&mut self) -> Result<(), QueueError> {
        let Some(entry) = self.entries.pop_front() else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        match fs::remove_file(self.directory.join(entry.file_name())) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Values that wait.
    pub fn waiting(&self) -> u64 {
        self.entries.iter().map(|entry| entry.samples).sum()
    }

    pub fn waiting_bytes(&self) -> u64 {
        self.bytes
    }

    /// Values that had no room, since the queue was made.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_survives_and_keeps_its_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queue");
        let mut queue = Queue::open(&path, 1 << 20).unwrap();
        assert!(matches!(Queue::open(&path, 1 << 20), Err(QueueError::InUse(_))));
        for number in 0..20_u8 {
            assert!(queue.push(Route::Metrics, 3, &[number; 10]).unwrap());
        }
        drop(queue);
        std::fs::write(path.join(".x.partial"), b"half").unwrap();
        std::fs::write(path.join("notes.txt"), b"not ours").unwrap();
        let mut queue = Queue::open(&path, 1 << 20).unwrap();
        assert_eq!((queue.waiting(), queue.waiting_bytes()), (60, 200));
        assert!(!path.join(".x.partial").exists() && path.join("notes.txt").exists());
        for number in 0..20_u8 {
            let entry = queue.first().unwrap().clone();
            assert_eq!((queue.body(&entry).unwrap(), entry.route), (vec![number; 10], Route::Metrics));
            queue.pop().unwrap();
        }
        assert!(queue.is_empty());
        queue.push(Route::Traces, 1, b"x").unwrap();
        assert_eq!(queue.first().unwrap().number, 21);
    }

    #[test]
    fn what_does_not_fit_is_counted_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(directory.path(), 100).unwrap();
        assert!(queue.push(Route::RemoteWrite, 5, &[0; 80]).unwrap());
        assert!(!queue.push(Route::RemoteWrite, 7, &[0; 30]).unwrap());
        assert!(queue.push(Route::RemoteWrite, 1, &[0; 20]).unwrap());
        drop(queue);
        let queue = Queue::open(directory.path(), 100).unwrap();
        assert_eq!((queue.waiting(), queue.dropped()), (6, 7));
    }
}
