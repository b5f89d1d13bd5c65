//! The system's secret store: the kernel keyring on Linux, the user's credentials on Windows.
//!
//! A secret is a short text with a name. Errors explain why the store cannot be used.

use crate::sys::key_store as sys;

/// Name of the store for messages.
pub const NAME: &str = sys::NAME;

/// Returns the secret with this name; `None` if it does not exist.
pub fn read(name: &str) -> Result<Option<String>, String> {
    sys::read(name)
}

/// Stores a secret, replacing one with the same name.
pub fn write(name: &str, secret: &str) -> Result<(), String> {
    sys::write(name, secret)
}

/// Removes a secret; false if it did not exist.
pub fn remove(name: &str) -> Result<bool, String> {
    sys::remove(name)
}
