//! Truncated, corrupted and unclosed files: everything before the damage is read, and the rest has a reason.

use std::io::Cursor;
use std::ops::ControlFlow;

use ortscope_etl::{Etl, EtlBytes, EtlError, FileStorage, Reason, Walk};

use crate::corpus::{Trace, trace, traces};

fn walk(bytes: &[u8]) -> Result<Walk, EtlError> {
    EtlBytes::new(bytes)?.ordered(|_| ControlFlow::Continue(()))
}

/// A walk, and the number of bytes of the records including padding.
fn walk_and_measure(bytes: &[u8]) -> Result<(Walk, usize), EtlError> {
    let mut taken = 0;
    let walk = EtlBytes::new(bytes)?.ordered(|record| {
        taken += record.bytes.len().next_multiple_of(8);
        ControlFlow::Continue(())
    })?;
    Ok((walk, taken))
}

/// Large files only make the same code run longer.
fn small_traces() -> impl Iterator<Item = Trace> {
    traces().into_iter().filter(|trace| std::fs::metadata(&trace.path).unwrap().len() < 1 << 20)
}

#[test]
fn a_truncated_file_is_read_up_to_its_end() {
    for trace in small_traces() {
        let bytes = trace.bytes();
        let mut before = 0;
        for part in 0..64 {
            let cut = &bytes[..bytes.len() * part / 64];
            let Ok(walk) = walk(cut) else {
                assert!(cut.len() < 0x48 + 0x20 + 0x200, "{} at {part}/64 should open", trace.name);
                continue;
            };
            assert!(walk.records <= trace.records, "{} at {part}/64", trace.name);
            assert!(walk.records >= before, "{} at {part}/64: a longer file has fewer records", trace.name);
            before = walk.records;
            assert!(
                walk.losses.damage.loses_records() || trace.name == "s4_CldFlt2.etl",
                "{} at {part}/64",
                trace.name
            );
            let storage = FileStorage::new(Cursor::new(cut)).unwrap();
            let (_, from_disk) = Etl::new(storage).unwrap().unordered(2, || (), |(), _| {}).unwrap();
            assert_eq!(from_disk.records, walk.records, "{} at {part}/64", trace.name);
        }
    }
}

/// Reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }
}

#[test]
fn flipped_bytes_never_panic_and_all_missing_bytes_have_a_reason() {
    let mut numbers = Numbers(42);
    for trace in small_traces() {
        let original = trace.bytes();
        let (_, original_taken) = walk_and_measure(&original).unwrap();
        for round in 0..40 {
            let mut bytes = original.clone();
            for _ in 0..=numbers.next(32) {
                // Half of the damage is in structures.
                let at = if numbers.next(2) == 0 {
                    numbers.next(bytes.len())
                } else {
                    numbers.next(bytes.len().min(1 << 12))
                };
                bytes[at] = numbers.next(256) as u8;
            }
            let Ok((walk, taken)) = walk_and_measure(&bytes) else { continue };
            assert!(walk.records <= trace.records, "{} round {round}: {} records", trace.name, walk.records);
            // A size that grew by the right amount includes the next records, which is undetectable. But
            // every byte is in a record or in the damage.
            assert!(
                taken == original_taken || walk.losses.damage.loses_records(),
                "{} round {round}: {} records of {} and no reason",
                trace.name,
                walk.records,
                trace.records,
            );
            let storage = FileStorage::new(Cursor::new(&bytes)).unwrap();
            let (_, again) = Etl::new(storage).unwrap().unordered(2, || (), |(), _| {}).unwrap();
            assert_eq!(again.records, walk.records, "{} round {round}", trace.name);
        }
    }
}

#[test]
fn a_damaged_buffer_affects_only_itself() {
    let Some(trace) = trace("tx_Process.etl") else { return };
    let mut bytes = trace.bytes();
    // Buffers of 8 KiB: the sixth loses its header.
    bytes[6 * 8192..6 * 8192 + 0x48].fill(0xee);
    let found = walk(&bytes).unwrap();
    let damage = found.losses.damage.get(Reason::BadBufferHeader);
    assert_eq!((damage.count, damage.bytes, damage.first_offset), (1, 8192, 6 * 8192));
    assert_eq!(found.losses.damage.get(Reason::BuffersMissing).count, 1);
    assert!(found.records > trace.records - 200 && found.records < trace.records, "{}", found.records);
}

