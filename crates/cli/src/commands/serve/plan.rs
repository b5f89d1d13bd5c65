//! What is served, where and to whom: flags over `[server]` of the configuration over defaults.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ortscope_core::config::ServerSettings;
use ortscope_server::security::tls::TlsChoice;

use crate::args::{GlobalArgs, ServeArgs, StateArgs};
use crate::exit::Failure;
use crate::settings;

const PORT: u16 = 9464;

/// The choices of one server.
#[derive(Debug)]
pub struct Plan {
    pub listen: Vec<SocketAddr>,
    pub listen_if_possible: Vec<SocketAddr>,
    pub tls: Option<TlsChoice>,
    pub https_only: bool,
    pub allow_hosts: Vec<String>,
    pub allow_origins: Vec<String>,
    pub state_directory: PathBuf,
    pub carbon_grams_per_kwh: Option<f64>,
}

impl Plan {
    pub fn new(args: &ServeArgs, global: &GlobalArgs) -> Result<Self, Failure> {
        let settings = settings::load(global.config.as_deref())?.server;
        Self::of(args, &settings)
    }

    fn of(args: &ServeArgs, settings: &ServerSettings) -> Result<Self, Failure> {
        let tls = match args.tls.as_deref() {
            Some(text) => Some(tls_choice(text)?),
            None => configured_tls(settings),
        };
        let https_only = args.https_only || settings.https_only;
        if https_only && tls.is_none() {
            return Err(Failure::usage("HTTPS only was asked for, and there is no certificate").with_hint(
                "--tls auto makes one, and so does 'tls = \"auto\"' under [server] of ortscope.toml",
            ));
        }
        let carbon_grams_per_kwh = args.carbon.or(settings.carbon_grams_per_kwh);
        if carbon_grams_per_kwh.is_some_and(|grams| !(grams.is_finite() && grams >= 0.0)) {
            return Err(Failure::usage("--carbon is not a number of grams"));
        }
        let listen = first_of(&args.listen, &settings.listen);
        // A browser may take `localhost` for either of them.
        let (listen, listen_if_possible) = if listen.is_empty() {
            (vec![([127, 0, 0, 1], PORT).into()], vec![(Ipv6Addr::LOCALHOST, PORT).into()])
        } else {
            (listen, Vec::new())
        };
        Ok(Self {
            listen,
            listen_if_possible,
            tls,
            https_only,
            allow_hosts: first_of(&args.allow_host, &settings.allow_host),
            allow_origins: first_of(&args.allow_origin, &settings.allow_origin),
            state_directory: directory(&args.state, settings)?,
            carbon_grams_per_kwh,
        })
    }
}

/// The flags, or when there are none the configuration.
fn first_of<T: Clone>(flags: &[T], configured: &[T]) -> Vec<T> {
    if flags.is_empty() { configured.to_vec() } else { flags.to_vec() }
}

fn tls_choice(text: &str) -> Result<TlsChoice, Failure> {
    if text == "auto" {
        return Ok(TlsChoice::SelfSigned);
    }
    let (certificate, key) = text
        .split_once(',')
        .ok_or_else(|| Failure::usage(format!("--tls '{text}' is neither auto nor CERT.pem,KEY.pem")))?;
    Ok(TlsChoice::Files { certificate: certificate.into(), key: key.into() })
}

pub fn configured_tls(settings: &ServerSettings) -> Option<TlsChoice> {
    match (&settings.tls_certificate, &settings.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(TlsChoice::Files { certificate: certificate.clone(), key: key.clone() })
        }
        _ => settings.tls.map(|_| TlsChoice::SelfSigned),
    }
}

/// Where tokens, certificates and the audit log are kept.
pub fn state_directory(args: &StateArgs, global: &GlobalArgs) -> Result<PathBuf, Failure> {
    // A flag or the environment decides alone, whatever the configuration looks like.
    match &args.state {
        Some(directory) => Ok(directory.clone()),
        None => directory(args, &settings::load(global.config.as_deref())?.server),
    }
}

fn directory(args: &StateArgs, settings: &ServerSettings) -> Result<PathBuf, Failure> {
    if let Some(directory) = args.state.as_ref().or(settings.state.as_ref()) {
        return Ok(directory.clone());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_DATA_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("share")));
    base.map(|base| base.join("ortscope").join("server")).ok_or_else(|| {
        Failure::usage("there is no place for tokens and the audit log: neither HOME nor LOCALAPPDATA is set")
            .with_hint("name one with --state DIR or ORTSCOPE_STATE")
    })
}

#[cfg(test)]
mod tests {
    use ortscope_core::config::Config;

    use super::*;

    fn settings(text: &str) -> ServerSettings {
        Config::parse(text, "a.toml").expect("a good file").server
    }

    fn flags() -> ServeArgs {
        ServeArgs { state: StateArgs { state: Some("state".into()) }, ..ServeArgs::default() }
    }

    #[test]
    fn without_anything_this_machine_alone() {
        let plan = Plan::of(&flags(), &settings("")).expect("a plan");
        assert_eq!(plan.listen, ["127.0.0.1:9464".parse().expect("an address")]);
        assert_eq!(plan.listen_if_possible, ["[::1]:9464".parse().expect("an address")]);
        assert!(plan.tls.is_none() && plan.allow_origins.is_empty());
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = settings(
            "[server]\nlisten = [\"127.0.0.1:1\"]\nallow_origin = [\"https://a\"]\ntls = \"auto\"\n\
             carbon_grams_per_kwh = 400.0\nstate = \"elsewhere\"\n",
        );
        let from_file =
            Plan::of(&ServeArgs { state: StateArgs { state: None }, ..flags() }, &file).expect("a plan");
        assert_eq!(from_file.listen, ["127.0.0.1:1".parse().expect("an address")]);
        assert_eq!(
            (from_file.allow_origins, from_file.tls),
            (vec!["https://a".to_owned()], Some(TlsChoice::SelfSigned))
        );
        assert_eq!(from_file.carbon_grams_per_kwh, Some(400.0));
        assert_eq!(from_file.state_directory, PathBuf::from("elsewhere"));
        let args = ServeArgs {
            listen: vec!["[::1]:2".parse().expect("an address")],
            allow_origin: vec!["https://b".into()],
            tls: Some("c.pem,k.pem".into()),
            carbon: Some(1.0),
            ..flags()
        };
        let plan = Plan::of(&args, &file).expect("a plan");
        assert_eq!((plan.listen, plan.allow_origins), (args.listen, args.allow_origin));
        assert_eq!(plan.tls, Some(TlsChoice::Files { certificate: "c.pem".into(), key: "k.pem".into() }));
        assert_eq!((plan.carbon_grams_per_kwh, plan.state_directory), (Some(1.0), PathBuf::from("state")));
        assert!(plan.listen_if_possible.is_empty());
    }

    #[test]
    fn https_only_needs_a_certificate() {
        assert!(Plan::of(&flags(), &settings("[server]\nhttps_only = true\n")).is_err());
        let plan =
            Plan::of(&flags(), &settings("[server]\nhttps_only = true\ntls = \"auto\"\n")).expect("a plan");
        assert!(plan.https_only && plan.tls == Some(TlsChoice::SelfSigned));
    }
}
