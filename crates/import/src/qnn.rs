//! The CSV file of the QNN execution provider: NPU cycles per node.

use std::path::PathBuf;

use ortscope_core::schema::{OperatorKind, OperatorRow, SessionRow, Text};
use ortscope_core::units;
use ortscope_decode::qnn_profile::{self, QnnProfile};

use crate::detect::whole_text;
use crate::output::Output;
use crate::{ImportError, Reader, Summary};

const PROVIDER: &str = "QNNExecutionProvider";

/// One row per node, with its mean execution. The file does not contain the times at which nodes ran.
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
            kind: OperatorKind::Operator.into(),
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

#[derive(Debug)]
pub(crate) struct QnnReader {
    pub path: PathBuf,
}

impl Reader for QnnReader {
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let profile = qnn_profile::read(&whole_text(&self.path)?)
            .map_err(|error| ImportError::unsupported(&self.path, &error))?;
        if profile.nodes.is_empty() && profile.events.is_empty() {
            return Err(ImportError::unsupported(&self.path, "it has no node and no event"));
        }
        out.session(SessionRow { execution_providers: PROVIDER.into(), ..SessionRow::default() });
        let rows = rows(&profile, &out.session, out.start_ns);
        rows.iter().for_each(|row| out.emit(row));
        let nodes = rows.len() as u64;
        let executions = units::counted(profile.executions, "execution");
        let about = "a row is the mean of a node, in the order of the file";
        out.note("note", &format!("a profile of QNN with {executions}; {about}"));
        for event in profile.events.iter().chain(&profile.preparation) {
            let count = units::counted(event.count, "event");
            out.note("note", &format!("{}: {} {} in {count}", event.name, event.total, event.unit));
        }
        out.unavailable(
            "time of QNN's nodes",
            "QNN reports the cycles of nodes, not their time: durations are estimates by their share of the cycles",
            None,
        );
        let lost = profile.unreadable_lines + profile.skipped_lines;
        out.lost("import", "lines", lost);
        if lost > 0 {
            let lines = units::counted(lost, "line");
            out.warn(format!("{lines} left out: not readable, or beyond the limit"));
        }
        let cycles: u64 = profile.nodes.iter().map(|node| node.cycles).sum();
        let document = serde_json::json!({
            "schema": "ortscope.import.qnn/1",
            "executions": profile.executions, "nodes": nodes, "cycles": cycles, "lost_lines": lost,
        });
        let line =
            format!("{executions}, {}, {} cycles", units::counted(nodes, "node"), units::count(cycles));
        out.summary(document, vec![line], None)
    }
}
