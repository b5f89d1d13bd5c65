//! Any text as QNN's profile: never a panic, one sentence when it is none, and sums that belong to what was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::qnn_profile;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match qnn_profile::read(&text) {
        Ok(profile) => {
            let _ = profile.device_cycles();
            assert!(profile.events.iter().all(|event| event.mean() >= 0.0));
            let places = profile.each.iter().flat_map(|execution| &execution.nodes);
            places.for_each(|(place, _)| assert!(*place < profile.nodes.len()));
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
