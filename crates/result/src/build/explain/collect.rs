//! Fills windows with what the tables say about their time.

use std::collections::HashMap;

use ortscope_core::schema::{KernelEventRow, LossRow, MemoryRow, OperatorKind, OperatorRow, TableId, Text};
use ortscope_core::tables::Scan;

use super::super::reader::Reader;
use super::evidence::{KernelKind, Tally};
use super::windows::{Window, Windows};
use crate::ReportError;

/// Allocators that are followed.
const MAX_TRACKS: usize = 10_000;

/// Whose inferences the windows are.
#[derive(Debug, Clone)]
pub(in crate::build) struct Owner {
    pub session_id: Text,
    pub pid: Option<u64>,
}

/// How much of an event lies inside a window that contains its start.
fn inside(window: &Window, start_ns: u64, duration_ns: u64) -> u64 {
    window.end_ns.min(start_ns.saturating_add(duration_ns)).saturating_sub(start_ns)
}

fn count(tally: &mut Tally, duration_ns: Option<u64>) {
    tally.count += 1;
    tally.timed |= duration_ns.is_some();
    tally.duration_ns = tally.duration_ns.saturating_add(duration_ns.unwrap_or(0));
}

/// Scheduling, faults and throttling. Events of other processes do not count, throttling concerns everybody.
pub(in crate::build) fn kernel(
    reader: &mut Reader<'_>,
    windows: &mut Windows,
    owners: &[Owner],
) -> Result<(), ReportError> {
    const COLUMNS: &[&str] = &["timestamp_ns", "kind", "pid", "tid", "duration_ns", "detail"];
    for (from, to) in windows.spans() {
        let scan = Scan { from_ns: Some(from), to_ns: Some(to), ..Scan::all() }.columns(COLUMNS);
        reader.each_batch(TableId::KernelEvents, &scan, |batch| {
            for event in batch.rows::<KernelEventRow>() {
                if let Some(kind) = event.kind.known().and_then(KernelKind::of) {
                    windows.containing(event.timestamp_ns, |window| {
                        let pid = owners.get(window.session).and_then(|owner| owner.pid);
                        if kind == KernelKind::Throttle || (pid.is_some() && event.pid == pid) {
                            kernel_event(window, kind, &event);
                        }
                    });
                }
            }
        })?;
    }
    Ok(())
}

fn kernel_event(window: &mut Window, kind: KernelKind, event: &KernelEventRow) {
    let duration = event.duration_ns.map(|duration| inside(window, event.timestamp_ns, duration));
    let evidence = &mut window.evidence;
    count(&mut evidence.kernel[kind as usize], duration);
    if kind == KernelKind::ContextSwitch
        && let Some(off) = duration
    {
        evidence.off_by_thread.add(event.tid.unwrap_or(0), off);
        if let Some(instead) = &event.detail {
            evidence.ran_instead.add(Text::clone(instead), off);
        }
    }
}

/// Copies and waits of the provider, where the inference itself was profiled.
pub(in crate::build) fn operators(
    reader: &mut Reader<'_>,
    windows: &mut Windows,
    owners: &[Owner],
) -> Result<(), ReportError> {
    const COLUMNS: &[&str] = &["timestamp_ns", "duration_ns", "session_id", "kind"];
    for (from, to) in windows.spans() {
        let scan = Scan { from_ns: Some(from), to_ns: Some(to), ..Scan::all() }.columns(COLUMNS);
        reader.each_batch(TableId::Operators, &scan, |batch| {
            for row in batch
                .rows::<OperatorRow>()
                .filter(|row| matches!(row.kind.known(), Some(OperatorKind::Copy | OperatorKind::Wait)))
            {
                windows.containing(row.timestamp_ns, |window| {
                    if owners.get(window.session).is_some_and(|owner| owner.session_id == row.session_id) {
                        let duration = inside(window, row.timestamp_ns, row.duration_ns);
                        let evidence = &mut window.evidence;
                        let tally = if row.kind == OperatorKind::Copy {
                            &mut evidence.copies
                        } else {
                            &mut evidence.waits
                        };
                        count(tally, Some(duration));
                    }
                });
            }
        })?;
    }
    Ok(())
}

/// Memory that was larger inside an inference than at the reading before.
pub(in crate::build) fn memory(
    reader: &mut Reader<'_>,
    windows: &mut Windows,
    owners: &[Owner],
) -> Result<(), ReportError> {
    let mut before: HashMap<(Text, Text, Text), i64> = HashMap::new();
    reader.each_row(|row: MemoryRow| {
        let grown = |before: i64| u64::try_from(row.bytes.saturating_sub(before)).unwrap_or(0);
        let key = (Text::clone(&row.session_id), Text::clone(&row.scope), Text::clone(&row.metric));
        let known = before.len() < MAX_TRACKS;
        let growth = match before.get_mut(&key) {
            Some(last) => grown(std::mem::replace(last, row.bytes)),
            None if known => {
                before.insert(key, row.bytes);
                0
            }
            None => 0,
        };
        if growth > 0 {
            windows.containing(row.timestamp_ns, |window| {
                let whole_process = row.session_id.is_empty();
                let of_session =
                    owners.get(window.session).is_some_and(|owner| owner.session_id == row.session_id);
                if whole_process || of_session {
                    window.evidence.growth_bytes.add(format!("{} {}", row.scope, row.metric).into(), growth);
                }
            });
        }
    })
}

pub(in crate::build) fn losses(reader: &mut Reader<'_>, windows: &mut Windows) -> Result<(), ReportError> {
    reader.each_row(|row: LossRow| {
        windows.containing(row.timestamp_ns, |window| {
            window.evidence.lost = window.evidence.lost.saturating_add(row.count);
        });
    })
}
