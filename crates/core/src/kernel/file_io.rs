//! Calls that read and write files, and files that are mapped as code.

use super::event::Task;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOperation {
    Read,
    Write,
    Open,
    /// Waits until it is on the disk.
    Sync,
}

impl FileOperation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "open",
            Self::Sync => "sync",
        }
    }
}

/// What stands behind a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    Regular,
    Pipe,
    Socket,
    /// Terminals, /dev/null and the like.
    Character,
    Block,
    Directory,
    /// Of the kernel's own making, such as an eventfd, or closed already.
    Other,
}

impl FileKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Regular => "file",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Character => "character device",
            Self::Block => "block device",
            Self::Directory => "directory",
            Self::Other => "other",
        }
    }
}

/// All calls of one thread, of one operation on one kind of file, since it was asked last. The sum is made in the kernel:
/// a busy server makes a million such calls a second, and one event for each would cost more than the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIo {
    pub thread: Task,
    pub operation: FileOperation,
    pub kind: FileKind,
    pub calls: u64,
    pub failed: u64,
    /// Read or written; 0 for other operations.
    pub bytes: u64,
    /// From entering the kernel to leaving it.
    pub total_ns: u64,
    pub longest_ns: u64,
}

/// A file was mapped as code: a program or a library was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLoad {
    pub at_ns: u64,
    pub pid: u32,
    pub address: u64,
    pub bytes: u64,
    pub path: Vec<u8>,
    pub build_id: Option<Vec<u8>>,
}
