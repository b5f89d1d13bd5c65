//! Any bytes as a model: never a panic, never more memory than its limit, and what was read can be walked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::onnx::{Limits, read_model};

fuzz_target!(|data: &[u8]| {
    // Small limits: what they bound shows in small files too.
    let limits = Limits { max_nodes: 10_000, max_memory_bytes: 16 << 20, ..Limits::default() };
    match read_model(data, &limits) {
        Ok(model) => {
            let mut nodes = 0;
            model.graph.visit_nodes(&mut |node| nodes += 1 + node.inputs.len() / 1_000_000);
            assert!(nodes <= 10_000);
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
