//! `ortscope serve`: the dashboard and the API, over the live machine and recordings.

mod live;
mod recorder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ortscope_server::security::tls::TlsChoice;
use ortscope_server::{ServerConfig, ServerError};
use serde_json::json;

use crate::args::{GlobalArgs, ServeArgs, StateArgs};
use crate::exit::{Exit, Failure};
use crate::measure::interrupt::Interrupt;
use crate::observe::sweep_in_background;
use crate::recording::open_store;
use crate::terminal::{self, DIM, Terminal, WARN};

const PERIOD: Duration = Duration::from_millis(100);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match &error {
            ServerError::Unsafe(_) | ServerError::Tls(_) => Self::usage(error.to_string()),
            ServerError::Listen { source, .. } => {
                let exit = if source.kind() == std::io::ErrorKind::PermissionDenied {
                    Exit::Permission
                } else {
                    Exit::Usage
                };
                Self::new(exit, format!("cannot listen on {error}"))
                    .with_hint("--listen 127.0.0.1:0 takes any port that is free")
            }
            ServerError::State { .. } => Self::new(Exit::DataLost, error.to_string()),
            _ => Self::internal(error),
        }
    }
}

/// Where tokens, certificates and the audit log are kept.
pub fn state_directory(args: &StateArgs) -> Result<PathBuf, Failure> {
    if let Some(directory) = &args.state {
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

fn tls_choice(text: Option<&str>) -> Result<Option<TlsChoice>, Failure> {
    Ok(match text {
        None => None,
        Some("auto") => Some(TlsChoice::SelfSigned),
        Some(files) => {
            let (certificate, key) = files.split_once(',').ok_or_else(|| {
                Failure::usage(format!("--tls '{files}' is neither auto nor CERT.pem,KEY.pem"))
            })?;
            Some(TlsChoice::Files { certificate: certificate.into(), key: key.into() })
        }
    })
}

/// What this process uses, for the dashboard: nanoseconds of processor time, bytes.
fn own_usage() -> (Option<u64>, Option<u64>) {
    match ortscope_sources::own_usage() {
        Ok(usage) => (Some(usage.cpu_time_nanos), Some(usage.working_set_bytes)),
        Err(_) => (None, None),
    }
}

pub fn run(args: &ServeArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let store = open_store(global)?;
    let recordings = args.runs.iter().map(|run| store.resolve(run)).collect::<Result<Vec<_>, _>>()?;
    serve(args, recordings, None, global, terminal)
}

/// Serves until Ctrl-C, which may be somebody's already.
fn serve(
    args: &ServeArgs,
    recordings: Vec<PathBuf>,
    interrupt: Option<&Interrupt>,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let tls = tls_choice(args.tls.as_deref())?;
    if args.https_only && tls.is_none() {
        return Err(Failure::usage("HTTPS only was asked for, and there is no certificate")
            .with_hint("--tls auto makes one"));
    }
    if args.carbon.is_some_and(|grams| !(grams.is_finite() && grams >= 0.0)) {
        return Err(Failure::usage("--carbon is not a number of grams"));
    }
    let store = open_store(global)?;
    sweep_in_background();
    let mut watching = if recordings.is_empty() || args.live {
        Some(live::Watching::start(args.rate, &store)?)
    } else {
        None
    };
    let config = ServerConfig {
        listen: args.listen.clone(),
        tls,
        allow_hosts: args.allow_host.clone(),
        allow_origins: args.allow_origin.clone(),
        state_directory: state_directory(&args.state)?,
        store,
        recordings,
        live: watching.as_ref().map(live::Watching::live),
        own_usage,
        carbon_grams_per_kwh: args.carbon,
    };
    let server = ortscope_server::start(config)?;
    let interrupt = interrupt.cloned().unwrap_or_else(Interrupt::install);
    tell(&server, terminal);
    if args.open && !open_browser(&server.link) {
        terminal::print_error(&format!(
            "{} no browser could be started; open the link yourself",
            terminal.paint(WARN, "warning:")
        ));
    }
    while !interrupt.requested() {
        std::thread::sleep(PERIOD);
        if let Some(watching) = &mut watching {
            watching.look();
        }
    }
    server.stop();
    if let Some(watching) = watching {
        watching.stop();
    }
    Ok(Exit::Ok)
}

fn tell(server: &ortscope_server::Running, terminal: &Terminal) {
    if terminal.json {
        let document = json!({
            "schema": "ortscope.serve/1",
            "addresses": server.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "link": server.link,
            "fingerprint": server.fingerprint,
        });
        terminal::print_data(&(document.to_string() + "\n"));
        return;
    }
    terminal::print_data(&format!("{}\n", server.link));
    if terminal.quiet {
        return;
    }
    if let Some(fingerprint) = &server.fingerprint {
        terminal::print_error(&format!("certificate  SHA-256 {fingerprint}"));
    }
    if !ortscope_server::has_dashboard() {
        let note = "note: this build has no dashboard, only the API; web/README.md says how to build it";
        terminal::print_error(&terminal.paint(DIM, note));
    }
    let note = "the link works once, for five minutes; Ctrl-C ends the server";
    terminal::print_error(&terminal.paint(DIM, note));
}

/// Opens a link with the program that the system has for it.
fn open_browser(link: &str) -> bool {
    // Whichever is there: each system has one of them.
    let programs: [(&str, &[&str]); 3] =
        [("xdg-open", &[]), ("open", &[]), ("rundll32", &["url.dll,FileProtocolHandler"])];
    programs.iter().any(|(program, arguments)| {
        let started = std::process::Command::new(program)
            .args(*arguments)
            .arg(link)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        started.is_ok_and(|status| status.success())
    })
}

/// Shows a recording that was just made, until Ctrl-C.
pub fn show(
    recording: &Path,
    interrupt: &Interrupt,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let args = ServeArgs {
        runs: Vec::new(),
        // Another server may run: any port will do.
        listen: vec![([127, 0, 0, 1], 0).into()],
        tls: None,
        https_only: false,
        allow_host: Vec::new(),
        allow_origin: Vec::new(),
        open: true,
        live: false,
        rate: 10.0,
        carbon: None,
        state: StateArgs { state: std::env::var_os("ORTSCOPE_STATE").map(PathBuf::from) },
    };
    serve(&args, vec![recording.to_owned()], Some(interrupt), global, terminal)
}
