//! Client groups: one ticker and one encoding each.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::frames::{Encoder, Topic};
use crate::app::App;
use crate::error::ApiError;

/// Maximum number of WebSockets of one token, and of all tokens.
const MAX_OF_ONE: usize = 64;
const MAX_TOGETHER: usize = 512;
/// Maximum number of shared groups.
const MAX_GROUPS: usize = 64;
/// Maximum time that a frame waits for samples.
const MAX_PATIENCE: Duration = Duration::from_secs(2);
/// The samples of a tick arrive in several batches on several threads, within this time.
const SETTLES_WITHIN: Duration = Duration::from_millis(1);
const LIVE: &str = "live";

/// A frame that all clients of a group share.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    pub sequence: u64,
    /// `None` before the first frame.
    pub text: Option<Utf8Bytes>,
}

/// The key of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub source: String,
    pub topics: BTreeSet<Topic>,
    pub millihertz: u64,
}

/// Frame counters since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub connected: AtomicU64,
    pub sent: AtomicU64,
    pub dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Inside {
    groups: HashMap<Key, watch::Sender<Frame>>,
    of_identity: HashMap<String, usize>,
}

#[derive(Debug, Default)]
pub struct Groups {
    inside: Mutex<Inside>,
    pub counters: Counters,
}

/// A client's slot, released when this is dropped.
#[derive(Debug)]
pub struct Place {
    groups: Arc<Groups>,
    identity: String,
}

impl Groups {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the limits for one more WebSocket.
    pub fn has_room(&self, identity: &str) -> Result<(), ApiError> {
        let inside = self.inside();
        let of_one = inside.of_identity.get(identity).copied().unwrap_or(0);
        let together: usize = inside.of_identity.values().sum();
        if of_one >= MAX_OF_ONE || together >= MAX_TOGETHER {
            let sentence =
                format!("there are already {of_one} WebSockets of '{identity}' and {together} in total");
            return Err(
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_websockets", sentence).retry_after(5)
            );
        }
        Ok(())
    }

    pub fn enter(groups: &Arc<Self>, identity: &str) -> Result<Place, ApiError> {
        groups.has_room(identity)?;
        *groups.inside().of_identity.entry(identity.to_owned()).or_default() += 1;
        groups.counters.connected.fetch_add(1, Ordering::Relaxed);
        Ok(Place { groups: Arc::clone(groups), identity: identity.to_owned() })
    }

    /// The frames of a group, which exists from its first client to its last.
    pub fn join(groups: &Arc<Self>, app: &Arc<App>, key: Key) -> watch::Receiver<Frame> {
        let mut inside = groups.inside();
        inside.groups.retain(|_, sender| !sender.is_closed());
        if let Some(sender) = inside.groups.get(&key) {
            let mut receiver = sender.subscribe();
            // The newest frame is sent immediately: at 0.2 Hz a tick takes five seconds.
            receiver.mark_changed();
            return receiver;
        }
        let (sender, receiver) = watch::channel(Frame::default());
        if inside.groups.len() < MAX_GROUPS {
            inside.groups.insert(key.clone(), sender.clone());
        }
        drop(inside);
        tokio::runtime::Handle::current().spawn(tick(Arc::clone(app), key, sender));
        receiver
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.groups.inside();
        if let Some(count) = inside.of_identity.get_mut(&self.identity) {
            *count -= 1;
            if *count == 0 {
                inside.of_identity.remove(&self.identity);
            }
        }
        self.groups.counters.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Schedule of a group's frames: at its rate, but right after samples have arrived, so that they are fresh.
struct Rhythm {
    period: Duration,
    due: Instant,
    /// `None` if no samples arrive.
    arrivals: Option<watch::Receiver<()>>,
}

impl Rhythm {
    fn new(app: &App, key: &Key) -> Self {
        let live = app.sources.live().filter(|_| key.source == LIVE);
        Self {
            period: Duration::from_secs_f64(1000.0 / key.millihertz.max(1) as f64),
            due: Instant::now(),
            arrivals: live.map(|live| live.recent.arrivals()),
        }
    }

    async fn next(&mut self) {
        sleep_until(self.due).await;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.mark_unchanged();
            // A little more than a period: samples of the same rate arrive once per period, sometimes late. A paused
            // source must not stop the frames, which show that it is paused.
            let patience = (self.period * 5 / 4).min(MAX_PATIENCE);
            if timeout(patience, arrivals.changed()).await.is_ok() {
                // If samples arrive just when a frame is due, some frames would miss them: be due a little earlier.
                if self.due.elapsed() < self.period / 32 {
                    self.due -= self.period / 16;
                }
                // Wait for the other tables of the same tick and for the live memory.
                sleep(SETTLES_WITHIN).await;
            }
        }
        self.due = (self.due + self.period).max(Instant::now());
    }
}

/// Builds the frames of a group until it has no clients.
async fn tick(app: Arc<App>, key: Key, sender: watch::Sender<Frame>) {
    let mut rhythm = Rhythm::new(&app, &key);
    let mut encoder = Encoder::new(key);
    let mut sequence = 0;
    loop {
        // The first frame is built immediately.
        if sequence > 0 {
            tokio::select! {
                () = rhythm.next() => {}
                () = sender.closed() => return,
            }
        }
        sequence += 1;
        let shared = Arc::clone(&app);
        let made = spawn_blocking(move || {
            let text = encoder.encode(&shared, sequence);
            (encoder, text)
        });
        let Ok((back, text)) = made.await else { return };
        encoder = back;
        match text {
            Ok(Some(text)) => {
                sender.send_replace(Frame { sequence, text: Some(text.into()) });
            }
            // A finished recording has only one frame.
            Ok(None) => sender.closed().await,
            Err(error) => tracing::debug!(message = error.message, "no frame"),
        }
    }
}
