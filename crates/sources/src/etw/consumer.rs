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
    panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    counts: ConsumerCounts,
}

impl Consumer {
    /// Room for `room` bytes now, and as many again while they are drained.
    pub fn new(room: usize) -> Self {
        let waiting = Waiting { bytes: Vec::with_capacity(room), counts: ConsumerCounts::default() };
        Self { waiting: Mutex::new(waiting), room, panics: AtomicU64::new(0) }
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
            let Waiting { bytes, counts } = &mut *waiting;
            counts.records += 1;
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
