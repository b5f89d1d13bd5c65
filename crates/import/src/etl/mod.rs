//! A trace of Event Tracing for Windows.
//!
//! The file is read twice. The first pass collects what a trace describes too late (names, schemas, images) and the time
//! that it spans; the second makes rows. Memory does not grow with the file.
//!
//! Times of a trace are on the traced machine's clock. In the recording, the trace begins when it is imported. The clock
//! domain in the recording's document and in an annotation, with the date of the trace, converts back.

mod rows;
mod series;
mod summary;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use ortscope_core::clock::ClockDomain;
use ortscope_core::units;
use ortscope_decode::etw::{EtwDecoder, Modules};
use ortscope_etl::{ClockKind, EtlFile, FileTime, Hook, Identity, LogFileHeader, Losses};

use crate::output::Output;
use crate::{ImportError, Reader, Summary};
use rows::{Busy, Made, Shift, TraceRows};
use series::Series;
use summary::Facts;

/// Records between two updates of the progress.
const PROGRESS_RECORDS: u64 = 1 << 14;

pub(crate) struct EtlReader {
    pub path: PathBuf,
    pub file: EtlFile,
}

/// The results of the first pass.
#[derive(Debug)]
struct FirstPass {
    decoder: EtwDecoder,
    modules: Modules,
    records: u64,
    /// The first and the last time of an event, on the traced machine's clock.
    first_ns: u64,
    last_ns: u64,
}

/// Facts about the rows, known after the last record.
#[derive(Debug)]
struct Rest {
    made: Made,
    busy: Vec<Busy>,
    sessions_dropped: u64,
    engines_dropped: u64,
    has_cycles_only: bool,
}

impl EtlReader {
    fn first_pass(&self, out: &Output<'_>) -> Result<FirstPass, ImportError> {
        let header = self.file.header();
        let (mut decoder, mut modules) = (EtwDecoder::new(header), Modules::default());
        let mut ticks: Option<(u64, u64)> = None;
        let mut read = 0u64;
        let walk = self.file.ordered(|record| {
            decoder.learn(record);
            modules.learn(record);
            // The header's own events have other times, and some messages have none.
            let is_header = matches!(record.identity, Identity::Kernel { hook: Hook(0..=0xff), .. });
            if record.ticks > 0 && !is_header {
                let (first, last) = ticks.get_or_insert((record.ticks, record.ticks));
                (*first, *last) = (record.ticks.min(*first), record.ticks.max(*last));
            }
            read += 1;
            next_record(read, None, out)
        });
        let records = walk.map_err(|error| ImportError::damaged(&self.path, error))?.records;
        let start_ticks = header.clock.start_ticks();
        let (first, last) = ticks.unwrap_or((start_ticks, start_ticks));
        let (first_ns, last_ns) = (decoder.at_ns(first), decoder.at_ns(last));
        Ok(FirstPass { decoder, modules, records, first_ns, last_ns })
    }
}

