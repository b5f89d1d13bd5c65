//! The CSV file that the QNN provider writes: cycles of the NPU per node.

use ortscope_core::schema::{OperatorRow, SessionRow, Text};
use ortscope_decode::qnn_profile::{self, QnnProfile};

use super::frame::{Frame, Told};
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use ortscope_core::units;
use ortscope_observe::recording::append;

const PROVIDER: &str = "QNNExecutionProvider";

/// One row for each node, of its mean execution: the file has no times at which they ran.
fn rows(profile: &QnnProfile, session: &Text, started: u64) -> Vec<OperatorRow> {
    let mut at = started;
    let mut rows = Vec::with_capacity(profile.nodes.len());
    for (index, node) in profile.nodes.iter().enumerate() {
        let calls = node.calls.max(1);
        let duration_ns = (node.estimated_us / calls as f64 * 1_000.0).round().clamp(0.0, 1e18) as u64;
        rows.push(OperatorRow {
            timestamp_ns: at,
            duration_ns,
            session_id: Text::clone(session),
            run: Some(0),
            kind: "operator".into(),
            name: node.name.as_str().into(),
            node_index: Some(index as u64),
            execution_provider: PROVIDER.into(),
            device: "NPU".into(),
            cycles: Some(node.cycles / calls),
            ..OperatorRow::default()
        });
        at = at.saturating_add(duration_ns);
    }
    rows
}

pub fn run(args: &ImportArgs, text: &str, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let profile = qnn_profile::read(text).map_err(|error| super::unknown(&args.file, &error.to_string()))?;
    if profile.nodes.is_empty() && profile.events.is_empty() {
        return Err(super::unknown(&args.file, "it has no node and no event"));
    }
    let mut frame = Frame::begin(args, global)?;
    frame.session(SessionRow { execution_providers: PROVIDER.into(), ..SessionRow::default() })?;
    let rows = rows(&profile, &frame.session, frame.started);
    let nodes = rows.len() as u64;
    append(&frame.writer, rows)?;
    let about = format!(
        "a profile of QNN with {}; a row is the mean of a node, and their order is the file's",
        units::counted(profile.executions, "execution")
    );
    let events = profile.events.iter().chain(&profile.preparation).map(|event| {
        let count = units::counted(event.count, "event");
        format!("{}: {} {} in {count}", event.name, event.total, event.unit)
    });
    frame.notes(std::iter::once(about).chain(events))?;
    frame.unavailable(
        "time of QNN's nodes",
        "QNN tells the cycles of nodes, not their time: durations are estimates by their share of the cycles",
        None,
    )?;
    let lost = profile.unreadable_lines + profile.skipped_lines;
    frame.lost("import", "lines", lost)?;
    if lost > 0 {
        let lines = units::counted(lost, "line");
        frame.warn(format!("{lines} left out: not readable, or beyond the limit"));
    }
    let cycles: u64 = profile.nodes.iter().map(|node| node.cycles).sum();
    let document = serde_json::json!({
        "schema": "ortscope.import.qnn/1",
        "executions": profile.executions, "nodes": nodes, "cycles": cycles, "lost_lines": lost,
    });
    let line = format!(
        "{}, {}, {} cycles",
        units::counted(profile.executions, "execution"),
        units::counted(nodes, "node"),
        units::count(cycles),
    );
    frame.finish(Told { document, line, next: "report", span_ns: None }, terminal)
}
