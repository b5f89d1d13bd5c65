//! Any text as OpenVINO's counters: never a panic, one sentence when it is none, and every line is a layer or counted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::openvino_counters;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match openvino_counters::read(&text) {
        Ok(read) => {
            assert!(openvino_counters::is_counters(&text));
            let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(read.layers.len() as u64 + read.unreadable_lines + read.skipped_lines, lines);
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
