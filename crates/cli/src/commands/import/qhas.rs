//! The analysis of QNN's profile viewer (QHAS): cycles and memory traffic of the NPU per node of one run.

use ortscope_core::schema::{OperatorRow, SessionRow, Text};
use ortscope_decode::qhas::{self, Qhas};

use super::frame::{Frame, Told};
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::recording::append;
use crate::terminal::Terminal;
use crate::units;

const PROVIDER: &str = "QNNExecutionProvider";

/// One row for each node. The file has the time of the run and the cycles of nodes: each gets its share.
fn rows(qhas: &Qhas, session: &Text, started: u64) -> Vec<OperatorRow> {
    let all: u64 = qhas.operators.iter().map(|operator| operator.cycles).sum();
    let run_ns = qhas.summary.time_us.unwrap_or(0.0).clamp(0.0, 1e15) * 1e3;
    let mut at = started;
    let mut rows = Vec::with_capacity(qhas.operators.len());
    for (index, operator) in qhas.operators.iter().enumerate() {
        let duration_ns = (run_ns * operator.cycles as f64 / all.max(1) as f64).round() as u64;
        rows.push(OperatorRow {
            timestamp_ns: at,
            duration_ns,
            session_id: Text::clone(session),
            run: Some(0),
            kind: "operator".into(),
            name: operator.name.as_str().into(),
            op_type: operator.op_type.as_str().into(),
            node_index: Some(index as u64),
            execution_provider: PROVIDER.into(),
            device: "NPU".into(),
            cycles: Some(operator.cycles),
            ..OperatorRow::default()
        });
        at = at.saturating_add(duration_ns);
    }
    rows
}

/// What the file says of the whole run, a sentence each.
fn notes(qhas: &Qhas) -> Vec<String> {
    let summary = &qhas.summary;
    let bytes =
        |what: &str, value: Option<u64>| value.map(|value| format!("{what} {}", units::bytes(value as f64)));
    let mut notes = vec!["QNN's analysis of one run; the order of the nodes is the file's".to_owned()];
    notes.extend(
        summary.percent_utilization.map(|percent| format!("the NPU was used for {percent:.1} % of it")),
    );
    notes.extend(bytes("read from memory:", summary.total_dram_read));
    notes.extend(bytes("written to memory:", summary.total_dram_write));
    notes.extend(bytes("read from the NPU's own memory:", summary.total_vtcm_read));
    notes.extend(bytes("written to the NPU's own memory:", summary.total_vtcm_write));
    notes.extend(bytes("most of the NPU's own memory in use:", summary.peak_vtcm_alloc));
    notes
}

pub fn run(args: &ImportArgs, text: &str, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let qhas = qhas::read(text).map_err(|error| super::unknown(&args.file, &error.to_string()))?;
    if qhas.operators.is_empty() {
        return Err(super::unknown(&args.file, "it has no node"));
    }
    let mut frame = Frame::begin(args, global)?;
    frame.session(SessionRow {
        model_name: qhas.model.as_str().into(),
        execution_providers: PROVIDER.into(),
        ..SessionRow::default()
    })?;
    let rows = rows(&qhas, &frame.session, frame.started);
    let nodes = rows.len() as u64;
    append(&frame.writer, rows)?;
    frame.notes(notes(&qhas))?;
    frame.unavailable(
        "time of QNN's nodes",
        "the file tells the cycles of nodes, not their time: durations are their share of the run's",
        None,
    )?;
    let lost = qhas.skipped_operators;
    frame.lost("import", "nodes", lost)?;
    if lost > 0 {
        frame.warn(format!("{} left out: beyond the limit", units::counted(lost, "node")));
    }
    let cycles: u64 = qhas.operators.iter().map(|operator| operator.cycles).sum();
    let document = serde_json::json!({
        "schema": "ortscope.import.qhas/1",
        "nodes": nodes, "cycles": cycles, "time_us": qhas.summary.time_us, "lost_nodes": lost,
    });
    let line = format!("{}, {} cycles", units::counted(nodes, "node"), units::count(cycles));
    frame.finish(Told { document, line, next: "report", span_ns: None }, terminal)
}
