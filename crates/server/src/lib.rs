//! The server: an HTTP and WebSocket API over live data and recordings, and the dashboard.
//!
//! ```text
//! connection ─► gate: host, origin, identity, role ─► handler of the route ─► answer ─► headers, audit log
//!                                                     │ on blocking threads
//!                                                     ▼
//!                  sources: live memory + recent rows │ recordings      WebSocket groups: one encoding per tick
//! ```
//! The server does not depend on how data is captured: the program provides a [`Live`] (the data of the pipeline's sinks) and
//! a [`LiveControl`]. The server runs on its own thread; slow work runs on blocking threads.

mod answers;
mod app;
mod clients;
mod data;
mod error;
mod http;
mod openapi;
mod own;
mod params;
mod route;
pub mod routes;
pub mod security;
mod timeline;
mod ws;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use ortscope_store::Store;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use app::{App, MAX_COMPUTING, MAX_DOWNLOADS};
use data::{Reports, Sources};
use http::listen::Connections;
use security::Role;
use security::audit::Audit;
use security::hosts::Hosts;
use security::login::Logins;
use security::tls::{Tls, TlsChoice};
use security::tokens::{TokenFile, Tokens};

pub use data::{Live, LiveControl, LiveState, Recent, RecentRows, RecordingState};
pub use error::ServerError;
pub use http::page::is_built as has_dashboard;
pub use http::who::may;
pub use own::OwnUsage;
#[doc(hidden)]
pub use routes::openapi_document;
#[doc(hidden)]
pub use ws::{MAX_FRAME as MAX_WS_FRAME_BYTES, check_frame as check_ws_frame};

/// Configuration of a server.
#[derive(Debug)]
pub struct ServerConfig {
    /// Port 0 selects a free port.
    pub listen: Vec<SocketAddr>,
    /// Further addresses, used if the system has them: not every system has IPv6.
    pub listen_if_possible: Vec<SocketAddr>,
    pub tls: Option<TlsChoice>,
    /// Refuses to start without TLS, even on loopback.
    pub https_only: bool,
    /// Host names to accept in addition to the addresses.
    pub allow_hosts: Vec<String>,
    pub allow_origins: Vec<String>,
    /// Directory of tokens, certificates and the audit log.
    pub state_directory: PathBuf,
    pub store: Store,
    /// Recordings to list first.
    pub recordings: Vec<PathBuf>,
    pub live: Option<Live>,
    /// Reads the CPU time and memory of this process.
    pub own_usage: OwnUsage,
    pub carbon_grams_per_kwh: Option<f64>,
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    pub addresses: Vec<SocketAddr>,
    /// The one-time link.
    pub link: String,
    /// Fingerprint of the certificate, for comparison with the browser.
    pub fingerprint: Option<String>,
    app: Arc<App>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Creates another link, for another browser.
    pub fn new_link(&self, role: Role) -> Result<String, ServerError> {
        link(&self.app, &self.addresses, role)
    }

    /// Stops listening, closes connections and flushes the log.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn link(app: &App, addresses: &[SocketAddr], role: Role) -> Result<String, ServerError> {
    let scheme = if app.secure { "https" } else { "http" };
    let host = addresses.first().map(|address| match address.ip() {
        ip if ip.is_unspecified() => format!("localhost:{}", address.port()),
        _ => address.to_string(),
    });
    Ok(format!("{scheme}://{}/login?t={}", host.unwrap_or_default(), app.logins.new_link(role)?))
}

/// Validates the configuration, binds the addresses and starts the server.
pub fn start(config: ServerConfig) -> Result<Running, ServerError> {
    let all_local =
        config.listen.iter().chain(&config.listen_if_possible).all(|address| address.ip().is_loopback());
    if config.tls.is_none() && config.https_only {
        return Err(ServerError::Unsafe(
            "HTTPS only was requested without a certificate: use --tls auto or --tls CERT,KEY".into(),
        ));
    }
    if config.tls.is_none() && !all_local {
        return Err(ServerError::Unsafe(
            "without TLS, the server listens on loopback only: use --tls auto or --tls CERT,KEY".into(),
        ));
    }
    let tokens = TokenFile::new(&config.state_directory);
    if !all_local && tokens.list()?.is_empty() {
        return Err(ServerError::Unsafe(
            "a reachable address requires a token: create one with `ortscope token create NAME --role viewer`".into(),
        ));
    }
    security::private_directory(&config.state_directory)?;
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    names.extend(config.allow_hosts.iter().cloned());
    names.extend(config.listen.iter().map(|address| address.ip().to_string()));
    names.sort();
    names.dedup();
    let tls = config
        .tls
        .as_ref()
        .map(|choice| security::tls::load(choice, &config.state_directory, &names))
        .transpose()?;
    let mut listeners = Vec::new();
    for address in &config.listen {
        let failed = |source| ServerError::Listen { address: address.to_string(), source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        listeners.push(listener);
    }
    for address in &config.listen_if_possible {
        let bound = std::net::TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => listeners.push(listener),
            Err(error) => tracing::info!(%address, %error, "cannot listen on this optional address"),
        }
    }
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?;
    let hosts = Hosts::new(&addresses, tls.is_some(), &config.allow_hosts, &config.allow_origins)
        .map_err(|error| ServerError::Unsafe(error.to_string()))?;
    let app = Arc::new(App {
        sources: Sources::new(config.store, config.live, config.recordings)?,
        reports: Reports::default(),
        overviews: timeline::Overviews::default(),
        tokens: Tokens::new(tokens),
        logins: Logins::default(),
        audit: Audit::start(&config.state_directory)?,
        hosts,
        state_directory: config.state_directory,
        secure: tls.is_some(),
        groups: Arc::default(),
        computing: Arc::new(Semaphore::new(MAX_COMPUTING)),
        downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
        own: own::OwnProcess::new(config.own_usage),
        carbon_grams_per_kwh: config.carbon_grams_per_kwh,
    });
    let link = link(&app, &addresses, Role::Operator)?;
    let fingerprint = tls.as_ref().map(|tls| tls.fingerprint.clone());
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(64)
        .thread_name("ortscope-work")
        .build()?;
    let shared = Arc::clone(&app);
    let thread = std::thread::Builder::new()
        .name("ortscope-server".into())
        .spawn(move || run(&runtime, listeners, &shared, tls, stopped))?;
    Ok(Running { addresses, link, fingerprint, app, stop, thread: Some(thread) })
}

fn run(
    runtime: &tokio::runtime::Runtime,
    listeners: Vec<std::net::TcpListener>,
    app: &Arc<App>,
    tls: Option<Tls>,
    mut stopped: watch::Receiver<bool>,
) {
    let connections = Connections {
        router: http::router(app),
        app: Arc::clone(app),
        tls: tls.map(|tls| TlsAcceptor::from(tls.config)),
        room: http::listen::room(),
        stop: stopped.clone(),
    };
    runtime.block_on(async {
        for listener in listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    tokio::spawn(connections.clone().accept(listener));
                }
                Err(error) => tracing::error!(%error, "cannot listen on an address"),
            }
        }
        // Connections end with the runtime.
        stopped.changed().await.ok();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    });
}
