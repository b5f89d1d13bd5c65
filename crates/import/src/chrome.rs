//! A trace of another program, as the JSON of chrome://tracing.

use std::io::BufReader;
use std::path::PathBuf;

use ortscope_core::schema::{SessionRow, Text};
use ortscope_core::units;
use ortscope_decode::chrome_trace::{self, ChromeOutcome, ChromeRow};

use crate::detect::open_text;
use crate::output::Output;
use crate::{ImportError, Reader, Summary};

#[derive(Debug)]
pub(crate) struct ChromeReader {
    pub path: PathBuf,
}

impl Reader for ChromeReader {
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let input = BufReader::with_capacity(1 << 20, open_text(&self.path)?);
        let (start_ns, session) = (out.start_ns, Text::clone(&out.session));
        let outcome = chrome_trace::read(input, start_ns, &session, &mut |row| match row {
            ChromeRow::Operator(row) => out.emit(&*row),
            ChromeRow::Inference(row) => out.emit(&row),
            ChromeRow::Counter(row) => out.emit(&row),
            ChromeRow::Mark(row) => out.emit(&row),
        })
        .map_err(|error| ImportError::unsupported(&self.path, &error))?;
        if outcome.events == 0 {
            return Err(ImportError::unsupported(&self.path, "the list of events is empty"));
        }
        out.note("note", "the times of the trace count from the import");
        out.session(SessionRow::default());
        out.lost("import", "unreadable events", outcome.unreadable);
        out.lost("import", "unpaired events", outcome.unpaired);
        for sentence in warnings(&outcome) {
            out.warn(sentence);
        }
        let document = serde_json::json!({
            "schema": "ortscope.import.chrome/1",
            "events": outcome.events, "slices": outcome.slices, "inferences": outcome.inferences,
            "counters": outcome.counters, "marks": outcome.marks, "lost_events": out.all_lost(),
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
        out.summary(document, vec![line], span_ns)
    }
}

fn warnings(outcome: &ChromeOutcome) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(why) = &outcome.cut {
        sentences.push(format!("the list of events has no end, and was read up to there: {why}"));
    }
    for (count, what) in [
        (outcome.unreadable, "events could not be read and were left out"),
        (
            outcome.unpaired,
            "events have a begin without an end, or an end without a begin, and were left out",
        ),
        (outcome.other, "events are flows, asynchronous or of other kinds that have no row"),
    ] {
        if count > 0 {
            sentences.push(format!("{} {what}", units::count(count)));
        }
    }
    sentences
}
