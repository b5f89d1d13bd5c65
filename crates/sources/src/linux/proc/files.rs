//! Small files of /proc and /sys: kept open while the descriptor budget allows, otherwise opened for each read.
//!
//! A kept descriptor halves the cost of a read and is bound to its process: after an exit it returns "no such process",
//! even if the pid was reused.

use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::sampler::ReadError;

/// Limit for kept descriptors, regardless of the process limit: each uses about 1 KB of kernel memory.
const MAX_KEPT: usize = 16_384;
/// Used if the system reports no limit.
const USUAL_LIMIT: u64 = 1024;
/// Longest path: `/proc/4294967295/task/4294967295/schedstat`.
const PATH_BYTES: usize = 64;

/// Number of descriptors that may still be kept: half of this process's limit, so that the other half remains for the
/// rest of the program. When it is used up, files are opened for each read at about twice the cost.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub fn of_this_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let half = limit.unwrap_or(USUAL_LIMIT) / 2;
        Self::of(usize::try_from(half).unwrap_or(MAX_KEPT).min(MAX_KEPT))
    }

    pub fn of(descriptors: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(descriptors)))
    }

    /// Keeps a descriptor, or closes it if the budget is used up.
    pub fn keep(&self, fd: OwnedFd) -> Option<Kept> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(Kept { fd, budget: self.clone() })
    }

    pub fn has_budget(&self) -> bool {
        self.left() > 0
    }

    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A descriptor that returns its share of the budget on drop.
#[derive(Debug)]
pub(super) struct Kept {
    fd: OwnedFd,
    budget: Budget,
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn read_error(error: Errno) -> ReadError {
    match error {
        Errno::SRCH | Errno::NOENT => ReadError::Gone,
        Errno::ACCESS | Errno::PERM => ReadError::Denied,
        error => ReadError::Failed(error.to_string()),
    }
}

/// A NUL-terminated path on the stack.
#[derive(Debug)]
pub(super) struct Path {
    bytes: [u8; PATH_BYTES],
}

impl Path {
    pub fn new(parts: std::fmt::Arguments<'_>) -> Self {
        let mut bytes = [0; PATH_BYTES];
        // Longer paths are cut before the final NUL; then the file is not found.
        (&mut bytes[..PATH_BYTES - 1]).write_fmt(parts).ok();
        Self { bytes }
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

pub(super) fn open(directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn open_directory(directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    rustix::fs::openat(directory, path, flags, Mode::empty())
}

pub(super) fn no_directory() -> BorrowedFd<'static> {
    CWD
}

/// A read buffer that grows up to a limit; contents beyond it are not read.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    const SMALLEST: usize = 4096;
    /// Only /proc/stat of machines with thousands of interrupts comes close.
    const LARGEST: usize = 1 << 20;

    pub fn new() -> Self {
        Self { bytes: vec![0; Self::SMALLEST] }
    }

    /// Reads a whole file from its beginning.
    pub fn read(&mut self, file: impl AsFd) -> Result<&[u8], Errno> {
        loop {
            let length = rustix::io::pread(file.as_fd(), &mut self.bytes[..], 0)?;
            if length < self.bytes.len() || length >= Self::LARGEST {
                return Ok(&self.bytes[..length]);
            }
            self.bytes.resize(self.bytes.len() * 4, 0);
        }
    }

    pub fn read_path(&mut self, directory: BorrowedFd<'_>, path: &CStr) -> Result<&[u8], Errno> {
        let file = open(directory, path)?;
        self.read(file)
    }
}

/// A machine-wide file, opened once. A missing file is not tried again.
#[derive(Debug)]
pub(super) struct MachineFile(Option<OwnedFd>);

impl MachineFile {
    pub fn open(path: &str) -> Self {
        Self(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok())
    }

    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub fn read<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a [u8]> {
        buffer.read(self.0.as_ref()?).ok()
    }
}

/// Calls `visit` with every number among the names in a directory, from its beginning.
pub(super) fn each_number(
    directory: BorrowedFd<'_>,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(u32),
) -> Result<(), Errno> {
    const ENTRIES: usize = 32 * 1024;
    scratch.clear();
    scratch.reserve(ENTRIES);
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
    let mut entries = rustix::fs::RawDir::new(directory, scratch.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let number = ortscope_decode::procfs::number(entry?.file_name().to_bytes());
        if let Some(number) = number.and_then(|number| u32::try_from(number).ok()) {
            visit(number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_never_exceeded_and_is_returned() {
        let budget = Budget::of(2);
        let file = || open(no_directory(), c"/proc/self/stat").unwrap();
        let kept: Vec<_> = (0..3).map(|_| budget.keep(file())).collect();
        assert_eq!(kept.iter().flatten().count(), 2);
        assert!(!budget.has_budget());
        drop(kept);
        assert!(budget.has_budget());
    }

    #[test]
    fn large_files_are_read_completely_and_directories_list_numbers() {
        let mut buffer = Buffer::new();
        let direct = std::fs::read("/proc/self/maps").unwrap().len();
        assert!(direct > 0 && buffer.read_path(no_directory(), c"/proc/self/maps").is_ok());
        let mut pids = Vec::new();
        let proc = open_directory(no_directory(), c"/proc").unwrap();
        for _ in 0..2 {
            pids.clear();
            each_number(proc.as_fd(), &mut Vec::new(), |pid| pids.push(pid)).unwrap();
            assert!(pids.contains(&std::process::id()));
        }
    }

    #[test]
    fn paths_are_nul_terminated() {
        let path = Path::new(format_args!("/proc/{}/task/{}/schedstat", u32::MAX, u32::MAX));
        assert_eq!(path.as_c_str().to_bytes(), b"/proc/4294967295/task/4294967295/schedstat");
    }
}
