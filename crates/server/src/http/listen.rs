//! Connections: accepted, counted, served with or without TLS, and closed when the server stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::linger::Lingering;
use super::who::Peer;
use crate::app::App;
use crate::security::audit::Event;

/// Maximum number of simultaneous connections; further ones are closed immediately.
const MAX_CONNECTIONS: usize = 1024;
/// Maximum size of the headers of a request.
const MAX_HEADER_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// Time limit for the headers of a request and for the TLS handshake.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// The answer to plain HTTP, in plain HTTP.
const PLAIN_REFUSED: &str = concat!(
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n",
    "Cache-Control: no-store\r\nContent-Length: 103\r\n\r\n",
    r#"{"error":{"code":"needs_tls","message":"this server speaks HTTPS and WSS only","hint":"use https://"}}"#,
    "\n"
);
/// Pause after a failed accept, e.g. because there are no descriptors left.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Shared state of all connections.
#[derive(Clone)]
pub struct Connections {
    pub router: Router,
    pub app: Arc<App>,
    pub tls: Option<TlsAcceptor>,
    pub room: Arc<Semaphore>,
    pub stop: watch::Receiver<bool>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("tls", &self.tls.is_some())
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

pub fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CONNECTIONS))
}

impl Connections {
    /// Accepts until the server stops.
    pub async fn accept(self, listener: TcpListener) {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    // Beyond the limit the connection is dropped, so that the client notices at once.
                    let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
                        tracing::warn!(%address, "too many connections; one was refused");
                        continue;
                    };
                    let connections = self.clone();
                    stream.set_nodelay(true).ok();
                    tokio::spawn(connections.one(Lingering::new(stream, place), address));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
    }

    async fn one(self, stream: Lingering, address: SocketAddr) {
        match self.tls.clone() {
            None => self.speak(stream, address).await,
            Some(tls) => {
                let accepted = timeout(TLS_WITHIN, async {
                    if stream.starts_like_http().await? {
                        return Ok(Err(stream));
                    }
                    tls.accept(stream).await.map(Ok)
                });
                match accepted.await {
                    Ok(Ok(Ok(stream))) => self.speak(stream, address).await,
                    Ok(Ok(Err(plain))) => self.refuse_plain(plain, address).await,
                    Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS"),
                    Err(_) => tracing::debug!(%address, "no TLS in time"),
                }
            }
        }
    }

    /// Answers plain HTTP on a TLS port with one message and closes the connection.
    async fn refuse_plain(self, mut stream: Lingering, address: SocketAddr) {
        self.app.audit.note(Event {
            ip: address.ip().to_canonical().to_string(),
            what: "HTTP without TLS".into(),
            status: 400,
            ..Event::default()
        });
        timeout(TLS_WITHIN, stream.write_all(PLAIN_REFUSED.as_bytes())).await.ok();
    }

    async fn speak(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: SocketAddr,
    ) {
        let service = TowerToHyperService::new(self.router.clone());
        let peer = Peer { ip: address.ip().to_canonical() };
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            service.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = self.stop.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "a connection ended");
        }
    }
}
