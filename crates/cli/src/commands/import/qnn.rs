//! The CSV file that the QNN provider writes: cycles of the NPU per node.

use ortscope_core::clock::now_nanos;
use ortscope_core::identity::SessionId;
use ortscope_core::schema::{AnnotationRow, LossRow, OperatorRow, SessionRow, Text, UnavailabilityRow};
use ortscope_decode::qnn_profile::{self, QnnProfile};
use ortscope_store::NewRecording;

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::recording::{append, open_store};
use crate::terminal::{self, Terminal, WARN};
use crate::units;

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
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let session: Text = SessionId::random().to_string().into();
    let started = now_nanos();
    let writer = open_store(global)?.begin(NewRecording {
        origin: "import".into(),
        subject: name.clone(),
        name: args.name.clone(),
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        ..NewRecording::default()
    })?;
    append(
        &writer,
        [SessionRow {
            timestamp_ns: started,
            session_id: Text::clone(&session),
            model_name: name.as_str().into(),
            execution_providers: PROVIDER.into(),
            ..SessionRow::default()
        }],
    )?;
    let rows = rows(&profile, &session, started);
    let nodes = rows.len() as u64;
    append(&writer, rows)?;
    let note = |text: String| AnnotationRow { timestamp_ns: started, kind: "note".into(), text: text.into() };
    let mut notes = vec![note(format!(
        "a profile of QNN with {}; a row is the mean of a node, and their order is the file's",
        units::counted(profile.executions, "execution")
    ))];
    notes.extend(profile.events.iter().chain(&profile.preparation).map(|event| {
        note(format!(
            "{}: {} {} in {}",
            event.name,
            event.total,
            event.unit,
            units::counted(event.count, "event")
        ))
    }));
    append(&writer, notes)?;
    let estimate = UnavailabilityRow {
        from_ns: started,
        to_ns: None,
        track: "time of QNN's nodes".into(),
        reason: "QNN tells the cycles of nodes, not their time: durations are estimates by their share of the cycles"
            .into(),
        hint: None,
    };
    append(&writer, [estimate])?;
    let lost = profile.unreadable_lines + profile.skipped_lines;
    if lost > 0 {
        let (place, kind) = ("import".into(), "lines".into());
        append(&writer, [LossRow { timestamp_ns: started, place, kind, count: lost }])?;
    }
    let cycles: u64 = profile.nodes.iter().map(|node| node.cycles).sum();
    let finished = writer.finish("imported")?;
    if terminal.json {
        let document = serde_json::json!({
            "schema": "ortscope.import.qnn/1", "id": finished.id, "directory": finished.directory,
            "executions": profile.executions, "nodes": nodes, "cycles": cycles, "lost_lines": lost,
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&format!(
            "{}  {}, {}, {} cycles\nortscope report {}\n",
            finished.id,
            units::counted(profile.executions, "execution"),
            units::counted(nodes, "node"),
            units::count(cycles),
            finished.id
        ));
    }
    if lost > 0 {
        let sentence = format!("{} could not be read or are beyond the limit", units::counted(lost, "line"));
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    Ok(if lost > 0 { Exit::DataLost } else { Exit::Ok })
}
