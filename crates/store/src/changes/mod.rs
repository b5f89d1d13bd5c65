//! Stores only changes. Most of a hundred processes do nothing in most hundredths of a second: a row that repeats the
//! previous one in everything but the time is omitted and can be reconstructed from the ticks.
//!
//! - Each tick of a sampled table has a row in `ticks`, written when the tick is complete, which is when the next one
//!   begins. Rows without a tick count only for their own time: the last tick before a crash, and late rows.
//! - A thing that is missing in a tick has a row in `sample_ends`.
//! - The first tick that begins in a journal file is stored completely, so that every file can be read without its
//!   predecessors.

mod layout;
mod table;

use std::borrow::Cow;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{TableId, TableKind};
use table::TableFilter;

/// The remaining rows of a batch, to be stored in this order.
#[derive(Debug)]
pub(crate) struct Filtered<'a> {
    pub rows: Cow<'a, Batch>,
    pub ends: Batch,
    pub ticks: Batch,
}

impl Filtered<'_> {
    /// The batches to store. Ticks come last: a tick guarantees that all its rows are there.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        [&*self.rows, &self.ends, &self.ticks].into_iter().filter(|batch| !batch.is_empty())
    }
}

/// Remembers the last row of everything that is sampled.
#[derive(Debug)]
pub(crate) struct ChangeFilter {
    /// By the number of the table; none for events.
    tables: Vec<Option<TableFilter>>,
}

impl Default for ChangeFilter {
    fn default() -> Self {
        let filter = |table: &TableId| {
            matches!(table.def().kind, TableKind::Samples(_)).then(|| TableFilter::new(*table))
        };
        Self { tables: TableId::ALL.iter().map(filter).collect() }
    }
}

impl ChangeFilter {
    /// Leaves out what did not change. `file` is the journal file that the result will be written to.
    pub fn apply<'a>(&mut self, batch: &'a Batch, file: u64) -> Filtered<'a> {
        let mut ends = Batch::new(TableId::SampleEnds);
        let mut ticks = Batch::new(TableId::Ticks);
        let rows = match self.tables.get_mut(batch.table() as usize).and_then(Option::as_mut) {
            Some(filter) => filter.apply(batch, file, &mut ends, &mut ticks),
            None => Cow::Borrowed(batch),
        };
        Filtered { rows, ends, ticks }
    }

    /// The batch that was last filtered could not be written, or not all of it: the next tick is kept whole.
    pub fn not_kept(&mut self, filtered: &Filtered<'_>) {
        if let Some(filter) = self.tables.get_mut(filtered.rows.table() as usize).and_then(Option::as_mut) {
            filter.not_kept(&filtered.ends);
        }
    }

    /// Completes the ticks that are open: what must still be written.
    pub fn finish(&mut self) -> Vec<Batch> {
        let mut ends = Batch::new(TableId::SampleEnds);
        let mut ticks = Batch::new(TableId::Ticks);
        for filter in self.tables.iter_mut().flatten() {
            filter.complete(&mut ends, &mut ticks);
        }
        vec![ends, ticks].into_iter().filter(|batch| !batch.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
