//! Pushing: what arrives is what was recorded, and nothing is lost while the far end is down.

mod far_end;
mod grafana;
mod otlp;
mod outage;
mod prometheus;
mod servers;

use std::path::Path;
use std::time::Duration;

use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::InferenceRow;
use ortscope_core::tables::MemoryTables;
use ortscope_export::push::{
    Authorization, Destination, Protocol, PushError, PushOptions, PushReport, push_recording,
};
use ortscope_export::{ExportOptions, Format};

use crate::support::info;
use crate::traces::trace_tables;
use far_end::{FarEnd, Say, Series, series};

pub fn options(url: &str, protocol: Protocol, queue: &Path) -> PushOptions {
    PushOptions {
        protocol,
        destination: Destination::new(url, None, None).unwrap(),
        host: "pc1".into(),
        step: Duration::from_millis(100),
        queue: queue.to_owned(),
        queue_bytes: PushOptions::USUAL_QUEUE_BYTES,
        give_up_after: Duration::from_millis(600),
    }
}

/// As if it had begun a few seconds ago: Prometheus refuses what is old.
pub fn fresh_info() -> RecordingInfo {
    let now = WallAnchor::now();
    let started = WallAnchor { monotonic_ns: 1_000, unix_ns: now.unix_ns - 60_000_000_000, error_ns: 1 };
    RecordingInfo { started, ended: None, ..info() }
}

pub fn push(tables: &MemoryTables, options: &PushOptions) -> Result<PushReport, PushError> {
    push_recording(tables, &fresh_info(), &ExportOptions::new(Format::Prometheus), options)
}

/// Sums of the rows that the last value of a counter must show.
pub fn inference_figures(tables: &MemoryTables) -> (f64, f64) {
    let rows = tables.batches.iter().flat_map(|batch| batch.rows::<InferenceRow>());
    let latency =
        |row: InferenceRow| row.timestamp_ns - row.planned_ns + row.copy_in_ns + row.run_ns + row.copy_out_ns;
    let (count, nanos) = rows.fold((0u64, 0u64), |(count, sum), row| (count + 1, sum + latency(row)));
    (count as f64, nanos as f64 / 1e9)
}

/// The last value of the series of this name.
fn last(series: &Series, name: &str) -> f64 {
    let found = series.iter().find(|(labels, _)| labels.get("__name__").is_some_and(|found| found == name));
    let (_, samples) = found.unwrap_or_else(|| panic!("{name} did not arrive"));
    assert!(samples.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name} is not in the order of time");
    samples.last().expect("a value").1
}

#[test]
fn what_arrives_is_what_was_recorded() {
    let far_end = FarEnd::start(Vec::new());
    let directory = tempfile::tempdir().unwrap();
    let tables = trace_tables();
    let report =
        push(&tables, &options(&far_end.url("/api/v1/write"), Protocol::RemoteWrite, directory.path()))
            .unwrap();
    let requests = far_end.stop();
    let arrived = series(&requests);
    let (count, seconds) = inference_figures(&tables);
    assert_eq!(last(&arrived, "ortscope_inference_duration_seconds_count"), count);
    assert!((last(&arrived, "ortscope_inference_duration_seconds_sum") - seconds).abs() < 1e-9);
    assert_eq!(last(&arrived, "ortscope_device_power_watts"), 99.75);
    let samples: usize = arrived.values().map(Vec::len).sum();
    assert_eq!(
        (report.samples, report.delivered, report.waiting, report.dropped),
        (samples as u64, samples as u64, 0, 0)
    );
    for labels in arrived.keys() {
        assert_eq!((labels["instance"].as_str(), labels["job"].as_str()), ("pc1", "ortscope"));
    }
    for request in &requests {
        assert_eq!(request.path, "/api/v1/write");
        assert_eq!(request.headers["content-encoding"], "snappy");
        assert_eq!(request.headers["x-prometheus-remote-write-version"], "0.1.0");
    }
}

/// Down, then up again: what waited is sent first, by another process too.
#[test]
fn what_waits_is_sent_by_the_next_push() {
    let directory = tempfile::tempdir().unwrap();
    let tables = trace_tables();
    // A port that nobody listens on.
    let down = FarEnd::start(Vec::new());
    let url = down.url("/w");
    down.stop();
    let error = push(&tables, &options(&url, Protocol::RemoteWrite, directory.path())).unwrap_err();
    assert!(matches!(error, PushError::Unreachable { .. }), "{error}");
    let first = error.report().unwrap().clone();
    assert_eq!((first.delivered, first.waiting, first.dropped), (0, first.samples, 0));
    assert!(error.hint().unwrap().contains("are sent by the next push"), "{:?}", error.hint());
    let far_end = FarEnd::start(vec![Say::Status(503), Say::Hang, Say::Status(429)]);
    let again = PushOptions {
        destination: Destination::new(&far_end.url("/w"), None, None).unwrap(),
        give_up_after: Duration::from_secs(20),
        ..options(&url, Protocol::RemoteWrite, directory.path())
    };
    let second = push(&tables, &again).unwrap();
    assert_eq!((second.delivered, second.waiting), (first.samples + second.samples, 0));
    let arrived: usize = series(&far_end.stop()).values().map(Vec::len).sum();
    assert_eq!(arrived as u64, first.samples + second.samples);
}

