//! The source of a file's bytes. The reader requests ranges and never seeks; memory returns them without a copy.

use std::io;

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
