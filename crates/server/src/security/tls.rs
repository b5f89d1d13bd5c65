//! TLS with the user's certificate, or with a self-signed one that is generated at the first start. Changed files are used
//! for the next connection, without a restart.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{hex, private_directory, sha256, unix_millis, write_private};
use crate::error::ServerError;

const CERTIFICATE: &str = "self-signed-cert.pem";
const KEY: &str = "self-signed-key.pem";
const LASTS_DAYS: i64 = 90;
/// Maximum age of a self-signed certificate.
const RENEW_AFTER_MILLIS: u64 = 80 * 86_400_000;

/// Interval between checks for changed files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The source of the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsChoice {
    /// Self-signed, generated and kept in the state directory.
    SelfSigned,
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// The TLS configuration with the fingerprint for comparison with the browser.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the certificate in the notation of browsers.
    pub fingerprint: String,
    pub self_signed: bool,
}

pub fn load(choice: &TlsChoice, state: &Path, names: &[String]) -> Result<Tls, ServerError> {
    let current = Current::new(choice.clone(), state.to_owned(), names.to_vec())?;
    let fingerprint = current.known().fingerprint.clone();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ServerError::Tls(format!("TLS cannot be set up: {error}")))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(current));
    Ok(Tls { config: Arc::new(config), fingerprint, self_signed: *choice == TlsChoice::SelfSigned })
}

/// Times and sizes of the files; a difference means that they changed.
type Stamp = Vec<Option<(SystemTime, u64)>>;

#[derive(Debug)]
struct Known {
    looked: Instant,
    stamp: Stamp,
    pair: Arc<CertifiedKey>,
    fingerprint: String,
}

/// The certificate in use.
#[derive(Debug)]
struct Current {
    choice: TlsChoice,
    state: PathBuf,
    names: Vec<String>,
    known: Mutex<Known>,
}

impl Current {
    fn new(choice: TlsChoice, state: PathBuf, names: Vec<String>) -> Result<Self, ServerError> {
        let (certificate, key) = files(&choice, &state, &names)?;
        let (pair, fingerprint) = read(&certificate, &key)?;
        let known = Known {
            looked: Instant::now(),
            stamp: stamp(&certificate, &key),
            pair: Arc::new(pair),
            fingerprint,
        };
        Ok(Self { choice, state, names, known: Mutex::new(known) })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads changed files. If they are unusable, this is logged and the previous pair stays in use, because two files
    /// cannot be replaced at the same instant.
    fn look(&self, known: &mut Known) -> Result<(), ServerError> {
        // A self-signed certificate is renewed here when it gets old.
        let (certificate, key) = files(&self.choice, &self.state, &self.names)?;
        let now = stamp(&certificate, &key);
        if now == known.stamp {
            return Ok(());
        }
        known.stamp = now;
        let (pair, fingerprint) = read(&certificate, &key)?;
        tracing::info!(%fingerprint, "the certificate has changed");
        (known.pair, known.fingerprint) = (Arc::new(pair), fingerprint);
        Ok(())
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut known = self.known();
        if known.looked.elapsed() >= LOOK_EVERY {
            known.looked = Instant::now();
            if let Err(error) = self.look(&mut known) {
                tracing::warn!(%error, "the previous certificate stays in use");
            }
        }
        Some(Arc::clone(&known.pair))
    }
}

fn files(choice: &TlsChoice, state: &Path, names: &[String]) -> Result<(PathBuf, PathBuf), ServerError> {
    match choice {
        TlsChoice::Files { certificate, key } => Ok((certificate.clone(), key.clone())),
        TlsChoice::SelfSigned => own_certificate(state, names),
    }
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    let of = |path: &Path| {
        let metadata = fs_err::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    vec![of(certificate), of(key)]
}

/// Loads a certificate with its matching key, and its fingerprint.
fn read(certificate: &Path, key: &Path) -> Result<(CertifiedKey, String), ServerError> {
    let problem = |path: &Path, error: &dyn std::fmt::Display| {
        ServerError::Tls(format!("{} cannot be used: {error}", path.display()))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| problem(certificate, &error))?;
    let first = chain.first().ok_or_else(|| problem(certificate, &"it has no certificate"))?;
    let fingerprint = fingerprint(first);
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| problem(key, &error))?;
    let pair = CertifiedKey::from_der(chain, private, &default_provider())
        .map_err(|error| problem(certificate, &error))?;
    Ok((pair, fingerprint))
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = hex(&sha256(certificate)).to_ascii_uppercase();
    let pairs: Vec<&str> = (0..32).filter_map(|index| hash.get(index * 2..index * 2 + 2)).collect();
    pairs.join(":")
}

/// The existing certificate, or a new one if that is too old or for other names.
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
    let failed =
        |error: rcgen::Error| ServerError::Tls(format!("a certificate cannot be generated: {error}"));
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, "ortscope on this machine");
    let day = Duration::from_secs(86_400);
    let today = SystemTime::now();
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
    fn new_files_are_used_and_broken_ones_are_not() {
        let state = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let directory = state.path().join(name);
            let (certificate, key) = own_certificate(&directory, &[name.to_owned()]).expect("made");
            (fs_err::read(certificate).expect("read"), fs_err::read(key).expect("read"))
        };
        let ((one, one_key), (other, other_key)) = (make("one"), make("another"));
        let (certificate, key) = (state.path().join("c.pem"), state.path().join("k.pem"));
        let write = |pem: &[u8], key_pem: &[u8]| {
            fs_err::write(&certificate, pem).expect("written");
            fs_err::write(&key, key_pem).expect("written");
        };
        write(&one, &one_key);
        let choice = TlsChoice::Files { certificate: certificate.clone(), key: key.clone() };
        let current = Current::new(choice, state.path().to_owned(), Vec::new()).expect("good files");
        let look = || {
            let mut known = current.known();
            let looked = current.look(&mut known);
            (looked.is_ok(), known.fingerprint.clone())
        };
        let (_, first) = look();
        // Times of files may be no finer than this.
        let later = || std::thread::sleep(Duration::from_millis(20));
        later();
        // The certificate is there, its key not yet.
        write(&other, &one_key);
        assert_eq!(look(), (false, first.clone()));
        later();
        write(&other, &other_key);
        let (is_good, second) = look();
        assert!(is_good && second != first);
        later();
        write(b"nothing", b"at all");
        assert_eq!(look(), (false, second));
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
