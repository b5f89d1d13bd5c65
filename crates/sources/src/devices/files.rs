//! Small files of one value, as the kernel shows its devices.

use std::io;
use std::path::{Path, PathBuf};

/// Entries of a directory that are looked at; a large machine has some hundred sensors.
const MAX_ENTRIES: usize = 4096;

/// Full paths of a directory's entries whose names begin so, in the order of their names; none where it is not there.
pub fn entries(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let list = fs_err::read_dir(directory).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut paths: Vec<PathBuf> = list
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    paths
}

pub fn text(path: &Path) -> io::Result<String> {
    fs_err::read_to_string(path).map(|text| text.trim().to_owned())
}

pub fn number(path: &Path) -> io::Result<u64> {
    text(path)?.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Temperatures may be below zero.
pub fn signed(path: &Path) -> io::Result<i64> {
    text(path)?.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

pub fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
