//! Allow-lists of host names and origins.
//!
//! A malicious page can point its own name at 127.0.0.1 (DNS rebinding); the browser then sends that name as `Host` and as
//! `Origin`. Comparing the two is not enough, so both are compared with lists.

use std::net::{IpAddr, SocketAddr};

/// The host names and origins that a server accepts.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// `name:port` in lowercase.
    hosts: Vec<String>,
    /// `scheme://name:port` of the server's own pages.
    own_origins: Vec<String>,
    /// Origins that the user allowed.
    origins: Vec<String>,
}

/// An origin that cannot be allowed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not an origin; origins look like https://example.com:8443")]
pub struct InvalidOrigin(pub String);

impl Hosts {
    pub fn new(
        listening: &[SocketAddr],
        secure: bool,
        names: &[String],
        origins: &[String],
    ) -> Result<Self, InvalidOrigin> {
        let scheme = if secure { "https" } else { "http" };
        let usual_port = if secure { 443 } else { 80 };
        let mut hosts = Vec::new();
        for address in listening {
            let mut local: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
            let ip = address.ip();
            if ip.is_loopback() || ip.is_unspecified() {
                local.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
            }
            if !ip.is_unspecified() {
                local.push(match ip {
                    IpAddr::V4(ip) => ip.to_string(),
                    IpAddr::V6(ip) => format!("[{ip}]"),
                });
            }
            for name in local {
                hosts.push(format!("{name}:{}", address.port()));
                if address.port() == usual_port {
                    hosts.push(name);
                }
            }
        }
        hosts.sort();
        hosts.dedup();
        let own_origins = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        let origins = origins.iter().map(|origin| checked_origin(origin)).collect::<Result<_, _>>()?;
        Ok(Self { hosts, own_origins, origins })
    }

    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Whether an origin is this server.
    pub fn is_own(&self, origin: &str) -> bool {
        self.own_origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Whether an origin is another server that the user allowed.
    pub fn is_allowed(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

fn checked_origin(origin: &str) -> Result<String, InvalidOrigin> {
    let invalid = || InvalidOrigin(crate::params::shown(origin));
    let text = origin.trim_end_matches('/').to_ascii_lowercase();
    let name = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(invalid)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]_".contains(letter);
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(invalid());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_hosts_and_origins_pass() {
        let listening = ["127.0.0.1:9464".parse().expect("an address")];
        let hosts = Hosts::new(&listening, false, &["Box.lan".into()], &["https://eval.example/".into()]);
        let hosts = hosts.expect("a good origin");
        for good in ["127.0.0.1:9464", "localhost:9464", "LOCALHOST:9464", "[::1]:9464", "box.lan:9464"] {
            assert!(hosts.has_host(good), "{good}");
        }
        for bad in [
            "",
            "evil.example:9464",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:9464",
            "localhost:9464 ",
        ] {
            assert!(!hosts.has_host(bad), "{bad}");
        }
        assert!(hosts.is_own("http://localhost:9464") && !hosts.is_own("https://localhost:9464"));
        assert!(hosts.is_allowed("https://eval.example") && !hosts.is_allowed("http://eval.example"));
        assert!(!hosts.is_own("null") && !hosts.is_allowed("null") && !hosts.is_allowed("*"));
    }

    #[test]
    fn origins_are_exact() {
        for bad in ["*", "example.com", "ftp://x", "https://", "https://a/b", "https://a?b", "null"] {
            assert!(Hosts::new(&[], true, &[], &[bad.into()]).is_err(), "{bad}");
        }
    }
}
