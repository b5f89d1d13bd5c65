//! Any text as a filter: never a panic, and one sentence when it is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_core::filter::Filter;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Filter::parse(text) {
        assert!(!error.to_string().is_empty());
    }
});
