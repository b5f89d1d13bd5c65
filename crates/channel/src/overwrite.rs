//! Secure removal: overwrites files once with zeros before removing them, if requested.
//!
//! On disks that write new blocks for old ones (SSDs, copy-on-write file systems, snapshots) the old ones can survive
//! this. For certainty, encrypt and destroy the key.
//!
//! A file is renamed before it is overwritten. Nobody then finds it under its name, and a kill in between leaves
//! nothing that looks like a damaged ring or journal.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use fs_err::{OpenOptions, symlink_metadata};

static OVERWRITTEN: AtomicU8 = AtomicU8::new(0);
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Added to the name of a file that is about to go.
const GONE: &str = ".gone";

/// Which files are overwritten before removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Overwritten {
    /// Unencrypted data in temporary files: rings, profiles, unpacked recordings. For encrypted recordings, whose
    /// stored data is unreadable anyway.
    Temporary = 1,
    /// Files of recordings too.
    Everything = 2,
}

/// From now on this process overwrites files before removing them. A later, weaker request has no effect.
pub fn overwrite_before_removal(what: Overwritten) {
    OVERWRITTEN.fetch_max(what as u8, Ordering::Relaxed);
}

/// Removes a file of a recording.
pub fn remove_kept_file(path: &Path) -> std::io::Result<()> {
    fs_err::remove_file(overwritten(path, Overwritten::Everything))
}

/// Removes a ring, a profile or another file that is not kept.
pub fn remove_temporary_file(path: &Path) -> std::io::Result<()> {
    fs_err::remove_file(overwritten(path, Overwritten::Temporary))
}

/// The same for a directory with all that it has.
pub fn remove_temporary_directory(path: &Path) -> std::io::Result<()> {
    fs_err::remove_dir_all(overwritten(path, Overwritten::Temporary))
}

/// Overwrites a file, or all files below a directory, if that is wanted of such; where it is to be removed now.
pub fn overwritten(path: &Path, what: Overwritten) -> PathBuf {
    if is_wanted(what) { without_name(path) } else { path.to_owned() }
}

/// Overwrites the files below a temporary directory that another component removes.
pub fn overwrite_temporary(directory: &Path) {
    if is_wanted(Overwritten::Temporary) {
        overwrite_all(directory);
    }
}

fn is_wanted(what: Overwritten) -> bool {
    OVERWRITTEN.load(Ordering::Relaxed) >= what as u8
}

fn without_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(GONE);
    let unnamed = PathBuf::from(name);
    // Not every system renames what others have open. A link would lose its name and lead to the same.
    let is_link = symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let place = if !is_link && fs_err::rename(path, &unnamed).is_ok() { unnamed } else { path.to_owned() };
    overwrite_all(&place);
    place
}

/// All files below, also behind one that cannot be overwritten.
fn overwrite_all(path: &Path) {
    let is_directory = symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let entries =
        if is_directory { fs_err::read_dir(path) } else { return log_failure(overwrite(path), path) };
    match entries {
        Ok(entries) => entries.flatten().for_each(|entry| overwrite_all(&entry.path())),
        Err(error) => log_failure(Err(error), path),
    }
}

/// The file is removed in any case. Files that are already gone are not reported.
fn log_failure(overwritten: std::io::Result<()>, path: &Path) {
    if let Err(error) = overwritten
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!("{} is removed without being overwritten: {error}", path.display());
    }
}

fn overwrite(path: &Path) -> std::io::Result<()> {
    // Links are never followed: their targets are not ours.
    let found = symlink_metadata(path)?;
    if !found.is_file() {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut left = found.len();
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..part as usize])?;
        left -= part;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_zeroed_before_removal_and_links_are_not_followed() {
        let place = tempfile::tempdir().expect("a directory");
        let outside = place.path().join("outside");
        let inside = place.path().join("inside");
        fs_err::create_dir_all(inside.join("deeper")).expect("a directory");
        for path in [&outside, &inside.join("a"), &inside.join("deeper/b")] {
            fs_err::write(path, vec![7; 100_000]).expect("written");
        }
        let hard = place.path().join("also-b");
        fs_err::hard_link(inside.join("deeper/b"), &hard).expect("a second name");
        overwrite_temporary(&inside);
        assert!(fs_err::read(inside.join("a")).expect("read").contains(&7), "only if it is wanted");
        overwrite_all(&inside);
        assert!(fs_err::read(inside.join("a")).expect("read") == vec![0; 100_000]);
        assert!(fs_err::read(&hard).expect("read") == vec![0; 100_000], "in place, not in a new file");
        assert!(fs_err::read(&outside).expect("read") == vec![7; 100_000]);
    }

    /// The first file that could not be overwritten ended it for all others, without a word.
    #[test]
    #[cfg(unix)]
    fn one_unreadable_file_does_not_stop_the_others() {
        let place = tempfile::tempdir().expect("a directory");
        let files = ["a", "b", "c"].map(|name| place.path().join(name));
        for path in &files {
            fs_err::write(path, [7; 100]).expect("written");
        }
        // A program that runs cannot be written to, also by root.
        let program = place.path().join("aa");
        fs_err::copy("/bin/sleep", &program).expect("copied");
        let child = std::process::Command::new(&program).arg("30").spawn();
        overwrite_all(place.path());
        for path in &files {
            assert_eq!(fs_err::read(path).expect("read"), [0; 100]);
        }
        if let Ok(mut child) = child {
            child.kill().expect("ended");
            child.wait().expect("over");
        }
    }

    #[test]
    fn a_file_is_renamed_before_it_is_overwritten() {
        let place = tempfile::tempdir().expect("a directory");
        let (path, second) = (place.path().join("x.ring"), place.path().join("second"));
        fs_err::write(&path, [7; 100]).expect("written");
        fs_err::hard_link(&path, &second).expect("a second name");
        let unnamed = without_name(&path);
        assert_eq!(unnamed.extension().expect("one"), "gone", "neither a ring nor a journal");
        assert!(!path.exists());
        assert_eq!(fs_err::read(&second).expect("read"), [0; 100]);
    }
}
