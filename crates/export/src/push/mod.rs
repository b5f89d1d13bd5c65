//! Metrics and traces to a far end that puts many machines together: Prometheus's remote write, and OTLP over HTTP.
//!
//! Requests wait in a bounded queue on disk ([`queue`]) until they are taken: a far end that is down, a restart or a
//! kill of ortscope loses nothing that fits. What does not fit is dropped, the newest first, and counted. A request that
//! is refused for what it holds is not sent again; it is counted with the far end's own words.

mod destination;
mod http;
mod otlp;
mod queue;
mod recording;
mod remote_write;
mod sender;
mod sink;

use std::path::PathBuf;
use std::time::Duration;

use ortscope_core::failure::{Failure, FailureKind};
use serde::Serialize;

pub use destination::{Authorization, Destination};
pub use queue::{Queue, QueueError};
pub use recording::push_recording;
pub use sink::{PushHandle, PushSink, PushState};

use crate::error::ExportError;

/// How to speak to the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Prometheus's remote write 1.0, which also VictoriaMetrics, Mimir and Thanos take.
    RemoteWrite,
    /// OTLP as Protocol Buffers over HTTP: metrics and traces.
    Otlp,
}

impl Protocol {
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "remote-write" | "remote_write" | "prometheus-remote-write" => Some(Self::RemoteWrite),
            "otlp" | "opentelemetry" => Some(Self::Otlp),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::RemoteWrite => "remote-write",
            Self::Otlp => "otlp",
        }
    }
}

/// How to push.
#[derive(Debug, Clone)]
pub struct PushOptions {
    pub protocol: Protocol,
    pub destination: Destination,
    /// The machine: label `instance`, attribute `host.name`.
    pub host: String,
    /// Time between two values of a series.
    pub step: Duration,
    /// Where requests wait.
    pub queue: PathBuf,
    /// Bytes that may wait; more is dropped and counted.
    pub queue_bytes: u64,
    /// A far end that takes nothing for so long is given up; what waits stays in the queue.
    pub give_up_after: Duration,
}

impl PushOptions {
    /// 256 MiB hold some weeks of one machine.
    pub const USUAL_QUEUE_BYTES: u64 = 256 << 20;
    pub const USUAL_STEP: Duration = Duration::from_secs(10);
    pub const USUAL_GIVE_UP: Duration = Duration::from_secs(60);
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PushReport {
    /// Values or spans that were made.
    pub samples: u64,
    /// Those that the far end took, in this run and those that waited from before.
    pub delivered: u64,
    /// Those that it refused for what they are.
    pub refused: u64,
    /// Its first words about that.
    pub refused_why: Option<String>,
    /// Those that the queue had no room for.
    pub dropped: u64,
    /// Those that still wait in the queue.
    pub waiting: u64,
    /// Bytes that were sent, compressed.
    pub bytes: u64,
    /// Rows that were read.
    pub rows: u64,
    pub damaged: Vec<String>,
    pub notes: Vec<String>,
}

/// Why a push ended early. What was not sent waits in the queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The address or a file that was named cannot be used.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// The far end wants another token, or has another certificate.
    #[error("{message}")]
    Denied { message: String, hint: String, report: Box<PushReport> },
    /// The far end is down or takes too long.
    #[error("{message}")]
    Unreachable { message: String, hint: String, report: Box<PushReport> },
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl PushError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage { hint, .. } | Self::Denied { hint, .. } | Self::Unreachable { hint, .. } => {
                Some(hint)
            }
            Self::Queue(error) => error.hint(),
            Self::Export(error) => error.hint(),
        }
    }

    /// What was done before it ended.
    pub fn report(&self) -> Option<&PushReport> {
        match self {
            Self::Denied { report, .. } | Self::Unreachable { report, .. } => Some(report),
            _ => None,
        }
    }
}

impl From<PushError> for Failure {
    fn from(error: PushError) -> Self {
        let error = match error {
            PushError::Export(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            PushError::Usage { .. } | PushError::Queue(QueueError::InUse(_)) => FailureKind::Usage,
            PushError::Denied { .. } | PushError::Queue(_) => FailureKind::Permission,
            _ => FailureKind::Internal,
        };
        Self::new(kind, error.to_string()).with_hint_of(error.hint())
    }
}
