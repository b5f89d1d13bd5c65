//! Reading while others write, and where nothing can be written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ortscope_core::pipeline::Journal;
use ortscope_core::schema::{TableId, WallAnchorRow};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, StoreErrorKind, repair};

use crate::support::*;

/// A reader sees a consistent state: complete, without duplicates, and never less than was there when it started.
#[test]
fn readers_see_a_whole_moment_while_files_become_segments() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let directory = writer.directory().to_owned();
    let (kept, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..60_000).step_by(100) {
                writer.append(&inferences(start..start + 100)).expect("kept");
                kept.store(start + 100, Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut looks = 0;
        while !done.load(Ordering::SeqCst) || looks < 3 {
            let at_least = kept.load(Ordering::SeqCst);
            let recording = Recording::open(&directory).expect("readable");
            assert!(recording.condition().is_whole(), "{:?}", recording.condition());
            let numbers = sequences(&recording);
            assert!(numbers.len() as u64 >= at_least);
            assert_eq!(numbers.len() as u64, recording.row_count(TableId::Inferences));
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "each once, in one piece");
            looks += 1;
        }
    });
    let finished = writer.finish("finished").expect("finished");
    assert_eq!(finished.rows["inferences"], 60_000);
}

#[test]
fn the_pipeline_and_its_owner_write_into_one_recording() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let mut journal = writer.journal();
    journal.append(&inferences(0..10)).expect("kept");
    writer.append(&inferences(10..20)).expect("kept");
    journal.finish().expect("synced");
    writer.append(&inferences(20..30)).expect("kept after the pipeline ended");
    writer.write_document("run.json", b"{}").expect("kept");
    let directory = writer.finish("finished").expect("finished").directory;
    journal.append(&inferences(30..40)).expect_err("it has ended");
    let recording = Recording::open(&directory).expect("readable");
    assert_eq!(sequences(&recording), (0..30).collect::<Vec<_>>());
    assert_eq!(recording.document("run.json").expect("readable").as_deref(), Some(&b"{}"[..]));
    assert_eq!(recording.document("other.json").expect("readable"), None);
    assert_eq!(recording.document("../manifest.json").expect_err("no path").kind(), StoreErrorKind::Usage);
    let anchors: Vec<WallAnchorRow> = rows(&recording, &Scan::all());
    assert!(anchors.len() >= 2, "one at the start, one at the end");
    assert!(!directory.join("journal").exists() && !directory.join("channel").exists());
}

#[test]
fn scans_return_what_was_requested() {
    let (_directory, store) = store();
    let recording = Recording::open(&finished(&store, 20_000)).expect("readable");
    assert!(segments(recording.path()).len() > 2);
    let scan = Scan { from_ns: Some(1_005_000_000), to_ns: Some(1_015_000_000), ..Scan::all() };
    let numbers: Vec<u64> = rows::<ortscope_core::schema::InferenceRow>(&recording, &scan)
        .iter()
        .map(|row| row.sequence)
        .collect();
    assert_eq!(numbers, (5..15).collect::<Vec<_>>());
    let nothing = Scan { from_ns: Some(5), to_ns: Some(5), ..Scan::all() };
    assert_eq!(recording.scan(TableId::Inferences, &nothing).count(), 0);
    let backwards = Scan { from_ns: Some(u64::MAX), to_ns: Some(0), every_tick: true, columns: None };
    assert_eq!(recording.scan(TableId::Inferences, &backwards).count(), 0);
    assert_eq!(recording.scan(TableId::ProcessSamples, &backwards).count(), 0);
    let (first, last) = recording.time_range_ns().expect("rows");
    assert!(first <= 1_000_000_000 && last >= 1_000_000_000 + 19_999 * 1_000_000);
}

#[test]
fn a_second_writer_is_rejected() {
    let (_directory, store) = store();
    let writer = begin(&store);
    writer.append(&inferences(0..10)).expect("kept");
    let before = snapshot(writer.directory());
    let error = repair(writer.directory()).expect_err("it is being written");
    assert_eq!(error.kind(), StoreErrorKind::InUse);
    assert!(error.to_string().contains(writer.id()) && error.hint().is_some(), "{error}");
    assert_eq!(store.remove(writer.id()).expect_err("in use").kind(), StoreErrorKind::InUse);
    assert!(before == snapshot(writer.directory()));
    writer.append(&inferences(10..20)).expect("it goes on");
    let directory = writer.finish("finished").expect("finished").directory;
    assert_eq!(sequences(&Recording::open(&directory).expect("readable")).len(), 20);
}

#[test]
fn names_and_tags_given_meanwhile_survive_the_end() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let id = writer.id().to_owned();
    store.tag(&id, &["keep".into()], &[]).expect("tagged");
    store.rename(&id, "baseline").expect("named");
    writer.set_fingerprint([("cpu_model".to_owned(), "x".to_owned())].into()).expect("changed");
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    assert_eq!(recording.manifest().tags, ["keep"]);
    assert_eq!(recording.manifest().name.as_deref(), Some("baseline"));
    assert_eq!(recording.manifest().fingerprint["cpu_model"], "x");
}

/// Where nothing can be written, everything can be read.
#[test]
fn a_read_only_directory_can_be_read_but_not_written() {
    let (_directory, store) = store();
    let directory = finished(&store, 3000);
    let set_read_only = |read_only: bool| {
        for path in [store.root(), &directory, &directory.join("segments")] {
            let mut rights = fs_err::metadata(path).expect("there").permissions();
            rights.set_readonly(read_only);
            fs_err::set_permissions(path, rights).expect("changed");
        }
    };
    #[expect(clippy::permissions_set_readonly_false, reason = "a temporary directory of this test")]
    let writable = || {
        for path in [store.root(), &directory, &directory.join("segments")] {
            let mut rights = fs_err::metadata(path).expect("there").permissions();
            rights.set_readonly(false);
            fs_err::set_permissions(path, rights).expect("changed");
        }
    };
    fs_err::remove_file(store.root().join("catalogue.sqlite")).expect("removed");
    set_read_only(true);
    assert_eq!(sequences(&Recording::open(&directory).expect("readable")).len(), 3000);
    assert_eq!(store.list().expect("a list without a catalogue").len(), 1);
    // The superuser may write everywhere, and so may users of systems that take this right differently.
    if fs_err::write(store.root().join("probe"), b"").is_err() {
        let refused = store.begin(new_recording("x")).expect_err("read-only");
        assert_eq!(refused.kind(), StoreErrorKind::Permission, "{refused}");
        let refused = store.tag("last", &["x".into()], &[]).expect_err("read-only");
        assert_eq!(refused.kind(), StoreErrorKind::Permission, "{refused}");
    }
    writable();
}

/// Who has a recording open that is still written reads its documents as they are now, not as damaged ones.
#[test]
fn a_document_replaced_meanwhile_is_readable() {
    let (_directory, store) = store();
    let writer = begin(&store);
    writer.write_document("run.json", b"first").expect("kept");
    let recording = Recording::open(writer.directory()).expect("it opens");
    for now in [&b"second"[..], b"third"] {
        writer.write_document("run.json", now).expect("kept");
        assert_eq!(recording.document("run.json").expect("readable").as_deref(), Some(now));
    }
    fs_err::write(writer.directory().join("documents/run.json"), b"thirD").expect("changed");
    assert!(recording.document("run.json").is_err(), "never written");
}
