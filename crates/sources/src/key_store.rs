//! The system's own store of secrets: the kernel's keyring on Linux, the credentials of the user on Windows.
//!
//! A secret is a short text under a name. The error says in words why the store cannot be used.

use crate::sys::key_store as sys;

/// What people call it.
pub const NAME: &str = sys::NAME;

/// The secret of this name; `None` if there is none.
pub fn read(name: &str) -> Result<Option<String>, String> {
    sys::read(name)
}

/// Keeps a secret, in the place of one of the same name.
pub fn write(name: &str, secret: &str) -> Result<(), String> {
    sys::write(name, secret)
}

/// Removes a secret; false if there was none.
pub fn remove(name: &str) -> Result<bool, String> {
    sys::remove(name)
}
