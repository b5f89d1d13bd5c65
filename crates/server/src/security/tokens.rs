//! Tokens of 256 bits; only their hashes are stored.
//!
//! `ortscope token` and running servers share the file `tokens.json`; servers reload it when it changes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::{Identity, Role, hex, new_secret, private_directory, sha256, unhex, unix_millis, write_private};
use crate::error::ServerError;

const FILE: &str = "tokens.json";
/// Interval between checks for a changed file.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of tokens; a longer list is a mistake.
const MAX_TOKENS: usize = 1000;
const MAX_NAME: usize = 60;
/// Prefix of every token, so that secret scanners can find leaked ones.
pub const PREFIX: &str = "ortscope_";

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Short id for `revoke`.
    pub id: String,
    pub name: String,
    pub role: Role,
    pub sha256: String,
    pub created_unix_ms: u64,
    /// `None` if it never expires.
    pub expires_unix_ms: Option<u64>,
}

impl Token {
    pub fn is_expired(&self, now_unix_ms: u64) -> bool {
        self.expires_unix_ms.is_some_and(|expires| expires <= now_unix_ms)
    }
}

/// The token file.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file in this directory, which need not exist yet.
    pub fn new(state: &Path) -> Self {
        Self { path: state.join(FILE) }
    }

    pub fn list(&self) -> Result<Vec<Token>, ServerError> {
        let bytes = match fs_err::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&bytes).map_err(|error| ServerError::State {
            path: self.path.display().to_string(),
            problem: error.to_string(),
        })
    }

    /// Creates a token and returns its secret, which is not stored.
    pub fn create(
        &self,
        name: &str,
        role: Role,
        expires_unix_ms: Option<u64>,
    ) -> Result<(Token, String), ServerError> {
        if name.trim().is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(ServerError::Unsafe(format!("a token needs a name of 1 to {MAX_NAME} characters")));
        }
        let mut tokens = self.list()?;
        if tokens.len() >= MAX_TOKENS {
            return Err(ServerError::Unsafe(format!("there are {MAX_TOKENS} tokens already; revoke some")));
        }
        if tokens.iter().any(|token| token.name == name) {
            return Err(ServerError::Unsafe(format!("there is a token '{name}' already; revoke it first")));
        }
        let secret = format!("{PREFIX}{}", new_secret()?);
        let id: String = new_secret()?.chars().take(8).collect();
        let token = Token {
            id,
            name: name.to_owned(),
            role,
            sha256: hex(&sha256(secret.as_bytes())),
            created_unix_ms: unix_millis(),
            expires_unix_ms,
        };
        tokens.push(token.clone());
        self.write(&tokens)?;
        Ok((token, secret))
    }

    /// Removes a token by id or name; `None` if it does not exist.
    pub fn revoke(&self, id_or_name: &str) -> Result<Option<Token>, ServerError> {
        let mut tokens = self.list()?;
        let found = tokens.iter().position(|token| token.id == id_or_name || token.name == id_or_name);
        let Some(index) = found else { return Ok(None) };
        let token = tokens.remove(index);
        self.write(&tokens)?;
        Ok(Some(token))
    }

    fn write(&self, tokens: &[Token]) -> Result<(), ServerError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        private_directory(directory)?;
        let text = serde_json::to_vec_pretty(tokens).map_err(std::io::Error::other)?;
        write_private(&self.path, &text)
    }

    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let metadata = fs_err::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

/// The result of checking a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    Valid(Identity),
    Expired,
    Unknown,
}

#[derive(Debug, Default)]
struct Known {
    looked: Option<Instant>,
    stamp: Option<(SystemTime, u64)>,
    tokens: Vec<Token>,
}

/// The tokens of a running server.
#[derive(Debug)]
pub struct Tokens {
    file: TokenFile,
    known: Mutex<Known>,
}

impl Tokens {
    pub fn new(file: TokenFile) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// The tokens of the file, which is checked for changes regularly.
    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            known.looked = Some(Instant::now());
            let stamp = self.file.stamp();
            if stamp != known.stamp {
                known.stamp = stamp;
                // With an unreadable file, no token is valid.
                known.tokens = self.file.list().unwrap_or_else(|error| {
                    tracing::error!(%error, "no token is accepted");
                    Vec::new()
                });
            }
        }
        known
    }

    pub fn check(&self, secret: &str) -> Shown {
        let hash = sha256(secret.as_bytes());
        let known = self.known();
        // All tokens are compared, each in constant time, so that the duration reveals nothing.
        let mut found = None;
        for token in &known.tokens {
            let kept = unhex(&token.sha256).unwrap_or_default();
            if bool::from(kept.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        worth(found)
    }

    /// Checks an earlier login again: cookies, tickets and WebSockets are valid only as long as their token.
    pub fn check_again(&self, identity: &Identity) -> Shown {
        let Some(id) = &identity.token else { return Shown::Valid(identity.clone()) };
        match worth(self.known().tokens.iter().find(|token| token.id == *id)) {
            Shown::Valid(now) => Shown::Valid(Identity { by_cookie: identity.by_cookie, ..now }),
            other => other,
        }
    }
}

fn worth(token: Option<&Token>) -> Shown {
    match token {
        None => Shown::Unknown,
        Some(token) if token.is_expired(unix_millis()) => Shown::Expired,
        Some(token) => Shown::Valid(Identity {
            name: token.name.clone(),
            role: token.role,
            by_cookie: false,
            token: Some(token.id.clone()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = TokenFile::new(&directory.path().join("state"));
        let (token, secret) = file.create("ci", Role::Viewer, None).expect("made");
        let (_, old) = file.create("old", Role::Admin, Some(1)).expect("made");
        assert!(file.create("ci", Role::Viewer, None).is_err());
        let text = fs_err::read_to_string(directory.path().join("state").join(FILE)).expect("a file");
        assert!(!text.contains(&secret) && text.contains(&token.sha256));
        let tokens = Tokens::new(file.clone());
        let wanted =
            Identity { name: "ci".into(), role: Role::Viewer, by_cookie: false, token: Some(token.id) };
        assert_eq!(tokens.check(&secret), Shown::Valid(wanted.clone()));
        let cookie = Identity { by_cookie: true, ..wanted };
        assert_eq!(tokens.check_again(&cookie), Shown::Valid(cookie.clone()));
        assert_eq!((tokens.check(&old), tokens.check("ortscope_x")), (Shown::Expired, Shown::Unknown));
        assert!(file.revoke("ci").expect("written").is_some() && file.revoke("ci").expect("read").is_none());
        let tokens = Tokens::new(file);
        assert_eq!((tokens.check(&secret), tokens.check_again(&cookie)), (Shown::Unknown, Shown::Unknown));
        let by_link = Identity { token: None, ..cookie };
        assert_eq!(tokens.check_again(&by_link), Shown::Valid(by_link.clone()));
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let directory = tempfile::tempdir().expect("a directory");
        fs_err::write(directory.path().join(FILE), b"[{").expect("written");
        let file = TokenFile::new(directory.path());
        assert!(file.list().is_err());
        assert_eq!(Tokens::new(file).check("x"), Shown::Unknown);
    }
}
