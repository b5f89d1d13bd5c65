//! Any bytes as a trace of Chrome's kind: never a panic, one sentence when it is none, every event counted once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_core::schema::Text;
use ortscope_decode::chrome_trace;

static SESSION: LazyLock<Text> = LazyLock::new(|| "a session".into());

fuzz_target!(|data: &[u8]| {
    let mut rows = 0_u64;
    match chrome_trace::read(data, 1_000, &SESSION, &mut |_| rows += 1) {
        Ok(outcome) => {
            assert!(rows >= outcome.slices + outcome.inferences + outcome.marks, "{outcome:?}, {rows} rows");
            assert!(outcome.span_ns.is_none_or(|(first, last)| first <= last), "{outcome:?}");
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
