//! A server with a recording, and a raw HTTP client.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::clock::{WallAnchor, now_ns};
use ortscope_core::live::{Limits, LiveMemory};
use ortscope_core::pipeline::Sink as _;
use ortscope_core::schema::{
    DeviceSampleRow, FindingRow, GraphEdgeRow, InferenceRow, KernelEventRow, OperatorRow, ProcessRow,
    ProcessSampleRow, Row, SessionRow, SystemSampleRow, UnavailabilityRow,
};
use ortscope_server::security::Role;
use ortscope_server::security::tokens::TokenFile;
use ortscope_server::{Live, LiveControl, LiveState, RecentRows, Running, ServerConfig, start};
use ortscope_store::{NewRecording, Store};
use serde_json::Value;
use tempfile::TempDir;

pub const SESSION: &str = "7f3a0000-0000-4000-8000-000000000001";
pub const INFERENCES: u64 = 1000;
pub const RUNS: u64 = 20;
/// Each operator reads the output of the previous one, and the last one also that of the first.
pub const NODES: [&str; 3] = ["conv_0", "relu_0", "conv_1"];

/// The environment of a test; dropping it removes everything.
pub struct World {
    pub server: Option<Running>,
    pub address: SocketAddr,
    pub recording: String,
    pub state: std::path::PathBuf,
    tokens: [String; 3],
    expired: [String; 3],
    pub revoked: String,
    cookies: std::sync::Mutex<[Option<String>; 3]>,
    pub sinks: (LiveMemory, RecentRows),
    directory: TempDir,
}

fn batch<R: Row>(rows: impl IntoIterator<Item = R>) -> Batch {
    let mut batch = Batch::new(R::TABLE);
    rows.into_iter().for_each(|row| assert!(batch.push(&row)));
    batch
}

/// A session with inferences, profiled operators on two providers, and system samples.
pub fn rows(start_ns: u64) -> Vec<Batch> {
    let ms = 1_000_000_u64;
    let session = SessionRow {
        timestamp_ns: start_ns,
        session_id: SESSION.into(),
        pid: Some(4711),
        model_name: "tiny.onnx".into(),
        execution_providers: "QNNExecutionProvider,CPUExecutionProvider".into(),
        ort_version: Some("1.31.1".into()),
        options: None,
    };
    let inferences = (0..INFERENCES).map(|sequence| InferenceRow {
        timestamp_ns: start_ns + sequence * 2 * ms,
        planned_ns: start_ns + sequence * 2 * ms,
        session_id: SESSION.into(),
        sequence,
        phase: "steady".into(),
        copy_in_ns: 1000,
        run_ns: if sequence % 250 == 249 { 9 * ms } else { ms + (sequence % 17) * 5000 },
        copy_out_ns: 500,
        batch_size: Some(4),
        ok: true,
        ..InferenceRow::default()
    });
    let operators = (0..RUNS).flat_map(|run| {
        let at = start_ns + 2100 * ms + run * 3 * ms;
        let row = move |offset: u64,
                        duration: u64,
                        kind: &str,
                        name: &str,
                        op: &str,
                        provider: &str,
                        device: &str| OperatorRow {
            timestamp_ns: at + offset,
            duration_ns: duration,
            session_id: SESSION.into(),
            run: Some(run),
            kind: kind.into(),
            name: name.into(),
            op_type: op.into(),
            node_index: NODES.iter().position(|node| *node == name).map(|index| index as u64),
            execution_provider: provider.into(),
            device: device.into(),
            thread: 9,
            input_shapes: Some("[[1,3,8,8]]".into()),
            flops: Some(1000),
            ..OperatorRow::default()
        };
        [
            row(0, 2 * ms, "run", "model_run", "", "", ""),
            row(1000, ms, "operator", "conv_0", "Conv", "QNNExecutionProvider", "NPU"),
            row(ms + 2000, 100_000, "operator", "relu_0", "Relu", "CPUExecutionProvider", "CPU"),
            row(ms + 200_000, 300_000, "operator", "conv_1", "Conv", "QNNExecutionProvider", "NPU"),
        ]
    });
    let edges = [(0, 1), (1, 2), (0, 2)].map(|(from_node, to_node)| GraphEdgeRow {
        timestamp_ns: start_ns,
        session_id: SESSION.into(),
        from_node,
        to_node,
    });
    let ticks = |every_ms: u64| (0..2200 / every_ms).map(move |tick| start_ns + tick * every_ms * ms);
    let system = ticks(100).enumerate().map(|(tick, at)| SystemSampleRow {
        timestamp_ns: at,
        cpu_percent: Some(10.0 + tick as f64),
        memory_used_bytes: Some(4_000_000_000),
        memory_total_bytes: Some(8_000_000_000),
        ..SystemSampleRow::default()
    });
    let devices = ticks(100).flat_map(|at| {
        let row = move |device: &str, metric: &str, value: f64| DeviceSampleRow {
            timestamp_ns: at,
            device: device.into(),
            metric: metric.into(),
            value,
            source: "test".into(),
            method: "measured".into(),
        };
        [
            row("cpu0", "busy_ratio", 0.25),
            row("cpu1", "busy_ratio", 0.75),
            row("package-0", "power_watts", 20.0),
        ]
    });
    let processes = ticks(100).enumerate().map(|(tick, at)| ProcessSampleRow {
        timestamp_ns: at,
        pid: 4711,
        process_start: 5,
        cpu_time_ns: tick as u64 * 50 * ms,
        working_set_bytes: 100_000_000 + tick as u64,
        thread_count: Some(7),
        ..ProcessSampleRow::default()
    });
    let kernel = (0..50).map(|event| KernelEventRow {
        timestamp_ns: start_ns + event * 40 * ms,
        kind: "context_switch".into(),
        pid: Some(4711),
        tid: Some(4712),
        duration_ns: Some(300_000),
        detail: Some("kworker".into()),
        ..KernelEventRow::default()
    });
    let process = ProcessRow {
        timestamp_ns: start_ns,
        pid: 4711,
        process_start: 5,
        event: "seen".into(),
        name: "server".into(),
        command_line: Some("server --key <redacted>".into()),
        ..ProcessRow::default()
    };
    let finding = FindingRow {
        timestamp_ns: start_ns,
        id: "provider-fallback".into(),
        severity: "warning".into(),
        evidence: "<script>alert(1)</script> 1 of 3 nodes on CPU".into(),
        advice: "look".into(),
        command: None,
    };
    let unavailable = UnavailabilityRow {
        from_ns: start_ns,
        to_ns: None,
        track: "npu".into(),
        reason: "no counters of an NPU".into(),
        hint: Some("Windows 11 24H2 has them".into()),
    };
    vec![
        batch([session]),
        batch([process]),
        batch(inferences),
        batch(operators),
        batch(edges),
        batch(system),
        batch(devices),
        batch(processes),
        batch(kernel),
        batch([finding]),
        batch([unavailable]),
    ]
}

