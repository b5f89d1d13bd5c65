//! A trace of Event Tracing for Windows, on any system.
//!
//! The file is read twice: a first pass collects what a trace tells too late (names, schemas, images) and the time that it
//! spans, the second makes rows. Memory does not grow with the file.
//!
//! The times of a trace are of the traced machine's clock. In the recording the trace begins when it is imported, so that
//! its rows lie inside of the recording; how to get back is declared as a clock domain, in the recording's document and as
//! an annotation, with the date on which the trace was made.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ortscope_core::clock::ClockDomain;
use ortscope_core::schema::{AnnotationRow, LossRow, UnavailabilityRow};
use ortscope_decode::etw::{EtwDecoder, Modules};
use ortscope_etl::{ClockKind, FileTime, Hook, Identity, LogFileHeader, Losses};
use ortscope_store::{Finished, NewRecording, RecordingWriter, Store};
use serde_json::Value;

use super::series::Series;
use super::summary::{self, Facts};
use super::trace_rows::{Made, Out, Shift, TraceRows};
use crate::args::{GlobalArgs, ImportArgs};
use crate::commands::etl;
use crate::exit::{Exit, Failure};
use crate::progress::ProgressLine;
use crate::recording::open_store_to_record;
use crate::terminal::{self, Terminal, WARN};
use ortscope_core::units;
use ortscope_observe::progress::Progress as _;
use ortscope_observe::recording::append;

/// The document that is kept with the recording.
const IMPORT_DOCUMENT: &str = "import.json";
/// Records between two looks at the clock for the progress.
const PROGRESS_RECORDS: u64 = 1 << 14;

/// A trace that became a recording.
#[derive(Debug)]
pub struct Imported {
    pub finished: Finished,
    pub document: Value,
    pub lines: Vec<String>,
    pub warnings: Vec<String>,
    /// Records are missing because the file is damaged.
    pub exit: Exit,
}

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let imported = import_trace(
        &open_store_to_record(global, args.encryption.encrypt)?,
        &args.file,
        args.name.clone(),
        terminal,
    )?;
    let Imported { finished, mut document, lines, warnings, exit } = imported;
    if terminal.json {
        document["id"] = finished.id.into();
        document["directory"] = finished.directory.display().to_string().into();
        document["rows"] = serde_json::json!(finished.rows);
        document["notes"] = warnings.clone().into();
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        let mut text = format!("{}  {}\n", finished.id, lines.join("\n"));
        text += &format!("ortscope report {}\n", finished.id);
        terminal::print_data(&text);
    }
    for sentence in &warnings {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    Ok(exit)
}

/// What the first pass finds.
#[derive(Debug, Default)]
struct Span {
    ticks: Option<(u64, u64)>,
}

impl Span {
    /// The header's own events are dated apart, and some messages have no time at all.
    fn see(&mut self, identity: &Identity, ticks: u64) {
        if ticks == 0 || matches!(identity, Identity::Kernel { hook: Hook(0..=0xff), .. }) {
            return;
        }
        let (first, last) = self.ticks.get_or_insert((ticks, ticks));
        *first = ticks.min(*first);
        *last = ticks.max(*last);
    }
}

