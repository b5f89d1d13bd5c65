//! Receives records: copies them during the callback and keeps them until they are drained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ortscope_decode::etw::live;

use super::raw::RawRecord;

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerCounts {
    pub records: u64,
    /// Records dropped because they were not drained in time.
    pub queue_full: u64,
    /// Records beyond the limit per second.
    pub limited: u64,
    /// Records that exceed the maximum length.
    pub too_long: u64,
    /// Panics while copying; the record is lost, and the session continues.
    pub panics: u64,
}

/// Bounded; no memory is allocated per record.
#[derive(Debug)]
pub struct Consumer {
    waiting: Mutex<Waiting>,
    capacity: usize,
    limit: RateLimit,
    panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    counts: ConsumerCounts,
    second: Second,
}

/// Maximum number of records per second, by their timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub max_per_second: u64,
    pub ticks_per_second: u64,
}

impl RateLimit {
    pub const NONE: Self = Self { max_per_second: u64::MAX, ticks_per_second: 1 };
}

/// The current second.
#[derive(Debug, Default)]
struct Second {
    from_ticks: u64,
    records: u64,
}

impl Second {
    /// Whether another record may be accepted. Timestamps of different processors are slightly out of order: only a
    /// distant one starts another second.
    fn accepts(&mut self, ticks: u64, limit: RateLimit) -> bool {
        let is_over = ticks.saturating_sub(self.from_ticks) >= limit.ticks_per_second;
        if is_over || self.from_ticks.saturating_sub(ticks) >= limit.ticks_per_second {
            *self = Self { from_ticks: ticks, records: 0 };
        }
        self.records += 1;
        self.records <= limit.max_per_second
    }
}

/// Starts and ends of processes and threads, images, and session metadata: they are few, and the interpretation of all
/// others depends on them.
fn is_lifetime_event(header: &[u8; live::HEADER_BYTES]) -> bool {
    const PROCESSES: live::ProviderId = live::ProviderId::new(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c);
    const THREADS: live::ProviderId = live::ProviderId::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
    const IMAGES: live::ProviderId = live::ProviderId::new(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518);
    const SESSION: live::ProviderId = live::ProviderId::new(0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
    let Some(class) = header[24..].first_chunk() else { return false };
    match live::ProviderId::from_bytes(*class) {
        PROCESSES | IMAGES | SESSION => true,
        // Start, end, and rundown.
        THREADS => header[45] <= 4,
        _ => false,
    }
}

impl Consumer {
    /// Capacity for `capacity` bytes, and the same again while they are drained.
    pub fn new(capacity: usize, limit: RateLimit) -> Self {
        let waiting = Waiting { bytes: Vec::with_capacity(capacity), ..Waiting::default() };
        Self { waiting: Mutex::new(waiting), capacity, limit, panics: AtomicU64::new(0) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a record. Nothing unwinds into the caller, which is Windows.
    ///
    /// # Safety
    /// The record's pointers must be valid as Windows guarantees during a callback.
    #[expect(unsafe_code, reason = "passes on the guarantee about the record's pointers")]
    pub unsafe fn push(&self, record: &RawRecord) {
        // SAFETY: guaranteed by the caller; the parts do not leave this function.
        let (parts, items) = unsafe { record.parts() };
        let copied = catch_unwind(AssertUnwindSafe(|| {
            let mut waiting = self.waiting();
            let Waiting { bytes, counts, second } = &mut *waiting;
            counts.records += 1;
            if !second.accepts(parts.ticks(), self.limit) && !is_lifetime_event(parts.header) {
                counts.limited += 1;
                return;
            }
            let needed = live::packed_bytes(parts.payload.len(), items.clone().map(|item| item.data.len()));
            if bytes.len() + needed > self.capacity {
                counts.queue_full += 1;
            } else if !live::pack(&parts, items, bytes) {
                counts.too_long += 1;
            }
        }));
        if copied.is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Swaps the pending bytes with an empty buffer of the same capacity.
    pub fn swap(&self, empty: &mut Vec<u8>) -> ConsumerCounts {
        empty.clear();
        empty.reserve(self.capacity);
        let mut waiting = self.waiting();
        std::mem::swap(&mut waiting.bytes, empty);
        ConsumerCounts { panics: self.panics.load(Ordering::Relaxed), ..waiting.counts }
    }

    pub fn counts(&self) -> ConsumerCounts {
        ConsumerCounts { panics: self.panics.load(Ordering::Relaxed), ..self.waiting().counts }
    }

    /// Memory reserved for records.
    pub fn ring_bytes(&self) -> usize {
        2 * self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit { max_per_second: 3, ticks_per_second: 1000 };

    #[test]
    fn out_of_order_timestamps_do_not_reset_the_limit() {
        let mut second = Second::default();
        let mut taken = |ticks: &[u64]| ticks.iter().filter(|ticks| second.accepts(**ticks, LIMIT)).count();
        assert_eq!(taken(&[5000, 5001, 4999, 5000, 5400, 4600]), 3);
        assert_eq!(taken(&[5999, 6000, 6001]), 2);
        // A clock that was set back by more than a second.
        assert_eq!(taken(&[100, 101, 102, 103]), 3);
    }

    #[test]
    fn lifetime_events_are_distinguished_from_switches() {
        let header = |class: u128, kind: u8| {
            let mut header = [0; live::HEADER_BYTES];
            header[24..40].copy_from_slice(&live::ProviderId::new(class).to_bytes());
            header[45] = kind;
            header
        };
        const THREADS: u128 = 0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c;
        assert!(is_lifetime_event(&header(THREADS, 1)) && !is_lifetime_event(&header(THREADS, 36)));
        assert!(
            is_lifetime_event(&header(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518, 10))
                && !is_lifetime_event(&header(1, 1))
        );
    }
}
