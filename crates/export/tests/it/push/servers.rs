//! Servers of other projects, started for a test on this machine alone and ended with it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::skips;

/// What a server is called, and how it is told where to listen and where to keep its data.
pub struct Kind {
    pub program: &'static str,
    ready: &'static str,
    arguments: fn(u16, &Path) -> Vec<String>,
}

pub const PROMETHEUS: Kind = Kind {
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

pub const VICTORIA: Kind = Kind {
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
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// `None`, and the test is noted as skipped, where the program is not installed.
    pub fn start(kind: &Kind, port: u16, directory: &Path) -> Option<Self> {
        std::fs::create_dir_all(directory).unwrap();
        let child = Command::new(skips::program(kind.program)?)
            .args((kind.arguments)(port, directory))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", kind.program));
        let server = Self { child, port };
        let begun = Instant::now();
        while server.get(kind.ready).is_none_or(|(status, _)| status != 200) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} does not start", kind.program);
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/api/v1/write", self.port)
    }

    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// All numbers that a question has for an answer.
    pub fn answers(&self, question: &str) -> Vec<f64> {
        // VictoriaMetrics shows what it was sent only then.
        self.get("/internal/force_flush");
        let mut query = String::new();
        for byte in question.bytes() {
            query += &format!("%{byte:02x}");
        }
        let (_, body) = self.get(&format!("/api/v1/query?query={query}")).expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let values = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{question}: {body}"));
        values.iter().map(|value| value["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// The one number that a question has for an answer.
    pub fn ask(&self, question: &str) -> f64 {
        let values = self.answers(question);
        assert_eq!(values.len(), 1, "{question}: {values:?}");
        values[0]
    }

    /// How many values there are. Asked by name: functions forget names, and series would be the same then.
    pub fn count(&self, range: &str) -> f64 {
        self.get("/internal/force_flush");
        let (_, body) = self.get("/api/v1/label/__name__/values").expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let names = answer["data"].as_array().unwrap().iter().filter_map(Value::as_str);
        let ours = names.filter(|name| name.starts_with("ortscope_"));
        ours.map(|name| self.ask(&format!("sum(count_over_time({name}{{job=\"ortscope\"}}[{range}]))"))).sum()
    }

    /// As an administrator would, so that everything is on disk.
    pub fn stop(mut self) {
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

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Equal to a billionth.
pub fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// What a directory takes, with all that is in it.
pub fn disk_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => disk_bytes(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}
