//! What stands between the frames of a journal and its file when a recording is encrypted.
//!
//! This crate has no cryptography of its own: whoever has the key passes down a [`Sealer`]. Each frame is sealed by itself,
//! so that a killed writer leaves whole frames, sealed or not.

use std::fmt::Debug;

/// What a sealed file says in the clear: which key, which recording, which file.
pub const SEAL_HEADER_BYTES: usize = 40;

/// Bytes that sealing adds to a payload, at most.
pub const SEAL_OVERHEAD_BYTES: usize = 16;

/// Makes and finds the keys of the files of one recording.
pub trait Sealer: Debug + Send + Sync {
    /// A new file: what it must say in the clear, and its key. No two calls give the same key.
    fn new_file(&self, name: &str) -> std::io::Result<([u8; SEAL_HEADER_BYTES], Box<dyn FrameSeal>)>;
    /// The key of a file that is there; the error says in words why there is none.
    fn open_file(&self, name: &str, header: &[u8; SEAL_HEADER_BYTES]) -> Result<Box<dyn FrameSeal>, String>;
}

/// The key of one file.
pub trait FrameSeal: Debug + Send + Sync {
    /// Seals what `payload` holds, in place. A number must never be used twice.
    fn seal(&self, number: u64, kind: u16, payload: &mut Vec<u8>) -> std::io::Result<()>;
    /// Opens a payload in place; `None` if it is not what was sealed under this number and kind.
    fn open<'a>(&self, number: u64, kind: u16, payload: &'a mut [u8]) -> Option<&'a [u8]>;
}
