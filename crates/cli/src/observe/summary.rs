//! What watching says: a document, and the same for people.

use std::collections::BTreeMap;

use ortscope_analyze::processes::{ProcessSummary, Spike};
use ortscope_core::config::Aggregation;
use ortscope_export::LiveTraceState;
use ortscope_observe::plan::Ended;
use ortscope_observe::programs::{TRACK, Unavailable};
use ortscope_observe::watch::Watched;
use ortscope_sources::MachineFacts;
use serde::Serialize;

use super::collect::{Collected, Scheduling};
use super::inferences::{self, InferenceSummary};
use super::kernel::{self, Kernel};
use super::plan::ObservePlan;
use super::stacks::{self, Sampling};
use crate::live_trace::TraceDocument;
use crate::terminal::{BOLD, DIM, Terminal, WARN};
use ortscope_core::units;
use ortscope_observe::recording::Saved;

/// Changes when a field changes its meaning or goes away; new fields do not change it.
const SCHEMA: &str = "ortscope.observe/1";
/// Processes and spikes that the text shows.
const MAX_ROWS: usize = 20;
/// Processes that the document lists; the recording has all.
const MAX_PROCESSES: usize = 1000;
/// Of a note: the words of the kernel can be long.
const MAX_LINES: usize = 12;
const MAX_OF_A_LINE: usize = 300;

#[derive(Debug, Serialize)]
pub struct ObserveDocument {
    pub schema: &'static str,
    pub ortscope_version: &'static str,
    pub machine: MachineFacts,
    pub subject: String,
    /// processes_ended, duration or interrupted.
    pub ending: &'static str,
    pub seconds: f64,
    /// Which of the numbers of `cpu_percent` the table shows first: `aggregation` of `[monitoring.cpu]`.
    pub cpu_aggregation: Aggregation,
    /// The busiest first.
    pub processes: Vec<ProcessSummary>,
    pub processes_not_listed: u64,
    /// Of the processes that are instrumented; `null` if there are none, and `unavailable` says why.
    pub inferences: Option<InferenceSummary>,
    /// With `--kernel`: what the kernel did to each process, by its id.
    pub scheduling: BTreeMap<u64, Scheduling>,
    /// With `--kernel`: what was asked of it, and what that cost.
    pub kernel: Option<Kernel>,
    /// With `--flame` or `--sample-hz`.
    pub sampling: Option<Sampling>,
    /// With `--flame-python`: the functions of Python programs alone.
    pub python_sampling: Option<Sampling>,
    /// With `--perfetto`.
    pub trace: Option<TraceDocument>,
    /// With `--spike`, in the order of time.
    pub spikes: Option<Vec<Spike>>,
    pub spikes_not_listed: u64,
    pub watching: Watching,
    /// Records that were lost: (place, kind, count).
    pub losses: Vec<(String, String, u64)>,
    pub unavailable: Vec<Unavailable>,
    pub notes: Vec<String>,
    /// Of the program that was started.
    pub exit_code: Option<i32>,
    pub recording: Option<Saved>,
}

/// What watching itself cost.
#[derive(Debug, Serialize)]
pub struct Watching {
    pub backend: &'static str,
    /// CPU time of the sampling thread, percent of one core.
    pub cpu_percent: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub rate_hertz: f64,
    pub asked_hertz: f64,
    pub late_ticks: u64,
    pub skipped_ticks: u64,
    pub samples: u64,
}

/// An observation that has ended, and its sinks.
#[derive(Debug)]
pub struct Observed {
    pub watched: Watched,
    pub collected: Collected,
    pub trace: Option<LiveTraceState>,
}

