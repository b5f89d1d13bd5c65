//! Any bytes as a file of `perf record`: never a panic, one sentence when it is none, every record counted.
//!
//! The first byte says whether the places of its parts are put right first, so that most inputs get behind the head.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::perf_data;

/// Head (104 bytes), one attribute of 144 bytes, then the records.
const HEAD: usize = 104;
const ENTRY: usize = 144;

fn put_right(bytes: &mut [u8]) {
    let length = bytes.len() as u64;
    let words = [
        u64::from_le_bytes(*b"PERFILE2"),
        HEAD as u64,
        ENTRY as u64,
        HEAD as u64,
        ENTRY as u64,
        (HEAD + ENTRY) as u64,
        length.saturating_sub((HEAD + ENTRY) as u64),
    ];
    for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((how, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how % 4 != 0 {
        put_right(&mut bytes);
    }
    let mut rows = 0_u64;
    match perf_data::read(&bytes, u64::from(*how) << 55, &mut |_| rows += 1) {
        Ok(outcome) => {
            assert!(outcome.other + outcome.unreadable <= outcome.records, "{outcome:?}");
            assert!(rows <= outcome.records, "{outcome:?}, {rows} rows");
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