#[test]
fn a_damaged_compressed_buffer_affects_only_its_rest() {
    let Some(trace) = trace("dotnetperf_DynamicEvents.etl") else { return };
    let mut bytes = trace.bytes();
    let second = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    // The header of the second buffer is lost: there are no regular positions to search for the next one.
    bytes[second..second + 4].fill(0);
    let found = walk(&bytes).unwrap();
    assert_eq!(found.losses.damage.get(Reason::BadBufferHeader).count, 1);
    assert!(found.records > trace.records * 9 / 10 && found.records < trace.records, "{}", found.records);

    let mut bytes = trace.bytes();
    bytes[second + 0x200..second + 0x300].fill(0xff);
    let found = walk(&bytes).unwrap();
    assert!(found.losses.damage.loses_records(), "{:?}", found.losses);
    assert!(found.records > trace.records * 9 / 10 && found.records < trace.records, "{}", found.records);
}

#[test]
fn other_compressions_are_rejected_by_name() {
    let Some(trace) = trace("perfview_smallEtlFile.etl") else { return };
    for (format, name) in [(2, "Lznt1"), (4, "XpressHuffman")] {
        let mut bytes = trace.bytes();
        bytes[0x2c] = format;
        let file = EtlBytes::new(&bytes).unwrap();
        assert_eq!(format!("{:?}", file.compression()), name);
        let found = walk(&bytes).unwrap();
        assert_eq!(found.losses.damage.get(Reason::UnsupportedCompression).count, 1);
        assert_eq!(found.records, 1, "the header's own");
    }
}

#[test]
fn a_circular_file_that_wrapped_is_in_order() {
    let Some(trace) = trace("tx_Process.etl") else { return };
    let bytes = trace.bytes();
    let (head, data) = bytes.split_at(8192);
    // Like a session that wrapped around: the oldest buffers are in the middle.
    let middle = (data.len() / 8192 / 3) * 8192;
    let wrapped = [head, &data[middle..], &data[..middle]].concat();
    let mut times = Vec::new();
    let collect = |bytes: &[u8]| {
        let mut seen = Vec::new();
        EtlBytes::new(bytes)
            .unwrap()
            .ordered(|record| {
                seen.push((record.ticks, record.payload.len()));
                ControlFlow::Continue(())
            })
            .unwrap();
        seen
    };
    times.extend(collect(&bytes));
    assert_eq!(times.len() as u64, trace.records);
    assert_eq!(collect(&wrapped), times);
}

#[test]
fn loss_marks_are_counted() {
    let Some(trace) = trace("tx_Process.etl") else { return };
    let mut bytes = trace.bytes();
    bytes[3 * 8192 + 0x34] |= 0x02;
    bytes[4 * 8192 + 0x34] |= 0x04;
    bytes[5 * 8192 + 0x34] |= 0x06;
    let losses = EtlBytes::new(&bytes).unwrap().losses().clone();
    assert_eq!((losses.buffers_marked_events_lost, losses.buffers_marked_buffer_lost), (2, 2));
    assert!(losses.damage.is_empty());
}

#[test]
fn a_preallocated_tail_is_not_a_loss() {
    let Some(trace) = trace("tx_WsRm01.etl") else { return };
    let mut bytes = trace.bytes();
    bytes.resize(bytes.len() + 100_000, 0);
    let found = walk(&bytes).unwrap();
    assert_eq!(found.records, trace.records);
    assert_eq!(found.losses.damage.get(Reason::EmptyTail).bytes, 100_000);
    assert!(!found.losses.damage.loses_records());
}

#[test]
fn other_files_are_rejected() {
    assert!(matches!(EtlBytes::new(b""), Err(EtlError::HeaderCut)));
    assert!(matches!(EtlBytes::new(&[0; 4096]), Err(EtlError::NotEtl(_))));
    let zip = [b"PK\x03\x04", &[7; 4092][..]].concat();
    let error = EtlBytes::new(&zip).unwrap_err().to_string();
    assert!(error.contains("unzip"), "{error}");
}

/// Regression: runs of the target `etl_container` without this seed did not get beyond the header. It must stay a valid
/// file with records.
#[test]
fn the_fuzz_seed_opens_and_has_records() {
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/etl_container/00001");
    let bytes = std::fs::read(seed).unwrap();
    let walk = walk(&bytes).unwrap();
    assert!(walk.records > 1, "{walk:?}");
    assert!(!walk.losses.damage.loses_records(), "{walk:?}");
}
