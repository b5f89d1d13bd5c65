//! Reads tables batch by batch. What is damaged is skipped and counted: the readable part still makes a report.

use std::collections::BTreeMap;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{ColumnData, Row, TableId, Text};
use ortscope_core::tables::{ReadError, Scan, Tables};

use crate::ReportError;
use ortscope_core::units;

/// Damaged batches after which a scan is given up: a reader that fails on and on must not keep us for ever.
const MAX_DAMAGED: u64 = 10_000;

pub(super) struct Reader<'t> {
    tables: &'t dyn Tables,
    /// Zero of the report's time.
    origin_ns: u64,
    damage: BTreeMap<TableId, Damage>,
}

struct Damage {
    batches: u64,
    first: String,
}

impl<'t> Reader<'t> {
    /// Time counts from `started_ns`, or from the first row when that is earlier (imported data has its own clock).
    pub fn new(tables: &'t dyn Tables, started_ns: u64) -> Self {
        let first = tables.time_range_ns().map_or(started_ns, |(first, _)| first);
        Self { tables, origin_ns: started_ns.min(first), damage: BTreeMap::new() }
    }

    pub fn tables(&self) -> &'t dyn Tables {
        self.tables
    }

    pub fn rows(&self, table: TableId) -> u64 {
        self.tables.row_count(table)
    }

    /// Seconds from the start of the recording.
    pub fn seconds(&self, time_ns: u64) -> f64 {
        (i128::from(time_ns) - i128::from(self.origin_ns)) as f64 / 1e9
    }

    pub fn each_batch(
        &mut self,
        table: TableId,
        scan: &Scan,
        mut see: impl FnMut(&Batch),
    ) -> Result<(), ReportError> {
        let mut damaged = 0;
        for batch in self.tables.scan(table, scan) {
            match batch {
                Ok(batch) if batch.table() == table => see(&batch),
                Ok(_) => {}
                Err(ReadError::Io(error)) => return Err(ReadError::Io(error).into()),
                Err(error) => {
                    damaged += 1;
                    // A table may be scanned twice; the same damage is then seen twice and counted once.
                    let damage = self
                        .damage
                        .entry(table)
                        .or_insert_with(|| Damage { batches: 0, first: units::cleaned(&error.to_string()) });
                    damage.batches = damage.batches.max(damaged);
                    if damaged >= MAX_DAMAGED {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// All rows of a small table.
    pub fn each_row<R: Row>(&mut self, mut see: impl FnMut(R)) -> Result<(), ReportError> {
        self.each_batch(R::TABLE, &Scan::all(), |batch| batch.rows::<R>().for_each(&mut see))
    }

    /// What could not be read, in sentences.
    pub fn damage(&self) -> Vec<String> {
        self.damage
            .iter()
            .map(|(table, damage)| {
                let batches = match damage.batches {
                    1 => "1 batch".to_owned(),
                    batches => format!("{} batches", units::count(batches)),
                };
                format!("{batches} of the table {} could not be read: {}", table.def().name, damage.first)
            })
            .collect()
    }
}

/// The numbers of a column that always has one; empty if the batch has no such column.
pub(super) fn numbers<'b>(batch: &'b Batch, column: &str) -> &'b [u64] {
    match batch.column(column).map(|column| &column.data) {
        Some(ColumnData::U64(values)) => values,
        _ => &[],
    }
}

pub(super) fn texts<'b>(batch: &'b Batch, column: &str) -> &'b [Text] {
    match batch.column(column).map(|column| &column.data) {
        Some(ColumnData::Text(values)) => values,
        _ => &[],
    }
}

pub(super) fn flags<'b>(batch: &'b Batch, column: &str) -> &'b [bool] {
    match batch.column(column).map(|column| &column.data) {
        Some(ColumnData::Bool(values)) => values,
        _ => &[],
    }
}

/// A column of numbers that may be missing.
pub(super) struct Optional<'b> {
    values: &'b [u64],
    valid: &'b [bool],
}

impl<'b> Optional<'b> {
    pub fn of(batch: &'b Batch, column: &str) -> Self {
        let valid = batch.column(column).map_or(&[][..], |column| &column.valid);
        Self { values: numbers(batch, column), valid }
    }

    pub fn get(&self, index: usize) -> Option<u64> {
        self.values.get(index).copied().filter(|_| self.valid.get(index).copied().unwrap_or(false))
    }
}

/// Whether two texts are one and the same allocation: the cheap question before the dear one.
pub(super) fn same(left: &Text, right: &Text) -> bool {
    std::ptr::eq(left.as_ref(), right.as_ref())
}
