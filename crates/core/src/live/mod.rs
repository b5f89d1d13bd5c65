//! The recent past in bounded memory, for the server and the terminal view.
//!
//! [`LiveMemory`] is a sink of the pipeline; any number of [`LiveView`]s read it. Rows of the schema's tables become
//! *tracks*, named series of numbers (see [`TrackId`]), by one declarative mapping. Each track has
//! - the newest rows at the full rate (except for unselected processes),
//! - buckets of 1 s and of 1 min for 24 h with count, min, max, mean, p50, p95 and p99.
//!
//! All of it stays within [`Limits::total_bytes`]; evictions are counted in [`Losses`]. Older and finer data is read
//! from a recording ([`LiveView::history_with`]). Queries choose the finest sufficient form and report which it was.
//!
//! ```
//! use ortscope_core::batch::Batch;
//! use ortscope_core::live::{Limits, LiveMemory, Tier, TrackId};
//! use ortscope_core::pipeline::Sink;
//! use ortscope_core::schema::{SystemSampleRow, TableId};
//!
//! let mut memory = LiveMemory::new(Limits::default());
//! let view = memory.view();
//! let mut batch = Batch::new(TableId::SystemSamples);
//! for tick in 0..200 {
//!     let cpu_percent = Some((tick % 100) as f64);
//!     batch.push(&SystemSampleRow { timestamp_ns: tick * 10_000_000, cpu_percent, ..SystemSampleRow::default() });
//! }
//! memory.consume(&batch)?;
//!
//! let track = TrackId::system("cpu_percent");
//! let history = view.history(&track, 0, 2_000_000_000, 100)?;
//! assert_eq!((history.tier, history.points.len()), (Tier::Seconds, 2));
//! assert_eq!(history.points[0].max, 99.0);
//! assert_eq!(view.current(2_000_000_000).values[0].age_ns, 10_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Time
//! Rows may come out of order within [`Limits::late_seconds`] (samples: 2 s). A sampled thing has one row per time: a
//! second one is dropped. A row further back or more than a day ahead is ignored until 32 in a row agree; then the
//! clock is followed, and if it went back, later buckets are dropped. All of this is counted.
//!
//! A row of the `ticks` table means that every thing of a sampled table was read: those without a row at that time,
//! and not ended by a row of `sample_ends` or `processes`, are unchanged, so their last row counts again.
//!
//! # Locking
//! One reader-writer lock. The sink holds it for at most 256 rows at a time, under 0.2 ms. Readers copy what they
//! need while they hold it (packed buckets are shared, not copied) and unpack, sort and compute percentiles
//! afterwards; the longest copy is a full ring of 100,000 inferences, under a millisecond. The sink's queue in the
//! pipeline holds many seconds of rows.

#[cfg(test)]
mod audit;
mod block;
mod bucket;
mod codes;
mod declared;
mod eviction;
mod found;
mod history;
mod labels;
mod limits;
mod mapping;
mod notes;
mod query;
mod recorded;
mod ring;
mod selection;
mod sharing;
mod sketch;
mod state;
mod subject;
mod subjects;
#[cfg(test)]
mod testing;
mod tier;
mod track;
mod unavailable;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::batch::Batch;
use crate::identity::ProcessIdentity;
use crate::pipeline::{FlushError, Overflow, Sink, SinkError};

pub use declared::unit_of_metric;
pub use history::{
    Current, CurrentValue, Gap, GapReason, History, LatencyPercentiles, Point, Rows, Tier, TrackInfo,
};
pub use limits::{Limits, Losses};
pub use recorded::{Answer, HistoryError, Origin, recorded_history};
pub use track::{InvalidTrackName, Subject, TrackId};
pub use unavailable::UnavailableInterval;

use state::State;

/// Rows taken before readers get their turn.
const ROWS_PER_LOCK: usize = 256;

/// The sink that keeps the recent past. When its queue in the pipeline is full, the oldest batches go.
#[derive(Debug)]
pub struct LiveMemory {
    state: Arc<RwLock<State>>,
}

/// A read handle of a [`LiveMemory`]. Clones are cheap and see the same data.
#[derive(Debug, Clone)]
pub struct LiveView {
    state: Arc<RwLock<State>>,
}

/// Why a question about a track has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no track {0} in memory; it has no value yet or was evicted")]
pub struct UnknownTrack(pub TrackId);

