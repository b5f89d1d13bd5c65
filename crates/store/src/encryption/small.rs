//! Small files that are sealed whole: documents, and the manifest inside of its envelope.
//!
//! ```text
//! "ORTSSEAL"  format, 4 bytes   zero, 4 bytes   40 bytes that say with which key   what is sealed
//! ```

use super::seal::{SEAL_HEADER_BYTES, Seal};
use crate::StoreError;

const HEAD: [u8; 16] = *b"ORTSSEAL\x01\0\0\0\0\0\0\0";

/// What a document is called for its key.
pub(crate) fn document_name(name: &str) -> String {
    format!("documents/{name}")
}

pub(crate) fn seal_small(seal: &Seal, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let (header, file) = seal.begin(name)?;
    let mut piece = bytes.to_vec();
    file.seal_piece(0, &mut piece)?;
    Ok([&HEAD[..], &header, &piece].concat())
}

/// The error says in words what is wrong.
pub(crate) fn open_small(seal: &Seal, name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let header = small_header(bytes).ok_or("it is not encrypted, although the recording is")?;
    let file = seal.find(name, &header)?;
    let mut piece = bytes[HEAD.len() + SEAL_HEADER_BYTES..].to_vec();
    if file.open_piece(0, &mut piece) { Ok(piece) } else { Err("it is not what was encrypted".into()) }
}

/// What a sealed file says in the clear, if it is one.
pub(crate) fn small_header(bytes: &[u8]) -> Option<[u8; SEAL_HEADER_BYTES]> {
    bytes.strip_prefix(&HEAD[..])?.get(..SEAL_HEADER_BYTES)?.try_into().ok()
}
