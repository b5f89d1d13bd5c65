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
//! The other tables have nothing to draw, and thread samples are too many; they are in the other formats.

mod counters;
mod events;
mod json;
mod perfetto;
mod slices;

use std::collections::HashMap;
use std::io::{self, Write};

use ortscope_core::schema::{
    AnnotationRow, FindingRow, InferenceRow, KernelEventRow, LossRow, OperatorRow, ProcessRow, Row,
    SessionRow, TableId, Text,
};
use serde::Serialize;

use crate::error::ExportError;
use crate::info::Head;
use crate::source::{RowSource, TableRows};
use events::{Body, Events, Form, Lane};
use slices::{Slices, TrackId};

/// Names that are remembered; what comes after is shown by its number.
const MAX_NAMES: usize = 100_000;
/// Lanes of one kind; what comes after shares one.
const MAX_TRACKS: usize = 4_096;

pub(crate) fn write_json(source: &RowSource<'_>, out: &mut dyn Write) -> Result<Vec<TableRows>, ExportError> {
    write(source, Form::Json, out)
}

pub(crate) fn write_perfetto(
    source: &RowSource<'_>,
    out: &mut dyn Write,
) -> Result<Vec<TableRows>, ExportError> {
    write(source, Form::Perfetto, out)
}

fn write(source: &RowSource<'_>, form: Form, out: &mut dyn Write) -> Result<Vec<TableRows>, ExportError> {
    let start_ns = source.trace_start_ns();
    let mut events = Events::new(out, form, start_ns);
    events.head(&TraceHead { head: source.head(), trace_start_ns: start_ns })?;
    let names = Names::read(source)?;
    let mut written = Vec::new();
    let mut draw = |table, rows: &mut dyn FnMut() -> Result<u64, ExportError>| {
        if source.is_selected(table) {
            written.push(TableRows { table, rows: rows()? });
        }
        Ok::<_, ExportError>(())
    };
    draw(TableId::Inferences, &mut || inferences(source, &mut events, &names))?;
    draw(TableId::Operators, &mut || operators(source, &mut events))?;
    draw(TableId::Annotations, &mut || instants(source, &mut events, "Annotations", annotation))?;
    draw(TableId::Findings, &mut || instants(source, &mut events, "Findings", finding))?;
    draw(TableId::Losses, &mut || instants(source, &mut events, "Losses", loss))?;
    draw(TableId::KernelEvents, &mut || instants(source, &mut events, "Kernel", kernel_event))?;
    draw(TableId::SystemSamples, &mut || counters::system(source, &mut events))?;
    draw(TableId::DeviceSamples, &mut || counters::devices(source, &mut events))?;
    draw(TableId::Memory, &mut || counters::memory(source, &mut events, &names))?;
    draw(TableId::ProcessSamples, &mut || counters::processes(source, &mut events, &names))?;
    if events.out_of_range > 0 {
        source.note(format!(
            "{} rows have times that no trace can show and are not in it",
            events.out_of_range
        ));
    }
    if events.not_numbers > 0 {
        source.note(format!("{} samples are not numbers and are not in the trace", events.not_numbers));
    }
    events.finish()?;
    Ok(written)
}

#[derive(Debug, Serialize)]
struct TraceHead<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The monotonic time that is 0 in the trace.
    trace_start_ns: u64,
}

/// Names of sessions and processes.
#[derive(Debug, Default)]
struct Names {
    models: HashMap<Text, Text>,
    processes: HashMap<(u64, u64), Text>,
}

impl Names {
    fn read(source: &RowSource<'_>) -> Result<Self, ExportError> {
        let mut names = Self::default();
        for row in source.all_rows::<SessionRow>().take(MAX_NAMES) {
            let row = row?;
            names.models.insert(row.session_id, row.model_name);
        }
        for row in source.all_rows::<ProcessRow>().take(MAX_NAMES) {
            let row = row?;
            names.processes.insert((row.pid, row.process_start), row.name);
        }
        Ok(names)
    }

