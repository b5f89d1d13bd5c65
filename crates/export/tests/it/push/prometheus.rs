//! Real servers: what they answer to questions is what was recorded.

use std::path::Path;
use std::time::Duration;

use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, SessionRow};
use ortscope_core::tables::MemoryTables;
use ortscope_export::push::{Destination, Protocol, PushError, PushOptions, push_recording};
use ortscope_export::{ExportOptions, Format};

use super::servers::{PROMETHEUS, Server, VICTORIA, close, disk_bytes, free_port};
use super::{inference_figures, options, push};
use crate::support::info;
use crate::traces::{batch, trace_tables};

#[test]
fn servers_answer_with_our_figures() {
    for kind in [&PROMETHEUS, &VICTORIA] {
        let directory = tempfile::tempdir().unwrap();
        let Some(server) = Server::start(kind, free_port(), directory.path()) else { continue };
        let tables = trace_tables();
        let report =
            push(&tables, &options(&server.url(), Protocol::RemoteWrite, &directory.path().join("queue")))
                .unwrap();
        assert_eq!((report.delivered, report.refused), (report.samples, 0), "{:?}", report.refused_why);
        let (count, seconds) = inference_figures(&tables);
        let last = |name: &str| server.ask(&format!("last_over_time({name}{{instance=\"pc1\"}}[5m])"));
        assert_eq!(last("ortscope_inference_duration_seconds_count"), count);
        let found = last("ortscope_inference_duration_seconds_sum");
        assert!(close(found, seconds), "{}: {found} is not {seconds}", kind.program);
        let found = server.count("5m");
        assert_eq!(found, report.samples as f64, "{}", kind.program);
    }
}

const HOSTS: u64 = 200;
const MINUTES: u64 = 10;
/// One of the five rounds of two minutes finds the far end down.
const ROUNDS: u64 = 5;
const STEP_SECONDS: u64 = 10;

/// What a host recorded in one round: an inference each second, and watts that are its own.
fn round_of(host: u64, round: u64) -> (MemoryTables, f64, u64) {
    let (first, last) = (round * MINUTES * 60 / ROUNDS, (round + 1) * MINUTES * 60 / ROUNDS);
    let at = |second: u64| second * 1_000_000_000 + 1;
    let watts = |second: u64| 5.0 + host as f64 / 7.0 + second as f64 / 1_000.0;
    let session = SessionRow {
        timestamp_ns: at(first),
        session_id: "s".into(),
        model_name: "squeezenet".into(),
        execution_providers: "CPUExecutionProvider".into(),
        ..SessionRow::default()
    };
    let inferences: Vec<InferenceRow> = (first..last)
        .map(|second| InferenceRow {
            timestamp_ns: at(second),
            planned_ns: at(second),
            session_id: "s".into(),
            sequence: second,
            run_ns: 1_000_000 + host * 1_000 + second,
            ok: true,
            ..InferenceRow::default()
        })
        .collect();
    let readings: Vec<DeviceSampleRow> = (first..last)
        .map(|second| DeviceSampleRow {
            timestamp_ns: at(second),
            device: "npu0".into(),
            metric: "power_watts".into(),
            value: watts(second),
            ..DeviceSampleRow::default()
        })
        .collect();
    // Of each step the last reading is told.
    let sum = (first..last).filter(|second| (second + 1) % STEP_SECONDS == 0).map(watts).sum();
    let nanos = inferences.iter().map(|row| row.run_ns).sum();
    (MemoryTables { batches: vec![batch(&[session]), batch(&inferences), batch(&readings)] }, sum, nanos)
}

/// All hosts of a round, a few at a time. Returns what was made and what arrived, and refused ones.
fn push_round(port: u16, round: u64, start_unix_ns: u64, queues: &Path, is_down: bool) -> (u64, u64, u64) {
    let started = WallAnchor { monotonic_ns: 1, unix_ns: start_unix_ns, error_ns: 1 };
    let about = RecordingInfo { started, ended: None, ..info() };
    let mut sums = (0, 0, 0);
    for host in 0..HOSTS {
        let (tables, _, _) = round_of(host, round);
        let options = PushOptions {
            protocol: Protocol::RemoteWrite,
            destination: Destination::new(&format!("http://127.0.0.1:{port}/api/v1/write"), None, None)
                .unwrap(),
            host: format!("pc{host:03}"),
            step: Duration::from_secs(STEP_SECONDS),
            queue: queues.join(host.to_string()),
            queue_bytes: 1 << 20,
            give_up_after: Duration::from_millis(if is_down { 20 } else { 30_000 }),
        };
        let pushed = push_recording(&tables, &about, &ExportOptions::new(Format::Prometheus), &options);
        let report = match pushed {
            Ok(report) if !is_down => report,
            Err(error @ PushError::Unreachable { .. }) if is_down => error.report().unwrap().clone(),
            other => panic!("host {host}, round {round}: {other:?}"),
        };
        assert_eq!(report.dropped, 0);
        sums = (sums.0 + report.samples, sums.1 + report.delivered, sums.2 + report.refused);
    }
    sums
}

/// 200 machines for ten minutes of virtual time; for two of them the far end is down.
#[test]
fn a_fleet_loses_nothing_while_the_far_end_is_down() {
    for kind in [&PROMETHEUS, &VICTORIA] {
        let directory = tempfile::tempdir().unwrap();
        let (data, queues, port) =
            (directory.path().join("server"), directory.path().join("queues"), free_port());
        let Some(server) = Server::start(kind, port, &data) else { continue };
        let start_unix_ns = (WallAnchor::now().unix_ns / 1_000_000_000 - MINUTES * 60) * 1_000_000_000;
        let mut server = Some(server);
        let (mut made, mut arrived) = (0, 0);
        for round in 0..ROUNDS {
            let is_down = round == 2;
            if is_down {
                server.take().expect("it runs").stop();
            } else if server.is_none() {
                server = Server::start(kind, port, &data);
            }
            let (samples, delivered, refused) = push_round(port, round, start_unix_ns, &queues, is_down);
            assert_eq!(refused, 0, "{}, round {round}", kind.program);
            (made, arrived) = (made + samples, arrived + delivered);
        }
        assert_eq!(made, arrived, "{}", kind.program);
        let server = server.expect("it runs");
        let all = server.count("30m");
        assert_eq!(all, made as f64, "{}: samples were lost", kind.program);
        let rounds = || (0..HOSTS).flat_map(|host| (0..ROUNDS).map(move |round| round_of(host, round)));
        let expected: f64 = rounds().map(|(_, watts, _)| watts).sum();
        let found = server.ask("sum(sum_over_time(ortscope_device_power_watts[30m]))");
        assert!(close(found, expected), "{}: {found} W are not {expected}", kind.program);
        // Each round is a recording of its own: the counters of the last one.
        let expected: u64 = (0..HOSTS).map(|host| round_of(host, ROUNDS - 1).2).sum();
        let found = server.ask("sum(last_over_time(ortscope_inference_run_seconds_total[30m]))");
        assert!(close(found, expected as f64 / 1e9), "{}: {found} s are not {expected} ns", kind.program);
        server.stop();
        let bytes = disk_bytes(&data) as f64;
        println!(
            "{}: {made} values of {HOSTS} hosts, all there, in {bytes} bytes on disk, {:.2} each",
            kind.program,
            bytes / made as f64
        );
    }
}
