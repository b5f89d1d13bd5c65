//! Where a source puts its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::losses::LossCounter;
use super::queue::{ByteQueue, Overflow, PushOutcome};
use crate::batch::Batch;
use crate::schema::{Row, TableId, UnavailabilityRow};

/// Rows collected before a batch goes to the pump.
const BATCH_ROWS: usize = 1024;

/// How an emitter reacts to a full pump queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Live sources: the batch is dropped and its rows are counted.
    DropAndCount,
    /// For sources that read files: wait for space.
    Wait,
}

/// A batch on its way to the pump, with the counter of its emitter that the pump raises when the batch is kept.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) batch: Batch,
    pub(super) kept: Arc<AtomicU64>,
}

/// Collects rows into batches and hands them to the pump, within the queue's bound.
///
/// Full batches go by themselves; call [`Emitter::flush`] at the end of a poll so that slow tables arrive in time.
#[derive(Debug)]
pub struct Emitter {
    place: String,
    when_full: WhenFull,
    open: Vec<Batch>,
    queue: Arc<ByteQueue<Sent>>,
    losses: Arc<LossCounter>,
    sent: u64,
    kept: Arc<AtomicU64>,
}

impl Emitter {
    pub(super) fn new(
        place: &str,
        when_full: WhenFull,
        queue: Arc<ByteQueue<Sent>>,
        losses: Arc<LossCounter>,
    ) -> Self {
        let open = TableId::ALL.iter().map(|table| Batch::new(*table)).collect();
        let kept = Arc::new(AtomicU64::new(0));
        Self { place: place.to_owned(), when_full, open, queue, losses, sent: 0, kept }
    }

    pub fn emit<R: Row>(&mut self, row: &R) {
        let index = R::TABLE as usize;
        let Some(batch) = self.open.get_mut(index) else {
            return;
        };
        batch.push(row);
        if batch.len() >= BATCH_ROWS {
            self.send(index);
        }
    }

    /// States that a track has no value from now on, and why.
    pub fn unavailable(&mut self, from_ns: u64, track: &str, reason: &str, hint: Option<&str>) {
        self.emit(&UnavailabilityRow {
            from_ns,
            to_ns: None,
            track: track.into(),
            reason: reason.into(),
            hint: hint.map(Into::into),
        });
    }

    /// Counts records that were lost before they reached the emitter, for example in a ring.
    pub fn lost(&mut self, kind: &str, count: u64) {
        self.losses.add(&self.place, kind, count);
    }

    /// Sends the collected rows.
    pub fn flush(&mut self) {
        for index in 0..self.open.len() {
            self.send(index);
        }
    }

    /// Batches that the pump's queue took so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many of the [`Emitter::sent`] batches, counted from the first, the pump has written to the journal, or
    /// passed on if there is no journal. Batches that the journal rejected count too: they are reported as lost, and
    /// waiting would not bring them back. Losses reported before a batch was sent are stored with it.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    fn send(&mut self, index: usize) {
        let Some(open) = self.open.get_mut(index) else {
            return;
        };
        if open.is_empty() {
            return;
        }
        // The next one will be about as long: columns that grow from nothing at every tick are most of a flush.
        let capacity = open.len().min(BATCH_ROWS);
        let batch = std::mem::replace(open, Batch::with_capacity(open.table(), capacity));
        let (bytes, rows, table) = (batch.bytes(), batch.len() as u64, batch.table());
        let overflow = match self.when_full {
            WhenFull::DropAndCount => Overflow::DropNewest,
            WhenFull::Wait => Overflow::Wait,
        };
        let item = Sent { batch, kept: Arc::clone(&self.kept) };
        match self.queue.push(item, bytes, overflow) {
            PushOutcome::Kept => self.sent += 1,
            PushOutcome::Dropped(_) | PushOutcome::Closed(_) => {
                self.losses.add(&self.place, table.def().name, rows);
            }
        }
    }
}

impl Drop for Emitter {
    fn drop(&mut self) {
        self.flush();
    }
}
