//! Any bytes as a ring of perf records: each is decoded in both ways, none panics, and the walk ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::{perf_record, perf_record_samples};

fuzz_target!(|data: &[u8]| {
    let Some((registers, mut rest)) = data.split_first() else { return };
    while let Some(length) = perf_record::record_bytes(rest) {
        let Some(record) = rest.get(..length) else { break };
        let _ = format!("{:?}", perf_record::decode(record)).len();
        let _ = format!("{:?}", perf_record_samples::decode(record, usize::from(*registers))).len();
        let _ = perf_record_samples::time_ns(record);
        assert!(length > 0, "a walk that does not end");
        rest = &rest[length..];
    }
});
