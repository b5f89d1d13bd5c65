//! Guarantees of the journal: order, several files, verified frames only, and everything else kept.

mod support;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ortscope_channel::ChannelError;
use ortscope_channel::frame::{FrameKind, HEADER_BYTES, Header, frame_bytes};
use ortscope_channel::journal::{
    JournalFileReader, JournalOptions, JournalWriter, journal_files, remove_unused_files,
};
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{Journal, JournalError};
use ortscope_core::schema::{AnnotationRow, TableId};
use proptest::prelude::*;
use support::{Random, random_batch, read_all, read_file, samples};

const SMALL: u64 = 256 << 10;

fn small() -> JournalOptions {
    JournalOptions { file_bytes: SMALL, ..JournalOptions::default() }
}

/// A journal of one file with these batches, as a killed writer leaves it.
fn left_behind(directory: &Path, batches: u64) -> PathBuf {
    let mut writer = JournalWriter::create(directory, small()).expect("a journal");
    for number in 0..batches {
        writer.append(&samples(number, 10)).expect("there is room");
    }
    writer.sync().expect("synced");
    drop(writer);
    let files = journal_files(directory).expect("readable");
    assert_eq!(files.len(), 1);
    assert!(!files[0].sealed);
    files[0].path.clone()
}

fn first_times(batches: &[Batch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.times_ns()[0] / 1_000_000).collect()
}

#[test]
fn batches_of_all_tables_come_back_in_order_from_many_files() {
    let directory = tempfile::tempdir().unwrap();
    let random = &mut Random::new(7);
    let mut writer = JournalWriter::create(directory.path(), small()).unwrap();
    let mut written = Vec::new();
    for number in 0..400 {
        let table = TableId::ALL[number % TableId::ALL.len()];
        let rows = random.below(90);
        let batch = random_batch(table, rows, random);
        writer.append(&batch).unwrap();
        if rows > 0 {
            written.push(batch);
        }
    }
    let last = writer.file_number();
    assert!(last > 3, "{last} files");
    writer.seal().unwrap();
    let files = journal_files(directory.path()).unwrap();
    assert_eq!(files.iter().map(|file| file.number).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
    assert!(files.iter().all(|file| file.sealed));
    let (batches, outcomes) = read_all(directory.path());
    // A batch at the end of a file may have been split; joined again they are the same.
    assert_eq!(batches.len(), written.len());
    assert!(batches == written);
    assert!(outcomes.iter().all(|outcome| outcome.damaged_frames == 0 && outcome.problem.is_none()));
    assert!(
        std::fs::metadata(&files.last().unwrap().path).unwrap().len() < SMALL,
        "the last file gives back its room"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count() as u64, last, "no spare file is left");
}

#[test]
fn large_batches_are_split_and_oversized_rows_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = JournalWriter::create(directory.path(), small()).unwrap();
    let large = samples(1, 5000);
    writer.append(&large).unwrap();
    let mut batch = Batch::new(TableId::Annotations);
    for (number, length) in [(1, 10), (2, 300_000), (3, 10)] {
        let text = "x".repeat(length).into();
        batch.push(&AnnotationRow { timestamp_ns: number, kind: "log".into(), text });
    }
    let error = writer.append(&batch).unwrap_err();
    assert!(matches!(error, ChannelError::RowsTooLarge { table: "annotations", rows: 1 }), "{error}");
    let as_journal = Journal::append(&mut writer, &batch).unwrap_err();
    assert!(matches!(as_journal, JournalError::Partly { lost_rows: 1, .. }), "{as_journal}");
    writer.seal().unwrap();
    let (batches, _) = read_all(directory.path());
    let (joined, others): (Vec<_>, Vec<_>) =
        batches.into_iter().partition(|batch| batch.table() == TableId::ProcessSamples);
    assert!(joined.len() > 1);
    let mut whole = Batch::new(TableId::ProcessSamples);
    for part in &joined {
        whole.append(part);
    }
    assert!(whole == large);
    let times: Vec<u64> = others.iter().flat_map(|batch| batch.times_ns().to_vec()).collect();
    assert_eq!(times, [1, 3, 1, 3]);
}

