//! Encrypted recordings: the key, how each file's key is derived, and what is encrypted with it.
//!
//! ```text
//! the user's key, 256 random bits            never stored with a recording; its id is the start of a hash of it
//!  └ HKDF-SHA-256, salt of the recording     one per recording
//!     └ HKDF expand, salt of the file, name  one per file, also when a file is rewritten
//!        └ ChaCha20-Poly1305                 nonce: number of the piece within its file
//! ```
//! A nonce cannot repeat: the salt of a file is 128 random bits drawn whenever a file is created, so that every file
//! has its own key, and within a file each piece has another number: the frame's in a journal, the offset in a
//! segment, 0 for a single piece. No writer ever continues the file of another one.
//!
//! Not encrypted are the format, the id of the key, the two salts, lengths, and whether a recording has a name or a
//! tag, so that pruning works without the key. The name of a file is part of its key: a segment that replaces
//! another, or comes from another recording, does not open.

mod key;
mod seal;
mod sources;

pub use key::{KEY_VARIABLE, Key, KeyId};
pub use seal::Seal;
pub use sources::{KeySources, set_key_sources};

pub(crate) use key::{from_hex, hex};
pub(crate) use seal::{FileSeal, SEAL_HEADER_BYTES, document_name, open_small, seal_small, small_header};
pub(crate) use sources::{find_key, seal_of_files};
