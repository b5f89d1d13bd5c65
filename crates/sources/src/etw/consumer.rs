//! What takes the records: copies them while Windows waits, and keeps them until they are drained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ortscope_decode::etw::live;

use super::raw::RawRecord;

/// Since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerCounts {
    pub records: u64,
    /// Records that found no room, because nobody drained in time.
    pub no_room: u64,
    /// Records of a second beyond the most that are taken of one.
    pub limited: u64,
    /// Records that are longer than records can be.
    pub too_long: u64,
    /// Times that copying panicked; the record is lost, the session goes on.
    pub panics: u64,
}

/// Bounded; no memory is allocated for a record.
#[derive(Debug)]
pub struct Consumer {
    waiting: Mutex<Waiting>,
    room: usize,
    limit: RateLimit,
    panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    counts: ConsumerCounts,
    second: Second,
}

/// How many records of a second are taken, by their own stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub most_per_second: u64,
    pub ticks_per_second: u64,
}

impl RateLimit {
    pub const NONE: Self = Self { most_per_second: u64::MAX, ticks_per_second: 1 };
}

/// The second that is being counted.
#[derive(Debug, Default)]
struct Second {
    from_ticks: u64,
    records: u64,
}

impl Second {
    /// Whether another record may come. Stamps of different processors are a little out of order: only one that is far from
    /// the second begins another.
    fn has_room(&mut self, ticks: u64, limit: RateLimit) -> bool {
        let is_over = ticks.saturating_sub(self.from_ticks) >= limit.ticks_per_second;
        if is_over || self.from_ticks.saturating_sub(ticks) >= limit.ticks_per_second {
            *self = Self { from_ticks: ticks, records: 0 };
        }
        self.records += 1;
        self.records <= limit.most_per_second
    }
}

/// Starts and ends of processes and threads, images, and what the session tells of itself: they are few, and the meaning of
/// all others depends on them.
fn is_life(header: &[u8; live::HEADER_BYTES]) -> bool {
    const PROCESSES: live::ProviderId = live::ProviderId::new(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c);
    const THREADS: live::ProviderId = live::ProviderId::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
    const IMAGES: live::ProviderId = live::ProviderId::new(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518);
    const SESSION: live::ProviderId = live::ProviderId::new(0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
    let Some(class) = header[24..].first_chunk() else { return false };
    match live::ProviderId::from_bytes(*class) {
        PROCESSES | IMAGES | SESSION => true,
        // Start, end, and those that were there.
        THREADS => header[45] <= 4,
        _ => false,
    }
}

impl Consumer {
    /// Room for `room` bytes now, and as many again while they are drained.
    pub fn new(room: usize, limit: RateLimit) -> Self {
        let waiting = Waiting { bytes: Vec::with_capacity(room), ..Waiting::default() };
        Self { waiting: Mutex::new(waiting), room, limit, panics: AtomicU64::new(0) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a record. Whatever happens, nothing unwinds into the caller, which is Windows.
    ///
    /// # Safety
    /// The record's pointers must hold what Windows promises for the time of a callback.
    #[expect(unsafe_code, reason = "hands on the promise about the record's pointers")]
    pub unsafe fn take(&self, record: &RawRecord) {
        // SAFETY: the caller's promise; the parts do not leave this function.
        let (parts, items) = unsafe { record.parts() };
        let copied = catch_unwind(AssertUnwindSafe(|| {
            let mut waiting = self.waiting();
            let Waiting { bytes, counts, second } = &mut *waiting;
            counts.records += 1;
            if !second.has_room(parts.ticks(), self.limit) && !is_life(parts.header) {
                counts.limited += 1;
                return;
            }
            let needed = live::packed_bytes(parts.payload.len(), items.clone().map(|item| item.data.len()));
            if bytes.len() + needed > self.room {
                counts.no_room += 1;
            } else if !live::pack(&parts, items, bytes) {
                counts.too_long += 1;
            }
        }));
        if copied.is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All that waits, in exchange for an empty place of the same size.
    pub fn swap(&self, empty: &mut Vec<u8>) -> ConsumerCounts {
        empty.clear();
        empty.reserve(self.room);
        let mut waiting = self.waiting();
        std::mem::swap(&mut waiting.bytes, empty);
        ConsumerCounts { panics: self.panics.load(Ordering::Relaxed), ..waiting.counts }
    }

    pub fn counts(&self) -> ConsumerCounts {
        ConsumerCounts { panics: self.panics.load(Ordering::Relaxed), ..self.waiting().counts }
    }

    /// Memory that is kept for records.
    pub fn ring_bytes(&self) -> usize {
        2 * self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit { most_per_second: 3, ticks_per_second: 1000 };

    #[test]
    fn a_second_is_full_until_another_begins_and_stamps_out_of_order_do_not_empty_it() {
        let mut second = Second::default();
        let mut taken = |ticks: &[u64]| ticks.iter().filter(|ticks| second.has_room(**ticks, LIMIT)).count();
        assert_eq!(taken(&[5000, 5001, 4999, 5000, 5400, 4600]), 3);
        assert_eq!(taken(&[5999, 6000, 6001]), 2);
        // A clock that was set back by more than a second.
        assert_eq!(taken(&[100, 101, 102, 103]), 3);
    }

    #[test]
    fn lives_are_told_apart_from_switches() {
        let header = |class: u128, kind: u8| {
            let mut header = [0; live::HEADER_BYTES];
            header[24..40].copy_from_slice(&live::ProviderId::new(class).to_bytes());
            header[45] = kind;
            header
        };
        const THREADS: u128 = 0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c;
        assert!(is_life(&header(THREADS, 1)) && !is_life(&header(THREADS, 36)));
        assert!(is_life(&header(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518, 10)) && !is_life(&header(1, 1)));
    }
}
