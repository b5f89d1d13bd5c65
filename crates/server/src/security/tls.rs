//! TLS: a certificate that the user has, or one of our own that is made at the first start. Files that change are used
//! from the next connection on, without a restart.

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
/// A certificate of our own that is older is made again.
const RENEW_AFTER_MILLIS: u64 = 80 * 86_400_000;

/// How often a server looks whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    let current = Current::new(choice.clone(), state.to_owned(), names.to_vec())?;
    let fingerprint = current.known().fingerprint.clone();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ServerError::Tls(format!("TLS cannot be set up: {error}")))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(current));
    Ok(Tls { config: Arc::new(config), fingerprint, self_signed: *choice == TlsChoice::SelfSigned })
}

/// When and how large: another one means other files.
type Stamp = Vec<Option<(SystemTime, u64)>>;

#[derive(Debug)]
struct Known {
    looked: Instant,
    stamp: Stamp,
    pair: Arc<CertifiedKey>,
    fingerprint: String,
}

/// The certificate that is used now.
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

    /// Looks at the files. Those that cannot be used are told, and the pair of before stays: two files are never
    /// replaced in the same moment.
    fn look(&self, known: &mut Known) -> Result<(), ServerError> {
        // One of our own is made anew here when it gets old.
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
                tracing::warn!(%error, "the certificate of before stays in use");
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

/// A certificate with its key, which must fit it, and its fingerprint.
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
