//! A far end on loopback that says what it is told to say, and remembers what it was sent.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub enum Say {
    Status(u16),
    /// Ends the connection without a word.
    Hang,
}

/// A request that was taken or refused.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub was_taken: bool,
}

pub struct FarEnd {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Request>>>,
    thread: JoinHandle<()>,
}

impl FarEnd {
    /// Says these one after the other, then 200.
    pub fn start(says: Vec<Say>) -> Self {
        Self::start_at("127.0.0.1:0", says)
    }

    /// The same where another one was.
    pub fn start_at(address: &str, says: Vec<Say>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_over, kept) = (Arc::clone(&stop), Arc::clone(&requests));
        let thread = std::thread::Builder::new()
            .name("far end".into())
            .spawn(move || {
                let mut says = says.into_iter();
                for stream in listener.incoming() {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let say = says.next().unwrap_or(Say::Status(200));
                    kept.lock().unwrap().extend(answer(stream.unwrap(), say));
                }
            })
            .unwrap();
        Self { address, stop, requests, thread }
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was taken, or refused with 4xx.
    pub fn stop(self) -> Vec<Request> {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes it.
        TcpStream::connect(self.address).ok();
        self.thread.join().unwrap();
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, say: Say) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok();
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let headers: BTreeMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    while bytes.len() < head_end + length {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
    let Say::Status(status) = say else { return None };
    let said = format!("said {status}");
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nRetry-After: 0\r\n\r\n{said}", said.len())
        .ok();
    let path = head.split_whitespace().nth(1).unwrap().to_owned();
    Some(Request { path, headers, body: bytes[head_end..].to_vec(), was_taken: (200..300).contains(&status) })
}

/// Labels, and values with their milliseconds.
pub type Series = BTreeMap<BTreeMap<String, String>, Vec<(u64, f64)>>;

/// What the requests of remote write hold, read by a reader of its own.
pub fn series(requests: &[Request]) -> Series {
    let mut all = Series::new();
    for request in requests.iter().filter(|request| request.was_taken) {
        let bytes = snap::raw::Decoder::new().decompress_vec(&request.body).unwrap();
        for (_, one) in fields(&bytes) {
            let mut labels = BTreeMap::new();
            let mut samples = Vec::new();
            for (field, inner) in fields(one.bytes()) {
                let parts = fields(inner.bytes());
                if field == 1 {
                    let text = |index: usize| String::from_utf8(parts[index].1.bytes().to_vec()).unwrap();
                    labels.insert(text(0), text(1));
                } else {
                    let millis =
                        parts.iter().find(|(field, _)| *field == 2).map_or(0, |(_, value)| value.number());
                    samples.push((millis, f64::from_bits(parts[0].1.number())));
                }
            }
            all.entry(labels).or_default().append(&mut samples);
        }
    }
    all
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("{number} is no message"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => panic!("a message is no number"),
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u32, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = (key >> 3) as u32;
        let value = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(value.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            kind => panic!("a field of kind {kind}"),
        };
        found.push((field, value));
    }
    found
}
