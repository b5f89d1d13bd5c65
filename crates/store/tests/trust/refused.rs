//! A disk that is full, read-only or broken at each write, temporarily and permanently.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ortscope_channel::disk::{Change, Witness, watch};
use ortscope_store::{Store, StoreError, StoreErrorKind, repair};

use crate::figures::{disk, is_thorough, print_figure};
use crate::workload::{batch, begin, document, look, recording_in};

/// Refuses changes from a certain one on.
#[derive(Debug)]
struct Refuses {
    kind: ErrorKind,
    /// The change that is the first to be refused, counted from 1.
    first: u64,
    /// How many are.
    count: u64,
    seen: AtomicU64,
}

impl Witness for Refuses {
    fn before(&self, change: &Change<'_>) -> std::io::Result<()> {
        // The clock decides when the background syncs.
        if std::thread::current().name() == Some("journal-sync") {
            return Ok(());
        }
        // A full disk can still be read from, synced and emptied.
        let frees = matches!(
            change,
            Change::Sync(_) | Change::SyncDirectory(_) | Change::RemoveFile(_) | Change::RemoveDirectory(_)
        );
        if self.kind == ErrorKind::StorageFull && (frees || matches!(change, Change::Shorten(..))) {
            return Ok(());
        }
        let number = self.seen.fetch_add(1, Ordering::AcqRel) + 1;
        let is_refused = number >= self.first && number - self.first < self.count;
        if is_refused { Err(self.kind.into()) } else { Ok(()) }
    }

    fn after(&self, _: &Change<'_>) {}
}

const ROWS: u64 = 330;

/// Makes a recording on such a disk. Returns which appends were stored, and whether it ended properly.
fn record(root: &Path) -> (Vec<std::ops::Range<u64>>, Result<(), StoreError>) {
    let store = Store::open(root.join("runs"));
    let mut kept = Vec::new();
    let writer = match begin(&store) {
        Ok(writer) => writer,
        Err(error) => return (kept, Err(error)),
    };
    let mut first_error = None;
    let mut note = |result: Result<(), StoreError>| {
        let is_ok = result.is_ok();
        first_error = first_error.take().or(result.err());
        is_ok
    };
    for start in (0..ROWS).step_by(30) {
        if note(writer.append(&batch(1, start..start + 30))) {
            kept.push(start..start + 30);
        }
        writer.settle();
        if start % 90 == 0 {
            note(writer.sync());
            note(writer.write_document("run.json", &document(start > 100)));
        }
    }
    let finished = writer.finish("finished").map(|_| ());
    (
        kept,
        match first_error {
            Some(error) => Err(error),
            None => finished,
        },
    )
}

fn sites(kind: ErrorKind) -> u64 {
    let directory = disk();
    let counter = Arc::new(Refuses { kind, first: u64::MAX, count: 0, seen: AtomicU64::new(0) });
    let watch = watch(directory.path(), Arc::clone(&counter) as Arc<dyn Witness>);
    record(directory.path()).1.expect("nothing is refused");
    drop(watch);
    counter.seen.load(Ordering::Acquire)
}

#[test]
fn a_failing_write_loses_no_stored_rows() {
    let mut runs = 0;
    let kinds = [
        ("full", ErrorKind::StorageFull, StoreErrorKind::NoSpace),
        ("read-only", ErrorKind::ReadOnlyFilesystem, StoreErrorKind::Permission),
        ("broken", ErrorKind::Other, StoreErrorKind::Internal),
    ];
    for (name, kind, _) in kinds {
        let sites = sites(kind);
        assert!(sites > 20, "{sites} places");
        let step = if is_thorough() { 1 } else { 12 };
        for first in (1..=sites).step_by(step) {
            for count in [1, u64::MAX] {
                runs += 1;
                let what = format!("{name} from change {first} of {sites}, {count} times");
                let directory = disk();
                let disk = Arc::new(Refuses { kind, first, count, seen: AtomicU64::new(0) });
                let watch = watch(directory.path(), disk);
                let (kept, ended) = record(directory.path());
                // There is space again.
                drop(watch);
                let runs = directory.path().join("runs");
                let Some(recording) = recording_in(&runs).filter(|path| !never_began(path)) else {
                    assert!(kept.is_empty() && ended.is_err(), "{what}: the recording is gone");
                    assert!(Store::open(runs).list().expect("a list").is_empty(), "{what}");
                    continue;
                };
                if let Err(error) = &ended {
                    assert!(!error.to_string().contains('\n') && !error.to_string().is_empty(), "{what}");
                }
                let seen = match look(&recording, 1) {
                    Ok(seen) => seen,
                    Err(error) => panic!("{what}: {error}"),
                };
                let lost = kept.iter().flat_map(Clone::clone).find(|number| !seen.rows.contains(number));
                assert_eq!(lost, None, "{what}: lost; {:?}", seen.condition);
                if ended.is_ok() {
                    assert!(seen.condition.finished, "{what}: it said that it ended");
                }
                repair(&recording).unwrap_or_else(|error| panic!("{what}: {error}"));
                let after = look(&recording, 1).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(after.rows, seen.rows, "{what}");
                assert!(
                    after.condition.is_whole() && after.condition.finished,
                    "{what}: {:?}",
                    after.condition
                );
            }
        }
        print_figure(&format!("refused_sites_{}", name.replace('-', "_")), sites);
    }
    print_figure("refused_runs", runs);
}

/// A directory that could not even be removed again. The manifest comes first: without it there is nothing else.
fn never_began(recording: &Path) -> bool {
    let entries = fs_err::read_dir(recording).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name()).all(|name| name == "lock")
}

