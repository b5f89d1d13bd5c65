//! A trace that grows: Perfetto sees what came so far, whenever it is opened and wherever it is cut.

use std::path::Path;
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::Sink as _;
use ortscope_core::schema::{InferenceRow, OperatorRow, SessionRow};
use ortscope_export::LiveTrace;
use serde_json::Value;

use crate::traces::{batch, number, perfetto_reads, trace_tables};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Slices, their summed time and the sum of their starts, of all categories.
fn sums(directory: &Path, name: &str) -> Option<(f64, f64, f64)> {
    let trace = perfetto_reads(directory, directory.join(name))?;
    let slices = trace["slices"].as_array().unwrap().iter();
    Some(slices.fold((0.0, 0.0, 0.0), |sums, row| {
        (sums.0 + number(&row[1]), sums.1 + number(&row[2]), sums.2 + number(&row[3]))
    }))
}

/// Batches of all tables in turn, as sources that run at the same time hand them on.
fn in_turn() -> Vec<Batch> {
    let mut batches = Vec::new();
    for whole in trace_tables().batches {
        let parts = whole.len().div_ceil(500).max(1);
        for part in 0..parts {
            let keep: Vec<bool> = (0..whole.len()).map(|row| row * parts / whole.len() == part).collect();
            batches.push((part, whole.filter(&keep)));
        }
    }
    batches.sort_by_key(|(part, _)| *part);
    batches.into_iter().map(|(_, batch)| batch).collect()
}

#[test]
fn perfetto_sees_every_row_of_a_growing_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pftrace");
    let mut live = LiveTrace::create(&path, "a test", LiveTrace::MAX_BYTES).unwrap();
    for batch in in_turn() {
        live.consume(&batch).unwrap();
    }
    live.flush(soon()).unwrap();
    let state = live.handle().state();
    assert_eq!((state.left_out, state.bytes), (0, std::fs::metadata(&path).unwrap().len()));
    // What a recording of the same rows shows, but for the beginning of the trace.
    let (mut rows, mut nanos, mut starts) = (0u64, 0u64, 0u64);
    let mut add = |start: u64, duration: u64| {
        (rows, nanos, starts) = (rows + 1, nanos + duration, starts + start);
    };
    for batch in trace_tables().batches {
        batch.rows::<OperatorRow>().for_each(|row| add(row.timestamp_ns, row.duration_ns));
        batch.rows::<InferenceRow>().for_each(|row| {
            add(row.timestamp_ns, row.copy_in_ns + row.run_ns + row.copy_out_ns);
        });
        batch.rows::<ortscope_core::schema::KernelEventRow>().for_each(|row| add(row.timestamp_ns, 0));
        batch.rows::<ortscope_core::schema::AnnotationRow>().for_each(|row| add(row.timestamp_ns, 0));
    }
    let Some(found) = sums(directory.path(), "live.pftrace") else { return };
    assert_eq!(found, (rows as f64, nanos as f64, starts as f64));
}

/// A kill can come at any byte. What was whole before it is there.
#[test]
fn a_growing_trace_opens_wherever_it_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pftrace");
    let mut live = LiveTrace::create(&path, "a test", LiveTrace::MAX_BYTES).unwrap();
    for batch in in_turn() {
        live.consume(&batch).unwrap();
    }
    live.flush(soon()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let Some((whole, _, _)) = sums(directory.path(), "live.pftrace") else { return };
    let mut before = 0.0;
    for cut in [bytes.len() / 3, bytes.len() / 2 + 1, bytes.len() - 1] {
        std::fs::write(directory.path().join("cut.pftrace"), &bytes[..cut]).unwrap();
        let (slices, _, _) = sums(directory.path(), "cut.pftrace").unwrap();
        assert!(slices > before && slices <= whole, "{slices} of {whole}, cut at {cut}");
        before = slices;
    }
}

/// Without the end of the program: what is older than the window is in the file within a second.
#[test]
fn rows_are_in_the_file_while_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pftrace");
    let mut live = LiveTrace::create(&path, "a test", LiveTrace::MAX_BYTES).unwrap();
    let session = SessionRow { session_id: "s".into(), model_name: "model".into(), ..SessionRow::default() };
    live.consume(&batch(&[session])).unwrap();
    let inference = |second: u64| InferenceRow {
        timestamp_ns: second * 1_000_000_000,
        planned_ns: second * 1_000_000_000,
        session_id: "s".into(),
        run_ns: 1_000,
        ok: true,
        ..InferenceRow::default()
    };
    live.consume(&batch(&(1..=20).map(inference).collect::<Vec<_>>())).unwrap();
    let begun = Instant::now();
    let mut second = 20;
    while live.handle().state().bytes == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing was written");
        std::thread::sleep(Duration::from_millis(50));
        second += 1;
        live.consume(&batch(&[inference(second)])).unwrap();
    }
    let Some(trace) = perfetto_reads(directory.path(), path) else { return };
    let found: Vec<&Value> = trace["slices"].as_array().unwrap().iter().collect();
    assert!(number(&found[0][1]) >= (second - 3) as f64, "{found:?} of {second}");
    drop(live);
}

#[test]
fn a_full_or_impossible_trace_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pftrace");
    let mut live = LiveTrace::create(&path, "a test", 10).unwrap();
    let rows: Vec<OperatorRow> = vec![OperatorRow::default(); 7];
    live.consume(&batch(&rows)).unwrap();
    live.flush(soon()).unwrap();
    let state = live.handle().state();
    assert_eq!((state.rows, state.left_out), (0, 7));
    assert!(state.notes[0].starts_with("7 rows are not in the trace"), "{:?}", state.notes);
    let error = LiveTrace::create(&path, "a test", 10).unwrap_err();
    assert!(error.to_string().ends_with("exists already") && error.hint().is_some(), "{error}");
    let error = LiveTrace::create(&directory.path().join("no/where.pftrace"), "", 10).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
}
