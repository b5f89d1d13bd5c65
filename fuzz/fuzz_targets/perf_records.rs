//! Any bytes as a ring of perf records: each is decoded in both ways, none panics, and the walk ends.

#![no_main]

use std::fmt::{self, Write as _};

use libfuzzer_sys::fuzz_target;
use ortscope_decode::{perf_record, perf_record_samples};

/// Writes without keeping.
struct Sink;

impl fmt::Write for Sink {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((registers, mut rest)) = data.split_first() else { return };
    while let Some(length) = perf_record::record_bytes(rest) {
        let Some(record) = rest.get(..length) else { break };
        assert!(length > 0, "a walk that does not end");
        // Shown whole, so that what is borrowed from the record is looked at.
        let one = perf_record::decode(record);
        let other = perf_record_samples::decode(record, usize::from(*registers));
        write!(Sink, "{one:?} {other:?} {:?}", perf_record_samples::time_ns(record)).expect("it takes all");
        rest = &rest[length..];
    }
});