#[test]
fn the_current_file_can_be_read_while_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = JournalWriter::create(directory.path(), small()).unwrap();
    assert_eq!(journal_files(directory.path()).unwrap().len(), 1);
    for number in 0..50 {
        writer.append(&samples(number, 1)).unwrap();
        let file = &journal_files(directory.path()).unwrap()[0];
        assert!(!file.sealed && file.number == writer.file_number());
        let (batches, outcome) = read_file(&file.path);
        assert_eq!(first_times(&batches), (0..=number).collect::<Vec<_>>());
        assert_eq!((outcome.damaged_frames, outcome.skipped_bytes), (0, 0));
    }
}

#[test]
fn a_reader_beside_a_fast_writer_sees_a_whole_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let options = JournalOptions { file_bytes: 16 << 20, sync_period: Duration::from_millis(1) };
    let mut writer = JournalWriter::create(directory.path(), options).unwrap();
    let path = journal_files(directory.path()).unwrap()[0].path.clone();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for number in 0..1000 {
                writer.append(&samples(number, 20)).unwrap();
            }
            writer.seal().unwrap();
        });
        let mut seen = 0;
        loop {
            let done = writing.is_finished();
            let (batches, outcome) = read_file(&path);
            assert_eq!(outcome.damaged_frames, 0, "{outcome:?}");
            assert_eq!(first_times(&batches), (0..batches.len() as u64).collect::<Vec<_>>());
            assert!(batches.len() >= seen);
            seen = batches.len();
            if done {
                break;
            }
        }
        assert_eq!(seen, 1000);
    });
}

#[test]
fn a_journal_goes_on_behind_an_earlier_one() {
    let directory = tempfile::tempdir().unwrap();
    left_behind(directory.path(), 3);
    std::fs::write(directory.path().join("notes.txt"), "not a journal").unwrap();
    let mut writer = JournalWriter::create(directory.path(), small()).unwrap();
    assert_eq!(writer.file_number(), 2);
    writer.append(&samples(3, 10)).unwrap();
    Journal::finish(&mut writer).unwrap();
    assert!(writer.append(&samples(4, 10)).is_err(), "it has ended");
    drop(writer);
    assert_eq!(first_times(&read_all(directory.path()).0), [0, 1, 2, 3]);
    assert!(matches!(
        JournalWriter::create(directory.path(), JournalOptions { file_bytes: 1000, ..small() }),
        Err(ChannelError::BadJournalSize(1000))
    ));
}

#[test]
fn a_spare_file_is_not_listed_and_can_be_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = JournalWriter::create(directory.path(), small()).unwrap();
    let mut written = Vec::new();
    let head_of = |number: u64| {
        let bytes =
            std::fs::read(directory.path().join(format!("journal-{number:08}.frames"))).unwrap_or_default();
        bytes.get(128..136).map_or(0, |head| u64::from_le_bytes(head.try_into().unwrap()))
    };
    // The next file is made when the one in use is half full; it is ready when it has its schema.
    while head_of(2) == 0 {
        if head_of(1) <= SMALL / 2 {
            let batch = random_batch(TableId::Operators, 40, &mut Random::new(written.len() as u64));
            writer.append(&batch).unwrap();
            written.push(batch);
        }
        std::thread::yield_now();
    }
    writer.sync().unwrap();
    let spare = directory.path().join("journal-00000002.frames");
    // As a killed writer leaves it.
    let copy = tempfile::tempdir().unwrap();
    for name in ["journal-00000001.frames", "journal-00000002.frames"] {
        std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    assert!(spare.exists());
    assert_eq!(journal_files(copy.path()).unwrap().len(), 1);
    assert!(read_all(copy.path()).0 == written);
    // Rows are in it, but a power loss took the news: it is listed.
    let mut bytes = std::fs::read(copy.path().join("journal-00000002.frames")).unwrap();
    let head = u64::from_le_bytes(bytes[128..136].try_into().unwrap()) as usize;
    bytes[head] = 1;
    std::fs::write(copy.path().join("journal-00000003.frames"), &bytes).unwrap();
    assert_eq!(journal_files(copy.path()).unwrap().len(), 2);
    assert_eq!(remove_unused_files(copy.path()).unwrap(), 1);
    assert!(!copy.path().join("journal-00000002.frames").exists());
    drop(writer);
    assert!(!spare.exists(), "a writer that ends takes it along");
}

