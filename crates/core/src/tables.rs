//! The read side of the schema. Recordings, the live memory and lists in tests are all read through [`Tables`];
//! reports, exports and queries know nothing else.

use crate::batch::Batch;
use crate::schema::TableId;

/// Selects the rows and columns to read.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Rows before this time are left out.
    pub from_ns: Option<u64>,
    /// Rows at or after this time are left out.
    pub to_ns: Option<u64>,
    /// Only these columns are needed; the others may be zero, empty or null. `None` means all.
    pub columns: Option<Vec<&'static str>>,
    /// Sampled tables: return a row for every tick, even without a change. Otherwise only changed rows are returned.
    pub every_tick: bool,
}

impl Scan {
    /// Everything, as it is stored.
    pub fn all() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn columns(mut self, columns: &[&'static str]) -> Self {
        self.columns = Some(columns.to_vec());
        self
    }

    pub fn wants_time(&self, time_ns: u64) -> bool {
        self.from_ns.is_none_or(|from| time_ns >= from) && self.to_ns.is_none_or(|to| time_ns < to)
    }

    pub fn wants_column(&self, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.contains(&name))
    }
}

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{place}: {problem}")]
    Damaged { place: String, problem: String },
}

/// Batches of one table. Only a few are in memory at a time.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<Batch, ReadError>> + 'a>;

/// A store of rows.
pub trait Tables {
    /// How many rows of a table are kept (of sampled tables: the changed ones).
    fn row_count(&self, table: TableId) -> u64;

    /// First and last time of all rows; `None` if there are none.
    fn time_range_ns(&self) -> Option<(u64, u64)>;

    /// The rows of a table, roughly in the order of time (exactly, within one source).
    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_>;
}

/// Rows in memory.
#[derive(Debug, Default, Clone)]
pub struct MemoryTables {
    pub batches: Vec<Batch>,
}

impl Tables for MemoryTables {
    fn row_count(&self, table: TableId) -> u64 {
        self.batches.iter().filter(|batch| batch.table() == table).map(|batch| batch.len() as u64).sum()
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        let times = || self.batches.iter().flat_map(Batch::times_ns).copied();
        Some((times().min()?, times().max()?))
    }

    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
        let scan = scan.clone();
        Box::new(self.batches.iter().filter(move |batch| batch.table() == table).map(move |batch| {
            let keep: Vec<bool> = batch.times_ns().iter().map(|time| scan.wants_time(*time)).collect();
            Ok(batch.filter(&keep))
        }))
    }
}
