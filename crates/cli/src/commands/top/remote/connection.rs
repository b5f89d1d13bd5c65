//! A connection to a server: its address, the token, trust in its certificate, and frames.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ortscope_server::security::{hex, sha256};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, HandshakeError, Message, WebSocket, client::client_with_config};

use crate::args::TopArgs;
use crate::exit::{Exit, Failure};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A read that brings nothing for this long looks whether to end.
const READ_STEP: Duration = Duration::from_millis(200);
/// A server sends pings; one that sends nothing at all has gone.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// Far above what a server sends.
const MAX_FRAME: usize = 8 << 20;
const MAX_TOKEN_FILE: u64 = 4096;
const TOPICS: [&str; 6] = ["system", "sessions", "devices", "processes", "events", "losses"];

/// Why a connection is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub sentence: String,
    hint: Option<&'static str>,
    /// Trying again cannot help.
    pub is_final: bool,
}

impl Problem {
    pub fn passing(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), hint: Some("is 'ortscope serve' running there?"), is_final: false }
    }

    fn lasting(sentence: impl Into<String>, hint: &'static str) -> Self {
        Self { sentence: sentence.into(), hint: Some(hint), is_final: true }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let exit = if problem.is_final { Exit::Permission } else { Exit::Internal };
        let failure = Self::new(exit, problem.sentence);
        match problem.hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// Where the server is, and how to speak to it.
#[derive(Debug)]
pub struct Address {
    host: String,
    port: u16,
    token: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Address {
    pub fn new(url: &str, args: &TopArgs) -> Result<Self, Failure> {
        let (is_secure, host, port) = parse(url)?;
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_secure && !is_local {
            return Err(Failure::usage("over http:// the token could be read on the way")
                .with_hint("use https://; 'ortscope serve --tls auto' makes a certificate"));
        }
        let tls = match (is_secure, &args.ca, &args.fingerprint) {
            (false, None, None) => None,
            (false, ..) => return Err(Failure::usage("--ca and --fingerprint are for https:// addresses")),
            (true, Some(file), _) => Some(trusting(file)?),
            (true, None, Some(text)) => Some(pinned(text)?),
            (true, None, None) => {
                return Err(Failure::usage("nothing says which certificate to trust").with_hint(
                    "--fingerprint takes what 'ortscope serve' printed, --ca a certificate in PEM",
                ));
            }
        };
        Ok(Self { host, port, token: token(args.token_file.as_deref())?, tls })
    }

    fn shown(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Whether it has TLS, host and port.
fn parse(url: &str) -> Result<(bool, String, u16), Failure> {
    let wrong = || {
        Failure::usage(format!("'{url}' is not the address of a server"))
            .with_hint("addresses look like https://box.lan:9464")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let is_secure = match scheme.to_ascii_lowercase().as_str() {
        "https" | "wss" => true,
        "http" | "ws" => false,
        _ => return Err(wrong()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // No user, path or query: a token does not belong into an address.
    if rest.is_empty() || rest.contains(['/', '@', '?', '#', ' ']) {
        return Err(wrong());
    }
    let usual = if is_secure { 443 } else { 80 };
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').map_or(Some(usual), |port| port.parse().ok())),
        None => match rest.split_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (rest, Some(usual)),
        },
    };
    match port {
        Some(port) if !host.is_empty() => Ok((is_secure, host.to_owned(), port)),
        _ => Err(wrong()),
    }
}

/// Of a file or the environment: what stands in a command line is seen by everybody on the machine.
fn token(file: Option<&Path>) -> Result<String, Failure> {
    let text = match file {
        Some(path) => {
            let length = fs_err::metadata(path).map(|metadata| metadata.len());
            if length.is_ok_and(|length| length > MAX_TOKEN_FILE) {
                return Err(Failure::usage(format!("'{}' is too large for a token", path.display())));
            }
            fs_err::read_to_string(path)
                .map_err(|error| Failure::usage(format!("there is no token: {error}")))?
        }
        None => std::env::var("ORTSCOPE_TOKEN").unwrap_or_default(),
    };
    let token = text.trim();
    let is_plain = token.chars().all(|letter| letter.is_ascii_graphic());
    if token.is_empty() || !is_plain {
        return Err(Failure::usage("there is no token for the server").with_hint(
            "'ortscope token create NAME' makes one there; put it into ORTSCOPE_TOKEN or a file for --token-file",
        ));
    }
    Ok(token.to_owned())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Failure> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Failure::internal)
}

fn trusting(file: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::usage(format!("'{}' has no certificate that can be used: {problem}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it is empty"));
    }
    Ok(Arc::new(builder()?.with_root_certificates(roots).with_no_client_auth()))
}

fn pinned(text: &str) -> Result<Arc<ClientConfig>, Failure> {
    let digits: String =
        text.chars().filter(|letter| *letter != ':').collect::<String>().to_ascii_lowercase();
    if digits.len() != 64 || !digits.chars().all(|letter| letter.is_ascii_hexdigit()) {
        return Err(Failure::usage("--fingerprint is not a SHA-256: 64 hexadecimal digits")
            .with_hint("'ortscope serve' prints it when it starts with TLS"));
    }
    let verifier = Pinned { fingerprint: digits, provider: ring::default_provider() };
    let config =
        builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Trusts exactly one certificate.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: CryptoProvider,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if hex(&sha256(certificate)) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

#[derive(Debug)]
enum Socket {
    Plain(Box<WebSocket<TcpStream>>),
    Secure(Box<WebSocket<Tls>>),
}

/// A WebSocket that is subscribed to everything the view shows.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    heard: Instant,
}

impl Connection {
    pub fn open(address: &Address, rate_hertz: f64) -> Result<Self, Problem> {
        let gone = |error: &dyn std::fmt::Display| {
            Problem::passing(format!("{} cannot be reached: {error}", address.shown()))
        };
        let mut last = None;
        let mut places =
            (address.host.as_str(), address.port).to_socket_addrs().map_err(|error| gone(&error))?;
        let stream = places.find_map(|place| match TcpStream::connect_timeout(&place, CONNECT_WITHIN) {
            Ok(stream) => Some(stream),
            Err(error) => {
                last = Some(error);
                None
            }
        });
        let stream = match (stream, last) {
            (Some(stream), _) => stream,
            (None, Some(error)) => return Err(gone(&error)),
            (None, None) => return Err(gone(&"the name has no address")),
        };
        let waits = |stream: &TcpStream, time: Duration| {
            stream.set_read_timeout(Some(time)).and_then(|()| stream.set_write_timeout(Some(CONNECT_WITHIN)))
        };
        waits(&stream, CONNECT_WITHIN).map_err(|error| gone(&error))?;
        let scheme = if address.tls.is_some() { "wss" } else { "ws" };
        let mut request =
            format!("{scheme}://{}/api/v1/ws/metrics", address.shown()).into_client_request().map_err(
                |error| Problem::lasting(format!("the address cannot be used: {error}"), "is it a name?"),
            )?;
        let header = HeaderValue::from_str(&format!("Bearer {}", address.token))
            .map_err(|_| Problem::lasting("the token cannot be sent", "it has letters that no token has"))?;
        request.headers_mut().insert("authorization", header);
        let limits =
            WebSocketConfig::default().max_message_size(Some(MAX_FRAME)).max_frame_size(Some(MAX_FRAME));
        let mut socket = match &address.tls {
            None => {
                let (socket, _) = client_with_config(request, stream, Some(limits))
                    .map_err(|error| refused(address, error))?;
                waits(socket.get_ref(), READ_STEP).map_err(|error| gone(&error))?;
                Socket::Plain(Box::new(socket))
            }
            Some(config) => {
                let name = ServerName::try_from(address.host.clone()).map_err(|_| {
                    Problem::lasting("this is not the name of a server", "is the address right?")
                })?;
                let tls = ClientConnection::new(Arc::clone(config), name).map_err(|error| gone(&error))?;
                let (socket, _) = client_with_config(request, StreamOwned::new(tls, stream), Some(limits))
                    .map_err(|error| refused(address, error))?;
                waits(&socket.get_ref().sock, READ_STEP).map_err(|error| gone(&error))?;
                Socket::Secure(Box::new(socket))
            }
        };
        let subscription =
            json!({ "type": "subscribe", "source": "live", "topics": TOPICS, "rate_hertz": rate_hertz });
        let message = Message::Text(subscription.to_string().into());
        let sent = match &mut socket {
            Socket::Plain(socket) => socket.send(message),
            Socket::Secure(socket) => socket.send(message),
        };
        sent.map_err(|error| gone(&error))?;
        Ok(Self { socket, heard: Instant::now() })
    }

    /// The next frame; `None` when `is_over` says so.
    pub fn next(&mut self, is_over: impl Fn() -> bool) -> Result<Option<Value>, Problem> {
        while !is_over() {
            let read = match &mut self.socket {
                Socket::Plain(socket) => socket.read(),
                Socket::Secure(socket) => socket.read(),
            };
            match read {
                Ok(Message::Text(text)) => {
                    self.heard = Instant::now();
                    let frame: Value = serde_json::from_str(&text).map_err(|error| {
                        Problem::passing(format!("the server sent what is no JSON: {error}"))
                    })?;
                    if frame["type"] == "error" {
                        return Err(told(&frame["error"]));
                    }
                    return Ok(Some(frame));
                }
                Ok(Message::Close(_)) => return Err(Problem::passing("the server closed the connection")),
                Ok(_) => self.heard = Instant::now(),
                Err(Error::Io(error)) if is_timeout(&error) && self.heard.elapsed() < SILENT_AFTER => {}
                Err(error) => return Err(Problem::passing(format!("the connection was lost: {error}"))),
            }
        }
        Ok(None)
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// An error that the server told in a frame.
fn told(error: &Value) -> Problem {
    let sentence = format!("the server says: {}", error["message"].as_str().unwrap_or("something is wrong"));
    match error["code"].as_str() {
        Some("unauthorized" | "forbidden") => {
            Problem::lasting(sentence, "make a new token with 'ortscope token create'")
        }
        Some("not_found" | "bad_frame") => {
            Problem::lasting(sentence, "'ortscope serve' without a recording watches its machine")
        }
        _ => Problem::passing(sentence),
    }
}

/// Why there is no WebSocket.
fn refused<S: std::io::Read + std::io::Write>(
    address: &Address,
    error: HandshakeError<tungstenite::handshake::client::ClientHandshake<S>>,
) -> Problem {
    let place = address.shown();
    let error = match error {
        HandshakeError::Interrupted(_) => {
            return Problem::passing(format!("{place} does not answer in time"));
        }
        HandshakeError::Failure(error) => error,
    };
    match &error {
        Error::Http(answer) => match answer.status().as_u16() {
            401 => Problem::lasting(
                format!("{place} does not know the token, or it has expired"),
                "'ortscope token create' makes one there; put it into ORTSCOPE_TOKEN",
            ),
            403 => Problem::lasting(format!("{place} refuses the token"), "its role may not watch"),
            421 => Problem::lasting(
                format!("{place} is not a name that the server answers to"),
                "start it with --allow-host NAME",
            ),
            400 if address.tls.is_none() => Problem::lasting(
                format!("{place} refuses a connection without TLS"),
                "use https:// and --fingerprint or --ca",
            ),
            404 => Problem::lasting(format!("{place} is not 'ortscope serve'"), "is the port right?"),
            status => Problem::passing(format!("{place} answers with status {status}")),
        },
        Error::Io(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            let is_trust = matches!(
                io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
                Some(rustls::Error::InvalidCertificate(_))
            );
            if is_trust {
                Problem::lasting(
                    format!("the certificate of {place} is not the one that is trusted: {io}"),
                    "compare with the fingerprint that 'ortscope serve' prints",
                )
            } else {
                Problem::lasting(
                    format!("{place} does not speak TLS as expected: {io}"),
                    "is it http:// there?",
                )
            }
        }
        other => Problem::passing(format!("{place} cannot be reached: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_secrets_have_no_place_in_them() {
        assert_eq!(parse("https://box.lan:9464/").expect("good"), (true, "box.lan".into(), 9464));
        assert_eq!(parse("wss://box.lan").expect("good"), (true, "box.lan".into(), 443));
        assert_eq!(parse("http://[::1]:9464").expect("good"), (false, "::1".into(), 9464));
        assert_eq!(parse("http://127.0.0.1:1").expect("good"), (false, "127.0.0.1".into(), 1));
        for bad in [
            "box.lan:9464",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x/?token=1",
            "https://x:99999",
            "https://:1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fingerprints_are_those_that_serve_prints() {
        let printed = ["AB"; 32].join(":");
        assert!(pinned(&printed).is_ok() && pinned(&"ab".repeat(32)).is_ok());
        assert!(pinned("ab").is_err() && pinned(&"xy".repeat(32)).is_err());
    }
}