/// One whose maker was killed while the schema was copied counted as in use: a second file in use, in a test that kills.
#[test]
fn a_file_whose_creator_was_killed_is_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 0);
    let whole = std::fs::read(&path).unwrap();
    // At every step of making one: no length, no header, half a header, no schema, half a schema.
    let mut half = vec![0; whole.len()];
    half[..20].copy_from_slice(&whole[..20]);
    let mut bare = whole.clone();
    bare[128..].fill(0);
    // The header of a frame comes behind its payload, and the head behind that.
    let (schema, mut begun) = (4096 + HEADER_BYTES, bare.clone());
    begun[schema..schema + 1000].copy_from_slice(&whole[schema..schema + 1000]);
    for (number, bytes) in [vec![], vec![0; 300_000], half, bare, begun].into_iter().enumerate() {
        std::fs::write(directory.path().join(format!("journal-{:08}.frames", number + 2)), bytes).unwrap();
    }
    let listed = journal_files(directory.path()).unwrap();
    assert_eq!(listed.iter().map(|file| &file.path).collect::<Vec<_>>(), [&path]);
    assert_eq!(JournalWriter::create(directory.path(), small()).unwrap().file_number(), 7);
    assert_eq!(remove_unused_files(directory.path()).unwrap(), 5);
}

#[test]
fn foreign_files_are_rejected_and_the_format_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 3);
    let whole = std::fs::read(&path).unwrap();
    let other = directory.path().join("other");
    let open = |bytes: &[u8]| {
        std::fs::write(&other, bytes).unwrap();
        JournalFileReader::open(&other).map(|_| ())
    };
    assert!(matches!(open(b""), Err(ChannelError::NotAJournal { .. })));
    assert!(matches!(open(b"short"), Err(ChannelError::NotAJournal { .. })));
    assert!(matches!(open(&[7; 20_000]), Err(ChannelError::NotAJournal { .. })));
    assert!(matches!(open(&[0; 20_000]), Err(ChannelError::NotAJournal { .. })));
    let mut newer = whole;
    newer[8] = 9;
    let checksum = u64::from(crc32c::crc32c(&newer[..40]));
    newer[40..48].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(open(&newer), Err(ChannelError::OtherFormat { found: 9, .. })));
    assert!(JournalFileReader::open(&directory.path().join("nothing")).is_err());
    std::fs::File::create(&other).unwrap().set_len(1 << 40).unwrap();
    assert!(
        matches!(JournalFileReader::open(&other), Err(ChannelError::NotAJournal { .. })),
        "a terabyte of zeros"
    );
}

