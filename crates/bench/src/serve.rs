//! Measures the age of the newest sample when a client of the server receives a frame. For `cargo xtask bench serve`. The
//! server is `ortscope serve` in its own process; the clients and the observed processes belong to the benchmark.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

/// Frames of the first seconds are ignored, because clients are still connecting.
const WARM_UP: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 256 << 10;
/// A token may open at most 64 WebSockets.
const CLIENTS_PER_TOKEN: usize = 50;

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// The `ortscope` program that serves
    #[arg(long, required_unless_present = "idle")]
    program: Option<PathBuf>,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Clients that never read
    #[arg(long, default_value_t = 0)]
    stuck: usize,
    /// Sampling rate
    #[arg(long, default_value_t = 100.0)]
    hertz: f64,
    #[arg(long, default_value_t = 10.0)]
    client_hertz: f64,
    /// Minimum number of processes on the machine
    #[arg(long, default_value_t = 104)]
    processes: usize,
    /// Helper process: only exist
    #[arg(long)]
    idle: bool,
}

/// Processes that end with the benchmark.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

pub fn run(args: &ServeArgs) -> Result<Value> {
    if args.idle {
        std::thread::sleep(Duration::from_secs(3600));
        return Ok(Value::Null);
    }
    let mut idle = Children(Vec::new());
    let there = ortscope_sources::processes().map(|list| list.len()).unwrap_or(0);
    for _ in there..args.processes {
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--idle"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        idle.0.push(child);
    }
    let directory = tempfile::tempdir()?;
    let state = directory.path().join("state");
    let program = args.program.as_deref().context("--program is missing")?;
    let tokens = tokens(&state, args.clients + args.stuck)?;
    let mut server = Children(vec![
        Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--rate", &args.hertz.to_string()])
            .env("ORTSCOPE_STATE", &state)
            .env("ORTSCOPE_STORE", directory.path().join("store"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?,
    ]);
    let process = server.0.first_mut().context("no server")?;
    let pid = process.id();
    let stdout = process.stdout.take().context("the server has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let document: Value = serde_json::from_str(&line)?;
    let address = document["addresses"][0].as_str().context("the server has no address")?.to_owned();

    let stop = Arc::new(AtomicBool::new(false));
    let mut stuck = Vec::new();
    for token in &tokens[args.clients..] {
        // Subscribes and never reads.
        stuck.push(Client::connect(&address, token, args.client_hertz)?);
    }
    let clients: Vec<_> = tokens[..args.clients]
        .iter()
        .enumerate()
        .map(|(number, token)| {
            let client = Client::connect(&address, token, args.client_hertz)?;
            let stop = Arc::clone(&stop);
            let read = move || client.ages(&stop);
            let thread = std::thread::Builder::new().name(format!("client-{number}"));
            Ok(thread.stack_size(STACK_BYTES).spawn(read)?)
        })
        .collect::<Result<_>>()?;
    std::thread::sleep(WARM_UP);
    let cpu = |pid: u32| ortscope_sources::process_usage(pid).map(|usage| usage.cpu_time_ns).ok();
    let (begin, used) = (Instant::now(), cpu(pid));
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let (seconds, used) =
        (begin.elapsed().as_secs_f64(), cpu(pid).zip(used).map(|(now, then)| now.saturating_sub(then)));
    stop.store(true, Ordering::SeqCst);
    let (mut ages, mut fewest) = (Vec::new(), usize::MAX);
    for client in clients {
        let of_one = client.join().map_err(|_| anyhow!("a client panicked"))?;
        fewest = fewest.min(of_one.len());
        ages.extend(of_one);
    }
    drop(stuck);
    ages.sort_unstable_by(f64::total_cmp);
    let quantile = |q: f64| ages.get(((ages.len().max(1) - 1) as f64 * q).round() as usize).copied();
    Ok(json!({
        "clients": args.clients,
        "stuck": args.stuck,
        "frames": ages.len(),
        "fewest_frames_of_a_client": fewest,
        "processes": ortscope_sources::processes().map(|list| list.len()).unwrap_or(0),
        "p50_ms": quantile(0.5),
        "p99_ms": quantile(0.99),
        "max_ms": quantile(1.0),
        "server_core_percent": used.map(|used| used as f64 / 1e7 / seconds),
        "seconds": seconds,
    }))
}

/// Creates tokens, which several clients share, and returns the secret of each client's token.
fn tokens(state: &Path, clients: usize) -> Result<Vec<String>> {
    let file = ortscope_server::security::tokens::TokenFile::new(state);
    let mut tokens = Vec::new();
    for number in 0..clients.div_ceil(CLIENTS_PER_TOKEN) {
        let (_, secret) =
            file.create(&format!("bench-{number}"), ortscope_server::security::Role::Viewer, None)?;
        tokens.extend(std::iter::repeat_n(secret, CLIENTS_PER_TOKEN));
    }
    tokens.truncate(clients);
    Ok(tokens)
}

/// A minimal WebSocket client: it must not take processor time from the server.
struct Client {
    stream: BufReader<TcpStream>,
    origin_unix_ms: f64,
}

impl Client {
    fn connect(address: &str, token: &str, hertz: f64) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let head = format!(
            "GET /ws/metrics HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: b3J0c2NvcGUgYmVuY2ghIQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let subscribe = json!({
            "type": "subscribe", "source": "live", "topics": ["system", "sessions", "processes", "losses"], "rate_hertz": hertz,
        });
        stream.write_all(&masked(subscribe.to_string().as_bytes()))?;
        let mut stream = BufReader::with_capacity(64 << 10, stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.contains(" 101 "), "the server refused a client: {}", line.trim());
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        let mut client = Self { stream, origin_unix_ms: 0.0 };
        let hello = client.frame()?;
        client.origin_unix_ms =
            number_after(&hello, "\"origin_unix_ms\":").context("no hello from the server")?;
        Ok(client)
    }

    /// Returns the next text frame.
    fn frame(&mut self) -> std::io::Result<String> {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head)?;
            let length = match head[1] & 127 {
                126 => {
                    let mut bytes = [0; 2];
                    self.stream.read_exact(&mut bytes)?;
                    u64::from(u16::from_be_bytes(bytes))
                }
                127 => {
                    let mut bytes = [0; 8];
                    self.stream.read_exact(&mut bytes)?;
                    u64::from_be_bytes(bytes)
                }
                length => u64::from(length),
            };
            let length = usize::try_from(length).ok().filter(|length| *length <= 16 << 20);
            let length = length.ok_or_else(|| std::io::Error::other("a frame above 16 MiB"))?;
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload)?;
            match head[0] & 15 {
                1 => return String::from_utf8(payload).map_err(std::io::Error::other),
                8 => return Err(std::io::Error::other("the server closed")),
                _ => {}
            }
        }
    }

    /// Returns the age of the newest sample in each frame on its arrival, in milliseconds.
    fn ages(mut self, stop: &AtomicBool) -> Vec<f64> {
        let (mut ages, begin) = (Vec::new(), Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let Ok(frame) = self.frame() else { break };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3;
            if begin.elapsed() >= WARM_UP
                && let Some(newest) = number_after(&frame, "\"newest_ms\":")
            {
                ages.push(now - self.origin_unix_ms - newest);
            }
        }
        ages
    }
}

fn number_after(text: &str, key: &str) -> Option<f64> {
    let start = text.find(key)? + key.len();
    let rest = &text[start..];
    let end = rest.find([',', '}'])?;
    rest[..end].parse().ok()
}

/// A client's text frame. The mask is zero, which the protocol permits.
fn masked(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u16::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend(length.unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}
