//! Any bytes as a profile of ONNX Runtime: never a panic, and the same rows however the bytes are cut into pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::ort_profile::{ProfileOptions, ProfileReader, RowOptions, read_rows};

fuzz_target!(|data: &[u8]| {
    let options = ProfileOptions { max_event_bytes: 64 << 10, ..ProfileOptions::default() };
    let mut rows = 0_u64;
    let read = read_rows(data, options.clone(), RowOptions::default(), &mut |_| rows += 1);
    let (outcome, _) = read.expect("memory does not fail");
    // Once more in small pieces.
    let mut reader = ProfileReader::new(options);
    let size = 1 + data.first().map_or(0, |byte| usize::from(*byte) % 61);
    let mut events = 0_u64;
    for piece in data.chunks(size) {
        reader.feed(piece, &mut |_| events += 1);
    }
    let again = reader.finish(&mut |_| events += 1);
    assert_eq!(format!("{outcome:?}"), format!("{again:?}"));
});
