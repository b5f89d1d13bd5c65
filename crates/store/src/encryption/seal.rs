//! The keys of a recording and of its files.

use std::sync::Arc;
use std::{fmt, io};

use ortscope_channel::seal::{FrameSeal, Sealer};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use super::key::{Key, KeyId, random_bytes};
use crate::StoreError;

pub(crate) use ortscope_channel::seal::SEAL_HEADER_BYTES;

/// Begins what the key of a file is derived from; another format has another text.
const PURPOSE: &[u8] = b"ortscope recording file 1";
const SALT_BYTES: usize = 16;

/// The key of one recording. It shows nothing of itself.
#[derive(Clone)]
pub struct Seal(Arc<Inner>);

struct Inner {
    id: KeyId,
    salt: [u8; SALT_BYTES],
    derived: Prk,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({})", self.0.id)
    }
}

impl PartialEq for Seal {
    fn eq(&self, other: &Self) -> bool {
        (self.0.id, self.0.salt) == (other.0.id, other.0.salt)
    }
}

impl Seal {
    /// For a new recording.
    pub(crate) fn new(key: &Key) -> Result<Self, StoreError> {
        Ok(Self::with_salt(key, random_bytes()?))
    }

    /// From the unencrypted header of one of the recording's files.
    pub(crate) fn of_header(key: &Key, header: &[u8; SEAL_HEADER_BYTES]) -> Self {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&header[8..24]);
        Self::with_salt(key, salt)
    }

    fn with_salt(key: &Key, salt: [u8; SALT_BYTES]) -> Self {
        let derived = Salt::new(HKDF_SHA256, &salt).extract(key.bytes());
        Self(Arc::new(Inner { id: key.id(), salt, derived }))
    }

    pub fn key_id(&self) -> KeyId {
        self.0.id
    }

    /// A key for a new file, and the file's unencrypted header.
    pub(crate) fn begin(&self, name: &str) -> Result<([u8; SEAL_HEADER_BYTES], FileSeal), StoreError> {
        let salt: [u8; SALT_BYTES] = random_bytes()?;
        let mut header = [0; SEAL_HEADER_BYTES];
        header[..8].copy_from_slice(&self.0.id.0);
        header[8..24].copy_from_slice(&self.0.salt);
        header[24..].copy_from_slice(&salt);
        Ok((header, self.derive(name, &salt)?))
    }

    /// The key of a file that is there.
    pub(crate) fn find(&self, name: &str, header: &[u8; SEAL_HEADER_BYTES]) -> Result<FileSeal, String> {
        let (recording, file) = header.split_at(24);
        if recording[..8] != self.0.id.0 || recording[8..] != self.0.salt {
            return Err("it was not encrypted with this recording".into());
        }
        self.derive(name, file).map_err(|error| error.to_string())
    }

    fn derive(&self, name: &str, salt: &[u8]) -> Result<FileSeal, StoreError> {
        let failed = |_| StoreError::Failed("no key could be derived".into());
        // The salt is of one length, so that no two salts and names make the same text.
        let parts = [PURPOSE, salt, name.as_bytes()];
        let derived = self.0.derived.expand(&parts, &CHACHA20_POLY1305).map_err(failed)?;
        Ok(FileSeal(LessSafeKey::new(UnboundKey::from(derived))))
    }
}

/// The id of the key in a file's header.
pub(super) fn id_of(header: &[u8; SEAL_HEADER_BYTES]) -> KeyId {
    let mut id = [0; 8];
    id.copy_from_slice(&header[..8]);
    KeyId(id)
}

/// The key of one file.
pub(crate) struct FileSeal(LessSafeKey);

impl fmt::Debug for FileSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileSeal")
    }
}

/// Numbers are unique within a file, and keys among files.
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl FileSeal {
    /// Seals one piece in place and adds 16 bytes; a number is used once.
    pub fn seal_piece(&self, number: u64, piece: &mut Vec<u8>) -> io::Result<()> {
        self.seal(number, 0, piece)
    }

    /// Decrypts one piece in place; false if it was altered.
    #[must_use]
    pub fn open_piece(&self, number: u64, piece: &mut Vec<u8>) -> bool {
        let Some(length) = self.open(number, 0, piece).map(<[u8]>::len) else { return false };
        piece.truncate(length);
        true
    }
}

