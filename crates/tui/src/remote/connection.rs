//! A connection to a server: address, token, trusted certificates, frames.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
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

use ortscope_core::failure::{Failure, FailureKind};

use super::RemoteOptions;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A read without data returns after this time, to check whether to end.
const READ_STEP: Duration = Duration::from_millis(200);
/// A server sends pings; without any data for this long it is gone.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// Far above the largest frame of a server.
const MAX_FRAME: usize = 8 << 20;
const MAX_TOKEN_FILE: u64 = 4096;
const TOPICS: [&str; 6] = ["system", "sessions", "devices", "processes", "events", "losses"];

/// Why the connection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub kind: RemoteErrorKind,
    pub message: String,
    pub hint: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteErrorKind {
    /// The options make no sense.
    Usage,
    /// The server, its certificate or its name do not match the options: a retry cannot help.
    Refused,
    /// The server does not answer, at the moment.
    Unreachable,
}

impl RemoteError {
    pub(super) fn passing(message: impl Into<String>) -> Self {
        let hint = Some("is 'ortscope serve' running there?");
        Self { kind: RemoteErrorKind::Unreachable, message: message.into(), hint }
    }

    fn lasting(message: impl Into<String>, hint: &'static str) -> Self {
        Self { kind: RemoteErrorKind::Refused, message: message.into(), hint: Some(hint) }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self { kind: RemoteErrorKind::Usage, message: message.into(), hint: None }
    }

    fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let kind = match error.kind {
            RemoteErrorKind::Usage => FailureKind::Usage,
            RemoteErrorKind::Refused => FailureKind::Permission,
            RemoteErrorKind::Unreachable => FailureKind::Internal,
        };
        Self::new(kind, error.message).with_hint_of(error.hint)
    }
}

impl std::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RemoteError {}

