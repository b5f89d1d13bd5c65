//! Removing recordings that are too old or too many.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::lock;
use crate::StoreError;
use crate::catalogue::{self, Entry};
use crate::files::{entries, remove_directory, rename, sync_directory};

/// How a recording is called from the moment its removal has begun.
const REMOVED_PREFIX: &str = ".removed-";

/// Which recordings to keep. Those being written always stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Recordings that ended longer ago go.
    pub max_age: Option<Duration>,
    /// The oldest go until all together take no more than this.
    pub max_total_bytes: Option<u64>,
    /// Recordings with a name or a tag stay regardless of age; they count toward the bytes. Default: yes.
    pub keep_tagged: bool,
}

impl Default for Retention {
    /// Keeps everything.
    fn default() -> Self {
        Self { max_age: None, max_total_bytes: None, keep_tagged: true }
    }
}

/// A recording that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pruned {
    pub id: String,
    pub bytes: u64,
    /// Why, for people.
    pub reason: String,
}

pub(super) fn prune(root: &Path, retention: &Retention, dry_run: bool) -> Result<Vec<Pruned>, StoreError> {
    if !dry_run {
        finish_removals(root)?;
    }
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut left = catalogue::list(root)?;
    let mut total_bytes: u64 = left.iter().map(|entry| entry.bytes).sum();
    let stays = |entry: &Entry| entry.being_written || (retention.keep_tagged && entry.is_kept);
    left.retain(|entry| !stays(entry));
    let mut pruned = Vec::new();
    // The oldest first.
    while let Some(entry) = left.pop() {
        let ended_ns = entry.ended_unix_ns.unwrap_or(entry.started_unix_ns);
        let age = now_ns.saturating_sub(Duration::from_nanos(ended_ns));
        let reason = if retention.max_age.is_some_and(|most| age > most) {
            format!("{} days old", age.as_secs() / 86_400)
        } else if retention.max_total_bytes.is_some_and(|most| total_bytes > most) {
            "too much in total".to_owned()
        } else {
            continue;
        };
        total_bytes -= entry.bytes;
        pruned.push(if dry_run {
            Pruned { id: entry.id, bytes: entry.bytes, reason }
        } else {
            match remove(root, &entry, &reason) {
                // Somebody began to repair it just now.
                Err(StoreError::InUse(_)) => continue,
                removed => removed?,
            }
        });
    }
    Ok(pruned)
}

/// First it loses its name, then its files: a removal that is cut off leaves no half recording in the list.
pub(super) fn remove(root: &Path, entry: &Entry, reason: &str) -> Result<Pruned, StoreError> {
    let lock = lock(&entry.directory)?;
    let parent = entry.directory.parent().unwrap_or(root);
    let gone = parent.join(format!("{REMOVED_PREFIX}{}", entry.id));
    // A file that is open cannot be renamed with its directory everywhere. The list does not wait for the lock: another
    // writer would have to begin in this very moment.
    drop(lock);
    rename(&entry.directory, &gone)?;
    sync_directory(parent);
    remove_directory(&gone)?;
    Ok(Pruned { id: entry.id.clone(), bytes: entry.bytes, reason: reason.to_owned() })
}

/// Completes removals that were interrupted.
fn finish_removals(root: &Path) -> Result<(), StoreError> {
    for path in entries(root)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(REMOVED_PREFIX) {
            remove_directory(&path)?;
        }
    }
    Ok(())
}