#[test]
fn damage_costs_only_the_affected_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 40);
    let whole = std::fs::read(&path).unwrap();
    let frame = frame_length(&whole, 4096);
    let first = 4096 + frame;
    let length = frame_length(&whole, first);
    let damaged = directory.path().join("damaged");
    let check = |change: &dyn Fn(&mut Vec<u8>), missing: &[u64], damaged_frames: u64| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&damaged, &bytes).unwrap();
        let (batches, outcome) = read_file(&damaged);
        let wanted: Vec<u64> = (0..40).filter(|number| !missing.contains(number)).collect();
        assert_eq!(first_times(&batches), wanted);
        assert_eq!((outcome.damaged_frames, outcome.frames), (damaged_frames, wanted.len() as u64));
        assert_eq!(outcome.skipped_bytes > 0, damaged_frames > 0);
        assert_eq!(outcome.problem.is_some(), damaged_frames > 0);
    };
    check(&|_| {}, &[], 0);
    // A bit of a payload, of a length, of a number; several frames at once; the end.
    check(&|bytes| bytes[first + 5 * length + 100] ^= 1, &[5], 1);
    check(&|bytes| bytes[first + 5 * length] ^= 1, &[5], 1);
    check(&|bytes| bytes[first + 5 * length + 8] ^= 1, &[5], 1);
    check(&|bytes| bytes[first + 5 * length..first + 9 * length].fill(0), &[5, 6, 7, 8], 4);
    check(&|bytes| bytes[first + 5 * length + 40..first + 7 * length + 9].fill(0xff), &[5, 6, 7], 3);
    check(&|bytes| bytes.truncate(first + 38 * length + 20), &[38, 39], 1);
    check(&|bytes| bytes[first + 39 * length..].fill(0), &[39], 1);
    // The schema, and with it the first page: batches of this program's own schema can still be read.
    check(&|bytes| bytes[4096 + 100] ^= 1, &[], 1);
    // Garbage behind the head is the frame its writer was killed at.
    check(&|bytes| bytes[first + 40 * length..first + 40 * length + 500].fill(3), &[], 0);
}

/// Bytes of the frame that begins here.
fn frame_length(bytes: &[u8], at: usize) -> usize {
    frame_bytes(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize)
}

#[test]
fn a_lost_first_page_is_reported_and_rows_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 20);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[..4096].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(journal_files(directory.path()).unwrap().len(), 1);
    let (batches, outcome) = read_file(&path);
    assert_eq!(batches.len(), 20);
    assert_eq!((outcome.damaged_frames, outcome.skipped_bytes), (0, 4096));
    assert_eq!(outcome.problem.as_deref(), Some("its first page is damaged"));
}

#[test]
fn rows_of_another_version_are_read_by_name() {
    // A journal whose schema has other tables and columns, made by hand.
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 0);
    let mut bytes = std::fs::read(&path).unwrap();
    let schema = br#"{"tables":[
        {"name":"losses","columns":[
            {"name":"timestamp_ns","type":"u64","nullable":false},
            {"name":"severity","type":"text","nullable":true},
            {"name":"age","type":"u64","nullable":false},
            {"name":"count","type":"u64","nullable":false},
            {"name":"place","type":"text","nullable":false},
            {"name":"kind","type":"text","nullable":false}]},
        {"name":"dreams","columns":[{"name":"timestamp_ns","type":"u64","nullable":false}]},
        {"name":"annotations","columns":[{"name":"timestamp_ns","type":"u64","nullable":false}]}]}"#;
    let checksum = crc32c::crc32c(schema).to_le_bytes();
    let mut losses =
        [checksum.as_slice(), &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]].concat();
    losses.extend(b"abb");
    losses.extend(99u64.to_le_bytes());
    losses.extend([0, 0]);
    losses.extend([2, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5]);
    losses.extend([1, 16, 0, 0, 0, 0, 0, 0, 0, 1]);
    losses.extend([1, 0]);
    let dreams = [checksum.as_slice(), &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[0; 8]].concat();
    let poor = [checksum.as_slice(), &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[0; 8]].concat();
    let mut at = 4096;
    bytes[at..].fill(0);
    let frames = [
        (FrameKind::SCHEMA, schema.to_vec()),
        (FrameKind::BATCH, dreams),
        (FrameKind::BATCH, poor),
        (FrameKind::BATCH, losses),
    ];
    for (number, (kind, payload)) in frames.iter().enumerate() {
        bytes[at..at + 16].copy_from_slice(&Header::new(*kind, number as u32, payload).to_bytes());
        bytes[at + 16..at + 16 + payload.len()].copy_from_slice(payload);
        at += frame_bytes(payload.len());
    }
    bytes[128..136].copy_from_slice(&(at as u64).to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let (batches, outcome) = read_file(&path);
    assert_eq!(batches.len(), 1, "{outcome:?}");
    let row: Vec<ortscope_core::schema::LossRow> = batches[0].rows().collect();
    assert_eq!((row[0].timestamp_ns, row[0].count, &*row[0].place, &*row[0].kind), (99, 17, "bb", "a"));
    assert_eq!((outcome.frames, outcome.rows, outcome.unknown_tables, outcome.damaged_frames), (1, 1, 1, 1));
    assert_eq!(outcome.problem.as_deref(), Some("annotations has no column kind, which this program needs"));
}

