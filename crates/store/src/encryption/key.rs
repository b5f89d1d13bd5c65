//! The key of a user: 256 random bits, and the id it is known by.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;

use ortscope_channel::disk::{create_private, is_private, open_to_read};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::StoreError;

/// The environment variable that holds a key.
pub const KEY_VARIABLE: &str = "ORTSCOPE_KEY";

/// Stands before the digits of a key, so that people and tools that look for secrets know one.
const PREFIX: &str = "ortscope-key-";
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;
/// A file of a key is one line.
const MAX_FILE_BYTES: u64 = 4096;

/// A key. It is never shown, except by [`Key::to_text`].
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

/// Identifies a key: the start of its hash, which reveals nothing about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; ID_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Key {
    /// A new one, from the system's random numbers.
    pub fn random() -> Result<Self, StoreError> {
        random_bytes().map(Self)
    }

    /// Reads what [`Key::to_text`] wrote, or the 64 digits alone. The error never repeats the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.strip_prefix(PREFIX).unwrap_or(text);
        from_hex(digits)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| format!("it is not a key: {} hexadecimal digits behind '{PREFIX}'", 2 * KEY_BYTES))
    }

    /// For a file, the environment or a key store. Anyone with this text can decrypt.
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", hex(&self.0))
    }

    pub fn id(&self) -> KeyId {
        let hash = digest(&SHA256, &[b"ortscope key id 1", &self.0[..]].concat());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&hash.as_ref()[..ID_BYTES]);
        KeyId(id)
    }

    /// Reads a key file, which must be readable by its owner only.
    pub fn from_file(path: &Path) -> Result<Self, StoreError> {
        let problem = |problem: String| StoreError::Key {
            problem: format!("the key file '{}' cannot be used: {problem}", path.display()),
            hint: "`ortscope key new -o FILE` makes one".into(),
        };
        let file = open_to_read(path).map_err(|error| problem(error.kind().to_string()))?;
        let found = file.metadata().map_err(|error| problem(error.kind().to_string()))?;
        if !found.is_file() {
            return Err(problem("it is not a file".into()));
        }
        if !is_private(&found) {
            return Err(StoreError::Key {
                problem: format!("the key file '{}' can be read by others", path.display()),
                hint: format!("chmod 600 {}", path.display()),
            });
        }
        let mut text = String::new();
        let read = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
        read.map_err(|error| problem(error.kind().to_string()))?;
        Self::parse(&text).map_err(problem)
    }

    /// Writes a file that must not exist yet and that its owner alone can read.
    pub fn write_file(&self, path: &Path) -> Result<(), StoreError> {
        if path.exists() {
            let problem = format!("'{}' is already there", path.display());
            return Err(StoreError::Key {
                problem,
                hint: "name another file: a key is never replaced".into(),
            });
        }
        let mut file = create_private(path, 0)?;
        writeln!(file, "{}", self.to_text())?;
        Ok(file.sync_all()?)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Random bytes of the system.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| StoreError::Failed("the system has no random numbers".into()))?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text_and_never_shows_itself() {
        let key = Key::random().expect("random numbers");
        let text = key.to_text();
        let digits = text.strip_prefix(PREFIX).expect("its prefix");
        assert_eq!(Key::parse(&format!(" {text}\n")), Ok(key.clone()));
        assert_eq!(Key::parse(digits), Ok(key.clone()));
        assert!(!format!("{key:?}").contains(&digits[..8]), "{key:?}");
        assert_eq!(key.id().to_string().len(), 16);
        assert_ne!(Key::random().expect("another").id(), key.id());
        for wrong in ["", "x", &digits[1..], &format!("{digits}0"), &digits.replace(&digits[..1], "g")] {
            let error = Key::parse(wrong).expect_err("no key");
            assert!(wrong.is_empty() || wrong == "x" || !error.contains(wrong), "{error}");
        }
    }
}