impl LiveMemory {
    pub fn new(limits: Limits) -> Self {
        Self { state: Arc::new(RwLock::new(State::new(limits))) }
    }

    pub fn view(&self) -> LiveView {
        LiveView { state: Arc::clone(&self.state) }
    }
}

impl Sink for LiveMemory {
    fn name(&self) -> &str {
        "live"
    }

    fn overflow(&self) -> Overflow {
        Overflow::DropOldest
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut start = 0;
        while start < batch.len() {
            let end = (start + ROWS_PER_LOCK).min(batch.len());
            write(&self.state).take(batch, start..end);
            start = end;
        }
        write(&self.state).settle();
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

impl LiveView {
    /// The past of a track in the range, `from_ns` inside and `to_ns` outside, in at most `max_points` (at least 1):
    /// from the finest tier that has the whole range in so few points, or that has most of it. An empty range has no
    /// points.
    pub fn history(
        &self,
        track: &TrackId,
        from_ns: u64,
        to_ns: u64,
        max_points: usize,
    ) -> Result<History, UnknownTrack> {
        let max_points = max_points.max(1);
        let material = read(&self.state).gather(track, from_ns, to_ns, max_points);
        let material = material.ok_or_else(|| UnknownTrack(track.clone()))?;
        Ok(material.into_history(from_ns, to_ns, max_points))
    }

    /// Every value of the range that is kept at the full rate.
    pub fn rows(&self, track: &TrackId, from_ns: u64, to_ns: u64) -> Result<Rows, UnknownTrack> {
        let rows = read(&self.state).rows(track, from_ns, to_ns);
        rows.map(query::into_rows).ok_or_else(|| UnknownTrack(track.clone()))
    }

    /// Percentiles of a session's metric (`latency_ns`, `end_to_end_ns` or `response_ns`) over the inferences that
    /// started in the `window_ns` before `now_ns`, exact, from the rows at the full rate.
    pub fn latency(
        &self,
        session_id: &str,
        metric: &str,
        now_ns: u64,
        window_ns: u64,
    ) -> Result<LatencyPercentiles, UnknownTrack> {
        let (from_ns, to_ns) = (now_ns.saturating_sub(window_ns), now_ns.saturating_add(1));
        let track = TrackId::session(session_id, metric);
        let rows = read(&self.state).rows(&track, from_ns, to_ns);
        rows.map(|rows| query::into_percentiles(rows, from_ns)).ok_or(UnknownTrack(track))
    }

    /// The newest value of every track with its age at `now_ns`, and the tracks without a value with the reason.
    pub fn current(&self, now_ns: u64) -> Current {
        read(&self.state).current(now_ns)
    }

    /// All tracks that have data.
    pub fn tracks(&self) -> Vec<TrackInfo> {
        read(&self.state).tracks()
    }

    /// All intervals without a value that touch the range.
    pub fn unavailable(&self, from_ns: u64, to_ns: u64) -> Vec<UnavailableInterval> {
        let state = read(&self.state);
        state.unavailable.iter().filter(|interval| interval.overlaps(from_ns, to_ns)).cloned().collect()
    }

    /// Selects processes for the full rate, even before they are seen; the busiest fill the other places. Returns how
    /// many were accepted: at most [`Limits::selected_processes`], the first ones.
    pub fn select_processes(&self, processes: Vec<ProcessIdentity>) -> usize {
        write(&self.state).select(processes)
    }

    /// The processes that are kept at the full rate now.
    pub fn selected_processes(&self) -> Vec<ProcessIdentity> {
        read(&self.state).selected()
    }

    /// Counts of dropped data since the start.
    pub fn losses(&self) -> Losses {
        read(&self.state).losses
    }

    /// Total heap use, counted by capacity, with 32 bytes of allocator overhead per packed block.
    pub fn bytes(&self) -> usize {
        read(&self.state).bytes()
    }

    pub fn limits(&self) -> Limits {
        read(&self.state).limits.clone()
    }
}

// A panic while the lock is held cannot leave the state half changed in a way that breaks later calls: every access is
// checked. Numbers may be off by the row that caused it.
fn read(state: &RwLock<State>) -> RwLockReadGuard<'_, State> {
    state.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(state: &RwLock<State>) -> RwLockWriteGuard<'_, State> {
    state.write().unwrap_or_else(PoisonError::into_inner)
}
