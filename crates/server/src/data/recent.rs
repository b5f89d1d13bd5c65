//! The newest rows of the live pipeline in bounded memory: the tables behind the lists, reports and timeline of a live source.
//! Process and thread samples are left to [`ortscope_core::live`], which compresses them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Overflow, Sink, SinkError};
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Batches, Scan, Tables};
use ortscope_export::metrics::Metrics;
use tokio::sync::watch;

use super::Newest;

/// Maximum number of rows of a batch; small batches are merged.
const BATCH_ROWS: usize = 4096;

/// Maximum bytes kept of a table; 0 keeps nothing. The oldest rows are dropped.
fn most_bytes(table: TableId) -> usize {
    match table {
        TableId::Inferences | TableId::Operators => 24 << 20,
        TableId::KernelEvents => 8 << 20,
        TableId::SystemSamples | TableId::DeviceSamples => 4 << 20,
        TableId::ProcessSamples
        | TableId::ThreadSamples
        | TableId::Ticks
        | TableId::SampleEnds
        | TableId::ChannelPositions => 0,
        TableId::Sessions
        | TableId::Processes
        | TableId::Memory
        | TableId::Findings
        | TableId::Annotations
        | TableId::Losses
        | TableId::Unavailability
        | TableId::GraphEdges
        | TableId::WallAnchors => 1 << 20,
    }
}

#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// Number of received rows, kept or not.
    seen: u64,
}

#[derive(Debug, Default)]
struct State {
    tables: BTreeMap<TableId, Kept>,
    newest: Newest,
    /// Sums since the start, including dropped rows.
    metrics: Metrics,
}

/// The sink. [`RecentRows::handle`] gives access to the kept rows.
#[derive(Debug, Default)]
pub struct RecentRows(Recent);

/// Shared access to the rows of a [`RecentRows`].
#[derive(Debug, Clone, Default)]
pub struct Recent {
    state: Arc<Mutex<State>>,
    /// Changes whenever samples have arrived.
    arrivals: Arc<watch::Sender<()>>,
}

impl RecentRows {
    pub fn handle(&self) -> Recent {
        self.0.clone()
    }
}

impl Recent {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies of arriving samples.
    pub fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// All kept rows. Batches are shared, not copied.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let tables = state.tables.iter();
        Snapshot {
            tables: tables.map(|(table, kept)| (*table, kept.batches.iter().cloned().collect())).collect(),
        }
    }

    /// The kept rows of one table.
    pub fn table(&self, table: TableId) -> Snapshot {
        let state = self.state();
        let batches = state.tables.get(&table).map(|kept| kept.batches.iter().cloned().collect());
        Snapshot { tables: batches.map(|batches| (table, batches)).into_iter().collect() }
    }

    /// Reads the newest readings. The sink waits meanwhile, so slow work belongs before or after this.
    pub fn newest<T>(&self, look: impl FnOnce(&Newest) -> T) -> T {
        look(&self.state().newest)
    }

    /// Reads the sums since the start. The sink waits meanwhile.
    pub fn metrics<T>(&self, look: impl FnOnce(&Metrics) -> T) -> T {
        look(&self.state().metrics)
    }

    /// Number of received rows by table.
    pub fn seen(&self) -> BTreeMap<&'static str, u64> {
        self.state().tables.iter().map(|(table, kept)| (table.def().name, kept.seen)).collect()
    }
}

impl Sink for RecentRows {
    fn name(&self) -> &str {
        "recent"
    }

    fn overflow(&self) -> Overflow {
        Overflow::DropOldest
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut state = self.0.state();
        if state.newest.take(batch) {
            self.0.arrivals.send_replace(());
        }
        state.metrics.take(batch);
        let table = batch.table();
        let kept = state.tables.entry(table).or_default();
        kept.seen += batch.len() as u64;
        let most = most_bytes(table);
        if most == 0 || batch.is_empty() {
            return Ok(());
        }
        kept.bytes += batch.bytes();
        match kept.batches.back_mut() {
            Some(last) if last.len() + batch.len() <= BATCH_ROWS => {
                // Copies only if somebody looks at it just now.
                Arc::make_mut(last).append(batch);
            }
            _ => kept.batches.push_back(Arc::new(batch.clone())),
        }
        while kept.bytes > most && kept.batches.len() > 1 {
            if let Some(old) = kept.batches.pop_front() {
                kept.bytes = kept.bytes.saturating_sub(old.bytes());
            }
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

/// Rows at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    tables: BTreeMap<TableId, Vec<Arc<Batch>>>,
}

impl Snapshot {
    fn of(&self, table: TableId) -> &[Arc<Batch>] {
        self.tables.get(&table).map_or(&[], Vec::as_slice)
    }
}

impl Tables for Snapshot {
    fn row_count(&self, table: TableId) -> u64 {
        self.of(table).iter().map(|batch| batch.len() as u64).sum()
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        let times = || self.tables.values().flatten().flat_map(|batch| batch.times_ns()).copied();
        Some((times().min()?, times().max()?))
    }

    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
        let scan = scan.clone();
        Box::new(self.of(table).iter().filter_map(move |batch| {
            let times = batch.times_ns();
            if times.iter().all(|time| scan.wants_time(*time)) {
                return Some(Ok((**batch).clone()));
            }
            let wanted: Vec<usize> = (0..times.len()).filter(|row| scan.wants_time(times[*row])).collect();
            (!wanted.is_empty()).then(|| Ok(batch.take(&wanted)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use ortscope_core::schema::{InferenceRow, LossRow};

    use super::*;

    #[test]
    fn memory_is_bounded_and_the_newest_rows_stay() {
        let mut sink = RecentRows::default();
        let recent = sink.handle();
        for start in 0..400_u64 {
            let mut batch = Batch::new(TableId::Inferences);
            for row in 0..1000 {
                batch.push(&InferenceRow { timestamp_ns: start * 1000 + row, ..InferenceRow::default() });
            }
            sink.consume(&batch).expect("kept");
        }
        let snapshot = recent.snapshot();
        let bytes: usize = snapshot.of(TableId::Inferences).iter().map(|batch| batch.bytes()).sum();
        assert!(bytes <= most_bytes(TableId::Inferences) && snapshot.row_count(TableId::Inferences) > 1000);
        assert_eq!(snapshot.time_range_ns().map(|(_, last)| last), Some(399_999));
        assert_eq!(recent.seen().get("inferences"), Some(&400_000));
    }

    #[test]
    fn a_scan_is_exact_and_a_snapshot_does_not_change() {
        let mut sink = RecentRows::default();
        let recent = sink.handle();
        let batch = |time: u64| {
            let mut batch = Batch::new(TableId::Losses);
            batch.push(&LossRow { timestamp_ns: time, count: 1, ..LossRow::default() });
            batch
        };
        (0..10).for_each(|time| sink.consume(&batch(time)).expect("kept"));
        let snapshot = recent.snapshot();
        (10..20).for_each(|time| sink.consume(&batch(time)).expect("kept"));
        let scan = Scan { from_ns: Some(3), to_ns: Some(6), ..Scan::all() };
        let times: Vec<u64> = snapshot
            .scan(TableId::Losses, &scan)
            .flatten()
            .flat_map(|batch| batch.times_ns().to_vec())
            .collect();
        assert_eq!((times, snapshot.row_count(TableId::Losses)), (vec![3, 4, 5], 10));
        assert_eq!(recent.table(TableId::Losses).row_count(TableId::Losses), 20);
    }
}