/// Updates the progress from time to time, and ends the walk if the pipeline stops.
fn next_record(read: u64, total: Option<u64>, out: &Output<'_>) -> ControlFlow<()> {
    if read.is_multiple_of(PROGRESS_RECORDS) {
        out.progress(read, total);
        if out.is_stopped() {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

impl Reader for EtlReader {
    /// The traced machine.
    fn fingerprint(&self) -> BTreeMap<String, String> {
        let header = self.file.header();
        let facts = [
            ("os", "windows".to_owned()),
            ("os_version", format!("build {}", header.os_build)),
            ("logical_cpus", header.processors.to_string()),
            ("cpu_mhz", header.cpu_mhz.to_string()),
        ];
        facts.into_iter().map(|(fact, value)| (fact.to_owned(), value)).collect()
    }

    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let FirstPass { mut decoder, modules, records, first_ns, last_ns } = self.first_pass(out)?;
        let header = self.file.header();
        let modules_dropped = modules.dropped;
        let shift = Shift { base_ns: first_ns, start_ns: out.start_ns };

        // The second pass makes rows.
        let mut rows = TraceRows::new(out, shift, header, modules, Series::new(first_ns, last_ns));
        let mut read = 0u64;
        let walk = self.file.ordered(|record| {
            decoder.push(record, &mut rows);
            rows.advance(&decoder);
            read += 1;
            next_record(read, Some(records), rows.out)
        });
        let walk = walk.map_err(|error| ImportError::damaged(&self.path, error))?;
        // The last times of every thread, before the decoder ends the threads.
        rows.threads(&decoder, decoder.last_ns());
        decoder.finish(&mut rows);
        let rest = finish_rows(rows, &decoder);

        let mut dropped = summary::dropped(&decoder.counts());
        let more = [
            ("images", modules_dropped),
            ("sessions", rest.sessions_dropped),
            ("engines", rest.engines_dropped),
        ];
        dropped.extend(more.into_iter().filter(|(_, count)| *count > 0));
        let clock = clock_domain(header, shift);
        let span_ns = last_ns.saturating_sub(first_ns);
        let facts = Facts {
            header,
            clock: &clock,
            decoder: &decoder,
            made: rest.made,
            busy: &rest.busy,
            records: walk.records,
            losses: &walk.losses,
            dropped: &dropped,
            first_unix_ns: decoder.unix_ns(first_ns),
            seconds: span_ns as f64 / 1e9,
        };
        notes(out, &facts);
        losses(out, &walk.losses, &dropped);
        unavailable(out, &facts, &rest);
        for sentence in summary::warnings(&facts) {
            out.warn(sentence);
        }
        if walk.losses.damage.loses_records() {
            out.incomplete();
        }
        out.summary(summary::document(&facts), summary::lines(&facts), Some(span_ns))
    }
}

fn clock_domain(header: &LogFileHeader, shift: Shift) -> ClockDomain {
    let (name, error_ns) = match header.clock.kind() {
        ClockKind::PerformanceCounter => ("qpc", 0),
        // The system time advances with the timer.
        ClockKind::SystemTime => ("system time", u64::from(header.timer_resolution) * 100),
        _ => ("processor cycles", 0),
    };
    let offset = i128::from(shift.start_ns) - i128::from(shift.base_ns);
    let offset_ns = offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    ClockDomain { name: name.to_owned(), offset_ns, error_ns }
}

/// Emits the rows that need the whole trace.
fn finish_rows(mut rows: TraceRows<'_, '_>, decoder: &EtwDecoder) -> Rest {
    rows.write_sums(decoder.last_ns());
    let engines: Vec<_> = decoder.engines().cloned().collect();
    let TraceRows { out, shift, series, sessions, made, busy, .. } = rows;
    series.rows(&engines, |end_ns, devices, system| {
        let timestamp_ns = shift.apply(end_ns);
        for mut row in devices {
            row.timestamp_ns = timestamp_ns;
            out.emit(&row);
        }
        if let Some(mut row) = system {
            row.timestamp_ns = timestamp_ns;
            out.emit(&row);
        }
    });
    for mut row in sessions.undescribed() {
        row.timestamp_ns = shift.apply(row.timestamp_ns);
        out.emit(&row);
    }
    Rest {
        made,
        busy,
        sessions_dropped: sessions.dropped,
        engines_dropped: series.dropped,
        has_cycles_only: sessions.has_cycles_only,
    }
}

/// Notes about the trace, its clock and its busiest processes.
fn notes(out: &mut Output<'_>, facts: &Facts<'_>) {
    let date = FileTime::from_unix_ns(facts.first_unix_ns);
    let processors = units::counted(u64::from(facts.header.processors), "processor");
    let build = facts.header.os_build;
    out.note(
        "note",
        &format!(
            "a trace of Windows build {build} with {processors} from {date}; its times count from the import"
        ),
    );
    let ClockDomain { name, offset_ns, error_ns } = facts.clock;
    let unix_ns = facts.first_unix_ns;
    out.note(
        "clock",
        &format!("the recording's time is the trace's ({name}) plus {offset_ns} ns, known to {error_ns} ns; the trace begins {unix_ns} ns after 1970"),
    );
    let has_switches = facts.decoder.counts().kernel.switches > 0;
    for busy in facts.busy {
        out.note("process", &summary::busy_line(busy, has_switches, facts.made.samples));
    }
}

fn losses(out: &mut Output<'_>, losses: &Losses, dropped: &[(&'static str, u64)]) {
    for (kind, count) in [
        ("events", losses.events_lost),
        ("buffers", losses.buffers_lost),
        ("real-time events", losses.real_time_events_lost),
        ("real-time buffers", losses.real_time_buffers_lost),
        ("real-time files", losses.real_time_files_lost),
    ] {
        out.loss("trace session", kind, count);
    }
    for (reason, skipped) in losses.damage.iter().filter(|(reason, _)| reason.loses_records()) {
        out.loss("trace file", reason.name(), skipped.count);
    }
    for (what, count) in dropped {
        out.loss("import", what, *count);
    }
}

fn unavailable(out: &mut Output<'_>, facts: &Facts<'_>, rest: &Rest) {
    out.unavailable("process memory", "a trace has no events about the memory of processes", None);
    if facts.decoder.counts().kernel.switches == 0 {
        out.unavailable(
            "CPU time of threads",
            "the trace has no context switches",
            Some("record with the kernel flag CSWITCH (in WPR: CPU usage)"),
        );
    }
    if rest.made.samples == 0 {
        out.unavailable(
            "CPU samples",
            "the trace has no samples of the processors",
            Some("record with the kernel flag PROFILE (in WPR: CPU usage)"),
        );
    } else {
        out.unavailable("names of functions", "a trace contains addresses; symbols are not looked up", None);
    }
    if rest.made.inferences == 0 {
        out.unavailable(
            "inferences",
            "the trace has no events of ONNX Runtime",
            Some("record the provider 3a26b1ff-7484-7484-7484-15261f42614d at level 5"),
        );
    } else {
        let reason = "ONNX Runtime's events cover the call as a whole";
        out.unavailable("copies of inputs and outputs", reason, None);
    }
    if rest.has_cycles_only {
        out.unavailable("time of QNN's nodes", "QNN reports the cycles of nodes, not their time", None);
    }
}
