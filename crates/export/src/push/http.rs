//! One POST over HTTP/1.1: all that a push needs. A connection per request; a far end that is slow is given up in time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::destination::Destination;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// From the first byte that is sent to the last that is read.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What is read of an answer; all that matters stands at its beginning.
const MAX_ANSWER: usize = 64 << 10;
/// What is shown of its words.
const MAX_WORDS: usize = 300;

/// What the far end said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) words: String,
}

/// Why there was no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Another try may help.
    Passing(String),
    /// The certificate is not one that is trusted: another try cannot help.
    Tls(String),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(destination: &Destination) -> Result<TcpStream, NoAnswer> {
    let passing =
        |error: io::Error| NoAnswer::Passing(format!("{} is not reachable: {error}", destination.shown()));
    let addresses = (destination.host.as_str(), destination.port).to_socket_addrs().map_err(passing)?;
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
    }
    Err(passing(problem))
}

fn is_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

pub(super) fn post(
    destination: &Destination,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer, NoAnswer> {
    let stream = connect(destination)?;
    let shown = destination.shown();
    let deadline = Instant::now() + ANSWER_WITHIN;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).ok();
    stream.set_write_timeout(Some(ANSWER_WITHIN)).ok();
    stream.set_nodelay(true).ok();
    let mut stream: Box<dyn Stream> = match &destination.tls {
        None => Box::new(stream),
        Some(config) => {
            let name = ServerName::try_from(destination.host.clone()).map_err(|_| {
                NoAnswer::Tls(format!("'{}' is no name that a certificate can have", destination.host))
            })?;
            let connection = ClientConnection::new(Arc::clone(config), name)
                .map_err(|error| NoAnswer::Tls(format!("no secure connection to {shown}: {error}")))?;
            Box::new(StreamOwned::new(connection, stream))
        }
    };
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: ortscope/{}\r\nConnection: close\r\nContent-Length: {}\r\n",
        if path.is_empty() { "/" } else { path },
        if destination.host.contains(':') {
            format!("[{}]", destination.host)
        } else {
            destination.host.clone()
        },
        destination.port,
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(authorization) = &destination.authorization {
        head += &format!("Authorization: {}\r\n", authorization.header());
    }
    head += "\r\n";
    let failed = |error: io::Error| {
        if is_tls(&error) {
            NoAnswer::Tls(format!("no secure connection to {shown}: {error}"))
        } else {
            NoAnswer::Passing(format!("{shown} did not take the data: {error}"))
        }
    };
    // A far end that refuses early answers before it has read all: then the answer counts, not the broken pipe.
    let sent =
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).and_then(|()| stream.flush());
    let bytes = read(stream.as_mut(), deadline);
    match (parse(&bytes), sent) {
        (Some(answer), _) => Ok(answer),
        (None, Err(error)) => Err(failed(error)),
        (None, Ok(())) => Err(NoAnswer::Passing(format!("{shown} took the data but gave no answer of HTTP"))),
    }
}

/// What comes until the end, the deadline or enough.
fn read(stream: &mut dyn Stream, deadline: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < MAX_ANSWER && Instant::now() < deadline {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        if is_complete(&bytes) {
            break;
        }
    }
    bytes
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// Whether all that was promised is there: some far ends keep the connection all the same.
fn is_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length: Option<usize> = header(head, "content-length").and_then(|length| length.parse().ok());
    match length {
        Some(length) => bytes.len() >= head.len() + 4 + length,
        None => head.starts_with("HTTP/1.1 204") || bytes.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut first = head.split_whitespace();
    if !first.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = first.next()?.parse().ok()?;
    let retry_after =
        header(head, "retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let words: String = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.chars().filter(|letter| !letter.is_control()).take(MAX_WORDS).collect();
    Some(Answer { status, retry_after, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer =
            parse(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\na\r\nb\n")
                .unwrap();
        assert_eq!(
            (answer.status, answer.retry_after, answer.words.as_str()),
            (429, Some(Duration::from_secs(7)), "a b")
        );
        assert!(is_complete(b"HTTP/1.1 204 No Content\r\n\r\n"));
        assert!(!is_complete(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"));
        for wrong in [&b""[..], b"garbage", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"] {
            assert_eq!(parse(wrong), None);
        }
    }
}