#[derive(Debug, Default)]
struct Control(std::sync::Mutex<LiveState>);

impl Control {
    fn change(&self, change: impl FnOnce(&mut LiveState)) -> Result<(), String> {
        change(&mut self.0.lock().expect("not poisoned"));
        Ok(())
    }
}

impl LiveControl for Control {
    fn state(&self) -> LiveState {
        self.0.lock().expect("not poisoned").clone()
    }
    fn pause(&self, paused: bool) -> Result<(), String> {
        self.change(|state| state.paused = paused)
    }
    fn set_rate_hertz(&self, hertz: f64) -> Result<(), String> {
        self.change(|state| state.asked_hertz = hertz)
    }
    fn start_recording(&self, _: Option<&str>) -> Result<(), String> {
        Err("there is no space".into())
    }
    fn stop_recording(&self) -> Result<(), String> {
        Err("nothing is being recorded".into())
    }
}

fn make_recording(store: &Path, damage: bool) -> String {
    let store = Store::open(store);
    let writer = store
        .begin(NewRecording { origin: "run".into(), subject: "tiny.onnx".into(), ..NewRecording::default() })
        .expect("a recording");
    let origin = writer.started().monotonic_ns;
    rows(origin).iter().for_each(|batch| writer.append(batch).expect("kept"));
    let finished = writer.finish("for a test").expect("closed");
    if damage {
        fs_err::write(finished.directory.join("manifest.json"), br#"{"format": 99}"#).expect("written");
    }
    finished.id
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server with live data and a recording in its store.
    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, state) = (directory.path().join("store"), directory.path().join("state"));
        let recording = make_recording(&store, false);
        let file = TokenFile::new(&state);
        let tokens = Role::ALL.map(|role| file.create(role.name(), role, None).expect("a token").1);
        let old =
            |role: Role| file.create(&format!("old {}", role.name()), role, Some(1)).expect("a token").1;
        let expired = Role::ALL.map(old);
        let revoked = file.create("revoked", Role::Admin, None).expect("a token").1;
        file.revoke("revoked").expect("written");
        let (memory, recent) = (LiveMemory::new(Limits::default()), RecentRows::default());
        let mut started = WallAnchor::now();
        // Before all rows that are fed.
        started.monotonic_ns = started.monotonic_ns.saturating_sub(5_000_000_000);
        started.unix_ns = started.unix_ns.saturating_sub(5_000_000_000);
        let live = Live {
            view: memory.view(),
            recent: recent.handle(),
            control: Arc::new(Control::default()),
            started,
            machine: [("cpu_model".to_owned(), "test".to_owned())].into(),
        };
        let mut config = ServerConfig {
            listen: vec![([127, 0, 0, 1], 0).into()],
            listen_if_possible: Vec::new(),
            tls: None,
            https_only: false,
            allow_hosts: Vec::new(),
            allow_origins: vec!["https://eval.example".into()],
            state_directory: state.clone(),
            store: Store::open(&store),
            recordings: Vec::new(),
            live: Some(live),
            own_usage: || (None, None),
            carbon_grams_per_kwh: Some(400.0),
        };
        change(&mut config);
        let server = start(config).expect("a server");
        let address = server.addresses[0];
        Self {
            server: Some(server),
            address,
            recording,
            state,
            tokens,
            expired,
            revoked,
            cookies: Default::default(),
            sinks: (memory, recent),
            directory,
        }
    }

    /// A recording of a later format in the store.
    pub fn add_damaged(&self) -> String {
        make_recording(&self.directory.path().join("store"), true)
    }

    /// Rows of the last two seconds reach the live view.
    pub fn feed(&mut self) {
        let batches = rows(now_ns() - 2_300_000_000);
        for batch in &batches {
            self.sinks.0.consume(batch).expect("kept");
            self.sinks.1.consume(batch).expect("kept");
        }
    }

    /// Stops the server and keeps its files.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    pub fn token(&self, role: Role) -> &str {
        &self.tokens[role as usize]
    }

    pub fn expired(&self, role: Role) -> &str {
        &self.expired[role as usize]
    }

    /// The cookie of a role; the first call logs in.
    pub fn cookie(&self, role: Role) -> String {
        let mut cookies = self.cookies.lock().expect("not poisoned");
        let login = || {
            let body = serde_json::json!({ "token": self.token(role) }).to_string();
            let answer = self.request(&Request::post("/api/v1/login", &body));
            let header =
                answer.header("set-cookie").unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
            let value = header.split(';').next().and_then(|pair| pair.split_once('='));
            value.expect("a cookie").1.to_owned()
        };
        cookies[role as usize].get_or_insert_with(login).clone()
    }

    /// A GET with the token of a role.
    pub fn get(&self, role: Role, path: &str) -> Answer {
        self.request(&Request::get(path).token(self.token(role)))
    }

    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(Role::Viewer, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub fn request(&self, request: &Request) -> Answer {
        self.request_at(self.address, request)
    }

    /// Sends the request to another address of the same server.
    pub fn request_at(&self, address: SocketAddr, request: &Request) -> Answer {
        send(address, &request.text(address), &request.body)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub fn post(path: &str, body: &str) -> Self {
        Self { body: body.into(), ..Self::new("POST", path) }.header("Content-Type", "application/json")
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn cookie(self, secret: &str) -> Self {
        self.header("Cookie", &format!("ortscope_session={secret}"))
    }

    /// Requests a WebSocket; the server closes the connection if no frame follows.
    pub fn upgrade(self) -> Self {
        self.header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    fn text(&self, address: SocketAddr) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {address}\r\n");
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !self.body.is_empty() {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        if !self.headers.iter().any(|(name, _)| name == "Connection") {
            text += "Connection: close\r\n";
        }
        text + "\r\n"
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends bytes and reads to the end.
pub fn send(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    // The server may answer and close before it has read everything.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(body).ok();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 65536]);
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
        if is_whole(&bytes) {
            break;
        }
    }
    parse(&bytes)
}

/// Some connections are kept alive, and a WebSocket does not end by itself: its first frame may even arrive with the answer.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    head.starts_with("http/1.1 101") || length.is_some_and(|length| bytes.len() >= end + 4 + length)
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut body = bytes[end + 4..].to_vec();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        body = unchunked(&body);
    }
    Answer { status: status.expect("a status"), headers, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&bytes[..end]), 16).expect("a size");
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
    whole
}
