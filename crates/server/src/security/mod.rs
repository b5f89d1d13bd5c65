//! Permissions: tokens, logins, hosts and origins, TLS, and the audit log.

pub mod audit;
pub mod hosts;
pub mod login;
pub mod tls;
pub mod tokens;

use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ServerError;

/// Permissions; each role includes the previous ones. Viewers read; operators pause, change rates, start and stop
/// recordings; admins remove recordings and read the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Viewer,
    Operator,
    Admin,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// An authenticated client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the token or login, never the secret.
    pub name: String,
    pub role: Role,
    /// Whether it was authenticated by a cookie, which browsers send automatically.
    pub by_cookie: bool,
    /// Id of the token behind the login; `None` for the one-time link.
    pub token: Option<String>,
}

/// 256 random bits as 64 hexadecimal digits.
pub fn new_secret() -> Result<String, ServerError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ServerError::Unsafe("the system provides no random numbers".into()))?;
    Ok(hex(&bytes))
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Creates a directory that only its owner can access.
pub fn private_directory(path: &Path) -> Result<PathBuf, ServerError> {
    if !path.is_dir() {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs_err::create_dir_all(parent)?;
        // Temporary directories are private on every system, and stay private when renamed.
        let made = tempfile::Builder::new().prefix(".ortscope-").tempdir_in(parent)?.keep();
        if let Err(error) = fs_err::rename(&made, path) {
            fs_err::remove_dir(&made).ok();
            // Another process has created it meanwhile.
            if !path.is_dir() {
                return Err(error.into());
            }
        }
    }
    Ok(path.to_owned())
}

/// Atomically writes a file that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".ortscope-").tempfile_in(directory)?;
    std::io::Write::write_all(&mut file, bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

pub fn unix_millis() -> u64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_contain_those_before_them() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        assert_eq!(Role::ALL.map(|role| Role::of_name(role.name())), Role::ALL.map(Some));
    }

    #[test]
    fn secrets_have_256_bits_and_differ() {
        let (one, other) = (new_secret().expect("random"), new_secret().expect("random"));
        assert!(one.len() == 64 && one != other);
        assert_eq!(hex(&unhex(&one).expect("hex")), one);
        assert!(unhex("zz").is_none() && unhex(&"é".repeat(32)).is_none());
    }
}
