//! TLS: a certificate that the user has, or one of our own that is made at the first start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{hex, private_directory, sha256, unix_millis, write_private};
use crate::error::ServerError;

const CERTIFICATE: &str = "self-signed-cert.pem";
const KEY: &str = "self-signed-key.pem";
const LASTS_DAYS: i64 = 90;
/// A certificate of our own that is older is made again.
const RENEW_AFTER_MILLIS: u64 = 80 * 86_400_000;

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsChoice {
    /// Made by us and kept in the state directory.
    SelfSigned,
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// TLS that is ready, and what to compare with what the browser shows.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as browsers show it.
    pub fingerprint: String,
    pub self_signed: bool,
}

pub fn load(choice: &TlsChoice, state: &Path, names: &[String]) -> Result<Tls, ServerError> {
    let (certificate, key) = match choice {
        TlsChoice::Files { certificate, key } => (certificate.clone(), key.clone()),
        TlsChoice::SelfSigned => own_certificate(state, names)?,
    };
    let problem = |path: &Path, error: &dyn std::fmt::Display| {
        ServerError::Tls(format!("{} cannot be used: {error}", path.display()))
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .map_err(|error| problem(&certificate, &error))?;
    let first = certificates.first().ok_or_else(|| problem(&certificate, &"it has no certificate"))?;
    let fingerprint = fingerprint(first);
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| problem(&key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, private))
        .map_err(|error| problem(&certificate, &error))?;
    Ok(Tls { config: Arc::new(config), fingerprint, self_signed: *choice == TlsChoice::SelfSigned })
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = hex(&sha256(certificate)).to_ascii_uppercase();
    let pairs: Vec<&str> = (0..32).filter_map(|index| hash.get(index * 2..index * 2 + 2)).collect();
    pairs.join(":")
}

/// The certificate of before, unless it is old or for other names; otherwise a new one.
fn own_certificate(state: &Path, names: &[String]) -> Result<(PathBuf, PathBuf), ServerError> {
    let directory = private_directory(&state.join("tls"))?;
    let (certificate, key, made_for) =
        (directory.join(CERTIFICATE), directory.join(KEY), directory.join("made-for.txt"));
    let now = unix_millis();
    let wanted = names.join("\n");
    let is_good = || {
        let text = fs_err::read_to_string(&made_for).ok()?;
        let (made, for_names) = text.split_once('\n')?;
        let made: u64 = made.parse().ok()?;
        let is_fresh = now.saturating_sub(made) < RENEW_AFTER_MILLIS;
        (is_fresh && for_names == wanted && certificate.exists() && key.exists()).then_some(())
    };
    if is_good().is_some() {
        return Ok((certificate, key));
    }
    let failed = |error: rcgen::Error| ServerError::Tls(format!("a certificate cannot be made: {error}"));
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, "ortscope on this machine");
    let day = std::time::Duration::from_secs(86_400);
    let today = std::time::SystemTime::now();
    params.not_before = (today - day).into();
    params.not_after = (today + day * u32::try_from(LASTS_DAYS).unwrap_or(90)).into();
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let made = params.self_signed(&pair).map_err(failed)?;
    write_private(&key, pair.serialize_pem().as_bytes())?;
    write_private(&certificate, made.pem().as_bytes())?;
    write_private(&made_for, format!("{now}\n{wanted}").as_bytes())?;
    Ok((certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_certificate_is_kept_until_names_change() {
        let state = tempfile::tempdir().expect("a directory");
        let names = |name: &str| vec!["localhost".to_owned(), name.to_owned()];
        let load =
            |name: &str| load(&TlsChoice::SelfSigned, state.path(), &names(name)).expect("made").fingerprint;
        let (first, second, other) = (load("a"), load("a"), load("b"));
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(first.len(), 32 * 3 - 1);
    }

    #[test]
    fn files_that_are_none_are_named() {
        let state = tempfile::tempdir().expect("a directory");
        let file = state.path().join("x.pem");
        fs_err::write(&file, b"hello").expect("written");
        let choice = TlsChoice::Files { certificate: file.clone(), key: file };
        let error = load(&choice, state.path(), &[]).expect_err("no certificate");
        assert!(error.to_string().contains("x.pem"), "{error}");
    }
}
