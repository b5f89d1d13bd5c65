//! A cache of values that are slow to build: reports and timelines.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::ApiError;

/// The data behind a cached value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey {
    pub source: String,
    /// Increases as a source grows, which invalidates earlier values.
    pub generation: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub filter: Option<String>,
}

type Slot<V> = Arc<OnceLock<Result<Arc<V>, ApiError>>>;

/// The `MAX` most recently used values.
#[derive(Debug)]
pub struct Cache<V, const MAX: usize>(Mutex<Vec<(CacheKey, Slot<V>)>>);

impl<V, const MAX: usize> Default for Cache<V, MAX> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V, const MAX: usize> Cache<V, MAX> {
    /// The value of a key, built if it is not cached. A second request for a value in progress waits for it. Slow: not for
    /// async code.
    pub fn get(
        &self,
        key: CacheKey,
        build: impl FnOnce() -> Result<V, ApiError>,
    ) -> Result<Arc<V>, ApiError> {
        let slot = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = entries.iter().position(|(other, _)| *other == key);
            let entry = cached.map(|index| entries.remove(index)).unwrap_or_else(|| {
                entries.retain(|(other, _)| other.source != key.source || other.generation == key.generation);
                if entries.len() >= MAX {
                    entries.remove(0);
                }
                (key, Slot::default())
            });
            let slot = Arc::clone(&entry.1);
            entries.push(entry);
            slot
        };
        slot.get_or_init(|| build().map(Arc::new)).clone()
    }
}