pub fn document(plan: &ObservePlan, observed: Observed) -> ObserveDocument {
    let Observed { watched, collected, trace } = observed;
    let Watched { ended, ending, seconds, own_cost, backend, exit } = watched;
    let Ended { losses, errors, kernel, .. } = ended;
    let mut processes = collected.processes.summaries();
    let processes_not_listed = processes.len().saturating_sub(MAX_PROCESSES) as u64;
    processes.truncate(MAX_PROCESSES);
    let (spikes, spikes_not_listed) = collected.spikes.map_or((None, 0), |finder| {
        let (spikes, beyond) = finder.finish();
        (Some(spikes), beyond)
    });
    let mut notes = collected.notes;
    notes.extend(errors.into_iter().map(|(source, error)| format!("{source}: {error}")));
    notes.extend(trace.iter().flat_map(|trace| trace.notes.clone()));
    // Only where they were asked for: otherwise the hint says how to.
    let no_cycles = collected.unavailable.iter().find(|row| {
        row.track.ends_with("cpu_cycles")
            && !row.hint.as_deref().is_some_and(|hint| hint.contains("--cycles"))
    });
    notes.extend(no_cycles.map(|row| format!("no cycles: {}", row.reason)));
    ObserveDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        machine: ortscope_sources::machine_facts(),
        subject: plan.subject.clone(),
        cpu_aggregation: plan.cpu_aggregation,
        ending: ending.name(),
        seconds,
        processes,
        processes_not_listed,
        inferences: collected.inferences.summary(),
        scheduling: collected.scheduling.into_iter().collect(),
        kernel: kernel.map(Kernel::from),
        sampling: None,
        python_sampling: None,
        trace: trace.as_ref().map(TraceDocument::new),
        spikes,
        spikes_not_listed,
        watching: Watching {
            backend,
            cpu_percent: own_cost.cpu_ratio.map(|ratio| ratio * 100.0),
            memory_bytes: own_cost.memory_bytes,
            rate_hertz: own_cost.rate_hertz,
            asked_hertz: own_cost.asked_hertz,
            late_ticks: own_cost.late_ticks,
            skipped_ticks: own_cost.skipped_ticks,
            samples: own_cost.process_samples,
        },
        losses,
        unavailable: collected
            .unavailable
            .into_iter()
            .map(|row| Unavailable {
                track: row.track.to_string(),
                reason: row.reason.to_string(),
                hint: row.hint.map(|hint| hint.to_string()),
            })
            .collect(),
        notes,
        exit_code: exit.and_then(|status| status.code().or_else(|| code_of_signal(&status.to_string()))),
        recording: None,
    }
}

/// A program that was ended by a signal has the exit code that a shell would give: 128 and the signal's number.
fn code_of_signal(status: &str) -> Option<i32> {
    let number = status.strip_prefix("signal: ")?.split(' ').next()?;
    number.parse::<i32>().ok().map(|number| 128 + number)
}

/// The lines of the summary.
pub fn show(document: &ObserveDocument, terminal: &Terminal) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {} watched  {}",
        terminal.paint(BOLD, &document.subject),
        units::duration(document.seconds),
        match document.exit_code {
            Some(code) => format!("ended with exit code {code}"),
            None => document.ending.replace('_', " "),
        }
    )];
    lines.push(terminal.paint(
        BOLD,
        &format!(
            "{:>8}  {:<16} {:>7} {:>7} {:>9} {:>9} {:>9} {:>11} {:>7} {:>9} {:>9} {:>9} {:>9}",
            "pid",
            "name",
            match document.cpu_aggregation {
                Aggregation::Avg => "cpu %",
                Aggregation::Max => "cpu max",
                Aggregation::P95 => "cpu p95",
                Aggregation::P99 => "cpu p99",
            },
            "p99",
            "cpu time",
            "memory",
            "peak",
            "growth/min",
            "threads",
            "read",
            "written",
            "faults",
            "switches"
        ),
    ));
    for process in document.processes.iter().take(MAX_ROWS) {
        lines.push(row(process, document.cpu_aggregation));
    }
    lines.extend(document.processes.iter().take(MAX_ROWS).filter_map(network));
    lines.extend(document.processes.iter().take(MAX_ROWS).filter_map(cycles));
    let more = document.processes.len().saturating_sub(MAX_ROWS) as u64 + document.processes_not_listed;
    if more > 0 {
        lines.push(
            terminal.paint(DIM, &format!("{} more are in the recording", units::counted(more, "process"))),
        );
    }
    if document.processes.is_empty() {
        lines.push("no process was seen long enough to be sampled".to_owned());
    }
    for process in document.processes.iter().take(MAX_ROWS) {
        if let Some(of) = document.scheduling.get(&process.pid) {
            lines.push(format!(
                "{:>8}  waited {} for a processor (at most {} at once), preempted {} times, moved {} times, {} faults",
                process.pid,
                units::nanoseconds(of.delay_seconds * 1e9),
                units::nanoseconds(of.longest_delay_seconds * 1e9),
                units::count(of.preemptions),
                units::count(of.migrations),
                units::count(of.page_faults + of.hard_faults)
            ));
        }
    }
    match &document.inferences {
        Some(summary) => lines.extend(inferences::lines(summary, terminal)),
        None => {
            for missing in document.unavailable.iter().filter(|missing| missing.track == TRACK) {
                let hint = missing.hint.as_ref().map_or(String::new(), |hint| format!("; hint: {hint}"));
                lines.push(terminal.paint(DIM, &format!("no inferences: {}{hint}", missing.reason)));
            }
        }
    }
    if let Some(spikes) = &document.spikes {
        lines.push(format!("{} above the threshold", units::counted(spikes.len() as u64, "spike")));
        for spike in spikes.iter().take(MAX_ROWS) {
            lines.push(format!(
                "{:>8}  for {:>9}  {:>5.0} % of a core, at most {:.0} %",
                spike.pid,
                units::nanoseconds((spike.to_ns - spike.from_ns) as f64),
                spike.cpu_percent,
                spike.peak_percent
            ));
        }
    }
    let samplings = document.sampling.iter().chain(&document.python_sampling);
    lines.extend(samplings.flat_map(|sampling| stacks::lines(sampling, terminal)));
    for line in document.kernel.iter().flat_map(kernel::lines) {
        lines.push(terminal.paint(DIM, &line));
    }
    let watching = &document.watching;
    let cost = watching
        .cpu_percent
        .map_or("n/a (less than a second)".to_owned(), |percent| format!("{percent:.2} % of a core"));
    let late = match watching.skipped_ticks {
        0 => String::new(),
        skipped => {
            format!("  {} left out, {} late", units::count(skipped), units::count(watching.late_ticks))
        }
    };
    lines.push(terminal.paint(
        DIM,
        &format!(
            "watching by {}{} cost {cost}, {}{late}",
            watching.backend,
            // Known from the first second on.
            if watching.rate_hertz > 0.0 {
                format!(" at {:.0} Hz", watching.rate_hertz)
            } else {
                String::new()
            },
            watching.memory_bytes.map_or("memory n/a".to_owned(), |bytes| units::bytes(bytes as f64))
        ),
    ));
    lines.extend(document.trace.as_ref().map(TraceDocument::line));
    for note in &document.notes {
        lines.extend(note_lines(note).iter().map(|line| terminal.paint(WARN, line)));
    }
    for (place, kind, count) in &document.losses {
        lines.push(terminal.paint(WARN, &format!("lost: {} {kind} at {place}", units::count(*count))));
    }
    lines
}

