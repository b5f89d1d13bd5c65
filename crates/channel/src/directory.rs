//! The directory in which instrumented processes write their rings: its location, its owner, and orphans of dead
//! readers.
//!
//! ```text
//! ortscope-<pid>-<time>/owner                    the reader; locked while it lives
//! ortscope-<pid>-<time>/recording                where the recording is, if one is made
//! ortscope-<pid>-<time>/process-<pid>-<time>/    the rings of one process
//! ```
//! A reader that is killed leaves the directory behind, and it takes memory. It may still hold records that no
//! journal has, so the first process that finds it has the recording repaired and then removes it.

use std::fs::TryLockError;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err::File;
use ortscope_core::clock::now_ns;
use ortscope_core::identity::{ProcessIdentity, SessionId};

use crate::disk::remove_temporary_directory;
use crate::fork_guard::Incarnation;
use crate::ring::RingReader;
use crate::{private_files, ring_files};

/// Names an instrumented process the directory in which it makes its own.
pub const CHANNEL_VARIABLE: &str = "ORTSCOPE_CHANNEL";

/// In memory where the system has such a place: a ring on a disk would be written out again and again.
const IN_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "ortscope-";
const PROCESS_PREFIX: &str = "process-";
const OWNER: &str = "owner";
const OWNER_TO_BE: &str = "owner-to-be";
const RECORDING: &str = "recording";
/// Names that are tried before a directory is given up.
const MAX_TRIES: u64 = 100;
/// Maximum number of directories examined by one search.
const MAX_DIRECTORIES: usize = 4096;

/// A directory of this user alone, gone with this value.
#[derive(Debug)]
pub struct ChannelDirectory {
    directory: PathBuf,
    /// The system gives the lock back when this process ends, however it ends.
    owner: Option<File>,
    maker: Incarnation,
}

impl ChannelDirectory {
    /// Makes one for a reader: in memory if that is possible, else among the temporary files.
    pub fn create(reader: ProcessIdentity) -> std::io::Result<Self> {
        let mut problem = None;
        for place in places() {
            match Self::create_in(&place, reader) {
                Ok(base) => return Ok(base),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| std::io::Error::other("there is no directory for temporary files")))
    }

    fn create_in(place: &Path, reader: ProcessIdentity) -> std::io::Result<Self> {
        for number in 0..MAX_TRIES {
            let directory = place.join(format!("{PREFIX}{}-{:x}", reader.pid, now_ns() + number));
            match private_files::create_new_directory(&directory) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let owner = locked_owner(&directory, reader)?;
                    return Ok(Self { directory, owner: Some(owner), maker: Incarnation::current() });
                }
            }
        }
        Err(std::io::Error::other(format!("no name is free in {}", place.display())))
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Stores which recording the rings belong to, for recovery after a kill.
    pub fn set_recording(&self, recording: &Path) -> std::io::Result<()> {
        let mut file = private_files::create_allocated(&self.directory.join(RECORDING), 0)?;
        file.write_all(recording.as_os_str().as_encoded_bytes())
    }

    /// Leaves the directory where it is: its rings are still needed.
    pub fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.directory)
    }
}

impl Drop for ChannelDirectory {
    fn drop(&mut self) {
        // A child of `fork` has a copy of this value; the directory is its parent's.
        if !self.directory.as_os_str().is_empty() && self.maker.is_current() {
            remove(&self.directory, self.owner.take()).ok();
        }
    }
}

/// The name of a process's session, derived from the names of its directory and of the one above. Every reader of the
/// rings derives the same names, so that a row in both a journal and a ring is recognized as one.
pub fn session_of_process(directory: &Path, session: usize) -> SessionId {
    let last = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_owned();
    let (base, process) = (last(directory.parent()), last(Some(directory)));
    let number = session.to_string();
    let parts = [base.as_encoded_bytes(), process.as_encoded_bytes(), number.as_bytes()];
    SessionId::named(&parts.join(&b'/'))
}

/// Not every system removes an open file, and an unlocked directory counts as orphaned, so the owner file is renamed
/// before it is unlocked.
fn remove(directory: &Path, owner: Option<File>) -> std::io::Result<()> {
    // If this fails, the removal reports the problem.
    fs_err::rename(directory.join(OWNER), directory.join(OWNER_TO_BE)).ok();
    drop(owner);
    remove_temporary_directory(directory)
}

/// The file gets its name only after it is locked: a search for orphans may run at any time and takes an unlocked
/// directory for one.
fn locked_owner(directory: &Path, reader: ProcessIdentity) -> std::io::Result<File> {
    let unnamed = directory.join(OWNER_TO_BE);
    let mut owner = private_files::create_allocated(&unnamed, 0)?;
    owner.file().lock()?;
    writeln!(owner, "{} {}", reader.pid, reader.start)?;
    fs_err::rename(unnamed, directory.join(OWNER))?;
    Ok(owner)
}

/// A channel directory whose reader and writers are dead. While this value exists, no other process takes it.
#[derive(Debug)]
pub struct OrphanedChannel {
    directory: PathBuf,
    recording: Option<PathBuf>,
    owner: File,
}

