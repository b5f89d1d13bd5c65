//! No secret store is supported on this system.

pub const NAME: &str = "the system's key store";

const NONE: &str = "no key store is supported on this system";

pub fn read(_name: &str) -> Result<Option<String>, String> {
    Err(NONE.into())
}

pub fn write(_name: &str, _secret: &str) -> Result<(), String> {
    Err(NONE.into())
}

pub fn remove(_name: &str) -> Result<bool, String> {
    Err(NONE.into())
}