#[test]
fn a_queue_that_is_full_drops_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    let down = FarEnd::start(Vec::new());
    let url = down.url("/w");
    down.stop();
    // Several requests: values every 10 ms.
    let many = |queue: &str, queue_bytes: u64| {
        let step = Duration::from_millis(10);
        let queue = directory.path().join(queue);
        push(
            &trace_tables(),
            &PushOptions { step, queue_bytes, ..options(&url, Protocol::RemoteWrite, &queue) },
        )
    };
    let whole = many("large", 1 << 20).unwrap_err();
    let waiting = whole.report().unwrap().clone();
    assert_eq!((waiting.waiting, waiting.dropped), (waiting.samples, 0));
    let files = std::fs::read_dir(directory.path().join("large")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let error = many("small", bytes / 2).unwrap_err();
    let report = error.report().unwrap();
    assert!(report.dropped > 0 && report.waiting > 0, "{report:?}");
    assert_eq!(report.waiting + report.dropped, report.samples);
}

#[test]
fn refusals_are_counted_in_the_far_ends_words_and_wrong_tokens_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let far_end = FarEnd::start(vec![Say::Status(400); 1_000]);
    let report =
        push(&trace_tables(), &options(&far_end.url("/w"), Protocol::RemoteWrite, directory.path())).unwrap();
    far_end.stop();
    assert_eq!((report.delivered, report.refused, report.waiting), (0, report.samples, 0));
    assert!(report.refused_why.unwrap().contains("answered 400: said 400"), "no words");

    let far_end = FarEnd::start(vec![Say::Status(401); 1_000]);
    let mut denied = options(&far_end.url("/w"), Protocol::RemoteWrite, directory.path());
    let token = Authorization::bearer("wrong").unwrap();
    denied.destination = Destination::new(&far_end.url("/w"), None, Some(token)).unwrap();
    let error = push(&trace_tables(), &denied).unwrap_err();
    assert!(matches!(error, PushError::Denied { .. }), "{error}");
    let report = error.report().unwrap();
    assert_eq!((report.waiting, report.refused), (report.samples, 0));
    let requests = far_end.stop();
    assert_eq!(requests[0].headers["authorization"], "Bearer wrong");
}

#[test]
fn a_queue_that_cannot_be_written_and_a_far_end_that_is_no_server_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error =
        push(&trace_tables(), &options("http://127.0.0.1:9/w", Protocol::RemoteWrite, &file)).unwrap_err();
    assert!(matches!(error, PushError::Queue(_)) && error.hint().is_some(), "{error}");
    // TLS is asked of a server that has none.
    let far_end = FarEnd::start(Vec::new());
    let url = far_end.url("/w").replace("http://", "https://");
    match Destination::new(&url, None, None) {
        Ok(destination) => {
            let queue = directory.path().join("queue");
            let options =
                PushOptions { destination, ..options("http://127.0.0.1:9/w", Protocol::RemoteWrite, &queue) };
            let error = push(&trace_tables(), &options).unwrap_err();
            let waiting = error.report().unwrap().waiting;
            assert!(waiting > 0, "{error}");
        }
        // A system without certificates says so.
        Err(error) => assert!(error.hint().unwrap().contains("--ca")),
    }
    far_end.stop();
}

#[test]
fn live_values_are_pushed_and_what_is_left_waits() {
    use ortscope_core::pipeline::Sink as _;
    let directory = tempfile::tempdir().unwrap();
    let far_end = FarEnd::start(Vec::new());
    let options = options(&far_end.url("/w"), Protocol::RemoteWrite, directory.path());
    let mut sink = ortscope_export::push::PushSink::start(options).unwrap();
    let handle = sink.handle();
    let tables = trace_tables();
    let sessions = tables.batches.iter().filter(|batch| batch.table().def().name == "sessions");
    for batch in sessions.chain(&tables.batches) {
        sink.consume(batch).unwrap();
    }
    sink.flush(std::time::Instant::now() + Duration::from_secs(20)).unwrap();
    drop(sink);
    let state = handle.state();
    let arrived = series(&far_end.stop());
    let (count, seconds) = inference_figures(&tables);
    assert_eq!(last(&arrived, "ortscope_inference_duration_seconds_count"), count);
    assert!((last(&arrived, "ortscope_inference_duration_seconds_sum") - seconds).abs() < 1e-9);
    assert_eq!((state.waiting, state.refused, state.dropped, state.trouble), (0, 0, 0, None));
}
