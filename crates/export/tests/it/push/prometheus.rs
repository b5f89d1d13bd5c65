//! Real servers: what they answer to questions is what was recorded.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ortscope_core::clock::WallAnchor;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, SessionRow};
use ortscope_core::tables::MemoryTables;
use ortscope_export::push::{Destination, Protocol, PushError, PushOptions, push_recording};
use ortscope_export::{ExportInfo, ExportOptions, Format};
use serde_json::Value;

use super::{inference_figures, options, push};
use crate::skips;
use crate::support::info;
use crate::traces::{batch, trace_tables};

/// What a server is called, and how it is told where to listen and where to keep its data.
struct Kind {
    program: &'static str,
    ready: &'static str,
    arguments: fn(u16, &Path) -> Vec<String>,
}

const PROMETHEUS: Kind = Kind {
    program: "prometheus",
    ready: "/-/ready",
    arguments: |port, directory| {
        let config = directory.join("prometheus.yml");
        std::fs::write(&config, "global: {}\n").unwrap();
        vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", directory.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--web.enable-remote-write-receiver".into(),
            "--log.level=error".into(),
        ]
    },
};

const VICTORIA: Kind = Kind {
    program: "victoria-metrics",
    ready: "/health",
    arguments: |port, directory| {
        vec![
            format!("-storageDataPath={}", directory.join("data").display()),
            format!("-httpListenAddr=127.0.0.1:{port}"),
            "-search.latencyOffset=0s".into(),
            "-search.disableCache".into(),
            "-retentionPeriod=1d".into(),
        ]
    },
};

/// A server that was started for a test and ends with it.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// `None`, and the test is noted as skipped, where the program is not installed.
    fn start(kind: &Kind, port: u16, directory: &Path) -> Option<Self> {
        std::fs::create_dir_all(directory).unwrap();
        let started = Command::new(kind.program)
            .args((kind.arguments)(port, directory))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            skips::skipped(&format!("there is no {}; Debian has a package of that name", kind.program));
            return None;
        };
        let server = Self { child, port };
        let begun = Instant::now();
        while server.get(kind.ready).is_none_or(|(status, _)| status != 200) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} does not start", kind.program);
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/api/v1/write", self.port)
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// The one number that a question has for an answer.
    fn ask(&self, question: &str) -> f64 {
        // VictoriaMetrics shows what it was sent only then.
        self.get("/internal/force_flush");
        let mut query = String::new();
        for byte in question.bytes() {
            query += &format!("%{byte:02x}");
        }
        let (_, body) = self.get(&format!("/api/v1/query?query={query}")).expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let values = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{question}: {body}"));
        assert_eq!(values.len(), 1, "{question}: {body}");
        values[0]["value"][1].as_str().unwrap().parse().unwrap()
    }

    /// How many values there are. Asked by name: functions forget names, and series would be the same then.
    fn count(&self, range: &str) -> f64 {
        self.get("/internal/force_flush");
        let (_, body) = self.get("/api/v1/label/__name__/values").expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let names = answer["data"].as_array().unwrap().iter().filter_map(Value::as_str);
        let ours = names.filter(|name| name.starts_with("ortscope_"));
        ours.map(|name| self.ask(&format!("sum(count_over_time({name}{{job=\"ortscope\"}}[{range}]))"))).sum()
    }

    /// As an administrator would, so that everything is on disk.
    fn stop(mut self) {
        let asked = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        if asked.is_ok_and(|status| status.success()) {
            self.child.wait().ok();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Equal to a billionth.
fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

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
    let started = WallAnchor { monotonic_nanos: 1, unix_nanos: start_unix_ns, error_nanos: 1 };
    let about = ExportInfo { started, ended: None, ..info() };
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
    if skips::variable("ORTSCOPE_TEST_SERVERS").is_none() {
        return;
    }
    for kind in [&PROMETHEUS, &VICTORIA] {
        let directory = tempfile::tempdir().unwrap();
        let (data, queues, port) =
            (directory.path().join("server"), directory.path().join("queues"), free_port());
        let Some(server) = Server::start(kind, port, &data) else { continue };
        let start_unix_ns = (WallAnchor::now().unix_nanos / 1_000_000_000 - MINUTES * 60) * 1_000_000_000;
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
        println!("{}: {made} values of {HOSTS} hosts, all there", kind.program);
        server.stop();
    }
}
