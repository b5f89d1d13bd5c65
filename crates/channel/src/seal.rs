//! The interface for encrypting the frames of a journal.
//!
//! This crate has no cryptography of its own: the owner of the key passes in a [`Sealer`]. Each frame is encrypted
//! separately, so that a killed writer leaves whole frames.

use std::fmt::Debug;

/// The unencrypted header of an encrypted file: key, recording and file.
pub const SEAL_HEADER_BYTES: usize = 40;

/// Bytes that sealing adds to a payload, at most.
pub const SEAL_OVERHEAD_BYTES: usize = 16;

/// Makes and finds the keys of the files of one recording.
pub trait Sealer: Debug + Send + Sync {
    /// Creates the unencrypted header and the key of a new file. No two calls return the same key.
    fn new_file(&self, name: &str) -> std::io::Result<([u8; SEAL_HEADER_BYTES], Box<dyn FrameSeal>)>;
    /// The key of an existing file; the error explains why there is none.
    fn open_file(&self, name: &str, header: &[u8; SEAL_HEADER_BYTES]) -> Result<Box<dyn FrameSeal>, String>;
}

/// The key of one file.
pub trait FrameSeal: Debug + Send + Sync {
    /// Seals what `payload` holds, in place. A number must never be used twice.
    fn seal(&self, number: u64, kind: u16, payload: &mut Vec<u8>) -> std::io::Result<()>;
    /// Decrypts a payload in place; `None` if it was not encrypted under this number and kind.
    fn open<'a>(&self, number: u64, kind: u16, payload: &'a mut [u8]) -> Option<&'a [u8]>;
}
