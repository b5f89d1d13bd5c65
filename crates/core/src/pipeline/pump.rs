//! The pump: the one thread that moves batches from the intake to the journal and to every sink.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::emitter::Sent;
use super::journal::{FirstError, Keeper};
use super::{ByteQueue, Control, LossCounter, Overflow, PushOutcome};
use crate::batch::Batch;
use crate::schema::{LossRow, TableId};

/// The way from the pump to one sink.
pub(super) struct SinkQueue {
    pub(super) name: String,
    pub(super) overflow: Overflow,
    pub(super) queue: Arc<ByteQueue<Arc<Batch>>>,
}

/// Moves batches to the journal and then to the sinks; losses that were counted meanwhile follow as rows of their own.
pub(super) struct Pump {
    pub(super) sinks: Vec<SinkQueue>,
    pub(super) journal: Keeper,
    pub(super) journal_error: Arc<FirstError>,
    pub(super) losses: Arc<LossCounter>,
    pub(super) control: Control,
}

impl Pump {
    pub(super) fn run(mut self, intake: &ByteQueue<Sent>) {
        while !intake.is_finished() {
            if let Some(Sent { batch, kept }) = intake.pop(Duration::from_millis(100)) {
                self.deliver(batch);
                // Reported only now, so that losses from before the batch are stored with it.
                self.report_losses();
                kept.fetch_add(1, Ordering::Release);
            } else {
                self.report_losses();
            }
        }
        self.report_losses();
        self.journal.finish(&self.journal_error);
        for sink in &self.sinks {
            sink.queue.close();
        }
    }

    fn deliver(&mut self, batch: Batch) {
        self.journal.append(&batch, &self.losses, &self.journal_error);
        let (bytes, table) = (batch.bytes(), batch.table().def().name);
        let batch = Arc::new(batch);
        for SinkQueue { name, overflow, queue } in &self.sinks {
            match queue.push(Arc::clone(&batch), bytes, *overflow) {
                PushOutcome::Kept => {}
                PushOutcome::Dropped(gone) => {
                    for old in gone {
                        self.losses.add(name, old.table().def().name, old.len() as u64);
                    }
                }
                PushOutcome::Closed(unsent) => self.losses.add(name, table, unsent.len() as u64),
            }
        }
    }

    fn report_losses(&mut self) {
        let mut batch = Batch::new(TableId::Losses);
        for (place, kind, count) in self.losses.take_new() {
            batch.push(&LossRow {
                timestamp_ns: self.control.clock().now_ns(),
                place: place.into(),
                kind: kind.into(),
                count,
            });
        }
        if !batch.is_empty() {
            self.deliver(batch);
        }
    }
}
