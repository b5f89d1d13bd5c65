//! Any bytes as a profile of ONNX Runtime: never a panic, and the same rows however the bytes are cut into pieces.
//!
//! The first byte chooses the size of the pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_core::schema::OperatorRow;
use ortscope_decode::ort_profile::{ProfileOptions, ProfileOutcome, ProfileReader, ProfileRows, RowOptions};

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (ProfileOutcome, Vec<OperatorRow>) {
    let mut reader =
        ProfileReader::new(ProfileOptions { max_event_bytes: 2048, ..ProfileOptions::default() });
    let mut rows = ProfileRows::new(RowOptions::default());
    let mut kept = Vec::new();
    let mut keep = |row| kept.push(row);
    for piece in pieces {
        reader.feed(piece, &mut |event| rows.push(&event, &mut keep));
    }
    let outcome = reader.finish(&mut |event| rows.push(&event, &mut keep));
    rows.finish(&mut keep);
    (outcome, kept)
}

fuzz_target!(|data: &[u8]| {
    let Some((size, text)) = data.split_first() else { return };
    let whole = read(std::iter::once(text));
    let pieces = read(text.chunks(16 + usize::from(*size)));
    assert_eq!(whole.0, pieces.0);
    assert_eq!(whole.1.len(), pieces.1.len());
    assert!(whole.1 == pieces.1 || format!("{:?}", whole.1) == format!("{:?}", pieces.1), "other rows");
});