#[test]
fn a_file_made_to_keep_a_reader_busy_ends_soon() {
    // Every 8 bytes something that looks like the header of a long frame: checked naively, 32 million times 1 MiB.
    let directory = tempfile::tempdir().unwrap();
    let path = left_behind(directory.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.resize(8 << 20, 0);
    let first = 4096 + frame_length(&bytes, 4096);
    let second = first + frame_length(&bytes, first);
    for slot in bytes[second..].chunks_exact_mut(16) {
        slot[..4].copy_from_slice(&(1u32 << 19).to_le_bytes());
        slot[4] = 4;
        slot[8] = 9;
    }
    std::fs::write(&path, &bytes).unwrap();
    let (batches, _) = read_file(&path);
    assert_eq!(batches.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Possible effects of a power loss: pages that never reached the disk, a file cut short, sectors with other
    /// bits. Every returned batch is one that was written, in order, and missing ones are counted.
    #[test]
    fn a_power_loss_costs_only_the_affected_frames(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let batches = 1 + random.below(60) as u64;
        let path = left_behind(directory.path(), batches);
        let mut bytes = std::fs::read(&path).unwrap();
        let used = u64::from_le_bytes(bytes[128..136].try_into().unwrap()) as usize;
        let pages = used.div_ceil(4096);
        let mut frames = Vec::new();
        let mut at = 4096;
        while at < used {
            frames.push(at..at + frame_length(&bytes, at));
            at = frames[frames.len() - 1].end;
        }
        let mut hit = BTreeSet::new();
        for _ in 0..1 + random.below(4) {
            let page = random.below(pages);
            hit.insert(page);
            let range = page * 4096..(page + 1) * 4096;
            match random.below(3) {
                0 => bytes[range].fill(0),
                1 => bytes[range.start + random.below(4096)] ^= 1 << random.below(8),
                _ => bytes[range].iter_mut().for_each(|byte| *byte = random.next() as u8),
            }
        }
        if random.below(3) == 0 {
            bytes.truncate(random.below(pages) * 4096);
            hit.extend(bytes.len() / 4096..pages);
        }
        std::fs::write(&path, &bytes).unwrap();
        let is_untouched = |frame: &Range<usize>| {
            (frame.start / 4096..=(frame.end - 1) / 4096).all(|page| !hit.contains(&page))
        };
        // The schema is the first frame; batch 0 is the second.
        let untouched: Vec<u64> =
            (0..batches).filter(|number| is_untouched(&frames[*number as usize + 1])).collect();
        let Ok(mut reader) = JournalFileReader::open(&path) else {
            prop_assert!(hit.contains(&0) && untouched.is_empty(), "only a file of which nothing is left is refused");
            return Ok(());
        };
        let read: Vec<Batch> = std::iter::from_fn(|| reader.next_batch()).collect();
        let numbers = first_times(&read);
        prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", numbers);
        for (batch, number) in read.iter().zip(&numbers) {
            prop_assert!(*batch == samples(*number, 10));
        }
        prop_assert!(untouched.iter().all(|number| numbers.contains(number)), "{untouched:?} but {numbers:?}");
        let outcome = reader.outcome();
        if (numbers.len() as u64) < batches {
            prop_assert!(outcome.problem.is_some() && outcome.skipped_bytes > 0, "{outcome:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(noise in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..200)) {
        let directory = tempfile::tempdir().unwrap();
        let path = left_behind(directory.path(), 10);
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, value) in noise {
            let at = at as usize % 60_000;
            bytes[at] = value;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut reader) = JournalFileReader::open(&path) {
            while reader.next_batch().is_some() {}
            prop_assert!(reader.outcome().rows <= 100);
        }
    }
}
