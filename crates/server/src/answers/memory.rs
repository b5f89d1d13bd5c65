//! Memory of processes, arenas and devices.

use std::collections::BTreeMap;

use ortscope_core::live::Subject;
use ortscope_core::schema::{MemoryRow, TableId};
use ortscope_core::tables::Scan;
use serde_json::{Value, json};

use super::catalog::{Track, tracks};
use super::{Answer, about, number};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_ROWS: usize = 5000;
const MAX_TRACKS: usize = 40;

/// Processes that have a session.
fn session_pids(source: &Source) -> Result<Vec<u64>, ApiError> {
    let pids = match source.live() {
        Some(live) => {
            live.recent.newest(|newest| newest.sessions.values().filter_map(|session| session.pid).collect())
        }
        None => super::hello::sessions(source.tables())?.values().filter_map(|session| session.pid).collect(),
    };
    Ok(pids)
}

pub fn memory(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let scan = Scan { from_ns: Some(range.0), to_ns: Some(range.1), ..Scan::all() };
    let (mut rows, mut beyond): (Vec<Value>, u64) = (Vec::new(), 0);
    for batch in source.tables().scan(TableId::Memory, &scan) {
        for row in batch?.rows::<MemoryRow>() {
            if rows.len() >= MAX_ROWS {
                beyond += 1;
                continue;
            }
            rows.push(json!({
                "t_ms": number(source.ms(row.timestamp_ns)),
                "session_id": row.session_id,
                "scope": row.scope,
                "metric": row.metric,
                "bytes": row.bytes,
            }));
        }
    }
    let pids = session_pids(&source)?;
    let is_memory = |track: &Track| match &track.id.subject {
        Subject::System => matches!(&*track.id.metric, "memory_used_bytes" | "swap_used_bytes"),
        Subject::Process(process) => {
            matches!(&*track.id.metric, "working_set_bytes" | "private_bytes")
                && pids.contains(&u64::from(process.pid))
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
    let mut unavailable: BTreeMap<&str, &str> = BTreeMap::new();
    if rows.is_empty() {
        unavailable.insert("rows", "no memory of sessions or arenas was recorded; `ortscope run` does it");
    }
    if !tracks.iter().any(|track| track.starts_with("device/")) {
        unavailable.insert("device", "no memory of a device was recorded");
    }
    let mut answer = about(&source, range);
    answer.insert("rows".into(), rows.into());
    answer.insert("rows_not_listed".into(), beyond.into());
    answer.insert("tracks".into(), json!(tracks));
    answer.insert("unavailable".into(), json!(unavailable));
    Answer::json(&answer)
}
