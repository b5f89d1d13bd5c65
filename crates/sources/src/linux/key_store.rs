//! The user's kernel keyring: memory that no file exposes, until the machine is restarted.
#![expect(unsafe_code, reason = "add_key and keyctl have no safe wrapper")]

use std::ffi::{CString, c_long};
use std::io;

pub const NAME: &str = "the kernel keyring";

const TYPE: &std::ffi::CStr = c"user";
const SESSION_KEYRING: c_long = -3;
const USER_KEYRING: c_long = -4;
const KEYCTL_LINK: c_long = 8;
const KEYCTL_UNLINK: c_long = 9;
const KEYCTL_SEARCH: c_long = 10;
const KEYCTL_READ: c_long = 11;
/// Maximum length of a secret.
const MAX_BYTES: usize = 4096;

fn describe(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no keyrings".into(),
        Some(libc::EPERM | libc::EACCES) => {
            "access is denied (by a container's seccomp profile, or in another user's session)".into()
        }
        _ => error.to_string(),
    }
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn keyctl(operation: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> io::Result<c_long> {
    // SAFETY: the arguments are numbers, or pointers to live memory with its length; the kernel checks the rest.
    checked(unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) })
}

/// Keys can be read only by their possessor: through a link from the session keyring.
fn possess() {
    // If this fails, the calls below report the reason.
    keyctl(KEYCTL_LINK, USER_KEYRING, SESSION_KEYRING, 0, 0).ok();
}

fn find(name: &str) -> Result<Option<c_long>, String> {
    possess();
    let name = CString::new(name).map_err(|_| "the name contains a NUL character".to_owned())?;
    match keyctl(KEYCTL_SEARCH, USER_KEYRING, TYPE.as_ptr() as c_long, name.as_ptr() as c_long, 0) {
        Ok(key) => Ok(Some(key)),
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::ENOKEY | libc::EKEYEXPIRED | libc::EKEYREVOKED)) =>
        {
            Ok(None)
        }
        Err(error) => Err(describe(&error)),
    }
}

pub fn read(name: &str) -> Result<Option<String>, String> {
    let Some(key) = find(name)? else { return Ok(None) };
    let mut bytes = vec![0u8; MAX_BYTES];
    let length = keyctl(KEYCTL_READ, key, bytes.as_mut_ptr() as c_long, MAX_BYTES as c_long, 0)
        .map_err(|error| describe(&error))?;
    bytes.truncate(usize::try_from(length).unwrap_or(0).min(MAX_BYTES));
    String::from_utf8(bytes).map(Some).map_err(|_| "the stored secret is not text".into())
}

pub fn write(name: &str, secret: &str) -> Result<(), String> {
    possess();
    let name = CString::new(name).map_err(|_| "the name contains a NUL character".to_owned())?;
    // SAFETY: two NUL-terminated texts, and live memory with its length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            TYPE.as_ptr(),
            name.as_ptr(),
            secret.as_ptr(),
            secret.len(),
            USER_KEYRING,
        )
    };
    checked(result).map(drop).map_err(|error| describe(&error))
}

pub fn remove(name: &str) -> Result<bool, String> {
    let Some(key) = find(name)? else { return Ok(false) };
    keyctl(KEYCTL_UNLINK, key, USER_KEYRING, 0, 0).map(|_| true).map_err(|error| describe(&error))
}
