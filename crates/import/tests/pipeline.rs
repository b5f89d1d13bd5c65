//! Imports through the pipeline.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::pipeline::{Journal, JournalError, Limits, Pipeline};
use ortscope_core::schema::{OperatorRow, TableId};
use ortscope_import::{Format, ImportError, Summary};

/// Keeps the operators, slower than they are read.
#[derive(Clone, Default)]
struct SlowJournal(Arc<Mutex<Vec<OperatorRow>>>);

impl Journal for SlowJournal {
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        std::thread::sleep(Duration::from_millis(2));
        if batch.table() == TableId::Operators {
            self.0.lock().expect("no panic").extend(batch.rows::<OperatorRow>());
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Imports a file through a pipeline that has room for one batch.
fn import(path: &Path, start_ns: u64) -> (Result<Summary, ImportError>, Vec<OperatorRow>, u64) {
    let journal = SlowJournal::default();
    let (source, handle) = ortscope_import::open(path).expect("a known format").source(start_ns);
    let limits = Limits { intake_bytes: 1, ..Limits::default() };
    let running = Pipeline::default().with_limits(limits).journal(journal.clone()).source(source).start();
    let summary = handle.finish(|_| {});
    let lost = running.expect("threads").join().losses.iter().map(|(_, _, count)| count).sum();
    let rows = std::mem::take(&mut *journal.0.lock().expect("no panic"));
    (summary, rows, lost)
}

fn profile() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/data/ort_profile/1.31.1.json")
}

#[test]
fn a_full_pipeline_delays_an_import_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("long.json");
    // 200 times the same runs: several batches, in which each waits for the one before it.
    let text = std::fs::read_to_string(profile()).expect("a profile");
    let events = text.trim().trim_start_matches('[').trim_end_matches(']').trim().trim_end_matches(',');
    std::fs::write(&path, format!("[{}]", [events; 200].join(",\n"))).expect("a file");
    assert_eq!(ortscope_import::open(&path).expect("a profile").format(), Format::OrtProfile);
    let (summary, rows, lost) = import(&path, 5_000_000_000);
    let summary = summary.expect("it is a profile");
    assert_eq!(summary.document["events"], 44 * 200);
    assert_eq!((rows.len() as u64, lost), (summary.document["rows"].as_u64().expect("a number"), 0));
    assert!(rows.len() > 8_000 && rows.iter().all(|row| row.timestamp_ns >= 5_000_000_000));
    assert!(!summary.is_incomplete);
}

#[test]
fn a_file_of_another_format_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("other.json");
    std::fs::write(&path, "{\"a\": 1}").expect("a file");
    let (summary, rows, _) = import(&path, 0);
    let failure = Failure::from(summary.expect_err("it is no profile"));
    assert_eq!(failure.kind, FailureKind::Usage);
    assert!(failure.message.contains("other.json") && failure.hint.is_some(), "{failure:?}");
    assert!(rows.is_empty());
    let missing = ortscope_import::open(&directory.path().join("absent.etl")).expect_err("there is none");
    assert!(matches!(missing, ImportError::NotFound(_)), "{missing}");
}