    fn model(&self, session_id: &Text) -> Option<&str> {
        self.models.get(session_id).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// A session by its model and the beginning of its identifier.
    fn session(&self, session_id: &Text) -> String {
        let short: String = session_id.chars().take(8).collect();
        match self.model(session_id) {
            Some(model) => format!("{model} {short}"),
            None => format!("session {short}"),
        }
    }

    fn process(&self, pid: u64, process_start: u64) -> String {
        match self.processes.get(&(pid, process_start)) {
            Some(name) => format!("{name} (pid {pid})"),
            None => format!("process {pid}"),
        }
    }
}

/// Tracks by a key, made when first asked for.
struct Tracks<K> {
    slices: Slices,
    groups: HashMap<Text, u64>,
    by_key: HashMap<K, TrackId>,
    others: Option<TrackId>,
}

impl<K: std::hash::Hash + Eq> Tracks<K> {
    fn new() -> Self {
        Self { slices: Slices::default(), groups: HashMap::new(), by_key: HashMap::new(), others: None }
    }

    fn track(
        &mut self,
        events: &mut Events<'_>,
        key: K,
        group: Text,
        names: impl FnOnce() -> (String, String),
    ) -> io::Result<TrackId> {
        if let Some(track) = self.by_key.get(&key) {
            return Ok(*track);
        }
        if self.slices.tracks() >= MAX_TRACKS {
            if let Some(others) = self.others {
                return Ok(others);
            }
            let process = events.process("Others")?;
            let others = self.slices.track(process, "others".to_owned());
            self.others = Some(others);
            return Ok(others);
        }
        let (group_name, name) = names();
        let process = match self.groups.get(&group) {
            Some(process) => *process,
            None => {
                let process = events.process(&group_name)?;
                self.groups.insert(group, process);
                process
            }
        };
        let track = self.slices.track(process, name);
        self.by_key.insert(key, track);
        Ok(track)
    }
}

fn inferences(source: &RowSource<'_>, events: &mut Events<'_>, names: &Names) -> Result<u64, ExportError> {
    let mut tracks = Tracks::new();
    let mut rows = 0;
    for batch in source.batches(TableId::Inferences) {
        for row in batch?.rows::<InferenceRow>() {
            let key = (row.session_id.clone(), row.stream);
            let track = tracks.track(events, key, row.session_id.clone(), || {
                let group = format!("Inferences: {}", names.session(&row.session_id));
                (group, format!("stream {}", row.stream))
            })?;
            let duration = row.copy_in_ns.saturating_add(row.run_ns).saturating_add(row.copy_out_ns);
            let mut body =
                Body::new(events.form(), names.model(&row.session_id).unwrap_or("inference"), "inference");
            body.text("phase", &row.phase);
            body.number("sequence", Some(row.sequence));
            body.micros("run_us", row.run_ns);
            body.micros("copy_in_us", row.copy_in_ns);
            body.micros("copy_out_us", row.copy_out_ns);
            if row.planned_ns < row.timestamp_ns {
                body.micros("waited_us", row.timestamp_ns - row.planned_ns);
            }
            body.number("batch_size", row.batch_size);
            body.number("queue_depth", row.queue_depth);
            body.number("token", row.token);
            if !row.ok {
                body.text("error", "the call failed");
            }
            rows += u64::from(tracks.slices.add(events, track, row.timestamp_ns, duration, body.done())?);
        }
    }
    tracks.slices.finish(events)?;
    Ok(rows)
}

fn operators(source: &RowSource<'_>, events: &mut Events<'_>) -> Result<u64, ExportError> {
    let mut tracks = Tracks::new();
    let mut rows = 0;
    for batch in source.batches(TableId::Operators) {
        for row in batch?.rows::<OperatorRow>() {
            // What a provider reports of its device, beside the calls that it belongs to.
            let is_of_device = &*row.kind == "other" && !row.execution_provider.is_empty();
            let key = (row.execution_provider.clone(), is_of_device, row.thread);
            let track = tracks.track(events, key, row.execution_provider.clone(), || {
                let group = match &*row.execution_provider {
                    "" => "ONNX Runtime".to_owned(),
                    provider => format!("Operators: {provider}"),
                };
                let lane = match (is_of_device, row.thread) {
                    (false, thread) => format!("thread {thread}"),
                    (true, 0) => format!("device {}", row.device),
                    (true, queue) => format!("device {} {queue}", row.device),
                };
                (group, lane)
            })?;
            let body = operator(events.form(), &row);
            rows += u64::from(tracks.slices.add(events, track, row.timestamp_ns, row.duration_ns, body)?);
        }
    }
    tracks.slices.finish(events)?;
    Ok(rows)
}

/// No argument differs from run to run: speedscope takes events for the same only if their arguments are.
fn operator(form: Form, row: &OperatorRow) -> Box<[u8]> {
    let named = [&row.name, &row.op_type, &row.kind].into_iter().find(|name| !name.is_empty());
    let mut body = Body::new(form, named.map_or("operator", |name| name), &row.kind);
    body.text("op_type", &row.op_type);
    body.text("device", &row.device);
    body.number("node_index", row.node_index);
    for (key, text) in [
        ("input_shapes", &row.input_shapes),
        ("input_types", &row.input_types),
        ("output_shapes", &row.output_shapes),
        ("output_types", &row.output_types),
    ] {
        body.text(key, text.as_deref().unwrap_or_default());
    }
    body.number("output_bytes", row.output_bytes);
    body.number("activation_bytes", row.activation_bytes);
    body.number("parameter_bytes", row.parameter_bytes);
    body.number("flops", row.flops);
    body.number("cycles", row.cycles);
    body.done()
}

/// A row as an instant: when, on which lane, and what it says.
type Instant = (u64, String, Body);

fn instants<R: Row>(
    source: &RowSource<'_>,
    events: &mut Events<'_>,
    group: &str,
    instant: fn(Form, &R) -> Instant,
) -> Result<u64, ExportError> {
    let mut process = None;
    let mut lanes: HashMap<String, Lane> = HashMap::new();
    let mut rows = 0;
    for batch in source.batches(R::TABLE) {
        for row in batch?.rows::<R>() {
            let (time_ns, name, body) = instant(events.form(), &row);
            let process = match process {
                Some(process) => process,
                None => *process.insert(events.process(group)?),
            };
            let name = if lanes.len() < MAX_TRACKS || lanes.contains_key(&name) {
                name
            } else {
                "others".to_owned()
            };
            let lane = match lanes.get(&name) {
                Some(lane) => *lane,
                None => {
                    let lane = events.lane(process, &name)?;
                    lanes.insert(name, lane);
                    lane
                }
            };
            rows += u64::from(events.instant(lane, time_ns, &body.done())?);
        }
    }
    Ok(rows)
}

fn annotation(form: Form, row: &AnnotationRow) -> Instant {
    let mut body = Body::new(form, &row.kind, "annotation");
    body.text("text", &row.text);
    (row.timestamp_ns, row.kind.to_string(), body)
}

fn finding(form: Form, row: &FindingRow) -> Instant {
    let mut body = Body::new(form, &row.id, "finding");
    body.text("severity", &row.severity);
    body.text("evidence", &row.evidence);
    body.text("advice", &row.advice);
    body.text("command", row.command.as_deref().unwrap_or_default());
    (row.timestamp_ns, row.severity.to_string(), body)
}

fn loss(form: Form, row: &LossRow) -> Instant {
    let mut body = Body::new(form, &format!("lost: {}", row.kind), "loss");
    body.text("place", &row.place);
    body.number("count", Some(row.count));
    (row.timestamp_ns, row.place.to_string(), body)
}

fn kernel_event(form: Form, row: &KernelEventRow) -> Instant {
    let mut body = Body::new(form, &row.kind, "kernel");
    body.number("pid", row.pid);
    body.number("tid", row.tid);
    if let Some(duration_ns) = row.duration_ns {
        body.micros("duration_us", duration_ns);
    }
    body.number("value", row.value);
    body.text("detail", row.detail.as_deref().unwrap_or_default());
    let lane = match (row.processor, row.tid) {
        (Some(processor), _) => format!("processor {processor}"),
        (None, Some(tid)) => format!("thread {tid}"),
        (None, None) => "machine".to_owned(),
    };
    (row.timestamp_ns, lane, body)
}
