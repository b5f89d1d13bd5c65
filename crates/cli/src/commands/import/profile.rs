//! A profile that ONNX Runtime wrote as JSON.

use ortscope_analyze::operators::{
    self, FindingContext, OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport, RunAssembler,
};
use ortscope_core::clock::now_nanos;
use ortscope_core::identity::SessionId;
use ortscope_core::schema::{AnnotationRow, FindingRow, LossRow, OperatorRow, SessionRow, Text};
use ortscope_decode::ort_profile::{ProfileStart, RowOptions};
use ortscope_store::NewRecording;

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::operator_profile;
use crate::recording::{append, open_store};
use crate::terminal::{self, Terminal, WARN};
use crate::units;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let session: Text = SessionId::random().to_string().into();
    // A profile does not say when it was made. Its times count from now, so that they lie inside of the recording.
    let started = now_nanos();
    let start = ProfileStart::from_monotonic_ns(started);
    let options = RowOptions { session_id: Text::clone(&session), start, ..RowOptions::default() };
    // Made only when the file turns out to hold rows: a file that is no profile leaves nothing behind.
    let store = open_store(global)?;
    let mut writer = None;
    let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
    let mut assembler = RunAssembler::default();
    let read = operator_profile::read(&args.file, options, |batch| {
        for row in batch.rows::<OperatorRow>() {
            if let Some(run) = row.run {
                assembler.push(run, OperatorEvent::from(&row), &mut |_, events| analysis.add_run(events));
            }
        }
        if writer.is_none() {
            writer = Some(store.begin(NewRecording {
                origin: "import".into(),
                subject: name.clone(),
                name: args.name.clone(),
                ortscope_version: env!("CARGO_PKG_VERSION").into(),
                ..NewRecording::default()
            })?);
        }
        match &writer {
            Some(writer) => Ok(writer.append(batch)?),
            None => Ok(()),
        }
    })?;
    read.refuse_foreign(&args.file)?;
    let Some(writer) = writer else {
        return Err(Failure::usage(format!("'{}' is a profile without a single event", args.file.display())));
    };
    let now = now_nanos();
    let imported = SessionRow {
        timestamp_ns: started,
        session_id: session,
        pid: read.outcome.process,
        model_name: name.as_str().into(),
        ..SessionRow::default()
    };
    append(&writer, [imported])?;
    let text = "the profile does not say when it was made: its times count from the import";
    append(&writer, [AnnotationRow { timestamp_ns: started, kind: "note".into(), text: text.into() }])?;
    assembler.finish(&mut |_, events| analysis.add_run(events));
    append(&writer, found(&analysis.finish()))?;
    let lost = read.lost_events();
    if lost > 0 {
        let (place, kind) = ("import".into(), "operators".into());
        append(&writer, [LossRow { timestamp_ns: now, place, kind, count: lost }])?;
    }
    let sentences = read.sentences();
    let finished = writer.finish("imported")?;
    let outcome = &read.outcome;
    if terminal.json {
        let document = serde_json::json!({
            "schema": "ortscope.import/1", "id": finished.id, "directory": finished.directory,
            "events": outcome.events, "operators": outcome.operators, "runs": outcome.runs,
            "rows": read.summary.rows, "lost_events": lost, "capped": outcome.capped,
            "truncated": outcome.truncated, "notes": sentences,
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&format!(
            "{}  {}, {} of {}\nortscope report {}\n",
            finished.id,
            units::counted(outcome.runs, "run"),
            units::counted(outcome.operators, "operator event"),
            units::counted(outcome.events, "event"),
            finished.id
        ));
        for sentence in &sentences {
            terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
        }
    }
    Ok(if lost > 0 || outcome.truncated || outcome.capped { Exit::DataLost } else { Exit::Ok })
}

/// What the profile alone says; without the graph, the machine and the providers asked for, less than a run knows.
fn found(report: &OperatorReport) -> Vec<FindingRow> {
    let transitions = operators::transitions(report, None);
    let context = FindingContext { transitions: Some(&transitions), ..FindingContext::default() };
    let now = now_nanos();
    operators::findings(report, &context)
        .into_iter()
        .map(|finding| FindingRow {
            timestamp_ns: now,
            id: finding.id.into(),
            severity: finding.severity.name().into(),
            evidence: finding.evidence.into(),
            advice: finding.advice.into(),
            command: None,
        })
        .collect()
}
