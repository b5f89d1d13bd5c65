//! Any text as QNN's profile: never a panic, one sentence when it is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::qnn_profile;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Err(error) = qnn_profile::read(&text) {
        assert!(!error.to_string().is_empty());
    }
});
