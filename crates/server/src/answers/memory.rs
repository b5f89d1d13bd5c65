//! `/memory`: memory of processes, arenas and devices.

use ortscope_core::live::Subject;
use ortscope_core::schema::{MemoryRow, TableId, Text};
use ortscope_core::tables::Scan;
use ortscope_export::wire::Unavailable;
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use super::catalog::{Track, tracks};
use crate::app::{App, Asked};
use crate::error::ApiError;

const MAX_ROWS: usize = 5000;
const MAX_TRACKS: usize = 40;

/// Memory of processes, arenas and devices.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    #[serde(flatten)]
    pub about: About,
    /// Rows of the table `memory` (arenas, allocators, process) by time, at most 5,000.
    pub rows: Vec<MemoryEntry>,
    pub rows_not_listed: u64,
    /// Process and device memory: tracks for /metrics/history.
    pub tracks: Vec<String>,
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryEntry {
    pub t_ms: f64,
    pub session_id: Text,
    pub scope: Text,
    pub metric: Text,
    pub bytes: i64,
}

pub fn memory(app: &App, asked: &Asked) -> Result<Memory, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let scan = Scan { from_ns: Some(range.0), to_ns: Some(range.1), ..Scan::all() };
    let (mut rows, mut rows_not_listed) = (Vec::new(), 0);
    for batch in source.tables().scan(TableId::Memory, &scan) {
        for row in batch?.rows::<MemoryRow>() {
            if rows.len() >= MAX_ROWS {
                rows_not_listed += 1;
                continue;
            }
            rows.push(MemoryEntry {
                t_ms: source.ms(row.timestamp_ns),
                session_id: row.session_id,
                scope: row.scope,
                metric: row.metric,
                bytes: row.bytes,
            });
        }
    }
    let sessions = source.sessions()?;
    let is_session = |pid: u32| sessions.values().any(|session| session.pid == Some(u64::from(pid)));
    let is_memory = |track: &Track| match &track.id.subject {
        Subject::System => matches!(&*track.id.metric, "memory_used_bytes" | "swap_used_bytes"),
        Subject::Process(process) => {
            matches!(&*track.id.metric, "working_set_bytes" | "private_bytes") && is_session(process.pid)
        }
        Subject::Device(device) => track.id.metric.contains("memory") && !device.starts_with("ortscope"),
        Subject::Session(_) => false,
    };
    let tracks: Vec<String> = tracks(&source)?
        .iter()
        .filter(|track| is_memory(track))
        .take(MAX_TRACKS)
        .map(|track| track.id.to_string())
        .collect();
    let mut unavailable = Unavailable::default();
    if rows.is_empty() {
        unavailable.insert("rows", "no memory of sessions or arenas was recorded; `ortscope run` records it");
    }
    if !tracks.iter().any(|track| track.starts_with("device/")) {
        unavailable.insert("device", "no device memory was recorded");
    }
    Ok(Memory { about: About::new(&source, range), rows, rows_not_listed, tracks, unavailable })
}
