//! Any text as a configuration: never a panic; what is accepted can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_core::config::Config;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, "a test") {
        Ok(config) => {
            let written = config.to_toml().expect("what was read can be written");
            Config::parse(&written, "written").expect("what was written can be read");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
