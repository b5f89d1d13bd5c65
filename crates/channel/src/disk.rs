//! Every change to the files of a recording goes through here, so that a test can stand between the program and its disk:
//! see all changes in their order, and refuse any of them.
//!
//! Without a witness this costs one read of a flag per change. Frames are copied into mapped memory and are not seen; their
//! syncs are.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// One change of what is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    MakeDirectory(&'a Path),
    MakeFile(&'a Path),
    /// Blocks for this many bytes.
    Allocate(&'a Path, u64),
    Write(&'a Path, u64),
    Shorten(&'a Path, u64),
    /// What was written to the file is to survive a power loss.
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

/// Somebody who watches the changes below a directory.
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
    fn a_witness_sees_and_refuses_what_is_below_its_directory() {
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
}