impl FrameSeal for FileSeal {
    fn seal(&self, number: u64, kind: u16, payload: &mut Vec<u8>) -> io::Result<()> {
        self.0
            .seal_in_place_append_tag(nonce(number), Aad::from(kind.to_le_bytes()), payload)
            .map_err(|_| io::Error::other("it is too long to be encrypted"))
    }

    fn open<'a>(&self, number: u64, kind: u16, payload: &'a mut [u8]) -> Option<&'a [u8]> {
        self.0
            .open_in_place(nonce(number), Aad::from(kind.to_le_bytes()), payload)
            .ok()
            .map(|opened| &*opened)
    }
}

impl Sealer for Seal {
    fn new_file(&self, name: &str) -> io::Result<([u8; SEAL_HEADER_BYTES], Box<dyn FrameSeal>)> {
        let (header, seal) = self.begin(name).map_err(|error| io::Error::other(error.to_string()))?;
        Ok((header, Box::new(seal)))
    }

    fn open_file(&self, name: &str, header: &[u8; SEAL_HEADER_BYTES]) -> Result<Box<dyn FrameSeal>, String> {
        Ok(Box::new(self.find(name, header)?))
    }
}

const HEAD: [u8; 16] = *b"ORTSSEAL\x01\0\0\0\0\0\0\0";

/// The name of a document in its key derivation.
pub(crate) fn document_name(name: &str) -> String {
    format!("documents/{name}")
}

pub(crate) fn seal_small(seal: &Seal, name: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let (header, file) = seal.begin(name)?;
    let mut piece = bytes.to_vec();
    file.seal_piece(0, &mut piece)?;
    Ok([&HEAD[..], &header, &piece].concat())
}

/// The error explains the problem.
pub(crate) fn open_small(seal: &Seal, name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let header = small_header(bytes).ok_or("it is not encrypted, although the recording is")?;
    let file = seal.find(name, &header)?;
    let mut piece = bytes[HEAD.len() + SEAL_HEADER_BYTES..].to_vec();
    if file.open_piece(0, &mut piece) { Ok(piece) } else { Err("it is not what was encrypted".into()) }
}

/// The unencrypted header, if the file is encrypted.
pub(crate) fn small_header(bytes: &[u8]) -> Option<[u8; SEAL_HEADER_BYTES]> {
    bytes.strip_prefix(&HEAD[..])?.get(..SEAL_HEADER_BYTES)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::new(&Key::random().expect("random")).expect("a seal")
    }

    #[test]
    fn pieces_open_only_under_their_number_file_and_recording() {
        let seal = seal();
        let (header, file) = seal.begin("segment-1").expect("a key");
        let mut sealed = b"a model's name".to_vec();
        file.seal_piece(7, &mut sealed).expect("sealed");
        assert!(!sealed.windows(5).any(|window| window == b"model"));
        let opens = |file: &FileSeal, number: u64| {
            let mut piece = sealed.clone();
            file.open_piece(number, &mut piece).then_some(piece)
        };
        assert_eq!(opens(&file, 7).as_deref(), Some(&b"a model's name"[..]));
        assert_eq!(opens(&file, 8), None);
        let again = seal.find("segment-1", &header).expect("the same key");
        assert!(opens(&again, 7).is_some());
        let other_name = seal.find("segment-2", &header).expect("another key");
        assert_eq!(opens(&other_name, 7), None);
        let (_, anew) = seal.begin("segment-1").expect("another key");
        assert_eq!(opens(&anew, 7), None);
        assert!(self::seal().find("segment-1", &header).is_err());
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let (_, file) = seal().begin("x").expect("a key");
        let mut sealed = b"numbers and names".to_vec();
        file.seal_piece(1, &mut sealed).expect("sealed");
        for bit in 0..sealed.len() * 8 {
            let mut piece = sealed.clone();
            piece[bit / 8] ^= 1 << (bit % 8);
            assert!(!file.open_piece(1, &mut piece), "bit {bit}");
        }
        assert!(!file.open_piece(1, &mut sealed[..15].to_vec()), "cut off");
    }
}
