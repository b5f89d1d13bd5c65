//! All kinds of damage: one sentence, nothing changed, readable data is read.

use std::collections::HashMap;

use ortscope_core::random::Random;
use ortscope_core::schema::{InferenceRow, ProcessSampleRow, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{FORMAT, Recording, Store, StoreErrorKind};

use crate::support::*;

fn opened_unchanged(directory: &std::path::Path) -> Recording {
    let before = snapshot(directory);
    let recording = Recording::open(directory).expect("it opens");
    for table in TableId::ALL {
        for every_tick in [false, true] {
            recording.scan(*table, &Scan { every_tick, ..Scan::all() }).for_each(drop);
        }
    }
    assert!(before == snapshot(directory), "reading changes nothing");
    recording
}

#[test]
fn a_flipped_bit_in_a_segment_costs_a_chunk_or_the_segment() {
    let (_directory, store) = store();
    let directory = finished(&store, 20_000);
    let paths = segments(&directory);
    assert!(paths.len() >= 3);
    let mut random = Random::new(5);
    for _ in 0..60 {
        let path = &paths[random.below(paths.len() as u64) as usize];
        let good = fs_err::read(path).expect("a segment");
        flip_bit(path, random.next_u64() as usize);
        let recording = opened_unchanged(&directory);
        let (rows, damaged) = readable::<InferenceRow>(&recording);
        assert!(rows.iter().all(|row| row.run_ns == noise(row.sequence)), "no wrong value is read");
        let condition = recording.condition();
        let checked = recording.verify().expect("readable");
        if rows.len() < 20_000 {
            assert!(damaged > 0 || !condition.is_whole());
        }
        if !condition.is_whole() {
            let lost: u64 = condition.damaged.iter().filter_map(|damage| damage.rows_lost).sum();
            assert!(lost > 0 && rows.len() as u64 + lost >= 20_000, "{condition:?}");
        }
        assert!(damaged == 0 || !checked.is_empty());
        fs_err::write(path, good).expect("restored");
    }
    assert!(opened_unchanged(&directory).condition().is_whole());
}

#[test]
fn a_truncated_or_lost_segment_is_named_and_the_others_are_read() {
    let (_directory, store) = store();
    let directory = finished(&store, 20_000);
    let paths = segments(&directory);
    let good = fs_err::read(&paths[1]).expect("a segment");
    let in_second = {
        let all = Recording::open(&directory).expect("opens");
        fs_err::rename(&paths[1], directory.join("away")).expect("moved");
        let without = opened_unchanged(&directory);
        let missing: u64 =
            row_counts(&all).values().sum::<u64>() - row_counts(&without).values().sum::<u64>();
        let damage = &without.condition().damaged;
        assert!(damage.len() == 1 && damage[0].place.contains("segment-00000002.cols"), "{damage:?}");
        assert_eq!(damage[0].rows_lost, Some(missing));
        missing
    };
    for length in [0, 1, good.len() / 2, good.len() - 1] {
        fs_err::write(&paths[1], &good[..length]).expect("cut");
        let recording = opened_unchanged(&directory);
        let damage = &recording.condition().damaged;
        assert!(damage.len() == 1 && damage[0].rows_lost == Some(in_second), "{damage:?}");
        assert!(!recording.condition().sentences().is_empty());
        assert_eq!(readable::<InferenceRow>(&recording).1, 0);
    }
}

/// Samples on both sides of a lost segment are reconstructed, and none is invented for the gap.
#[test]
fn no_samples_are_invented_for_a_gap() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let mut original = HashMap::new();
    for tick in busy_ticks(800) {
        original.extend(tick.rows::<ProcessSampleRow>().map(|row| ((row.timestamp_ns, row.pid), row)));
        writer.append(&tick).expect("kept");
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let paths = segments(&directory);
    assert!(paths.len() >= 4);
    let reconstructed = || {
        let recording = Recording::open(&directory).expect("opens");
        let scan = Scan { every_tick: true, ..Scan::all() };
        let batches = recording.scan(TableId::ProcessSamples, &scan).flatten();
        batches.flat_map(|batch| batch.rows::<ProcessSampleRow>().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(reconstructed().len(), original.len());
    let good = fs_err::read(&paths[1]).expect("a segment");
    let check = |what: &str| {
        let rows = reconstructed();
        assert!(
            rows.iter().all(|row| original.get(&(row.timestamp_ns, row.pid)) == Some(row)),
            "{what}: a row that never was"
        );
        assert!(rows.len() > original.len() / 2, "{what}: only {} rows", rows.len());
    };
    fs_err::remove_file(&paths[1]).expect("removed");
    check("lost");
    for bit in (0..good.len() * 8).step_by(good.len() * 8 / 40) {
        fs_err::write(&paths[1], &good).expect("written");
        flip_bit(&paths[1], bit);
        check("flipped");
    }
}

#[test]
fn a_damaged_manifest_does_not_hide_the_rows() {
    let (_directory, store) = store();
    let directory = finished(&store, 3000);
    let good = fs_err::read(directory.join("manifest.json")).expect("a manifest");
    for bad in [&b""[..], b"{", b"[]", b"{\"format\":1}", b"\xff\xfe", &good[..good.len() / 2]] {
        fs_err::write(directory.join("manifest.json"), bad).expect("written");
        let recording = opened_unchanged(&directory);
        assert!(
            !recording.condition().is_whole() && recording.condition().damaged[0].place == "manifest.json"
        );
        assert_eq!(sequences(&recording).len(), 3000);
        let list = store.list().expect("a list");
        assert!(list.len() == 1 && list[0].damaged && list[0].problem.is_some());
    }
    fs_err::remove_file(directory.join("manifest.json")).expect("removed");
    assert_eq!(sequences(&opened_unchanged(&directory)).len(), 3000);
}

#[test]
fn a_later_format_is_rejected_and_not_changed() {
    let (_directory, store) = store();
    let directory = finished(&store, 100);
    let manifest = fs_err::read_to_string(directory.join("manifest.json")).expect("a manifest");
    // The next one is that of encrypted recordings.
    let later = manifest.replace("\"format\": 1", &format!("\"format\": {}, \"unheard_of\": []", FORMAT + 2));
    assert_ne!(later, manifest);
    // A later version, not a damaged one, which would not have this checksum.
    let later = later.replace("crc32c", "later");
    fs_err::write(directory.join("manifest.json"), later).expect("written");
    let before = snapshot(&directory);
    for error in [
        Recording::open(&directory).expect_err("too new"),
        ortscope_store::repair(&directory).expect_err("too new"),
        store
            .tag(directory.file_name().and_then(|name| name.to_str()).expect("id"), &["x".into()], &[])
            .expect_err("too new"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::NewerFormat);
        assert!(error.to_string().contains("later version") && error.hint().is_some(), "{error}");
    }
    assert!(before == snapshot(&directory));
    let list = store.list().expect("a list");
    assert!(
        list[0].damaged
            && list[0].problem.as_deref().is_some_and(|problem| problem.contains("later version"))
    );
}

#[test]
fn readable_rows_of_a_damaged_journal_are_returned() {
    let (_directory, store) = store();
    let mut random = Random::new(77);
    for _ in 0..10 {
        let writer = begin(&store);
        for start in (0..900).step_by(100) {
            writer.append(&inferences(start..start + 100)).expect("kept");
        }
        let directory = writer.directory().to_owned();
        drop(writer);
        let journal = directory.join("journal").join("journal-00000001.frames");
        let used =
            fs_err::read(&journal).expect("a journal").iter().rposition(|byte| *byte != 0).expect("rows");
        flip_bit(&journal, (4096 + random.below(used as u64 - 4096) as usize) * 8 + 3);
        let recording = opened_unchanged(&directory);
        let (rows, _) = readable::<InferenceRow>(&recording);
        assert!(rows.len() >= 700 && rows.iter().all(|row| row.run_ns == noise(row.sequence)));
        assert!(rows.len() == 900 || !recording.condition().is_whole(), "{:?}", recording.condition());
        let report = ortscope_store::repair(&directory).expect("repaired");
        let again = Recording::open(&directory).expect("opens");
        assert!(
            again.condition().is_whole() && again.condition().finished,
            "{report:?} {:?}",
            again.condition()
        );
        assert_eq!(sequences(&again).len(), rows.len());
        if rows.len() < 900 {
            assert!(directory.join("damaged").join("journal-00000001.frames").exists(), "{report:?}");
        }
    }
}

#[test]
fn other_files_are_rejected_as_recordings() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = Recording::open(directory.path()).expect_err("empty");
    assert_eq!(error.kind(), StoreErrorKind::Usage);
    let error = Recording::open(&directory.path().join("nowhere")).expect_err("not there");
    assert_eq!(error.kind(), StoreErrorKind::Usage);
    let file = directory.path().join("x.ortscope");
    for bytes in [&b""[..], b"PK\x03\x04garbage", &[0; 1000]] {
        fs_err::write(&file, bytes).expect("written");
        let error = Recording::open(&file).expect_err("no zip");
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    }
}

#[test]
fn a_missing_store_is_empty_and_an_impossible_path_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(Store::open(directory.path().join("not/yet")).list().expect("empty").is_empty());
    let file = directory.path().join("file");
    fs_err::write(&file, b"x").expect("written");
    Store::open(&file).begin(new_recording("x")).expect_err("a file is no directory");
}
