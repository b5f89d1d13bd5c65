//! WebSocket clients: their limits, and the groups that share frames.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::ws::Utf8Bytes;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::error::ApiError;

/// Maximum number of WebSockets of one token, and of all tokens.
const MAX_OF_ONE: usize = 64;
const MAX_TOGETHER: usize = 512;
/// Maximum number of shared groups.
const MAX_GROUPS: usize = 64;
/// Range of frame rates that a client can request.
pub const MIN_HERTZ: f64 = 0.2;
pub const MAX_HERTZ: f64 = 60.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    System,
    Sessions,
    Devices,
    Processes,
    Events,
    Losses,
}

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

    /// The frames of a group, which exists from its first client to its last. For a new group also its sender.
    pub fn join(&self, key: &Key) -> (watch::Receiver<Frame>, Option<watch::Sender<Frame>>) {
        let mut inside = self.inside();
        inside.groups.retain(|_, sender| !sender.is_closed());
        if let Some(sender) = inside.groups.get(key) {
            let mut receiver = sender.subscribe();
            // The newest frame is sent immediately: at 0.2 Hz a tick takes five seconds.
            receiver.mark_changed();
            return (receiver, None);
        }
        let (sender, receiver) = watch::channel(Frame::default());
        if inside.groups.len() < MAX_GROUPS {
            inside.groups.insert(key.clone(), sender.clone());
        }
        (receiver, Some(sender))
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
