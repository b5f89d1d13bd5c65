//! Lingering close of a connection.
//!
//! If a socket is closed while the client is still sending, the system sends a reset and the client loses the answer that
//! it has not read yet. This happens exactly when it matters: after an oversized body or oversized headers. After the
//! answer, the rest of the request is therefore read and discarded, within limits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

const MAX_BYTES: usize = 8 << 20;
const AT_MOST: Duration = Duration::from_secs(2);

/// A stream with its permit from the connection limit, which is released when the stream is dropped.
#[derive(Debug)]
pub struct Lingering(Option<(TcpStream, OwnedSemaphorePermit)>);

impl Lingering {
    pub fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> Self {
        Self(Some((stream, place)))
    }

    /// Whether the first byte is a letter, as in every HTTP method; TLS starts with 22. Nothing is consumed.
    pub async fn starts_like_http(&self) -> io::Result<bool> {
        let (stream, _) = self.0.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut first = [0];
        Ok(stream.peek(&mut first).await? > 0 && first[0].is_ascii_alphabetic())
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        // Present until it is dropped.
        let (stream, _) = self.0.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(stream))
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some((stream, place)) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                timeout(AT_MOST, read_the_rest(stream)).await.ok();
                drop(place);
            });
        }
    }
}

async fn read_the_rest(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let (mut buffer, mut left) = ([0; 8 << 10], MAX_BYTES);
    while let Ok(read) = stream.read(&mut buffer).await {
        left = left.saturating_sub(read);
        if read == 0 || left == 0 {
            return;
        }
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