impl OrphanedChannel {
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directories of the processes that wrote below it.
    pub fn processes(&self) -> Vec<PathBuf> {
        process_directories(&self.directory)
    }

    /// The recording that may need the rings.
    pub fn recording(&self) -> Option<&Path> {
        self.recording.as_deref()
    }

    pub fn remove(self) -> std::io::Result<()> {
        remove(&self.directory, Some(self.owner))
    }
}

/// The directories of this user without a reader or writer. A reader is alive while it holds its lock; a writer as
/// long as `is_alive` returns true.
pub fn orphaned_channels(is_alive: impl Fn(ProcessIdentity) -> bool) -> Vec<OrphanedChannel> {
    channel_directories().into_iter().filter_map(|directory| take_up(directory, &is_alive)).collect()
}

/// Whether a directory has an active reader. If unknown, it is assumed to have one: two readers would take each
/// other's records.
pub fn has_reader(base: &Path) -> bool {
    let Ok(owner) = File::open(base.join(OWNER)) else {
        return true;
    };
    // Given back at once, when the file is closed. A file that lost its name meanwhile is that of a reader that leaves.
    matches!(owner.file().try_lock_shared(), Err(TryLockError::WouldBlock)) || !base.join(OWNER).exists()
}

/// The directories of a process below every base of this user and below `other`, the oldest first: where it writes, if
/// it does.
pub fn directories_of(pid: u32, other: Option<&Path>) -> Vec<PathBuf> {
    let parents = channel_directories().into_iter().chain(other.map(Path::to_owned));
    let found = parents.flat_map(|base| process_directories(&base));
    let mut found: Vec<PathBuf> = found.filter(|path| pid_of(path) == Some(pid)).collect();
    found.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    found
}

/// The recording that the reader of a base makes.
pub fn recording_of(base: &Path) -> Option<PathBuf> {
    let text = fs_err::read_to_string(base.join(RECORDING)).ok()?;
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// A directory below a base for a process, which no other one has.
pub fn process_directory(base: &Path, pid: u32) -> PathBuf {
    base.join(format!("{PROCESS_PREFIX}{pid}-{:x}", now_ns()))
}

/// The process whose directory this is, by its name.
pub fn pid_of(directory: &Path) -> Option<u32> {
    directory.file_name()?.to_str()?.strip_prefix(PROCESS_PREFIX)?.split('-').next()?.parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "only searched for orphans; the directories are private")]
fn places() -> Vec<PathBuf> {
    let memory = PathBuf::from(IN_MEMORY);
    memory.is_dir().then_some(memory).into_iter().chain([std::env::temp_dir()]).collect()
}

fn channel_directories() -> Vec<PathBuf> {
    let entries = places().into_iter().filter_map(|place| fs_err::read_dir(place).ok()).flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let own = named.filter(|entry| {
        // Not through a link: it could lead anywhere.
        entry.path().symlink_metadata().is_ok_and(|found| found.is_dir() && private_files::is_own(&found))
    });
    own.take(MAX_DIRECTORIES).map(|entry| entry.path()).collect()
}

fn process_directories(base: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(base).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| pid_of(path).is_some()).collect()
}

fn take_up(directory: PathBuf, is_alive: &impl Fn(ProcessIdentity) -> bool) -> Option<OrphanedChannel> {
    // One without an owner is being made, or is not for us.
    let owner = fs_err::OpenOptions::new().read(true).write(true).open(directory.join(OWNER)).ok()?;
    owner.file().try_lock().ok()?;
    // Its reader leaves and has given the lock back: the base is gone in a moment.
    if !directory.join(OWNER).exists() {
        return None;
    }
    let rings = process_directories(&directory).into_iter().filter_map(|path| ring_files(&path).ok());
    let mut writers =
        rings.flatten().filter_map(|ring| Some(RingReader::open_for_recovery(&ring).ok()?.owner()));
    if writers.any(is_alive) {
        return None;
    }
    let recording = recording_of(&directory);
    Some(OrphanedChannel { directory, recording, owner })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A recorder may start while another one searches for orphans. Its directory must not be removed between the
    /// creation of the file and its lock.
    #[test]
    fn a_new_directory_always_has_a_locked_owner() {
        let place = tempfile::tempdir_in(&places()[0]).unwrap();
        let is_over = AtomicBool::new(false);
        let search = || {
            let mut seen = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let entries = fs_err::read_dir(place.path()).unwrap().flatten();
                for base in entries.map(|entry| entry.path()) {
                    // One that is gone by now was opened before it was removed.
                    assert!(has_reader(&base) || !base.exists(), "{} looks orphaned", base.display());
                    seen += 1;
                }
            }
            seen
        };
        std::thread::scope(|scope| {
            let search = scope.spawn(search);
            let reader = ProcessIdentity { pid: std::process::id(), start: 1 };
            let made: std::io::Result<()> =
                (0..5000).try_for_each(|_| ChannelDirectory::create_in(place.path(), reader).map(drop));
            is_over.store(true, Ordering::Relaxed);
            made.expect("the directory is not removed");
            assert!(search.join().expect("no directory looked orphaned") > 0);
        });
    }
}
