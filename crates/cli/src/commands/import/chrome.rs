//! A trace of another program, as the JSON of chrome://tracing.

use std::io::{BufReader, Read};
use std::time::Duration;

use ortscope_core::clock::now_nanos;
use ortscope_core::identity::SessionId;
use ortscope_core::schema::{AnnotationRow, LossRow, SessionRow, Text};
use ortscope_decode::chrome_trace::{self, ChromeOutcome, ChromeRow};
use ortscope_store::NewRecording;

use super::batches::Batches;
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::recording::{append, open_store};
use crate::terminal::{self, Terminal, WARN};
use crate::units;

pub fn run(
    args: &ImportArgs,
    input: impl Read,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let session: Text = SessionId::random().to_string().into();
    let started = now_nanos();
    let store = open_store(global)?;
    let writer = store.begin(NewRecording {
        origin: "import".into(),
        subject: name.clone(),
        name: args.name.clone(),
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        ..NewRecording::default()
    })?;
    let mut batches = Batches::new(&writer);
    let read =
        chrome_trace::read(
            BufReader::with_capacity(1 << 20, input),
            started,
            &session,
            &mut |row| match row {
                ChromeRow::Operator(row) => batches.push(&*row),
                ChromeRow::Inference(row) => batches.push(&row),
                ChromeRow::Counter(row) => batches.push(&row),
                ChromeRow::Mark(row) => batches.push(&row),
            },
        );
    let filled = batches.finish();
    let outcome = match read {
        Ok(outcome) if outcome.events > 0 => outcome,
        other => {
            // A file that is no trace leaves nothing behind.
            let finished = writer.finish("not a trace")?;
            store.remove(&finished.id)?;
            let why = other
                .err()
                .map_or_else(|| "the list of events is empty".to_owned(), |error| error.to_string());
            return Err(super::unknown(&args.file, &why));
        }
    };
    filled?;
    let note = "the times of the trace count from the import";
    append(&writer, [AnnotationRow { timestamp_ns: started, kind: "note".into(), text: note.into() }])?;
    let model_name = name.as_str().into();
    append(
        &writer,
        [SessionRow { timestamp_ns: started, session_id: session, model_name, ..SessionRow::default() }],
    )?;
    let losses = losses(&outcome, started);
    let lost: u64 = outcome.unreadable + outcome.unpaired;
    append(&writer, losses)?;
    let (first, last) = outcome.span_ns.unwrap_or((started, started));
    let finished = writer.finish_after("imported", Duration::from_nanos(last.saturating_sub(first)))?;
    let sentences = sentences(&outcome);
    if terminal.json {
        let document = serde_json::json!({
            "schema": "ortscope.import.chrome/1", "id": finished.id, "directory": finished.directory,
            "events": outcome.events, "slices": outcome.slices, "inferences": outcome.inferences,
            "counters": outcome.counters, "marks": outcome.marks, "lost_events": lost,
            "truncated": outcome.cut.is_some(), "notes": sentences,
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&format!(
            "{}  {}: {}, {}, {}, {}\nortscope report {}\n",
            finished.id,
            units::counted(outcome.events, "event"),
            units::counted(outcome.slices, "slice"),
            units::counted(outcome.inferences, "inference"),
            units::counted(outcome.counters, "counter value"),
            units::counted(outcome.marks, "mark"),
            finished.id
        ));
        for sentence in &sentences {
            terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
        }
    }
    Ok(if lost > 0 { Exit::DataLost } else { Exit::Ok })
}

fn losses(outcome: &ChromeOutcome, at: u64) -> Vec<LossRow> {
    [("unreadable events", outcome.unreadable), ("unpaired events", outcome.unpaired)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| LossRow { timestamp_ns: at, place: "import".into(), kind: kind.into(), count })
        .collect()
}

fn sentences(outcome: &ChromeOutcome) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(why) = &outcome.cut {
        sentences.push(format!("the list of events has no end, and was read up to there: {why}"));
    }
    for (count, what) in [
        (outcome.unreadable, "events could not be read and were left out"),
        (outcome.unpaired, "events were begun and not ended, or ended and not begun, and were left out"),
        (outcome.other, "events are flows, asynchronous or of other kinds that have no row"),
    ] {
        if count > 0 {
            sentences.push(format!("{} {what}", units::count(count)));
        }
    }
    sentences
}
