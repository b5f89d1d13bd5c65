//! A vendor library that is called on its own thread.
//!
//! Calls into such libraries have hung or crashed when a driver was reset. They run in this process, never in an
//! observed one, and on a thread that is never waited for: without a response, the caller continues.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::{Missing, Presence, Recovered};

/// Maximum startup time of a library.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(3);
/// A call that takes longer is considered hung.
const RESPONSE_TIMEOUT_NS: u64 = 2_000_000_000;

/// The thread's ends of the channels: the startup result, the requests, and the responses.
pub(super) struct LibraryThread<S, R> {
    pub startup: SyncSender<S>,
    pub requests: Receiver<()>,
    pub responses: SyncSender<R>,
}

/// Why a library did not start.
#[derive(Debug)]
pub(super) enum StartError {
    NoThread(std::io::Error),
    TimedOut,
    Failed,
}

/// A started library. `R` is the response to one poll.
#[derive(Debug)]
pub(super) struct VendorLibrary<R> {
    /// For messages: `NVIDIA's library`.
    name: &'static str,
    request: SyncSender<()>,
    responses: Receiver<R>,
    /// Time of the request that has no response yet.
    requested_ns: Option<u64>,
    presence: Presence,
    back: Vec<Recovered>,
}

/// Starts the thread and waits for its startup result.
pub(super) fn start<S: Send + 'static, R: Send + 'static>(
    thread_name: &str,
    name: &'static str,
    work: impl FnOnce(LibraryThread<S, R>) + Send + 'static,
) -> Result<(S, VendorLibrary<R>), StartError> {
    let (startup, startup_result) = sync_channel(1);
    let (request, requests) = sync_channel(1);
    let (response_sender, responses) = sync_channel(4);
    let channels = LibraryThread { startup, requests, responses: response_sender };
    let spawned = thread::Builder::new().name(thread_name.to_owned()).spawn(move || work(channels));
    spawned.map_err(StartError::NoThread)?;
    match startup_result.recv_timeout(START_TIMEOUT) {
        Ok(result) => {
            let presence = Presence::default();
            Ok((
                result,
                VendorLibrary { name, request, responses, requested_ns: None, presence, back: Vec::new() },
            ))
        }
        Err(RecvTimeoutError::Timeout) => Err(StartError::TimedOut),
        Err(RecvTimeoutError::Disconnected) => Err(StartError::Failed),
    }
}

impl<R> VendorLibrary<R> {
    /// Takes the responses since the last call and sends the next request, whose response is available at the next
    /// poll. A missing response is reported once, through `silent`.
    pub fn poll(
        &mut self,
        at_ns: u64,
        silent: impl Fn(String) -> Missing,
        lost: &mut Vec<Missing>,
        mut handle: impl FnMut(R, &mut Vec<Missing>),
    ) {
        loop {
            match self.responses.try_recv() {
                Ok(response) => {
                    self.requested_ns = None;
                    self.presence.find(at_ns, &mut self.back);
                    handle(response, lost);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    let why = || silent(format!("{} failed during a call", self.name));
                    self.presence.lose(at_ns, why, lost);
                    return;
                }
            }
        }
        if let Some(requested_ns) = self.requested_ns {
            let silence_ns = at_ns.saturating_sub(requested_ns);
            if silence_ns >= RESPONSE_TIMEOUT_NS {
                let seconds = silence_ns as f64 / 1e9;
                let why = || silent(format!("{} has not answered for {seconds:.1} s", self.name));
                self.presence.lose(at_ns, why, lost);
            }
            return;
        }
        match self.request.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => self.requested_ns = Some(at_ns),
            Err(TrySendError::Disconnected(())) => {}
        }
    }

    /// Moves the outages that have ended to `back`.
    pub fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }
}
