//! The analysis of QNN's profile viewer (QHAS): NPU cycles and memory traffic per node of one run.

use std::path::PathBuf;

use ortscope_analyze::providers::{DeviceTime, DeviceWindow, OperatorTime, adapter, split};
use ortscope_core::schema::{OperatorKind, OperatorRow, SessionRow, Text};
use ortscope_core::units;
use ortscope_decode::qhas::{self, Qhas, QhasOperator};

use crate::detect::whole_text;
use crate::output::Output;
use crate::{ImportError, Reader, Summary};

const PROVIDER: &str = "QNNExecutionProvider";
/// Maximum number of nodes whose memory traffic gets a note.
const MAX_MOVERS: usize = 20;

/// All bytes that a node reads and writes.
fn moved(node: &QhasOperator) -> u64 {
    let parts = [node.dram_read_bytes, node.dram_write_bytes, node.vtcm_read_bytes, node.vtcm_write_bytes];
    parts.into_iter().flatten().fold(0, u64::saturating_add)
}

/// Divides the time of the run among its nodes. The viewer lists only the most expensive nodes, and the NPU has several
/// threads, so a node's share is its cycles on the dominant path of all cycles of the run.
fn divide(qhas: &Qhas) -> Option<DeviceTime> {
    let operators: Vec<OperatorTime> = qhas
        .operators
        .iter()
        .map(|operator| OperatorTime {
            name: operator.name.clone(),
            cycles: operator.dominant_path_cycles.or(Some(operator.cycles)),
            ..OperatorTime::default()
        })
        .collect();
    let window = DeviceWindow {
        busy_ns: qhas.summary.time_us.map(|us| (us.clamp(0.0, 1e15) * 1e3) as u64),
        cycles: qhas.summary.timeline_cycles,
        ..DeviceWindow::default()
    };
    split(adapter(PROVIDER), &operators, &window)
}

/// One row per node.
fn rows(qhas: &Qhas, time: Option<&DeviceTime>, session: &Text, started: u64) -> Vec<OperatorRow> {
    let mut at = started;
    let mut rows = Vec::with_capacity(qhas.operators.len());
    for (index, operator) in qhas.operators.iter().enumerate() {
        let share = time.and_then(|time| time.operators.get(index));
        let duration_ns = share.and_then(|share| share.attribution.ns()).unwrap_or(0);
        rows.push(OperatorRow {
            timestamp_ns: at,
            duration_ns,
            session_id: Text::clone(session),
            run: Some(0),
            kind: OperatorKind::Operator.into(),
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

/// Facts about the whole run and the nodes with the most memory traffic, one sentence each.
fn notes(qhas: &Qhas, time: Option<&DeviceTime>) -> Vec<String> {
    let summary = &qhas.summary;
    let bytes =
        |what: &str, value: Option<u64>| value.map(|value| format!("{what} {}", units::bytes(value as f64)));
    let mut notes = vec!["QNN's analysis of one run; nodes are in the order of the file".to_owned()];
    notes.extend(
        summary.percent_utilization.map(|percent| format!("the NPU was used for {percent:.1} % of it")),
    );
    notes.extend(bytes("read from memory:", summary.total_dram_read));
    notes.extend(bytes("written to memory:", summary.total_dram_write));
    notes.extend(bytes("read from the NPU's own memory:", summary.total_vtcm_read));
    notes.extend(bytes("written to the NPU's own memory:", summary.total_vtcm_write));
    notes.extend(bytes("peak use of the NPU's own memory:", summary.peak_vtcm_alloc));
    notes.extend(time.map(|time| {
        let share = time.unattributed_ns as f64 / time.device_ns.max(1) as f64;
        format!("{} of the run's time belongs to nodes that the file does not list", units::percent(share))
    }));
    let mut movers: Vec<&QhasOperator> = qhas.operators.iter().collect();
    movers.sort_by_key(|node| std::cmp::Reverse(moved(node)));
    for node in movers.into_iter().filter(|node| moved(node) > 0).take(MAX_MOVERS) {
        let known = |value: Option<u64>| value.map_or("n/a".to_owned(), |value| units::bytes(value as f64));
        notes.push(format!(
            "{}: memory read {}, written {}; the NPU's own read {}, written {}",
            node.name,
            known(node.dram_read_bytes),
            known(node.dram_write_bytes),
            known(node.vtcm_read_bytes),
            known(node.vtcm_write_bytes)
        ));
    }
    notes
}

#[derive(Debug)]
pub(crate) struct QhasReader {
    pub path: PathBuf,
}

impl Reader for QhasReader {
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let qhas = qhas::read(&whole_text(&self.path)?)
            .map_err(|error| ImportError::unsupported(&self.path, &error))?;
        if qhas.operators.is_empty() {
            return Err(ImportError::unsupported(&self.path, "it has no node"));
        }
        out.session(SessionRow {
            model_name: qhas.model.as_str().into(),
            execution_providers: PROVIDER.into(),
            ..SessionRow::default()
        });
        let time = divide(&qhas);
        let rows = rows(&qhas, time.as_ref(), &out.session, out.start_ns);
        rows.iter().for_each(|row| out.emit(row));
        let nodes = rows.len() as u64;
        for note in notes(&qhas, time.as_ref()) {
            out.note("note", &note);
        }
        let reason = match &time {
            Some(_) => {
                "the file has the cycles of nodes, not their time: durations are their share of the run's"
            }
            None => "the file has neither the time of the run nor its cycles: nodes have no durations",
        };
        out.unavailable("time of QNN's nodes", reason, None);
        let lost = qhas.skipped_operators;
        out.lost("import", "nodes", lost);
        if lost > 0 {
            out.warn(format!("{} left out: beyond the limit", units::counted(lost, "node")));
        }
        let cycles: u64 = qhas.operators.iter().map(|operator| operator.cycles).sum();
        let document = serde_json::json!({
            "schema": "ortscope.import.qhas/1",
            "nodes": nodes, "cycles": cycles, "time_us": qhas.summary.time_us, "lost_nodes": lost,
            "summary": qhas.summary, "operators": qhas.operators, "device_time": time,
        });
        let line = format!("{}, {} cycles", units::counted(nodes, "node"), units::count(cycles));
        out.summary(document, vec![line], None)
    }
}