/// Where the server is, and how to authenticate.
#[derive(Debug)]
pub struct Address {
    host: String,
    port: u16,
    token: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Address {
    pub fn new(options: &RemoteOptions) -> Result<Self, RemoteError> {
        let (is_secure, host, port) = parse(&options.url)?;
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_secure && !is_local {
            return Err(RemoteError::usage("over http:// others on the network could read the token")
                .with_hint("use https://; 'ortscope serve --tls auto' generates a certificate"));
        }
        let tls = match (is_secure, &options.ca, &options.fingerprint) {
            (false, None, None) => None,
            (false, ..) => {
                return Err(RemoteError::usage("--ca and --fingerprint are for https:// addresses"));
            }
            (true, Some(file), _) => Some(trusting(file)?),
            (true, None, Some(text)) => Some(pinned(text)?),
            (true, None, None) => {
                return Err(RemoteError::usage("no trusted certificate was named").with_hint(
                    "give --fingerprint as printed by 'ortscope serve', or --ca with a certificate in PEM",
                ));
            }
        };
        Ok(Self { host, port, token: token(options.token_file.as_deref())?, tls })
    }

    fn shown(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Returns whether the address uses TLS, its host and its port.
fn parse(url: &str) -> Result<(bool, String, u16), RemoteError> {
    let wrong = || {
        RemoteError::usage(format!("'{url}' is not the address of a server"))
            .with_hint("addresses look like https://box.lan:9464")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let is_secure = match scheme.to_ascii_lowercase().as_str() {
        "https" | "wss" => true,
        "http" | "ws" => false,
        _ => return Err(wrong()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // No user, path or query: a token does not belong in an address.
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

/// Reads the token from a file or the environment, because every user of the machine can see command lines.
fn token(file: Option<&Path>) -> Result<String, RemoteError> {
    let text = match file {
        Some(path) => {
            let length = fs_err::metadata(path).map(|metadata| metadata.len());
            if length.is_ok_and(|length| length > MAX_TOKEN_FILE) {
                return Err(RemoteError::usage(format!("'{}' is too large for a token", path.display())));
            }
            fs_err::read_to_string(path)
                .map_err(|error| RemoteError::usage(format!("there is no token: {error}")))?
        }
        None => std::env::var("ORTSCOPE_TOKEN").unwrap_or_default(),
    };
    let token = text.trim();
    let is_plain = token.chars().all(|letter| letter.is_ascii_graphic());
    if token.is_empty() || !is_plain {
        return Err(RemoteError::usage("there is no token for the server").with_hint(
            "create one there with 'ortscope token create NAME' and put it into ORTSCOPE_TOKEN or a file for --token-file",
        ));
    }
    Ok(token.to_owned())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, RemoteError> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| RemoteError::lasting(format!("TLS cannot be used: {error}"), "update ortscope"))
}

fn trusting(file: &Path) -> Result<Arc<ClientConfig>, RemoteError> {
    let wrong = |problem: &dyn std::fmt::Display| {
        RemoteError::usage(format!("'{}' has no certificate that can be used: {problem}", file.display()))
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

fn pinned(text: &str) -> Result<Arc<ClientConfig>, RemoteError> {
    let fingerprint = fingerprint(text).ok_or_else(|| {
        RemoteError::usage("--fingerprint is not a SHA-256: 64 hexadecimal digits")
            .with_hint("'ortscope serve' prints it when it starts with TLS")
    })?;
    let verifier = Pinned { fingerprint, provider: default_provider() };
    let config =
        builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Parses 64 hexadecimal digits, which may be separated by colons.
fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| *letter != ':')
        .map(|letter| letter.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect();
    bytes.try_into().ok().filter(|_| digits.len() == 64)
}

/// Trusts exactly one certificate.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
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
        let digest = digest(&SHA256, certificate);
        if digest.as_ref() == self.fingerprint {
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

/// A WebSocket with a subscription to all topics of the view.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    heard: Instant,
}

impl Connection {
    pub fn open(address: &Address, rate_hertz: f64) -> Result<Self, RemoteError> {
        let gone = |error: &dyn std::fmt::Display| {
            RemoteError::passing(format!("{} cannot be reached: {error}", address.shown()))
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
                |error| RemoteError::lasting(format!("the address cannot be used: {error}"), "is it a name?"),
            )?;
        let header = HeaderValue::from_str(&format!("Bearer {}", address.token)).map_err(|_| {
            RemoteError::lasting("the token cannot be sent", "it has characters that no token has")
        })?;
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
                    RemoteError::lasting("the host is not a valid server name", "check the address")
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

    /// Returns the next frame, or `None` once `is_over` returns true.
    pub fn next(&mut self, is_over: impl Fn() -> bool) -> Result<Option<Value>, RemoteError> {
        while !is_over() {
            let read = match &mut self.socket {
                Socket::Plain(socket) => socket.read(),
                Socket::Secure(socket) => socket.read(),
            };
            match read {
                Ok(Message::Text(text)) => {
                    self.heard = Instant::now();
                    let frame: Value = serde_json::from_str(&text).map_err(|error| {
                        RemoteError::passing(format!("the server sent invalid JSON: {error}"))
                    })?;
                    if frame["type"] == "error" {
                        return Err(reported(&frame["error"]));
                    }
                    return Ok(Some(frame));
                }
                Ok(Message::Close(_)) => {
                    return Err(RemoteError::passing("the server closed the connection"));
                }
                Ok(_) => self.heard = Instant::now(),
                Err(Error::Io(error)) if is_timeout(&error) && self.heard.elapsed() < SILENT_AFTER => {}
                Err(error) => return Err(RemoteError::passing(format!("the connection was lost: {error}"))),
            }
        }
        Ok(None)
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Converts an error that the server reported in a frame.
fn reported(error: &Value) -> RemoteError {
    let sentence =
        format!("the server reports: {}", error["message"].as_str().unwrap_or("an error without a message"));
    match error["code"].as_str() {
        Some("unauthorized" | "forbidden") => {
            RemoteError::lasting(sentence, "create a new token with 'ortscope token create'")
        }
        Some("not_found" | "bad_frame") => {
            RemoteError::lasting(sentence, "'ortscope serve' without a recording shows its machine live")
        }
        _ => RemoteError::passing(sentence),
    }
}

/// Explains why the server accepted no WebSocket.
fn refused<S: std::io::Read + std::io::Write>(
    address: &Address,
    error: HandshakeError<tungstenite::handshake::client::ClientHandshake<S>>,
) -> RemoteError {
    let place = address.shown();
    let error = match error {
        HandshakeError::Interrupted(_) => {
            return RemoteError::passing(format!("{place} does not answer in time"));
        }
        HandshakeError::Failure(error) => error,
    };
    match &error {
        Error::Http(answer) => match answer.status().as_u16() {
            401 => RemoteError::lasting(
                format!("{place} does not know the token, or it has expired"),
                "create one there with 'ortscope token create' and put it into ORTSCOPE_TOKEN",
            ),
            403 => {
                RemoteError::lasting(format!("{place} refuses the token"), "its role may not read live data")
            }
            421 => RemoteError::lasting(
                format!("{place} is not a name that the server answers to"),
                "start it with --allow-host NAME",
            ),
            400 if address.tls.is_none() => RemoteError::lasting(
                format!("{place} refuses a connection without TLS"),
                "use https:// and --fingerprint or --ca",
            ),
            404 => RemoteError::lasting(format!("{place} is not 'ortscope serve'"), "is the port right?"),
            status => RemoteError::passing(format!("{place} answers with status {status}")),
        },
        Error::Io(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            let is_trust = matches!(
                io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
                Some(rustls::Error::InvalidCertificate(_))
            );
            if is_trust {
                RemoteError::lasting(
                    format!("the certificate of {place} is not trusted: {io}"),
                    "compare with the fingerprint that 'ortscope serve' prints",
                )
            } else {
                RemoteError::lasting(
                    format!("{place} does not speak TLS as expected: {io}"),
                    "is it http:// there?",
                )
            }
        }
        other => RemoteError::passing(format!("{place} cannot be reached: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_secrets_or_paths_are_rejected() {
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
    fn fingerprints_are_accepted_as_serve_prints_them() {
        let printed = ["AB"; 32].join(":");
        assert!(pinned(&printed).is_ok() && pinned(&"ab".repeat(32)).is_ok());
        assert!(
            pinned("ab").is_err() && pinned(&"ab".repeat(33)).is_err() && pinned(&"xy".repeat(32)).is_err()
        );
    }
}