/// When there is space again the recording continues by itself.
#[test]
fn a_recording_continues_when_there_is_space_again() {
    let directory = disk();
    let store = Store::open(directory.path().join("runs"));
    let writer = begin(&store).expect("begun");
    let full = Refuses { kind: ErrorKind::StorageFull, first: 1, count: u64::MAX, seen: AtomicU64::new(0) };
    let watch = watch(directory.path(), Arc::new(full));
    let mut kept = Vec::new();
    let mut next = 0;
    let mut append = |kept: &mut Vec<u64>| {
        let numbers = next..next + 20;
        next += 20;
        let result = writer.append(&batch(2, numbers.clone()));
        if result.is_ok() {
            kept.extend(numbers);
        }
        result
    };
    let error = loop {
        if let Err(error) = append(&mut kept) {
            break error;
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::NoSpace, "{error}");
    let before = kept.len();
    drop(watch);
    // The journal retries once a second.
    let mut tries = 0;
    while kept.len() == before {
        append(&mut kept).ok();
        tries += 1;
        assert!(tries < 1000, "it never went on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let seen = look(&directory, 2).expect("readable");
    assert!(seen.condition.is_whole() && seen.condition.finished);
    assert_eq!(seen.rows.into_iter().collect::<Vec<_>>(), kept);
}

/// A document that repeatedly cannot be written leaves the previous one intact.
#[test]
fn a_document_rejected_twice_leaves_the_previous_one() {
    #[derive(Debug)]
    struct RefusesDocuments;
    impl Witness for RefusesDocuments {
        fn before(&self, change: &Change<'_>) -> std::io::Result<()> {
            let into_documents =
                |path: &Path| path.parent().is_some_and(|parent| parent.ends_with("documents"));
            match change {
                Change::Rename { to, .. } if into_documents(to) => Err(ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        }

        fn after(&self, _: &Change<'_>) {}
    }
    let directory = disk();
    let store = Store::open(directory.path().join("runs"));
    let writer = begin(&store).expect("begun");
    writer.write_document("run.json", b"first").expect("written");
    let watch = watch(directory.path(), Arc::new(RefusesDocuments));
    for refused in [b"second", b"third!"] {
        let error = writer.write_document("run.json", refused).expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::NoSpace, "{error}");
        let seen = look(writer.directory(), 3).expect("readable");
        assert_eq!((seen.document.as_deref(), seen.reports_damage()), (Some(&b"first"[..]), false));
    }
    drop(watch);
    writer.write_document("run.json", b"fourth").expect("written");
    let finished = writer.finish("finished").expect("finished").directory;
    let seen = look(&finished, 3).expect("readable");
    assert_eq!((seen.document.as_deref(), seen.reports_damage()), (Some(&b"fourth"[..]), false));
    assert_eq!(seen.manifest.documents["run.json"].len(), 1);
}
