//! A recording as metrics over time: the values at the end of every step, all tables together in the order of time.

use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::schema::{TableId, WallAnchorRow};
use ortscope_core::tables::Scan;

use super::families::Family;
use super::{Metrics, TABLES, Window};
use crate::error::ExportError;
use crate::source::{RowSource, TableRows};

/// Where nothing was recorded for so long, no values are given either: Prometheus forgets a series after this time.
const SILENT_NS: u64 = 300_000_000_000;

/// Wall time of the monotonic one, by the anchor before.
#[derive(Debug)]
pub(crate) struct WallClock {
    anchors: Vec<WallAnchor>,
}

impl WallClock {
    pub(crate) fn read(source: &RowSource<'_>) -> Result<Self, ExportError> {
        let mut anchors = vec![source.info.started];
        for row in source.all_rows::<WallAnchorRow>() {
            let row = row?;
            anchors.push(WallAnchor {
                monotonic_ns: row.timestamp_ns,
                unix_ns: row.unix_ns,
                error_ns: row.error_ns,
            });
        }
        anchors.sort_by_key(|anchor| anchor.monotonic_ns);
        Ok(Self { anchors })
    }

    pub(crate) fn unix_ns(&self, time_ns: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.monotonic_ns <= time_ns);
        let anchor = self.anchors.get(after.saturating_sub(1));
        anchor.map_or(time_ns, |anchor| anchor.unix_ns_at(time_ns))
    }
}

/// The rows of one table, taken up to a time.
struct Rows<'a> {
    table: TableId,
    batches: Box<dyn Iterator<Item = Result<Batch, ExportError>> + 'a>,
    batch: Option<Batch>,
    at: usize,
    taken: u64,
}

impl<'a> Rows<'a> {
    fn new(source: &'a RowSource<'_>, table: TableId) -> Self {
        Self { table, batches: Box::new(source.batches(table)), batch: None, at: 0, taken: 0 }
    }

    /// Time of the next row; `None` at the end.
    fn next_ns(&mut self) -> Result<Option<u64>, ExportError> {
        loop {
            if let Some(time) = self.batch.as_ref().and_then(|batch| batch.times_ns().get(self.at)) {
                return Ok(Some(*time));
            }
            match self.batches.next() {
                Some(batch) => (self.batch, self.at) = (Some(batch?), 0),
                None => return Ok(None),
            }
        }
    }

    fn take_before(&mut self, end_ns: u64, metrics: &mut Metrics) -> Result<(), ExportError> {
        while self.next_ns()?.is_some_and(|time| time < end_ns) {
            let Some(batch) = &self.batch else { break };
            let times = batch.times_ns().get(self.at..).unwrap_or_default();
            let count = times.iter().take_while(|time| **time < end_ns).count();
            let rows: Vec<usize> = (self.at..self.at + count).collect();
            if count == batch.len() {
                metrics.take(batch);
            } else {
                metrics.take(&batch.take(&rows));
            }
            self.at += count;
            self.taken += count as u64;
        }
        Ok(())
    }
}

/// What was so at a moment.
#[derive(Debug)]
pub(crate) struct Step<'f> {
    pub(crate) unix_ns: u64,
    pub(crate) families: &'f [Family],
}

/// Gives the values at the end of every step to `emit`.
pub(crate) fn each_step(
    source: &RowSource<'_>,
    step_ns: u64,
    mut emit: impl FnMut(Step<'_>) -> Result<(), ExportError>,
) -> Result<Vec<TableRows>, ExportError> {
    let step_ns = step_ns.max(1);
    let clock = WallClock::read(source)?;
    let mut metrics = Metrics::new(Window { age_ns: u64::MAX, ..Window::MINUTE });
    for batch in source.scan(TableId::Sessions, &Scan::all()) {
        metrics.take(&batch?);
    }
    let mut tables: Vec<Rows<'_>> = TABLES
        .iter()
        .filter(|table| source.is_selected(**table))
        .map(|table| Rows::new(source, *table))
        .collect();
    let mut end_ns: Option<u64> = None;
    loop {
        let mut next = None;
        for rows in &mut tables {
            next = rows.next_ns()?.into_iter().chain(next).min();
        }
        let Some(next) = next else { break };
        let first_end = next.saturating_sub(source.start_ns) / step_ns;
        let first_end = source.start_ns.saturating_add((first_end + 1).saturating_mul(step_ns));
        // The next step, or the one of the next row when there is nothing for long.
        let end = match end_ns {
            Some(before) if next < before.saturating_add(SILENT_NS) => before.saturating_add(step_ns),
            _ => first_end,
        };
        let end = if end_ns.is_some_and(|before| end <= before) { u64::MAX } else { end };
        for rows in &mut tables {
            rows.take_before(end, &mut metrics)?;
        }
        if end == u64::MAX {
            // Times beyond the end of time: nothing could show them.
            break;
        }
        emit(Step { unix_ns: clock.unix_ns(end), families: &metrics.families() })?;
        metrics.begin_window();
        end_ns = Some(end);
    }
    if metrics.left_out > 0 {
        source.note(format!(
            "{} rows are beyond the most labels there may be; they share the label 'other' or are left out",
            metrics.left_out
        ));
    }
    Ok(tables.iter().map(|rows| TableRows { table: rows.table, rows: rows.taken }).collect())
}
