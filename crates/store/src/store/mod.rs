//! The directory of recordings.

mod prune;
mod resolve;

use std::path::{Path, PathBuf};

pub use prune::{Pruned, Retention};

use crate::StoreError;
use crate::catalogue::{self, Entry};
use crate::encryption::Key;
use crate::files::WriterLock;
use crate::manifest::{Found, Manifest};
use crate::writer::{NewRecording, RecordingWriter};

/// The longest name or tag.
const MAX_NAME: usize = 100;

/// A directory of recordings. It need not exist before the first one is made.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Encrypts every recording that is begun.
    key: Option<Key>,
}

impl Store {
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), key: None }
    }

    /// The same store; recordings that are begun in it are encrypted with this key.
    #[must_use]
    pub fn encrypted_with(self, key: Key) -> Self {
        Self { key: Some(key), ..self }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Begins a recording.
    pub fn begin(&self, mut new: NewRecording) -> Result<RecordingWriter, StoreError> {
        if let Some(name) = &new.name {
            check_name("name", name)?;
        }
        if new.key.is_none() {
            new.key.clone_from(&self.key);
        }
        RecordingWriter::begin(&self.root, new)
    }

    /// All recordings, newest first, including interrupted and damaged ones; see their state.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        catalogue::list(&self.root)
    }

    /// The recording that is meant: by its id, by its first characters or those of its last part, by its name, `last`, or
    /// the path of a directory or a packed file.
    pub fn resolve(&self, run: &str) -> Result<PathBuf, StoreError> {
        resolve::resolve(&self.root, run)
    }

    /// Adds and removes tags; gives those it has now. A tag that is there already, or not there, changes nothing.
    pub fn tag(&self, run: &str, add: &[String], remove: &[String]) -> Result<Vec<String>, StoreError> {
        for tag in add {
            check_name("tag", tag)?;
        }
        let manifest = self.change(run, |manifest| {
            manifest.tags.retain(|tag| !remove.contains(tag));
            manifest.tags.extend_from_slice(add);
            manifest.tags.sort();
            manifest.tags.dedup();
        })?;
        Ok(manifest.tags)
    }

    /// Gives a recording a name of the user's own; an empty one takes it away.
    pub fn rename(&self, run: &str, name: &str) -> Result<(), StoreError> {
        if !name.is_empty() {
            check_name("name", name)?;
        }
        self.change(run, |manifest| manifest.name = Some(name.to_owned()).filter(|name| !name.is_empty()))?;
        Ok(())
    }

    /// Removes a recording for good.
    pub fn remove(&self, run: &str) -> Result<Pruned, StoreError> {
        let directory = self.resolve(run)?;
        if !directory.is_dir() {
            let problem = format!("'{}' is a packed file: remove it as any file", directory.display());
            return Err(StoreError::Argument(problem));
        }
        prune::remove(&self.root, &catalogue::look(&directory)?, "asked for")
    }

    /// Removes recordings that are too old or too many and returns them. With `dry_run` nothing is removed.
    pub fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Vec<Pruned>, StoreError> {
        prune::prune(&self.root, retention, dry_run)
    }

    fn change(&self, run: &str, change: impl FnOnce(&mut Manifest)) -> Result<Manifest, StoreError> {
        let directory = self.resolve(run)?;
        if !directory.is_dir() {
            let problem = format!("'{}' is a packed file and cannot be changed", directory.display());
            return Err(StoreError::Argument(problem));
        }
        let mut manifest = match Manifest::read(&directory)? {
            Found::Whole(manifest) => *manifest,
            Found::Missing => return Err(StoreError::damaged(directory, "its manifest is missing")),
            Found::Damaged(problem) => return Err(StoreError::damaged(directory, problem)),
        };
        change(&mut manifest);
        // A writer takes over name and tags when it writes its manifest, so no lock is needed.
        manifest.write(&directory)?;
        if let Err(error) = catalogue::note(&self.root, &directory) {
            tracing::debug!("{error}");
        }
        Ok(manifest)
    }
}

/// Names and tags appear in lists, tables and command lines.
fn check_name(what: &str, name: &str) -> Result<(), StoreError> {
    let problem = if name.trim().is_empty() {
        "is empty"
    } else if name.chars().count() > MAX_NAME {
        "is too long"
    } else if name == "last" {
        "already means the newest recording"
    } else if name.starts_with('-')
        || name.chars().any(|letter| letter.is_control() || "/\\,".contains(letter))
    {
        "begins with a dash or has a slash, a comma or a control character"
    } else {
        return Ok(());
    };
    Err(StoreError::Argument(format!("the {what} '{name}' {problem}")))
}

/// Locked, so that a recording is not removed while it is written.
fn lock(directory: &Path) -> Result<WriterLock, StoreError> {
    WriterLock::take(directory)
}