/// Makes a recording of a trace.
pub fn import_trace(
    store: &Store,
    path: &Path,
    name: Option<String>,
    terminal: &Terminal,
) -> Result<Imported, Failure> {
    let file = etl::open(path)?;
    let header = file.header();
    let mut progress = ProgressLine::start(terminal, "import");
    let (mut decoder, mut modules, mut span) = (EtwDecoder::new(header), Modules::default(), Span::default());
    let mut read = 0u64;
    let first_pass = file
        .ordered(|record| {
            decoder.learn(record);
            modules.learn(record);
            span.see(&record.identity, record.ticks);
            read += 1;
            if read.is_multiple_of(PROGRESS_RECORDS) {
                progress.update(&|| format!("first pass, {} events", units::count(read)));
            }
            ControlFlow::Continue(())
        })
        .map_err(|error| etl::unreadable(&error))?;
    let start_ticks = header.clock.start_ticks();
    let (first, last) = span.ticks.unwrap_or((start_ticks, start_ticks));
    let (first_ns, last_ns) = (decoder.at_ns(first), decoder.at_ns(last));
    let modules_left_out = modules.dropped;

    let writer = store.begin(new_recording(path, header, name))?;
    let shift = Shift { base_ns: first_ns, start_ns: writer.started().monotonic_ns };
    let out = Out::new(&writer, shift);
    let mut rows = TraceRows::new(out, header, modules, Series::new(first_ns, last_ns));
    let mut done = 0u64;
    let walk = file
        .ordered(|record| {
            decoder.push(record, &mut rows);
            rows.advance(&decoder);
            done += 1;
            if done.is_multiple_of(PROGRESS_RECORDS) {
                let percent = units::percent(done as f64 / first_pass.records.max(1) as f64);
                progress.update(&|| format!("{percent} of {} events", units::count(first_pass.records)));
            }
            if rows.out.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(|error| etl::unreadable(&error))?;
    // The last account of every thread, before the decoder closes their lives.
    rows.threads(&decoder, decoder.last_ns());
    decoder.finish(&mut rows);
    let rest = finish_rows(&mut rows, &decoder)?;
    progress.finish();

    let mut left_out = summary::left_out(&decoder.counts());
    left_out.extend(
        [
            ("images", modules_left_out),
            ("sessions", rest.sessions_left_out),
            ("engines", rest.engines_left_out),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0),
    );
    let clock = clock_domain(header, shift);
    let facts = Facts {
        header,
        clock: &clock,
        decoder: &decoder,
        made: rest.made,
        busy: &rest.busy,
        records: walk.records,
        losses: &walk.losses,
        left_out: &left_out,
        first_unix_ns: decoder.unix_ns(first_ns),
        seconds: last_ns.saturating_sub(first_ns) as f64 / 1e9,
    };
    describe(&writer, &facts, &rest, shift)?;
    let document = summary::document(&facts);
    let (lines, warnings) = (summary::lines(&facts), summary::warnings(&facts));
    let bytes = serde_json::to_vec_pretty(&document).map_err(Failure::internal)?;
    writer.write_document(IMPORT_DOCUMENT, &bytes)?;
    // It lasted as long as the trace did, not as long as reading it took.
    let span = Duration::from_nanos(last_ns.saturating_sub(first_ns));
    let finished = writer.finish_after("imported", span)?;
    let exit = if walk.losses.damage.loses_records() { Exit::DataLost } else { Exit::Ok };
    Ok(Imported { finished, document, lines, warnings, exit })
}

fn new_recording(path: &Path, header: &LogFileHeader, name: Option<String>) -> NewRecording {
    let file_name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Of the traced machine, not of this one.
    let fingerprint = [
        ("os", "windows".to_owned()),
        ("os_version", format!("build {}", header.os_build)),
        ("logical_cpus", header.processors.to_string()),
        ("cpu_mhz", header.cpu_mhz.to_string()),
    ];
    NewRecording {
        origin: "import".into(),
        subject: file_name,
        name,
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        fingerprint: fingerprint.into_iter().map(|(fact, value)| (fact.to_owned(), value)).collect(),
        ..NewRecording::default()
    }
}

fn clock_domain(header: &LogFileHeader, shift: Shift) -> ClockDomain {
    let (name, error_ns) = match header.clock.kind() {
        ClockKind::PerformanceCounter => ("qpc", 0),
        // Of the time that the system keeps: it moves when the timer ticks.
        ClockKind::SystemTime => ("system time", u64::from(header.timer_resolution) * 100),
        _ => ("processor cycles", 0),
    };
    let offset = i128::from(shift.start_ns) - i128::from(shift.base_ns);
    let offset_ns = offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    ClockDomain { name: name.to_owned(), offset_ns, error_ns }
}

/// What is left when all records are read.
#[derive(Debug)]
struct Rest {
    made: Made,
    busy: Vec<super::trace_rows::Busy>,
    sessions_left_out: u64,
    engines_left_out: u64,
    has_cycles_only: bool,
}

/// Writes what waited for the end of the trace.
fn finish_rows(rows: &mut TraceRows<'_>, decoder: &EtwDecoder) -> Result<Rest, Failure> {
    rows.write_sums(decoder.last_ns());
    let engines: Vec<_> = decoder.engines().cloned().collect();
    let TraceRows { out, series, sessions, .. } = rows;
    series.rows(&engines, |end_ns, mut devices, system| {
        let at = out.shift.on(end_ns);
        devices.iter_mut().for_each(|row| row.timestamp_ns = at);
        out.tick(&devices);
        if let Some(mut row) = system {
            row.timestamp_ns = at;
            out.tick(&[row]);
        }
    });
    for mut row in sessions.undescribed() {
        row.timestamp_ns = out.shift.on(row.timestamp_ns);
        out.push(&row);
    }
    out.flush();
    match out.failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(Rest {
            made: rows.made,
            busy: std::mem::take(&mut rows.busy),
            sessions_left_out: rows.sessions.dropped,
            engines_left_out: rows.series.left_out,
            has_cycles_only: rows.sessions.has_cycles_only,
        }),
    }
}

/// Notes, losses and what a trace cannot tell.
fn describe(writer: &RecordingWriter, facts: &Facts<'_>, rest: &Rest, shift: Shift) -> Result<(), Failure> {
    let at = shift.start_ns;
    let note =
        |kind: &str, text: String| AnnotationRow { timestamp_ns: at, kind: kind.into(), text: text.into() };
    let date = FileTime::from_unix_ns(facts.first_unix_ns);
    let clock = format!(
        "the recording's time is the trace's ({}) plus {} ns, known to {} ns; the trace begins {} ns after 1970",
        facts.clock.name, facts.clock.offset_ns, facts.clock.error_ns, facts.first_unix_ns
    );
    let mut notes = vec![
        note(
            "note",
            format!(
                "a trace of Windows build {} with {} from {date}; its times count from the import",
                facts.header.os_build,
                units::counted(u64::from(facts.header.processors), "processor")
            ),
        ),
        note("clock", clock),
    ];
    let switches = facts.decoder.counts().kernel.switches;
    notes.extend(
        rest.busy
            .iter()
            .map(|busy| note("process", summary::busy_line(busy, switches > 0, rest.made.samples))),
    );
    append(writer, notes)?;
    append(writer, losses(facts.losses, facts.left_out, at))?;
    append(writer, unavailable(facts, rest, at))
}

fn losses(losses: &Losses, left_out: &[(&'static str, u64)], at: u64) -> Vec<LossRow> {
    let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let session = [
        ("events", losses.events_lost),
        ("buffers", losses.buffers_lost),
        ("real-time events", losses.real_time_events_lost),
        ("real-time buffers", losses.real_time_buffers_lost),
        ("real-time files", losses.real_time_files_lost),
    ];
    counts.extend(session.map(|(kind, count)| (("trace session", kind.to_owned()), count)));
    let damage = losses.damage.iter().filter(|(reason, _)| reason.loses_records());
    counts.extend(damage.map(|(reason, skipped)| (("trace file", reason.name().to_owned()), skipped.count)));
    counts.extend(left_out.iter().map(|(what, count)| (("import", (*what).to_owned()), *count)));
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|((place, kind), count)| LossRow {
            timestamp_ns: at,
            place: place.into(),
            kind: kind.as_str().into(),
            count,
        })
        .collect()
}

fn unavailable(facts: &Facts<'_>, rest: &Rest, at: u64) -> Vec<UnavailabilityRow> {
    let mut rows = Vec::new();
    let mut missing = |track: &str, reason: &str, hint: Option<&str>| {
        rows.push(UnavailabilityRow {
            from_ns: at,
            to_ns: None,
            track: track.into(),
            reason: reason.into(),
            hint: hint.map(Into::into),
        });
    };
    missing("process memory", "the events of a trace do not tell how much memory a process has", None);
    if facts.decoder.counts().kernel.switches == 0 {
        missing(
            "CPU time of threads",
            "the trace has no context switches",
            Some("record with the kernel flag CSWITCH (in WPR: CPU usage)"),
        );
    }
    if rest.made.samples == 0 {
        missing(
            "CPU samples",
            "the trace has no samples of the processors",
            Some("record with the kernel flag PROFILE (in WPR: CPU usage)"),
        );
    } else {
        missing("names of functions", "a trace holds addresses; symbols are not looked up", None);
    }
    if rest.made.inferences == 0 {
        missing(
            "inferences",
            "the trace has no events of ONNX Runtime",
            Some("record the provider 3a26b1ff-7484-7484-7484-15261f42614d at level 5"),
        );
    } else {
        missing("copies of inputs and outputs", "ONNX Runtime's events tell of the call as a whole", None);
    }
    if rest.has_cycles_only {
        missing("time of QNN's nodes", "QNN tells the cycles of nodes, not their time", None);
    }
    rows
}