/// A note keeps the lines of its own: of two ways that were refused each reason and its hint can be read whole.
fn note_lines(note: &str) -> Vec<String> {
    let lines = note.lines().filter(|line| !line.trim().is_empty());
    let indented = |(number, line)| {
        format!("{}{}", if number == 0 { "" } else { "    " }, units::clean(line, MAX_OF_A_LINE))
    };
    lines.take(MAX_LINES).enumerate().map(indented).collect()
}

/// Where they were counted.
fn cycles(process: &ProcessSummary) -> Option<String> {
    let cycles = process.cpu_cycles?;
    let hertz = cycles as f64 / process.cpu_seconds;
    let rate =
        if hertz.is_finite() { format!(", {:.2} GHz while it ran", hertz / 1e9) } else { String::new() };
    Some(format!("{:>8}  {} cycles{rate}", process.pid, units::count(cycles)))
}

/// Of a process that used the network.
fn network(process: &ProcessSummary) -> Option<String> {
    let (received, sent) = (process.network_received_bytes?, process.network_sent_bytes?);
    let connections = process.network_connections.unwrap_or(0);
    (received > 0 || sent > 0 || connections > 0).then(|| {
        format!(
            "{:>8}  received {} and sent {} by TCP, {} open",
            process.pid,
            units::bytes(received as f64),
            units::bytes(sent as f64),
            units::counted(connections, "connection")
        )
    })
}

fn row(process: &ProcessSummary, aggregation: Aggregation) -> String {
    let known =
        |value: Option<u64>, show: fn(f64) -> String| value.map_or("n/a".into(), |value| show(value as f64));
    let plain = |value: f64| units::count(value as u64);
    let percent = |value: Option<f64>| value.map_or("n/a".to_owned(), |percent| format!("{percent:.1}"));
    let cpu = &process.cpu_percent;
    let aggregated = match aggregation {
        Aggregation::Avg => Some(cpu.mean),
        Aggregation::Max => Some(cpu.max),
        Aggregation::P95 => cpu.p95,
        Aggregation::P99 => cpu.p99,
    };
    let name = units::clean(process.name.as_deref().unwrap_or("?"), 16);
    let growth = process
        .memory_slope_bytes_per_second
        .map_or("n/a".to_owned(), |slope| units::bytes_change(slope * 60.0));
    format!(
        "{:>8}  {name:<16} {:>7} {:>7} {:>9} {:>9} {:>9} {:>11} {:>7} {:>9} {:>9} {:>9} {:>9}",
        process.pid,
        percent(aggregated),
        cpu.p99.map_or("n/a".to_owned(), |p99| format!("{p99:.0}")),
        units::duration(process.cpu_seconds),
        units::bytes(process.working_set_bytes as f64),
        units::bytes(process.peak_working_set_bytes as f64),
        growth,
        known(process.peak_thread_count, plain),
        known(process.read_bytes, units::bytes),
        known(process.write_bytes, units::bytes),
        known(process.page_faults, plain),
        known(process.context_switches, plain)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression: a message of several lines was cut in the middle of its hint.
    #[test]
    fn a_note_of_several_lines_is_not_cut_into_one() {
        let note = format!("kernel: no way\n  by BPF: {}\n  hint: run as root\n\n", "x".repeat(280));
        let lines = note_lines(&note);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with("hint: run as root"), "{lines:?}");
    }
}
