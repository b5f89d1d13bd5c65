//! Time lines: trace events as the JSON of chrome://tracing, which Perfetto, the Firefox Profiler and speedscope read too, or
//! as Perfetto's own packets. Both draw the same.
//!
//! | drawn | as |
//! |---|---|
//! | inferences | events on lanes by session and stream |
//! | operators | events on lanes by execution provider and thread; runs and session start-up on lanes of ONNX Runtime |
//! | kernel events, annotations, findings, losses | instants on lanes by processor or kind |
//! | process, machine and device samples, memory | counters; totals become rates |
//!
//! The other tables have nothing to draw, and thread samples are too many; they are in the other formats. [`LiveTrace`]
//! draws while it is recorded.

mod counters;
mod drawing;
mod events;
mod json;
mod live;
mod perfetto;
mod rows;
mod slices;

use std::io::Write;

use ortscope_core::schema::{ProcessRow, SessionRow, TableId};
use serde::Serialize;

use crate::error::ExportError;
use crate::info::Head;
use crate::source::{RowSource, TableRows};
use counters::Ticks;
use drawing::{Drawing, MAX_NAMES, Names};
use events::{Events, Form};
pub use live::{LiveTrace, LiveTraceState, TraceHandle};

/// What is drawn, in the order of the lanes.
const DRAWN: &[TableId] = &[
    TableId::Inferences,
    TableId::Operators,
    TableId::Annotations,
    TableId::Findings,
    TableId::Losses,
    TableId::KernelEvents,
    TableId::SystemSamples,
    TableId::DeviceSamples,
    TableId::Memory,
    TableId::ProcessSamples,
];

pub(crate) fn write_json(
    source: &RowSource<'_>,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TableRows>, ExportError> {
    write(source, Form::Json, out)
}

pub(crate) fn write_perfetto(
    source: &RowSource<'_>,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TableRows>, ExportError> {
    write(source, Form::Perfetto, out)
}

fn write(
    source: &RowSource<'_>,
    form: Form,
    out: &mut (dyn Write + Send),
) -> Result<Vec<TableRows>, ExportError> {
    let start_ns = source.trace_start_ns();
    let mut events = Events::new(Box::new(out), form, start_ns);
    events.head(&TraceHead { head: source.head(), trace_start_ns: start_ns })?;
    let mut drawing = Drawing::new(names(source)?);
    let mut written = Vec::new();
    for table in DRAWN.iter().copied().filter(|table| source.is_selected(*table)) {
        let mut ticks = Ticks::new(source, table);
        let mut rows = 0;
        for batch in source.batches(table) {
            rows += drawing.draw(&mut events, &batch?, &mut |time_ns| ticks.before(time_ns))?;
        }
        drawing.finish(&mut events)?;
        written.push(TableRows { table, rows });
    }
    for note in drawing.notes().chain(events.notes()) {
        source.note(note);
    }
    events.finish()?;
    Ok(written)
}

fn names(source: &RowSource<'_>) -> Result<Names, ExportError> {
    let mut names = Names::default();
    for row in source.all_rows::<SessionRow>().take(MAX_NAMES) {
        names.session_row(row?);
    }
    for row in source.all_rows::<ProcessRow>().take(MAX_NAMES) {
        names.process_row(row?);
    }
    Ok(names)
}

#[derive(Debug, Serialize)]
struct TraceHead<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The monotonic time that is 0 in the trace.
    trace_start_ns: u64,
}
