//! Windows of profiled runs during a measurement: operator times at intervals, which distinguish a drift over hours from a
//! slow model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_analyze::operators::section::WindowReport;
use ortscope_analyze::operators::{OperatorAnalysis, OperatorEvent, OperatorOptions, RunAssembler};
use ortscope_channel::disk::remove_temporary_file;
use ortscope_core::schema::{TableId, Text};
use ortscope_decode::ort_profile::{ProfileStart, RowOptions};
use ortscope_import::ort_profile;
use ortscope_store::RecordingWriter;

use crate::recording::RowWriter;

use ortscope_core::failure::Failure;

/// Maximum number of listed operator types of a window.
const MAX_TYPES: usize = 8;
/// First run number of windows, to distinguish them from runs of the operator pass.
const FIRST_RUN: u64 = 1_000_000;

/// Reads the files of all windows in their order, keeps their rows, and removes them.
pub fn read(
    directory: &Path,
    session_id: &Text,
    recording: Option<&RecordingWriter>,
) -> Result<Vec<WindowReport>, Failure> {
    let mut by_window: BTreeMap<String, Vec<(u64, PathBuf, bool)>> = BTreeMap::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        let Some((window, start, is_twin)) = parse(&path) else { continue };
        by_window.entry(window).or_default().push((start, path, is_twin));
    }
    let mut next_run = FIRST_RUN;
    let mut reports = Vec::new();
    for mut files in by_window.into_values() {
        files.sort();
        reports.extend(window(&files, session_id, recording, &mut next_run)?);
        for (_, path, _) in &files {
            remove_temporary_file(path)?;
        }
    }
    Ok(reports)
}

/// `window-000003-r0001-123456789_2026-…json`: the window, the start, and whether a second session made it.
fn parse(path: &Path) -> Option<(String, u64, bool)> {
    let name = path.file_name()?.to_str()?;
    let mut parts = name.strip_prefix("window-")?.splitn(3, '-');
    let (window, what, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    Some((window.to_owned(), rest.get(..digits)?.parse().ok()?, what == "twin"))
}

fn window(
    files: &[(u64, PathBuf, bool)],
    session_id: &Text,
    recording: Option<&RecordingWriter>,
    next_run: &mut u64,
) -> Result<Option<WindowReport>, Failure> {
    let Some((start_ns, _, is_twin)) = files.first() else { return Ok(None) };
    let warm_up_runs = usize::from(*is_twin);
    let mut analysis = OperatorAnalysis::new(OperatorOptions { warm_up_runs, ..OperatorOptions::default() });
    let mut lost_events = 0;
    for (start, path, _) in files {
        let options = RowOptions {
            session_id: Text::clone(session_id),
            start: ProfileStart::from_monotonic_ns(*start),
            ..RowOptions::default()
        };
        let (first_run, mut runs) = (*next_run, 0);
        let mut assembler = RunAssembler::default();
        let mut rows = RowWriter::new(recording, TableId::Operators);
        let read = ort_profile::read(path, options, &mut |mut row| {
            if let Some(run) = row.run {
                assembler.push(run, OperatorEvent::from(&row), &mut |_, events| analysis.add_run(events));
                row.run = Some(first_run + run);
                runs = runs.max(run + 1);
            }
            rows.push(&row);
        })?;
        rows.finish()?;
        lost_events += assembler.finish(&mut |_, events| analysis.add_run(events)) + read.lost_events();
        *next_run += runs;
    }
    let report = analysis.finish();
    if report.runs == 0 {
        return Ok(None);
    }
    Ok(Some(WindowReport {
        start_ns: *start_ns,
        same_session: !is_twin,
        runs: report.runs,
        median_ms: report.run.median_ns as f64 / 1e6,
        unattributed_share: report.time.remainder_ns() as f64 / report.time.run_ns.max(1) as f64,
        by_type: report
            .op_types
            .iter()
            .take(MAX_TYPES)
            .map(|of| (of.op_type.clone(), of.provider.clone(), of.per_run.mean_ns as f64 / 1e6))
            .collect(),
        lost_events,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_contain_window_and_start() {
        let read = |name: &str| parse(Path::new(name));
        let run = read("/x/window-000003-r0001-123456_2026-11-16_01-02-03_004.json");
        assert_eq!(run, Some(("000003".to_owned(), 123_456, false)));
        assert_eq!(read("window-000001-twin-9.json"), Some(("000001".to_owned(), 9, true)));
        for other in ["making-3_2026.json", "window-1", "window-1-r1-x.json", "profile.json"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
