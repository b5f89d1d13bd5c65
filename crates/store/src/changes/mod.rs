//! Only what changed is kept. Most of a hundred processes do nothing in most hundredths of a second: a row that repeats
//! the one before it in everything but the time is left out and can be told again from the ticks.
//!
//! - For each tick of a sampled table there is a row in `ticks`, written when the tick is complete, which is when the
//!   next one begins. Rows whose time is no tick stand for themselves: the last tick before a crash, and late rows.
//! - A thing that is missing in a tick has a row in `sample_ends`.
//! - The first tick that begins in a journal file is kept whole, so that every file can be understood without those
//!   before it.

mod layout;
mod table;

use std::borrow::Cow;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{TableId, TableKind};
use table::TableFilter;

/// What is left of a batch, to be kept in this order.
#[derive(Debug)]
pub(crate) struct Filtered<'a> {
    pub rows: Cow<'a, Batch>,
    pub ends: Batch,
    pub ticks: Batch,
}

impl Filtered<'_> {
    /// What is to be kept. Ticks come last: one that is there promises that all its rows are there.
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
