//! Reads the small one-value files through which the kernel exposes devices.

use std::io;
use std::path::{Path, PathBuf};

/// Limit for directory entries; a large machine has several hundred sensors.
const MAX_ENTRIES: usize = 4096;

/// Full paths of the entries whose names begin with `prefix`, sorted by name; empty if the directory does not exist.
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

/// Signed, because temperatures may be below zero.
pub fn signed(path: &Path) -> io::Result<i64> {
    text(path)?.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

pub fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
