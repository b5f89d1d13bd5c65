//! Stores every batch before any sink sees it.
//!
//! The pump appends each batch, including losses, to the journal before passing it on, so that recordings survive
//! crashes. [`super::Emitter::kept`] then lets the source free its input, for example space in a ring.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::LossCounter;
use crate::batch::Batch;
use crate::schema::TableId;

/// The place under which losses of the journal are counted.
pub(super) const PLACE: &str = "journal";

/// Keeps batches where they survive this process.
pub trait Journal: Send {
    /// Keeps a batch. When it returns, the rows survive the end of this process. It runs on the pump's thread and must
    /// not wait for a disk.
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// Called once, after the last batch and before the sinks finish.
    fn finish(&mut self) -> Result<(), JournalError>;
}

/// Why a journal could not keep a batch.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The whole batch is not kept.
    #[error("{0}")]
    Failed(String),
    /// Some rows of the batch are not kept.
    #[error("{problem}")]
    Partly { lost_rows: u64, problem: String },
    #[error("the journal panicked: {0}")]
    Panicked(String),
}

/// The pump's journal, with its first error. A journal that fails keeps being fed: the next batch may work.
#[derive(Default)]
pub(super) struct Keeper {
    journal: Option<Box<dyn Journal>>,
}

/// The first error of the journal, for the report.
pub(super) type FirstError = Mutex<Option<String>>;

impl Keeper {
    pub(super) fn new(journal: Option<Box<dyn Journal>>) -> Self {
        Self { journal }
    }

    pub(super) fn append(&mut self, batch: &Batch, losses: &LossCounter, first_error: &FirstError) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let result = catch_unwind(AssertUnwindSafe(|| journal.append(batch)))
            .unwrap_or_else(|panic| Err(JournalError::Panicked(super::engine::panic_text(&*panic))));
        let Err(error) = result else {
            return;
        };
        // Rows of losses are made from the counter. Counting those that fail would feed on itself without end.
        if batch.table() != TableId::Losses {
            let lost = match error {
                JournalError::Partly { lost_rows, .. } => lost_rows,
                JournalError::Failed(_) | JournalError::Panicked(_) => batch.len() as u64,
            };
            losses.add(PLACE, batch.table().def().name, lost);
        }
        remember(first_error, &error);
    }

    pub(super) fn finish(&mut self, first_error: &FirstError) {
        // Dropped here, so that its files are closed when the sinks finish.
        let Some(mut journal) = self.journal.take() else {
            return;
        };
        let result = catch_unwind(AssertUnwindSafe(|| journal.finish()))
            .unwrap_or_else(|panic| Err(JournalError::Panicked(super::engine::panic_text(&*panic))));
        if let Err(error) = result {
            remember(first_error, &error);
        }
    }
}

fn remember(first_error: &FirstError, error: &JournalError) {
    first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
}
