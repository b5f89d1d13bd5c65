//! Guarantees of the channel: order, counted losses, survival of a killed writer, rejection of foreign files.

use std::time::Duration;

use ortscope_channel::{ChannelError, ChannelReader, ControlPage, FrameKind, RingReader, RingWriter};
use ortscope_core::identity::ProcessIdentity;
use proptest::prelude::*;

const OWNER: ProcessIdentity = ProcessIdentity { pid: 42, start: 4711 };

fn writer(directory: &tempfile::TempDir, capacity: u64) -> RingWriter {
    RingWriter::create(directory.path(), "stream-0", capacity, OWNER).expect("a ring")
}

#[test]
fn frames_arrive_in_order_across_many_turns_of_the_ring() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    let mut reader = RingReader::open(&directory.path().join("stream-0.ring")).unwrap();
    assert_eq!(reader.owner(), OWNER);
    let mut seen = Vec::new();
    for number in 0..10_000u32 {
        let payload = vec![number as u8; (number % 97) as usize];
        assert!(writer.try_write(FrameKind::MESSAGE, &payload));
        if number % 7 == 0 {
            let outcome = reader.read(|kind, payload| seen.push((kind, payload.to_vec())));
            assert!(!outcome.damaged);
            reader.mark();
            reader.release();
        }
    }
    reader.read(|kind, payload| seen.push((kind, payload.to_vec())));
    assert_eq!(seen.len(), 10_000);
    for (number, (kind, payload)) in seen.iter().enumerate() {
        assert_eq!(*kind, FrameKind::MESSAGE);
        assert_eq!(payload, &vec![number as u8; number % 97]);
    }
}

#[test]
fn a_full_ring_drops_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    let kept = (0..1000).filter(|_| writer.try_write(FrameKind::INFERENCE, &[0; 72])).count() as u64;
    assert_eq!(kept, 4096 / 88);
    let mut channel = ChannelReader::new(directory.path());
    let drained = channel.drain(|_, _| {}).unwrap();
    assert_eq!(drained.frames, kept);
    assert_eq!(drained.lost.get(&FrameKind::INFERENCE), Some(&(1000 - kept)));
    assert!(channel.drain(|_, _| {}).unwrap().lost.is_empty(), "a loss is reported once");
    assert!(writer.try_write(FrameKind::INFERENCE, &[0; 72]), "there is room again");
}

#[test]
fn space_is_freed_only_on_release() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    let mut channel = ChannelReader::new(directory.path());
    let fill = |writer: &mut RingWriter| {
        (0..1000).filter(|_| writer.try_write(FrameKind::MESSAGE, &[0; 72])).count() as u64
    };
    let first = fill(&mut writer);
    assert!(first > 40);
    let read = channel.read(|_, _| {}).unwrap();
    assert_eq!((read.frames, &*read.positions[0].ring), (first, "stream-0.ring"));
    assert_eq!(read.positions[0].position, first * 88);
    assert!(channel.fullness() > 0.9);
    assert_eq!(fill(&mut writer), 0, "what was read still takes its room");
    channel.release();
    assert_eq!(fill(&mut writer), 0, "nothing was marked");
    channel.mark();
    channel.release();
    assert!(channel.fullness() < 0.1);
    assert!(fill(&mut writer) >= first - 1);
    assert_eq!(channel.read(|_, _| {}).unwrap().positions.len(), 1);
    assert!(channel.read(|_, _| {}).unwrap().positions.is_empty(), "only rings with news have a position");
}

#[test]
fn the_next_observer_finds_unreleased_frames() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    let mut first = ChannelReader::new(directory.path());
    for number in 0..20u8 {
        writer.try_write(FrameKind::MESSAGE, &[number]);
        if number == 9 {
            first.read(|_, _| {}).unwrap();
            first.mark();
        }
    }
    first.read(|_, _| {}).unwrap();
    first.release();
    // A killed observer runs no destructor; it has none that matters.
    drop(first);
    let mut seen = Vec::new();
    ChannelReader::new(directory.path()).read(|_, payload| seen.push(payload[0])).unwrap();
    assert_eq!(seen, (10..20).collect::<Vec<_>>());
}

