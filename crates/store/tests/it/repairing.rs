//! Repair keeps what can be read, sets the rest aside, and is done after once.

use std::collections::HashMap;

use ortscope_core::schema::{InferenceRow, ProcessSampleRow, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, repair};

use crate::support::*;

#[test]
fn an_intact_recording_is_not_changed() {
    let (_directory, store) = store();
    let directory = finished(&store, 3000);
    let before = snapshot(&directory);
    let report = repair(&directory).expect("nothing to do");
    assert!(report.actions.is_empty() && report.set_aside.is_empty());
    assert!(report.sentences()[0].contains("nothing to repair"));
    assert!(before == snapshot(&directory));
}

#[test]
fn lost_segments_and_lost_chunks_are_accepted_and_kept_aside() {
    let (_directory, store) = store();
    let directory = finished(&store, 30_000);
    let paths = segments(&directory);
    assert!(paths.len() >= 5);
    // One without its end, one with a damaged block (right behind the head), the last one empty.
    let bytes = fs_err::read(&paths[0]).expect("a segment");
    fs_err::write(&paths[0], &bytes[..bytes.len() - 9]).expect("cut");
    flip_bit(&paths[2], 8 * 40);
    fs_err::write(paths.last().expect("segments"), b"").expect("emptied");
    let (readable_before, damaged) = readable::<InferenceRow>(&Recording::open(&directory).expect("opens"));
    assert!(damaged > 0 || readable_before.len() < 30_000);

    let report = repair(&directory).expect("repaired");
    assert_eq!(report.set_aside.len(), 3, "{report:?}");
    assert!(report.set_aside.iter().all(|path| path.exists()));
    assert!(report.rows_lost > 0);
    let recording = Recording::open(&directory).expect("opens");
    let condition = recording.condition();
    assert!(condition.is_whole() && condition.finished, "{condition:?}");
    assert_eq!(condition.repaired_segments, 3);
    assert!(recording.verify().expect("readable").is_empty());
    let (rows, damaged) = readable::<InferenceRow>(&recording);
    assert_eq!((rows, damaged), (readable_before, 0));
    assert!(repair(&directory).expect("again").actions.is_empty());
}

#[test]
fn a_repaired_gap_in_samples_stays_a_gap() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let mut original = HashMap::new();
    for tick in busy_ticks(600) {
        original.extend(tick.rows::<ProcessSampleRow>().map(|row| ((row.timestamp_ns, row.pid), row)));
        writer.append(&tick).expect("kept");
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let paths = segments(&directory);
    fs_err::write(&paths[1], b"nothing").expect("lost");
    repair(&directory).expect("repaired");
    let recording = Recording::open(&directory).expect("opens");
    assert!(recording.condition().is_whole());
    let scan = Scan { every_tick: true, ..Scan::all() };
    let reconstructed: Vec<ProcessSampleRow> = rows(&recording, &scan);
    assert!(reconstructed.len() > original.len() / 2);
    assert!(reconstructed.iter().all(|row| original.get(&(row.timestamp_ns, row.pid)) == Some(row)));
}

/// A manifest may come from anyone: it must not be able to name a directory whose files a repair then removes.
#[test]
fn a_manifest_cannot_make_a_repair_remove_other_files() {
    let (place, store) = store();
    let writer = begin(&store);
    writer.append(&inferences(0..10)).expect("kept");
    let theirs = place.path().join("theirs");
    fs_err::create_dir(&theirs).expect("made");
    for name in ["wedding.ring", "control", "letter.txt"] {
        fs_err::write(theirs.join(name), vec![7; 4096]).expect("written");
    }
    writer.add_channel(&theirs, &[]).expect("named");
    let directory = writer.directory().to_owned();
    drop(writer);
    let before = snapshot(&theirs);
    repair(&directory).expect("repaired");
    assert_eq!(snapshot(&theirs), before);
}

#[test]
fn a_lost_manifest_is_rebuilt() {
    let (_directory, store) = store();
    let directory = finished(&store, 3000);
    let started = Recording::open(&directory).expect("opens").manifest().started;
    fs_err::write(directory.join("manifest.json"), b"{ broken").expect("written");
    let report = repair(&directory).expect("repaired");
    assert_eq!(report.set_aside.len(), 1);
    let recording = Recording::open(&directory).expect("opens");
    assert!(recording.condition().is_whole() && recording.condition().finished);
    assert_eq!(recording.row_count(TableId::Inferences), 3000);
    assert_eq!(recording.manifest().started, started, "the journal had kept both clocks");
    assert_eq!(recording.manifest().id, directory.file_name().expect("id").to_string_lossy());
    let entry = &store.list().expect("a list")[0];
    assert!(entry.finished && !entry.damaged);
}
