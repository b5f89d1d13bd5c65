//! What every format reads from: the chosen tables, filtered, batch by batch.

use std::cell::RefCell;

use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{Row, TableId};
use ortscope_core::tables::{ReadError, Scan, Tables};

use crate::error::ExportError;
use crate::info::Head;
use crate::options::ExportOptions;
use ortscope_core::recording::RecordingInfo;

/// A recording with more damaged places than this in one table is given up: a reader could report them forever.
const MAX_DAMAGED: usize = 1_000;

/// How many rows of a table were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableRows {
    pub(crate) table: TableId,
    pub(crate) rows: u64,
}

/// The rows to export.
pub(crate) struct RowSource<'a> {
    tables: &'a dyn Tables,
    pub(crate) info: &'a RecordingInfo,
    pub(crate) options: &'a ExportOptions,
    /// Where relative times count from.
    pub(crate) start_ns: u64,
    pub(crate) selected: Vec<TableId>,
    damaged: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
}

impl<'a> RowSource<'a> {
    pub(crate) fn new(
        tables: &'a dyn Tables,
        info: &'a RecordingInfo,
        options: &'a ExportOptions,
    ) -> Result<Self, ExportError> {
        let start_ns = Filter::start_ns(info.started.monotonic_ns, tables);
        if let Some(filter) = &options.filter {
            filter.check_range(start_ns)?;
        }
        let selected = options.selected_tables();
        if selected.is_empty() {
            let message = "the filter and the chosen tables have nothing in common";
            return Err(ExportError::usage(
                message,
                "choose a table that the filter is about, or leave one out",
            ));
        }
        let (damaged, notes) = (RefCell::default(), RefCell::default());
        Ok(Self { tables, info, options, start_ns, selected, damaged, notes })
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head::new(self.info, self.options, self.start_ns)
    }

    /// Where a trace begins: rows can be a little earlier than the recording (a session that was there already), but not
    /// by hours (a sensor that has been missing since the machine started).
    pub(crate) fn trace_start_ns(&self) -> u64 {
        const AN_HOUR_NS: u64 = 3_600_000_000_000;
        let first = self.tables.time_range_ns().map_or(self.start_ns, |(first, _)| first);
        let earlier = self.start_ns.saturating_sub(first);
        if earlier <= AN_HOUR_NS { self.start_ns - earlier } else { self.start_ns }
    }

    pub(crate) fn is_selected(&self, table: TableId) -> bool {
        self.selected.contains(&table)
    }

    /// The rows of a table that the filter keeps; no batch is empty.
    pub(crate) fn batches(&self, table: TableId) -> impl Iterator<Item = Result<Batch, ExportError>> + '_ {
        let filter = self.options.filter.as_ref();
        let mut scan = filter.map_or_else(Scan::all, |filter| filter.scan(self.start_ns));
        scan.every_tick = self.options.every_tick;
        let kept = move |batch: Batch| match filter {
            Some(filter) => {
                let mask = filter.mask(&batch, self.start_ns);
                if mask.iter().all(|keep| *keep) { batch } else { batch.filter(&mask) }
            }
            None => batch,
        };
        self.scan(table, &scan).map(move |batch| batch.map(kept)).filter(|batch| match batch {
            Ok(batch) => !batch.is_empty(),
            Err(_) => true,
        })
    }

    /// Rows that are not exported themselves but explain others (names, reasons): without the filter.
    pub(crate) fn all_rows<R: Row>(&self) -> impl Iterator<Item = Result<R, ExportError>> + '_ {
        self.scan(R::TABLE, &Scan::all()).flat_map(|batch| {
            let (rows, error) = match batch {
                Ok(batch) => (batch.rows::<R>().collect::<Vec<_>>(), None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            rows.into_iter().map(Ok).chain(error)
        })
    }

    /// Damaged places are counted and passed over: what can be read is exported.
    pub(crate) fn scan(
        &self,
        table: TableId,
        scan: &Scan,
    ) -> impl Iterator<Item = Result<Batch, ExportError>> + use<'_, 'a> {
        let mut seen = 0;
        self.tables.scan(table, scan).filter_map(move |batch| match batch {
            Ok(batch) => Some(Ok(batch)),
            Err(error @ ReadError::Damaged { .. }) if seen < MAX_DAMAGED => {
                seen += 1;
                self.damaged.borrow_mut().push(error.to_string());
                None
            }
            Err(error) => Some(Err(ExportError::Read(error))),
        })
    }

    /// Something the user should know although the export succeeds.
    pub(crate) fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    pub(crate) fn into_damaged_and_notes(self) -> (Vec<String>, Vec<String>) {
        let mut damaged = self.damaged.into_inner();
        // A table that is read twice meets its damage twice.
        damaged.sort();
        damaged.dedup();
        (damaged, self.notes.into_inner())
    }
}
