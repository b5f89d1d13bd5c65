//! All changes to the files of a recording go through this module, so that tests can observe them in order and make
//! any of them fail.
//!
//! Without an observer this costs one read of a flag per change. Frames are copied into mapped memory and are not
//! visible here; their syncs are.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

pub use crate::overwrite::{
    Overwritten, overwrite_before_removal, overwrite_temporary, overwritten, remove_kept_file,
    remove_temporary_directory, remove_temporary_file,
};
pub use crate::private_files::{
    create_allocated as create_private, create_directory, is_private, sync_directory,
};

/// How long another program may keep a file open before the operation fails.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two tries: from the first to the second, doubled each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// One change to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    MakeDirectory(&'a Path),
    MakeFile(&'a Path),
    /// Blocks for this many bytes.
    Allocate(&'a Path, u64),
    Write(&'a Path, u64),
    Shorten(&'a Path, u64),
    /// The file's content must survive a power loss.
    Sync(&'a Path),
    /// The names in the directory are to survive a power loss.
    SyncDirectory(&'a Path),
    Rename {
        from: &'a Path,
        to: &'a Path,
    },
    RemoveFile(&'a Path),
    RemoveDirectory(&'a Path),
}

impl<'a> Change<'a> {
    /// Where it happens.
    pub fn path(&self) -> &'a Path {
        match *self {
            Self::MakeDirectory(path)
            | Self::MakeFile(path)
            | Self::Allocate(path, _)
            | Self::Write(path, _)
            | Self::Shorten(path, _)
            | Self::Sync(path)
            | Self::SyncDirectory(path)
            | Self::Rename { to: path, .. }
            | Self::RemoveFile(path)
            | Self::RemoveDirectory(path) => path,
        }
    }
}

/// Observes the changes below a directory.
pub trait Witness: Send + Sync {
    /// An error is what the program gets instead of the change.
    fn before(&self, change: &Change<'_>) -> io::Result<()>;
    /// The change was made.
    fn after(&self, change: &Change<'_>);
}

static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static WITNESSES: RwLock<Vec<(PathBuf, Arc<dyn Witness>)>> = RwLock::new(Vec::new());

/// Watches everything below a directory until the result is dropped. For tests.
pub fn watch(root: &Path, witness: Arc<dyn Witness>) -> Watch {
    let mut witnesses = WITNESSES.write().unwrap_or_else(PoisonError::into_inner);
    witnesses.push((root.to_owned(), witness));
    IS_WATCHED.store(true, Ordering::Release);
    Watch(root.to_owned())
}

/// Ends the watch when it is dropped.
#[derive(Debug)]
pub struct Watch(PathBuf);

impl Drop for Watch {
    fn drop(&mut self) {
        let mut witnesses = WITNESSES.write().unwrap_or_else(PoisonError::into_inner);
        witnesses.retain(|(root, _)| *root != self.0);
        IS_WATCHED.store(!witnesses.is_empty(), Ordering::Release);
    }
}

/// Makes a change, unless a witness refuses it.
pub fn change<T>(change: Change<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if !IS_WATCHED.load(Ordering::Acquire) {
        return make();
    }
    let witness = witness_of(change.path());
    let Some(witness) = witness else {
        return make();
    };
    witness.before(&change)?;
    let made = make()?;
    witness.after(&change);
    Ok(made)
}

fn witness_of(path: &Path) -> Option<Arc<dyn Witness>> {
    let witnesses = WITNESSES.read().unwrap_or_else(PoisonError::into_inner);
    witnesses.iter().find(|(root, _)| path.starts_with(root)).map(|(_, witness)| Arc::clone(witness))
}

/// Retries for a while if Windows refuses an operation because another program, such as a reader, a virus scanner or
/// an indexer, has the file open. Everywhere else, and for all other errors, this is a single attempt.
pub fn patiently<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let is_windows = std::env::consts::OS == "windows";
    patiently_while(|error| is_windows && is_held_by_others(error), attempt)
}

/// Opens a file for reading, also one that is being replaced at this moment.
pub fn open_to_read(path: &Path) -> io::Result<fs_err::File> {
    match patiently(|| std::fs::File::open(path)) {
        Ok(file) => Ok(fs_err::File::from_parts(file, path)),
        // Once more, for a message that names it.
        Err(_) => fs_err::File::open(path),
    }
}

fn patiently_while<T>(
    passes: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let (begin, mut pause) = (Instant::now(), PAUSES.0);
    loop {
        match attempt() {
            Err(error) if passes(&error) && begin.elapsed() < PATIENCE => thread::sleep(pause),
            answer => return answer,
        }
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Numbers of Windows. "Access denied" is also its word for a file that goes when its last reader closes it.
fn is_held_by_others(error: &io::Error) -> bool {
    const ACCESS_DENIED: i32 = 5;
    const SHARING_VIOLATION: i32 = 32;
    const LOCK_VIOLATION: i32 = 33;
    const DIRECTORY_NOT_EMPTY: i32 = 145;
    const DELETE_PENDING: i32 = 303;
    const USER_MAPPED_FILE: i32 = 1224;
    matches!(
        error.raw_os_error(),
        Some(
            ACCESS_DENIED
                | SHARING_VIOLATION
                | LOCK_VIOLATION
                | DIRECTORY_NOT_EMPTY
                | DELETE_PENDING
                | USER_MAPPED_FILE
        )
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Refuses(Mutex<Vec<String>>);

    impl Witness for Refuses {
        fn before(&self, change: &Change<'_>) -> io::Result<()> {
            match change {
                Change::RemoveFile(_) => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
                _ => Ok(()),
            }
        }

        fn after(&self, change: &Change<'_>) {
            self.0.lock().expect("no panic").push(format!("{change:?}"));
        }
    }

    #[test]
    fn a_witness_sees_and_refuses_changes_below_its_directory() {
        let root = Path::new("/a-test/of/the/disk");
        let witness = Arc::new(Refuses(Mutex::default()));
        let watch = watch(root, Arc::clone(&witness) as Arc<dyn Witness>);
        let inside = root.join("x");
        assert_eq!(change(Change::MakeFile(&inside), || Ok(1)).expect("made"), 1);
        let refused = change(Change::RemoveFile(&inside), || -> io::Result<()> { panic!("not made") });
        assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::ReadOnlyFilesystem);
        change(Change::RemoveFile(Path::new("/elsewhere")), || Ok(())).expect("not watched");
        drop(watch);
        change(Change::RemoveFile(&inside), || Ok(())).expect("no longer watched");
        assert_eq!(witness.0.lock().expect("no panic").len(), 1);
    }
    /// A reader closes a file a moment later; a disk that is full stays full.
    #[test]
    fn only_sharing_violations_are_retried() {
        let tries = |code: i32, held: u32| {
            let mut tried = 0;
            let answer = patiently_while(is_held_by_others, || {
                tried += 1;
                if tried <= held { Err(io::Error::from_raw_os_error(code)) } else { Ok(()) }
            });
            (tried, answer.is_ok())
        };
        assert_eq!([5, 32, 1224].map(|code| tries(code, 4)), [(5, true); 3]);
        assert_eq!([2, 112].map(|code| tries(code, 4)), [(1, false); 2]);
        let (tried, done) = tries(32, u32::MAX);
        assert!(tried > 10 && !done, "{tried}");
    }
}
