//! Where to push: an address, whom to trust, and who we are.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::PushError;

/// Where Linux distributions keep the certificates that they trust.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The value of the header `Authorization`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

impl Authorization {
    pub fn bearer(token: &str) -> Result<Self, PushError> {
        Self::checked(format!("Bearer {}", token.trim()))
    }

    /// `user:password`.
    pub fn basic(pair: &str) -> Result<Self, PushError> {
        Self::checked(format!("Basic {}", base64(pair.trim().as_bytes())))
    }

    fn checked(value: String) -> Result<Self, PushError> {
        if value.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
            let message = "the token holds characters that no header can";
            return Err(PushError::usage(message, "look for a line break in it"));
        }
        Ok(Self(value))
    }

    pub(super) fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(…)")
    }
}

#[derive(Debug, Clone)]
pub struct Destination {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) authorization: Option<Authorization>,
}

impl Destination {
    /// `ca` is a file in PEM that says whom to trust instead of what the system trusts.
    pub fn new(
        url: &str,
        ca: Option<&Path>,
        authorization: Option<Authorization>,
    ) -> Result<Self, PushError> {
        let (is_secure, host, port, path) = parse(url)?;
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_secure && !is_local && authorization.is_some() {
            return Err(PushError::usage("over http:// the token could be read on the way", "use https://"));
        }
        if !is_secure && ca.is_some() {
            return Err(PushError::usage(
                "a certificate is for https:// addresses",
                "leave --ca out, or use https://",
            ));
        }
        let tls = if is_secure { Some(trusting(ca)?) } else { None };
        Ok(Self { host, port, path, tls, authorization })
    }

    /// Without path and secrets.
    pub fn shown(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{}://{host}:{}", if self.tls.is_some() { "https" } else { "http" }, self.port)
    }

    /// A name for things that belong to it, such as its queue.
    pub fn file_name(&self) -> String {
        crate::place::path_part(&format!("{}_{}{}", self.host, self.port, self.path))
    }
}

/// Whether it has TLS, host, port and path.
fn parse(url: &str) -> Result<(bool, String, u16, String), PushError> {
    let wrong = || {
        let shown: String = url.chars().take(100).collect::<String>().escape_debug().collect();
        PushError::usage(
            format!("'{shown}' is not an address to push to"),
            "addresses look like http://127.0.0.1:9090/api/v1/write or https://otel.example:4318",
        )
    };
    let (scheme, rest) = url.trim().split_once("://").ok_or_else(wrong)?;
    let is_secure = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err(wrong()),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.contains('@') {
        return Err(PushError::usage(
            "a password does not belong into an address",
            "put it into ORTSCOPE_PUSH_BASIC as user:password, or a token into ORTSCOPE_PUSH_TOKEN",
        ));
    }
    if authority.is_empty() || url.chars().any(|letter| !letter.is_ascii_graphic()) || url.contains('#') {
        return Err(wrong());
    }
    let usual = if is_secure { 443 } else { 80 };
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').map_or(Some(usual), |port| port.parse().ok())),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (authority, Some(usual)),
        },
    };
    match port {
        Some(port) if !host.is_empty() && port > 0 => Ok((is_secure, host.to_owned(), port, path.to_owned())),
        _ => Err(wrong()),
    }
}

fn trusting(ca: Option<&Path>) -> Result<Arc<ClientConfig>, PushError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let file = match ca {
        Some(file) => Some(file.to_owned()),
        None => named.or_else(|| SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file())),
    };
    let Some(file) = file else {
        return Err(PushError::usage(
            "this system has no file of certificates to trust",
            "name one in PEM with --ca, or in SSL_CERT_FILE",
        ));
    };
    let unreadable = |why: String| {
        PushError::usage(
            format!("the certificates in {} cannot be used: {why}", file.display()),
            "give a file in PEM",
        )
    };
    let certificates = CertificateDer::pem_file_iter(&file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let mut problem = None;
    for certificate in certificates {
        // One of the system's that is odd must not spoil the others.
        if let Err(error) = certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()))
        {
            problem = Some(error);
        }
    }
    if roots.is_empty() {
        return Err(unreadable(problem.unwrap_or_else(|| "there is none in it".to_owned())));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unreadable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let number =
            group.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * index)) as usize & 63];
            out.push(if index <= group.len() { letter as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_bad_ones_are_named() {
        let parsed = parse("http://127.0.0.1:9090/api/v1/write").unwrap();
        assert_eq!(parsed, (false, "127.0.0.1".into(), 9090, "/api/v1/write".into()));
        assert_eq!(parse("https://[::1]").unwrap(), (true, "::1".into(), 443, String::new()));
        for wrong in [
            "",
            "prometheus:9090",
            "ftp://x/",
            "http://",
            "http://x:0/",
            "http://x:y/",
            "http://a b/",
            "http://x/#y",
        ] {
            assert!(matches!(parse(wrong), Err(PushError::Usage { .. })), "{wrong}");
        }
        let error = parse("http://me:secret@host/").unwrap_err();
        assert!(
            !error.to_string().contains("secret") && error.hint().unwrap().contains("ORTSCOPE_PUSH_BASIC")
        );
    }

    #[test]
    fn a_token_goes_only_where_nobody_reads_it_on_the_way() {
        let token = || Some(Authorization::bearer("abc").unwrap());
        assert!(Destination::new("http://10.0.0.1/w", None, token()).is_err());
        assert!(Destination::new("http://127.0.0.1/w", None, token()).is_ok());
        assert!(Authorization::bearer("a\nb").is_err());
        assert_eq!(Authorization::basic("user:pass").unwrap().header(), "Basic dXNlcjpwYXNz");
        assert_eq!(
            (base64(b"a"), base64(b"ab"), base64(b"abc")),
            ("YQ==".into(), "YWI=".into(), "YWJj".into())
        );
    }
}
