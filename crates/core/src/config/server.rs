//! `[server]`: addresses, access and TLS of `ortscope serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[server]`. A flag of `ortscope serve` is stronger than its key here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Addresses and ports; empty: port 9464 of this machine alone, over IPv4 and IPv6.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<SocketAddr>,
    /// Without TLS nothing is served, not even on this machine.
    pub https_only: bool,
    /// `auto` generates a self-signed certificate at the first start. Otherwise the two files below are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSetting>,
    /// Certificate chain in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Host names of the server, in addition to its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_host: Vec<String>,
    /// Origins whose pages may use the API with a token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_origin: Vec<String>,
    /// Where tokens, certificates and the audit log are kept; none: the user's data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Grams of carbon dioxide per kilowatt hour where this machine is, for the energy panel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carbon_grams_per_kwh: Option<f64>,
}

/// What `server.tls` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsSetting {
    Auto,
}

impl ServerSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return Err("server.tls_certificate and server.tls_key belong together: give both".into());
        }
        if self.tls.is_some() && self.tls_certificate.is_some() {
            return Err(
                "server.tls = \"auto\" and server.tls_certificate exclude each other: give one".into()
            );
        }
        match self.carbon_grams_per_kwh {
            Some(grams) if !(0.0..=10_000.0).contains(&grams) => {
                Err(format!("server.carbon_grams_per_kwh is {grams}: it must be from 0 to 10000"))
            }
            _ => Ok(()),
        }
    }
}
