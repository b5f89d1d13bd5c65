//! Takes requests from the queue to the far end, again and again until it takes or refuses them.

use std::time::{Duration, Instant};

use super::http::{self, NoAnswer};
use super::queue::{Entry, Queue, QueueError, Route};
use super::{Destination, otlp, remote_write};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// What one try came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// There was nothing to send.
    Nothing,
    Delivered,
    Refused,
    /// Later, in the words that say why.
    Later(String),
    /// Another try cannot help: a token or a certificate is wrong. It stays in the queue.
    Denied(String),
}

#[derive(Debug)]
pub(super) struct Sender {
    destination: Destination,
    pub(super) delivered: u64,
    pub(super) refused: u64,
    pub(super) refused_why: Option<String>,
    pub(super) bytes: u64,
    pause: Duration,
    not_before: Option<Instant>,
    /// When something was taken or refused last.
    pub(super) last_progress: Instant,
}

impl Sender {
    pub(super) fn new(destination: Destination) -> Self {
        Self {
            destination,
            delivered: 0,
            refused: 0,
            refused_why: None,
            bytes: 0,
            pause: FIRST_PAUSE,
            not_before: None,
            last_progress: Instant::now(),
        }
    }

    /// How long to wait before the next try.
    pub(super) fn pause(&self) -> Duration {
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn path(&self, route: Route) -> String {
        let base = &self.destination.path;
        let under = |end: &str| {
            if base.ends_with(end) { base.clone() } else { format!("{}{end}", base.trim_end_matches('/')) }
        };
        match route {
            Route::RemoteWrite => base.clone(),
            Route::Metrics => under("/v1/metrics"),
            Route::Traces => under("/v1/traces"),
        }
    }

    /// Sends the first that waits. Returns at once while a pause lasts.
    pub(super) fn try_first(&mut self, queue: &mut Queue) -> Result<Tried, QueueError> {
        let Some(entry) = queue.first().cloned() else { return Ok(Tried::Nothing) };
        if !self.pause().is_zero() {
            return Ok(Tried::Later("the far end asked to wait".to_owned()));
        }
        let tried = self.send(&entry, queue.body(&entry));
        if matches!(tried, Tried::Delivered | Tried::Refused) {
            queue.pop()?;
        }
        Ok(tried)
    }

    /// Sends one request. The caller takes it out of the queue when it was delivered or refused.
    pub(super) fn send(&mut self, entry: &Entry, body: Option<Vec<u8>>) -> Tried {
        let Some(body) = body else {
            // Somebody removed it: it cannot be sent any more.
            self.refused += entry.samples;
            self.refused_why.get_or_insert_with(|| "its file in the queue has gone".to_owned());
            return Tried::Refused;
        };
        let headers = if entry.route == Route::RemoteWrite { remote_write::HEADERS } else { otlp::HEADERS };
        let answer = match http::post(&self.destination, &self.path(entry.route), headers, &body) {
            Ok(answer) => answer,
            Err(NoAnswer::Tls(why)) => return Tried::Denied(why),
            Err(NoAnswer::Passing(why)) => return self.later(why, None),
        };
        let said = if answer.words.is_empty() { String::new() } else { format!(": {}", answer.words) };
        let shown = self.destination.shown();
        match answer.status {
            200..=299 => {
                self.delivered += entry.samples;
                self.bytes += entry.bytes;
                self.progress();
                Tried::Delivered
            }
            401 | 403 => Tried::Denied(format!("{shown} does not let us in ({}){said}", answer.status)),
            408 | 429 | 500..=599 => {
                self.later(format!("{shown} answered {}{said}", answer.status), answer.retry_after)
            }
            status => {
                self.refused += entry.samples;
                self.refused_why.get_or_insert_with(|| format!("{shown} answered {status}{said}"));
                self.progress();
                Tried::Refused
            }
        }
    }

    fn progress(&mut self) {
        self.pause = FIRST_PAUSE;
        self.not_before = None;
        self.last_progress = Instant::now();
    }

    fn later(&mut self, why: String, asked: Option<Duration>) -> Tried {
        let pause = asked.unwrap_or(self.pause).min(MAX_PAUSE);
        self.not_before = Some(Instant::now() + pause);
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Tried::Later(why)
    }
}
