//! A profile that ONNX Runtime wrote as JSON.

use ortscope_analyze::operators::{
    self, FindingContext, OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport, RunAssembler,
};
use ortscope_core::clock::now_ns;
use ortscope_core::identity::SessionId;
use ortscope_core::schema::{FindingRow, OperatorRow, SessionRow, Text};
use ortscope_decode::ort_profile::{ProfileStart, RowOptions};

use super::frame::{Frame, Told};
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use ortscope_core::units;
use ortscope_observe::operator_pass::profile_file;
use ortscope_observe::recording::append;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let session: Text = SessionId::random().to_string().into();
    // A profile does not say when it was made. Its times count from now, so that they lie inside of the recording.
    let started = now_ns();
    let start = ProfileStart::from_monotonic_ns(started);
    let options = RowOptions { session_id: Text::clone(&session), start, ..RowOptions::default() };
    // Made only when the file turns out to hold rows: a file that is no profile leaves nothing behind.
    let mut begun: Option<Frame> = None;
    let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
    let mut assembler = RunAssembler::default();
    let read = profile_file::read(&args.file, options, |batch| {
        for row in batch.rows::<OperatorRow>() {
            if let Some(run) = row.run {
                assembler.push(run, OperatorEvent::from(&row), &mut |_, events| analysis.add_run(events));
            }
        }
        let frame = match &begun {
            Some(frame) => frame,
            None => {
                let mut frame = Frame::begin(args, global)?;
                (frame.started, frame.session) = (started, Text::clone(&session));
                begun.insert(frame)
            }
        };
        Ok(frame.writer.append(batch)?)
    })?;
    read.refuse_foreign(&args.file, super::READS)?;
    let Some(mut frame) = begun else {
        return Err(Failure::usage(format!("'{}' is a profile without a single event", args.file.display())));
    };
    frame.session(SessionRow { pid: read.outcome.process, ..SessionRow::default() })?;
    frame.notes(["the profile does not say when it was made: its times count from the import".to_owned()])?;
    assembler.finish(&mut |_, events| analysis.add_run(events));
    append(&frame.writer, found(&analysis.finish()))?;
    let (lost, outcome) = (read.lost_events(), &read.outcome);
    frame.lost("import", "operators", lost)?;
    if outcome.truncated || outcome.capped {
        frame.incomplete();
    }
    read.sentences().into_iter().for_each(|sentence| frame.warn(sentence));
    let document = serde_json::json!({
        "schema": "ortscope.import/1",
        "events": outcome.events, "operators": outcome.operators, "runs": outcome.runs,
        "rows": read.summary.rows, "lost_events": lost, "capped": outcome.capped,
        "truncated": outcome.truncated,
    });
    let line = format!(
        "{}, {} of {}",
        units::counted(outcome.runs, "run"),
        units::counted(outcome.operators, "operator event"),
        units::counted(outcome.events, "event"),
    );
    frame.finish(Told { document, line, next: "report", span_ns: None }, terminal)
}

/// What the profile alone says; without the graph, the machine and the providers asked for, less than a run knows.
fn found(report: &OperatorReport) -> Vec<FindingRow> {
    let transitions = operators::transitions(report, None);
    let context = FindingContext { transitions: Some(&transitions), ..FindingContext::default() };
    let now = now_ns();
    operators::findings(report, &context)
        .into_iter()
        .map(|finding| FindingRow {
            timestamp_ns: now,
            id: finding.id.into(),
            severity: finding.severity.into(),
            evidence: finding.evidence.into(),
            advice: finding.advice.into(),
            command: None,
        })
        .collect()
}
