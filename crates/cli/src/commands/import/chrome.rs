//! A trace of another program, as the JSON of chrome://tracing.

use std::io::{BufReader, Read};

use ortscope_core::schema::SessionRow;
use ortscope_decode::chrome_trace::{self, ChromeOutcome, ChromeRow};

use super::batches::Batches;
use super::frame::{Frame, Told};
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use ortscope_core::units;

pub fn run(
    args: &ImportArgs,
    input: impl Read,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let mut frame = Frame::begin(args, global)?;
    let mut batches = Batches::new(&frame.writer);
    let input = BufReader::with_capacity(1 << 20, input);
    let read = chrome_trace::read(input, frame.started, &frame.session, &mut |row| match row {
        ChromeRow::Operator(row) => batches.push(&*row),
        ChromeRow::Inference(row) => batches.push(&row),
        ChromeRow::Counter(row) => batches.push(&row),
        ChromeRow::Mark(row) => batches.push(&row),
    });
    let filled = batches.finish();
    let outcome = match read {
        Ok(outcome) if outcome.events > 0 => outcome,
        other => {
            frame.discard()?;
            let why = other
                .err()
                .map_or_else(|| "the list of events is empty".to_owned(), |error| error.to_string());
            return Err(super::unknown(&args.file, &why));
        }
    };
    filled?;
    frame.notes(["the times of the trace count from the import".to_owned()])?;
    frame.session(SessionRow::default())?;
    frame.lost("import", "unreadable events", outcome.unreadable)?;
    frame.lost("import", "unpaired events", outcome.unpaired)?;
    for sentence in sentences(&outcome) {
        frame.warn(sentence);
    }
    let document = serde_json::json!({
        "schema": "ortscope.import.chrome/1",
        "events": outcome.events, "slices": outcome.slices, "inferences": outcome.inferences,
        "counters": outcome.counters, "marks": outcome.marks, "lost_events": frame.all_lost(),
        "truncated": outcome.cut.is_some(),
    });
    let line = format!(
        "{}: {}, {}, {}, {}",
        units::counted(outcome.events, "event"),
        units::counted(outcome.slices, "slice"),
        units::counted(outcome.inferences, "inference"),
        units::counted(outcome.counters, "counter value"),
        units::counted(outcome.marks, "mark"),
    );
    let span_ns = Some(outcome.span_ns.map_or(0, |(first, last)| last.saturating_sub(first)));
    frame.finish(Told { document, line, next: "report", span_ns }, terminal)
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
