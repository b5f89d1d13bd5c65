//! Any text as QNN's analysis: never a panic, one sentence when it is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::qhas;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = qhas::read(text) {
        let sentence = error.to_string();
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
    }
});
