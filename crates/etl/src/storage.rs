//! The source of a file's bytes: memory, which is not copied, or a file of the operating system, which is the only I/O in
//! this crate's reader. The reader requests ranges and never seeks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::{Etl, EtlError};

pub trait Storage: Sync {
    fn byte_length(&self) -> u64;

    /// The range, if it is in memory; `None` makes the reader copy it.
    fn borrowed(&self, offset: u64, length: usize) -> Option<&[u8]>;

    /// Fills `into` from `offset`. The reader stays below [`Self::byte_length`]; a shorter file is an error.
    fn read_into(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Storage for &[u8] {
    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn borrowed(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.get(start..start.checked_add(length)?)
    }

    fn read_into(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let bytes = self.borrowed(offset, into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// A file that is read in pieces during a walk, with constant memory.
pub type EtlFile = Etl<FileStorage>;

impl EtlFile {
    /// Reads the headers of all buffers; walks read the events.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, EtlError> {
        Self::new(FileStorage::new(File::open(path)?)?)
    }
}

/// Anything that reads and seeks.
#[derive(Debug)]
pub struct FileStorage<F = File> {
    file: Mutex<F>,
    byte_length: u64,
}

impl<F: Read + Seek> FileStorage<F> {
    /// Uses the current length: later additions by a session are not seen.
    pub fn new(mut file: F) -> io::Result<Self> {
        let byte_length = file.seek(SeekFrom::End(0))?;
        Ok(Self { file: Mutex::new(file), byte_length })
    }
}

impl<F: Read + Seek + Send> Storage for FileStorage<F> {
    fn byte_length(&self) -> u64 {
        self.byte_length
    }

    fn borrowed(&self, _offset: u64, _length: usize) -> Option<&[u8]> {
        None
    }

    fn read_into(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        // Each read seeks first, so a panicked reader leaves no invalid state.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    }
}
