//! Files of the operating system: the only I/O in this crate's reader.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::{Etl, EtlError, Storage};

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
