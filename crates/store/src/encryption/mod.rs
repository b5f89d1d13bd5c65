//! Encrypted recordings: which key, how each file gets its own, and what is sealed with it.
//!
//! ```text
//! the user's key, 256 random bits            never stored with a recording; its id is the start of a hash of it
//!  └ HKDF-SHA-256, salt of the recording     one per recording
//!     └ HKDF expand, salt of the file, name  one per file, also when a file is written anew
//!        └ ChaCha20-Poly1305                 nonce: what numbers the piece within its file
//! ```
//! A nonce cannot repeat: the salt of a file is 128 random bits that are drawn whenever a file is begun, so that every file
//! has a key of its own, and within a file each piece has another number: the frame's in a journal, the place in the file in
//! a segment, 0 where there is one piece. No file is ever gone on with by another writer.
//!
//! In the clear stand the format, the id of the key, the two salts, lengths, and whether a recording has a name or a tag,
//! so that pruning works without the key. The name of a file is part of its key: a segment in the place of another, or of
//! another recording, does not open.

mod key;
mod seal;
mod small;
mod sources;

pub use key::{KEY_VARIABLE, Key, KeyId};
pub use seal::Seal;
pub use sources::{KeySources, set_key_sources};

pub(crate) use key::{from_hex, hex};
pub(crate) use seal::{FileSeal, SEAL_HEADER_BYTES};
pub(crate) use small::{document_name, open_small, seal_small, small_header};
pub(crate) use sources::{find_key, seal_of_files};
