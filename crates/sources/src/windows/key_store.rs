//! The user's credentials, which Windows encrypts with a secret of the user.

use std::ptr::{null_mut, slice_from_raw_parts};

use windows_sys::Win32::Foundation::{ERROR_NOT_FOUND, GetLastError};
use windows_sys::Win32::Security::Credentials::{
    CRED_PERSIST_LOCAL_MACHINE, CRED_TYPE_GENERIC, CREDENTIALW, CredDeleteW, CredFree, CredReadW, CredWriteW,
};

use super::native::wide;

pub const NAME: &str = "the user's credentials";

fn last_error(call: &str) -> Result<(), String> {
    // SAFETY: reads the calling thread's error code.
    match unsafe { GetLastError() } {
        ERROR_NOT_FOUND => Ok(()),
        code => Err(format!("{call} failed with error {code}")),
    }
}

pub fn read(name: &str) -> Result<Option<String>, String> {
    let name = wide(name);
    let mut found: *mut CREDENTIALW = null_mut();
    // SAFETY: the name is live and NUL-terminated; `found` is writable.
    if unsafe { CredReadW(name.as_ptr(), CRED_TYPE_GENERIC, 0, &mut found) } == 0 || found.is_null() {
        return last_error("CredRead").map(|()| None);
    }
    // SAFETY: the call returned a complete structure with a blob of the stated length; it is freed once, after the
    // copy.
    let bytes = unsafe {
        let credential = &*found;
        let blob = slice_from_raw_parts(credential.CredentialBlob, credential.CredentialBlobSize as usize);
        let bytes = if credential.CredentialBlob.is_null() { Vec::new() } else { (*blob).to_vec() };
        CredFree(found.cast());
        bytes
    };
    String::from_utf8(bytes).map(Some).map_err(|_| "the stored secret is not text".into())
}

pub fn write(name: &str, secret: &str) -> Result<(), String> {
    let mut name = wide(name);
    let mut secret = secret.as_bytes().to_vec();
    // SAFETY: zero means that a field is not set.
    let mut credential: CREDENTIALW = unsafe { std::mem::zeroed() };
    credential.Type = CRED_TYPE_GENERIC;
    credential.Persist = CRED_PERSIST_LOCAL_MACHINE;
    credential.TargetName = name.as_mut_ptr();
    credential.CredentialBlobSize = secret.len() as u32;
    credential.CredentialBlob = secret.as_mut_ptr();
    // SAFETY: the structure and the memory that it points to are live during the call.
    if unsafe { CredWriteW(&credential, 0) } == 0 {
        // SAFETY: reads the calling thread's error code.
        return Err(format!("CredWrite failed with error {}", unsafe { GetLastError() }));
    }
    Ok(())
}

pub fn remove(name: &str) -> Result<bool, String> {
    let name = wide(name);
    // SAFETY: the name is live and NUL-terminated.
    if unsafe { CredDeleteW(name.as_ptr(), CRED_TYPE_GENERIC, 0) } == 0 {
        return last_error("CredDelete").map(|()| false);
    }
    Ok(true)
}