#[test]
fn zeros_and_stale_frames_are_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream-0.ring");
    let mut writer = writer(&directory, 4096);
    for number in 0..30u8 {
        writer.try_write(FrameKind::MESSAGE, &[number; 8]);
    }
    // A power loss: the disk has the head, but zeros, or frames of an earlier turn, where frames should be.
    let frame = 24;
    let whole = std::fs::read(&path).unwrap();
    let mut zeros = whole.clone();
    zeros[4096 + 10 * frame..].fill(0);
    let mut stale = whole;
    stale.copy_within(4096..4096 + 5 * frame, 4096 + 10 * frame);
    for (name, bytes) in [("zeros.ring", zeros), ("stale.ring", stale)] {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut seen = Vec::new();
        let outcome = RingReader::open(&path).unwrap().read(|_, payload| seen.push(payload[0]));
        assert_eq!(seen, (0..10).collect::<Vec<_>>(), "{name}");
        assert!(outcome.damaged, "{name}");
    }
}

#[test]
fn two_threads_lose_nothing_when_the_writer_waits() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 8192);
    let mut reader = RingReader::open(&directory.path().join("stream-0.ring")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..50_000u64 {
                assert!(writer.write_or_wait(
                    FrameKind::MESSAGE,
                    &number.to_le_bytes(),
                    Duration::from_secs(60)
                ));
            }
        });
        let mut next = 0u64;
        while next < 50_000 {
            let outcome = reader.read(|_, payload| {
                assert_eq!(payload, next.to_le_bytes());
                next += 1;
            });
            assert!(!outcome.damaged);
            reader.mark();
            reader.release();
        }
    });
    assert!(reader.is_closed());
}

#[test]
fn records_of_a_dead_writer_survive() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    writer.try_write(FrameKind::MESSAGE, b"last words");
    // A killed process runs no destructor.
    std::mem::forget(writer);
    let mut channel = ChannelReader::new(directory.path());
    let mut words = Vec::new();
    channel.drain(|_, payload| words.push(payload.to_vec())).unwrap();
    assert_eq!(words, [b"last words"]);
    assert!(!channel.all_closed());
}

#[test]
fn reading_continues_after_a_damaged_frame() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory, 4096);
    writer.try_write(FrameKind::MESSAGE, b"good");
    writer.try_write(FrameKind::MESSAGE, b"evil");
    let path = directory.path().join("stream-0.ring");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + 24 + 16] ^= 1;
    std::fs::write(directory.path().join("copy.ring"), &bytes).unwrap();
    let mut reader = RingReader::open(&directory.path().join("copy.ring")).unwrap();
    let mut seen = Vec::new();
    let outcome = reader.read(|_, payload| seen.push(payload.to_vec()));
    assert_eq!(seen, [b"good"]);
    assert!(outcome.damaged);
}

#[test]
fn foreign_files_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.ring");
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(RingReader::open(&path), Err(ChannelError::NotARing { .. })));
    std::fs::write(&path, vec![7; 8192]).unwrap();
    assert!(matches!(RingReader::open(&path), Err(ChannelError::NotARing { .. })));
    for capacity in [0, 100, 4097, 1 << 31] {
        let result = RingWriter::create(directory.path(), "y", capacity, OWNER);
        assert!(matches!(result, Err(ChannelError::BadCapacity(_))), "{capacity}");
    }
    drop(writer(&directory, 4096));
    let mut bytes = std::fs::read(directory.path().join("stream-0.ring")).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(RingReader::open(&path), Err(ChannelError::OtherFormat { found: 9, .. })));
}

#[test]
fn the_control_page_reaches_the_other_side() {
    let directory = tempfile::tempdir().unwrap();
    let observer = ControlPage::create(directory.path()).unwrap();
    let worker = ControlPage::open(directory.path()).unwrap();
    assert!(!worker.stop_requested());
    observer.request_stop();
    observer.set_paused(true);
    observer.beat(99);
    assert!(worker.stop_requested() && worker.is_paused());
    assert_eq!(worker.last_beat_ns(), Some(99));
}

proptest! {
    /// For any file content, reading ends without a panic and never returns a frame that was not written.
    #[test]
    fn scrambled_rings_never_panic(
        junk in proptest::collection::vec((0usize..8192, any::<u8>()), 1..64),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(&directory, 4096);
        for number in 0..40u8 {
            writer.try_write(FrameKind::MESSAGE, &[number; 33]);
        }
        let mut bytes = std::fs::read(directory.path().join("stream-0.ring")).unwrap();
        for (at, value) in junk {
            bytes[at] = value;
        }
        let path = directory.path().join("z.ring");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut reader) = RingReader::open(&path) {
            reader.read(|kind, payload| {
                assert_eq!(kind, FrameKind::MESSAGE);
                assert_eq!(payload.len(), 33);
            });
        }
    }
}
