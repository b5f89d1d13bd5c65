//! Any bytes as a model: never a panic, never more memory than its limit, and what was read can be walked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::onnx::{Limits, read_model};

/// Small: what limits bound shows in small files too.
const MAX_NODES: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_nodes: MAX_NODES, max_memory_bytes: 4 << 20, ..Limits::default() };
    match read_model(data, &limits) {
        Ok(model) => {
            let mut nodes = 0;
            model.visit_nodes(&mut |node| {
                nodes += 1;
                let _ = node.operator().0.len() + node.ints("pads").map_or(0, <[i64]>::len);
            });
            assert!(nodes <= MAX_NODES);
            let _ = (model.input_hints(), model.kind(), model.quantization(), model.weight_type());
            let _ =
                (model.operator_counts(), model.parameter_count(), model.parameter_bytes(), model.opset());
            let _ = model.external_locations().len() + model.total_node_count();
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
