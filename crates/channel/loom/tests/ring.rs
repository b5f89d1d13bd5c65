//! One writer and one reader of a ring in all interleavings with at most three preemptions: no frame arrives damaged,
//! twice or out of order; missing frames are counted; space is reused only after it was freed; a close is seen after
//! all writes.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release` in this directory. The rings are as small as a model permits: 128
//! bytes, so that four frames of 32 bytes wrap around, or two plain inferences of 64.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use loom::thread;
use ortscope_channel::{
    FrameKind, InferenceRecord, Phase, PlainInference, RingReader, RingWriter, ring_in_a_model,
};

/// A frame of 32 bytes with its header.
const PAYLOAD: usize = 16;

/// Tries all interleavings with a bounded number of preemptions. Loom recommends two or three.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn put(writer: &mut RingWriter, number: u8) -> bool {
    writer.try_write(FrameKind::INFERENCE, &[number; PAYLOAD])
}

/// Reads and checks all frames and frees their space.
fn take(reader: &mut RingReader, seen: &mut Vec<u8>) {
    let outcome = reader.read(|kind, payload| {
        assert_eq!((kind, payload.len()), (FrameKind::INFERENCE, PAYLOAD));
        assert!(payload.iter().all(|byte| *byte == payload[0]), "a torn frame");
        seen.push(payload[0]);
    });
    assert!(!outcome.damaged);
    reader.mark();
    reader.release();
}

#[test]
fn frames_arrive_whole_and_in_order_while_they_are_written() {
    model(|| {
        let (mut writer, mut reader) = ring_in_a_model(128);
        let writing = thread::spawn(move || {
            assert!((1..=3).all(|number| put(&mut writer, number)), "three fit");
        });
        let mut seen = Vec::new();
        take(&mut reader, &mut seen);
        take(&mut reader, &mut seen);
        writing.join().unwrap();
        take(&mut reader, &mut seen);
        assert_eq!(seen, [1, 2, 3]);
        assert!(reader.is_finished(), "the writer was dropped, which closes the ring");
    });
}

#[test]
fn space_is_reused_only_after_release_and_drops_are_counted() {
    model(|| {
        let (mut writer, mut reader) = ring_in_a_model(64);
        // Two fit. More fit only into space that the reader has freed.
        assert!(put(&mut writer, 1) && put(&mut writer, 2));
        let writing =
            thread::spawn(move || (3..=4).filter(|number| put(&mut writer, *number)).collect::<Vec<u8>>());
        let mut seen = Vec::new();
        take(&mut reader, &mut seen);
        take(&mut reader, &mut seen);
        let written = writing.join().unwrap();
        take(&mut reader, &mut seen);
        let expected: Vec<u8> = [1, 2].into_iter().chain(written.iter().copied()).collect();
        assert_eq!(seen, expected);
        let lost: u64 = reader.take_new_losses().values().sum();
        assert_eq!(lost, 2 - written.len() as u64, "every drop is counted");
    });
}

fn plain(sequence: u64) -> PlainInference {
    // The same number at both ends of the record, so that a torn one is seen.
    PlainInference {
        start_ns: sequence,
        run_ns: sequence,
        sequence,
        batch_size: 1,
        stream: 0,
        session: sequence as u16,
        phase: Phase::Steady,
        ok: true,
    }
}

/// The path of nearly every record, which reads the reader's position only when the ring seems full.
#[test]
fn plain_inferences_arrive_in_order_and_reuse_freed_space() {
    /// Not loom's: the most that one order could write.
    static MAX_WRITTEN: AtomicUsize = AtomicUsize::new(0);
    model(|| {
        let (mut writer, mut reader) = ring_in_a_model(128);
        // Two fill the ring. The third reads the reader's position; the fourth uses the cached value.
        assert!((1..=2).all(|number| writer.write_plain_inference(plain(number))));
        let writing = thread::spawn(move || {
            (3..=5).filter(|number| writer.write_plain_inference(plain(*number))).collect::<Vec<u64>>()
        });
        let mut seen = Vec::new();
        let mut take = |reader: &mut RingReader| {
            let outcome = reader.read(|kind, payload| {
                assert_eq!((kind, payload.len()), (FrameKind::INFERENCE, PlainInference::BYTES));
                let record = InferenceRecord::from_bytes(payload).expect("a record");
                assert_eq!(record, plain(record.sequence).into(), "a torn record");
                seen.push(record.sequence);
            });
            assert!(!outcome.damaged);
            reader.mark();
            reader.release();
        };
        take(&mut reader);
        take(&mut reader);
        let written = writing.join().unwrap();
        take(&mut reader);
        let expected: Vec<u64> = [1, 2].into_iter().chain(written.iter().copied()).collect();
        assert_eq!(seen, expected);
        let lost: u64 = reader.take_new_losses().values().sum();
        assert_eq!(lost, 3 - written.len() as u64, "every drop is counted");
        assert!(reader.is_finished());
        MAX_WRITTEN.fetch_max(written.len(), Ordering::Relaxed);
    });
    assert_eq!(MAX_WRITTEN.load(Ordering::Relaxed), 3, "in some order all of them found room");
}

#[test]
fn the_end_of_the_ring_is_padded_if_a_frame_does_not_fit() {
    model(|| {
        let (mut writer, mut reader) = ring_in_a_model(128);
        // 40 bytes each: the third begins at 80, the fourth would be split at 128.
        let long =
            |writer: &mut RingWriter, number: u8| writer.try_write(FrameKind::INFERENCE, &[number; 24]);
        assert!(long(&mut writer, 1) && long(&mut writer, 2));
        let mut seen = Vec::new();
        let mut take = move |reader: &mut RingReader| {
            let outcome = reader.read(|_, payload| seen.push(payload[0]));
            assert!(!outcome.damaged);
            reader.mark();
            reader.release();
            seen.clone()
        };
        take(&mut reader);
        let writing = thread::spawn(move || (3..=4).filter(|number| long(&mut writer, *number)).count());
        take(&mut reader);
        let written = writing.join().unwrap();
        let seen = take(&mut reader);
        assert_eq!(seen, &[1, 2, 3, 4][..2 + written]);
    });
}

#[test]
fn a_closed_ring_shows_all_previous_writes() {
    model(|| {
        let (mut writer, mut reader) = ring_in_a_model(64);
        let writing = thread::spawn(move || {
            assert!(put(&mut writer, 1));
            drop(writer);
        });
        let mut seen = Vec::new();
        if reader.is_closed() {
            take(&mut reader, &mut seen);
            assert_eq!(seen, [1]);
            assert!(reader.is_finished());
        }
        writing.join().unwrap();
    });
}
