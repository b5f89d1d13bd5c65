//! The audit log: JSON lines, each with the hash of the previous line, so that changes are detectable.
//!
//! `head.json` has the number and hash of the last line, so that truncation is detectable, too. Every server writes its own
//! chain (`audit/1`, `audit/2` …) and keeps it locked. Security-relevant lines are on disk before the answer is sent; reads
//! are synced every second.

mod chain;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unix_millis;
use crate::error::ServerError;
use chain::{Chain, open_chain};
pub use chain::{Verified, entries, verify};

/// Maximum number of queued lines. When the queue is full, reads are only counted and security-relevant lines wait.
const MAX_WAITING: usize = 8192;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A request or command that is logged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Name of the token or login; empty if unknown.
    pub who: String,
    pub role: Option<String>,
    pub ip: String,
    /// Method and path, or the command: `GET /api/v1/hello`, `token create`.
    pub what: String,
    /// Status of the answer; 0 if it was not a request.
    pub status: u16,
    /// The query without secrets, or a reason.
    pub detail: String,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub struct Entry {
    pub number: u64,
    pub unix_ms: u64,
    #[serde(flatten)]
    pub event: Event,
    /// SHA-256 of the previous line without its line end; zeros for the first line.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub previous_sha256: String,
}

#[derive(Debug)]
enum Message {
    Write(Box<Event>),
    /// Answered when everything before it is on disk.
    Sync(SyncSender<()>),
}

/// Writes the log on its own thread.
#[derive(Debug)]
pub struct Audit {
    sender: Option<SyncSender<Message>>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Audit {
    /// Opens a chain in the state directory.
    pub fn start(state: &Path) -> Result<Self, ServerError> {
        let chain = open_chain(state)?;
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("ortscope-audit".into())
            .spawn(move || write_all(chain, &receiver, &counter))?;
        Ok(Self { sender: Some(sender), lost, thread: Some(thread) })
    }

    /// Logs a read. Never blocks: if the queue is full, it is counted, and the count is logged.
    pub fn note(&self, event: Event) {
        let Some(sender) = &self.sender else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            sender.try_send(Message::Write(Box::new(event)))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Logs a security-relevant event and returns when it is on disk. Not for async code.
    pub fn note_now(&self, event: Event) {
        let Some(sender) = &self.sender else { return };
        let (done, wait) = sync_channel(1);
        if sender.send(Message::Write(Box::new(event))).is_ok() && sender.send(Message::Sync(done)).is_ok() {
            // The thread answers or has ended.
            wait.recv().ok();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn write_all(mut chain: Chain, messages: &Receiver<Message>, lost: &AtomicU64) {
    let mut failed = false;
    let mut handle = |result: Result<(), ServerError>| {
        if let Err(error) = result
            && !std::mem::replace(&mut failed, true)
        {
            tracing::error!(%error, "the audit log cannot be written");
        }
    };
    loop {
        match messages.recv_timeout(SYNC_EVERY) {
            Ok(Message::Write(event)) => {
                let missed = lost.swap(0, Ordering::Relaxed);
                if missed > 0 {
                    let detail = format!("{missed} reads were too frequent to be logged");
                    handle(
                        chain.append(
                            Event { what: "audit".into(), detail, ..Event::default() },
                            unix_millis(),
                        ),
                    );
                }
                handle(chain.append(*event, unix_millis()));
            }
            Ok(Message::Sync(done)) => {
                handle(chain.sync());
                done.send(()).ok();
            }
            Err(RecvTimeoutError::Timeout) => handle(chain.sync()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    handle(chain.sync());
}
