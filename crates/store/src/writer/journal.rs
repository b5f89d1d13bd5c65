//! The change filter in front of the journal, shared by the pipeline and the writer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ortscope_channel::ChannelError;
use ortscope_channel::journal::JournalWriter;
use ortscope_core::batch::Batch;
use ortscope_core::clock::{WallAnchor, now_ns};
use ortscope_core::pipeline::{Journal, JournalError};
use ortscope_core::schema::{TableId, WallAnchorRow};

use super::convert::Wake;
use crate::changes::ChangeFilter;

/// Monotonic and wall time are read together this often.
const ANCHOR_PERIOD_NS: u64 = 60_000_000_000;

/// A journal that keeps what changed.
#[derive(Debug)]
pub(super) struct KeptJournal(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` after the end.
    journal: Option<JournalWriter>,
    filter: ChangeFilter,
    next_anchor_ns: u64,
    file_number: u64,
    /// Wakes the segment thread, which ends when all of these are dropped.
    wake: Option<Wake>,
}

impl KeptJournal {
    pub fn new(journal: JournalWriter, wake: Wake, started: WallAnchor) -> Result<Self, ChannelError> {
        let mut inner = Inner {
            file_number: journal.file_number(),
            journal: Some(journal),
            filter: ChangeFilter::default(),
            next_anchor_ns: 0,
            wake: Some(wake),
        };
        inner.append_anchor(started)?;
        Ok(Self(Mutex::new(inner)))
    }

    pub fn append(&self, batch: &Batch) -> Result<(), ChannelError> {
        let mut inner = self.lock();
        if now_ns() >= inner.next_anchor_ns {
            inner.append_anchor(WallAnchor::now())?;
        }
        inner.append(batch)
    }

    pub fn sync(&self) -> Result<(), ChannelError> {
        self.lock().journal.as_mut().map_or(Ok(()), JournalWriter::sync)
    }

    /// Waits until the next file is there, if it is on its way.
    pub fn settle(&self) {
        if let Some(journal) = &self.lock().journal {
            journal.settle();
        }
    }

    /// Ends the journal: completes the ticks, stores the time again, seals the last file.
    pub fn seal(&self) -> Result<(), ChannelError> {
        let mut inner = self.lock();
        if inner.journal.is_none() {
            return Ok(());
        }
        let ticks = inner.filter.finish();
        let last = ticks.iter().try_for_each(|batch| inner.write(batch));
        if let Err(error) = last.and_then(|()| inner.append_anchor(WallAnchor::now())) {
            // Earlier rows must be sealed in any case.
            tracing::warn!("the last tick is not complete: {error}");
        }
        inner.wake = None;
        match inner.journal.take().map_or(Ok(()), JournalWriter::seal) {
            // Its rows go into a segment next, and that is synced again.
            Err(ChannelError::NotSynced(problem)) => {
                tracing::warn!("the journal is not safe on the disk: {problem}");
                Ok(())
            }
            other => other,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn append(&mut self, batch: &Batch) -> Result<(), ChannelError> {
        let file = self.journal.as_ref().map_or(0, JournalWriter::file_number);
        let filtered = self.filter.apply(batch, file);
        let Some(journal) = &mut self.journal else {
            return Err(ChannelError::NoNextFile("the recording has ended".into()));
        };
        let kept = filtered.batches().try_for_each(|batch| journal.append(batch));
        if kept.is_err() {
            self.filter.not_kept(&filtered);
        }
        self.wake_if_full();
        kept
    }

    /// Writes a batch past the filter.
    fn write(&mut self, batch: &Batch) -> Result<(), ChannelError> {
        if let Some(journal) = &mut self.journal {
            journal.append(batch)?;
        }
        self.wake_if_full();
        Ok(())
    }

    fn append_anchor(&mut self, anchor: WallAnchor) -> Result<(), ChannelError> {
        self.next_anchor_ns = anchor.monotonic_ns.saturating_add(ANCHOR_PERIOD_NS);
        let mut batch = Batch::new(TableId::WallAnchors);
        batch.push(&WallAnchorRow {
            timestamp_ns: anchor.monotonic_ns,
            unix_ns: anchor.unix_ns,
            error_ns: anchor.error_ns,
        });
        self.write(&batch)
    }

    fn wake_if_full(&mut self) {
        let file_number = self.journal.as_ref().map_or(0, JournalWriter::file_number);
        if file_number != self.file_number {
            self.file_number = file_number;
            // If it has not seen the last call yet, it will see this file too.
            self.wake.iter().for_each(Wake::call);
        }
    }
}

/// The recording's end of the pipeline.
#[derive(Debug, Clone)]
pub struct RecordingJournal(Arc<KeptJournal>);

impl RecordingJournal {
    pub(super) fn new(journal: Arc<KeptJournal>) -> Self {
        Self(journal)
    }
}

impl Journal for RecordingJournal {
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.append(batch).map_err(|error| match error {
            ChannelError::RowsTooLarge { rows, .. } => {
                JournalError::Partly { lost_rows: rows, problem: error.to_string() }
            }
            error => JournalError::Failed(error.to_string()),
        })
    }

    /// The recording continues until its writer finishes it.
    fn finish(&mut self) -> Result<(), JournalError> {
        self.0.sync().map_err(|error| JournalError::Failed(error.to_string()))
    }
}
