//! Reads data that memory no longer has from a recording.
//!
//! The rows of one subject in the range go through a memory of their own, so that answers from a recording have the
//! same tiers and gaps as those from memory.

use serde::Serialize;

use super::history::{GapReason, History};
use super::limits::Limits;
use super::track::{Subject, TrackId};
use super::{LiveMemory, LiveView, UnknownTrack};
use crate::batch::Batch;
use crate::pipeline::Sink as _;
use crate::schema::{DeviceSampleRow, InferenceRow, ProcessSampleRow, Row, SystemSampleRow, TableId};
use crate::tables::{ReadError, Scan, Tables};

/// Read before the range: rates need the row before the first.
const BEFORE_NS: u64 = 3_000_000_000;
/// Rows that go in at once.
const BATCH_ROWS: usize = 4096;

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Memory,
    Recording,
}

/// A history and its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    pub origin: Origin,
    pub history: History,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    #[error(transparent)]
    Unknown(#[from] UnknownTrack),
    #[error("the recording cannot be read: {0}")]
    Read(#[from] ReadError),
}

impl LiveView {
    /// Like [`LiveView::history`]; what memory has forgotten, or never had, is read from the recording.
    pub fn history_with(
        &self,
        recording: &dyn Tables,
        track: &TrackId,
        from_ns: u64,
        to_ns: u64,
        max_points: usize,
    ) -> Result<Answer, HistoryError> {
        let live = self.history(track, from_ns, to_ns, max_points);
        let forgot = |history: &History| history.gaps.iter().any(|gap| gap.reason == GapReason::Forgotten);
        match live {
            Ok(history) if !forgot(&history) => Ok(Answer { origin: Origin::Memory, history }),
            live => match recorded_history(recording, track, from_ns, to_ns, max_points)? {
                Some(history) if !history.points.is_empty() => {
                    Ok(Answer { origin: Origin::Recording, history })
                }
                // The recording does not reach back either, or has none of this.
                _ => Ok(Answer { origin: Origin::Memory, history: live? }),
            },
        }
    }
}

/// The past of a track from a recording alone; `None` if it has nothing of it in the range.
pub fn recorded_history(
    recording: &dyn Tables,
    track: &TrackId,
    from_ns: u64,
    to_ns: u64,
    max_points: usize,
) -> Result<Option<History>, ReadError> {
    let seconds = to_ns.saturating_sub(from_ns) / 1_000_000_000;
    let limits = Limits {
        ring_samples: max_points.clamp(1000, 1_000_000),
        inference_samples: max_points.clamp(1000, 1_000_000),
        retention_seconds: seconds.saturating_add(600).max(86_400),
        selected_processes: 1,
        ..Limits::default()
    };
    let mut memory = LiveMemory::new(limits);
    let view = memory.view();
    let range = Range { from_ns: from_ns.saturating_sub(BEFORE_NS), to_ns };
    match &track.subject {
        Subject::System => replay::<SystemSampleRow>(recording, range, &mut memory, |_| true)?,
        Subject::Session(id) => {
            replay::<InferenceRow>(recording, range, &mut memory, |row| row.session_id == *id)?;
        }
        Subject::Process(process) => {
            view.select_processes(vec![*process]);
            let is_it = |row: &ProcessSampleRow| {
                row.pid == u64::from(process.pid) && row.process_start == process.start
            };
            replay::<ProcessSampleRow>(recording, range, &mut memory, is_it)?;
        }
        Subject::Device(device) => {
            let is_it = |row: &DeviceSampleRow| row.device == *device && row.metric == track.metric;
            replay::<DeviceSampleRow>(recording, range, &mut memory, is_it)?;
        }
    }
    Ok(view.history(track, from_ns, to_ns, max_points).ok())
}

#[derive(Debug, Clone, Copy)]
struct Range {
    from_ns: u64,
    to_ns: u64,
}

fn replay<R: Row>(
    recording: &dyn Tables,
    range: Range,
    memory: &mut LiveMemory,
    is_wanted: impl Fn(&R) -> bool,
) -> Result<(), ReadError> {
    let table: TableId = R::TABLE;
    let scan = Scan {
        from_ns: Some(range.from_ns),
        to_ns: Some(range.to_ns),
        // Unchanged rows count again, as they did when they came.
        every_tick: true,
        ..Scan::all()
    };
    let mut kept = Batch::new(table);
    for batch in recording.scan(table, &scan) {
        for row in batch?.rows::<R>().filter(|row| is_wanted(row)) {
            kept.push(&row);
            if kept.len() >= BATCH_ROWS {
                let full = std::mem::replace(&mut kept, Batch::new(table));
                // A memory takes every batch.
                memory.consume(&full).ok();
            }
        }
    }
    memory.consume(&kept).ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Tier;
    use crate::tables::MemoryTables;

    const SECOND: u64 = 1_000_000_000;

    fn recording(seconds: u64) -> MemoryTables {
        let mut batch = Batch::new(TableId::SystemSamples);
        for tick in 0..seconds * 10 {
            batch.push(&SystemSampleRow {
                timestamp_ns: tick * SECOND / 10,
                cpu_percent: Some((tick % 10) as f64),
                ..SystemSampleRow::default()
            });
        }
        MemoryTables { batches: vec![batch] }
    }

    #[test]
    fn evicted_data_is_read_from_the_recording() {
        let tables = recording(600);
        // A memory that keeps the last minute only.
        let mut memory =
            LiveMemory::new(Limits { retention_seconds: 60, ring_samples: 100, ..Limits::default() });
        for batch in &tables.batches {
            memory.consume(batch).unwrap();
        }
        let track = TrackId::system("cpu_percent");
        let view = memory.view();
        let recent = view.history_with(&tables, &track, 595 * SECOND, 600 * SECOND, 100).unwrap();
        assert_eq!((recent.origin, recent.history.points.len()), (Origin::Memory, 50));
        let old = view.history_with(&tables, &track, 10 * SECOND, 15 * SECOND, 100).unwrap();
        assert_eq!((old.origin, old.history.tier), (Origin::Recording, Tier::FullRate));
        assert_eq!(old.history.points.len(), 50);
        let coarse = view.history_with(&tables, &track, 0, 300 * SECOND, 300).unwrap();
        assert_eq!((coarse.origin, coarse.history.tier), (Origin::Recording, Tier::Seconds));
        assert!((299..=301).contains(&coarse.history.points.len()));
        assert!((coarse.history.points[5].mean - 4.5).abs() < 1e-3);
    }

    #[test]
    fn an_unknown_track_stays_unknown() {
        let memory = LiveMemory::new(Limits::default());
        let track = TrackId::session("nobody", "latency_ns");
        let answer = memory.view().history_with(&recording(1), &track, 0, SECOND, 10);
        assert!(matches!(answer, Err(HistoryError::Unknown(_))));
    }
}
