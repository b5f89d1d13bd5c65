//! The summary of an imported trace: the document that is kept with the recording, and sentences for people.

use ortscope_core::clock::ClockDomain;
use ortscope_core::units;
use ortscope_decode::etw::{EtwCounts, EtwDecoder, EventKind};
use ortscope_etl::{LogFileHeader, Losses};
use serde_json::{Value, json};

use super::rows::{Busy, Made};
use crate::etl_text::{loss_sentences, losses_json};

/// Maximum number of unused event kinds that the document lists; further ones are counted together.
const MAX_KINDS: usize = 1000;

/// Everything known after the last record.
#[derive(Debug)]
pub struct Facts<'a> {
    pub header: &'a LogFileHeader,
    pub clock: &'a ClockDomain,
    pub decoder: &'a EtwDecoder,
    pub made: Made,
    pub busy: &'a [Busy],
    pub records: u64,
    pub losses: &'a Losses,
    /// Items that were dropped because a table was full, and their number.
    pub dropped: &'a [(&'static str, u64)],
    pub first_unix_ns: i64,
    pub seconds: f64,
}

pub fn document(facts: &Facts<'_>) -> Value {
    let (made, counts) = (&facts.made, facts.decoder.counts());
    let coverage = facts.decoder.coverage();
    let mut unused = coverage.unused();
    unused.sort_by_key(|(kind, _, count)| (std::cmp::Reverse(*count), *kind));
    let further: u64 = unused.iter().skip(MAX_KINDS).map(|(_, _, count)| count).sum();
    let unused: Vec<Value> = unused
        .iter()
        .take(MAX_KINDS)
        .map(|(kind, reason, count)| {
            json!({"event": kind_name(*kind), "reason": reason.reason(), "count": count})
        })
        .collect();
    let busy: Vec<Value> = facts
        .busy
        .iter()
        .map(|busy| {
            json!({
                "pid": busy.pid, "name": busy.name, "samples": busy.totals.samples,
                "cpu_time_ns": (counts.kernel.switches > 0).then_some(busy.totals.run_ns),
                "threads": busy.totals.threads, "hard_faults": busy.totals.hard_faults,
                "disk_read_bytes": busy.totals.disk_read_bytes, "disk_write_bytes": busy.totals.disk_write_bytes,
                "network_sent_bytes": busy.totals.network_sent_bytes,
                "network_received_bytes": busy.totals.network_received_bytes,
            })
        })
        .collect();
    json!({
        "schema": "ortscope.import.etl/1",
        "trace": {
            "os_build": facts.header.os_build, "processors": facts.header.processors,
            "logger_name": facts.header.logger_name, "start_unix_ns": facts.first_unix_ns,
            "seconds": facts.seconds, "sample_interval_ns": facts.decoder.sample_interval_ns(),
        },
        "clock": facts.clock,
        "records": facts.records,
        "events_used": coverage.used(),
        "events_not_used": coverage.total() - coverage.used(),
        "not_used": unused,
        "not_used_of_further_kinds": further + coverage.others(),
        "rows_of": {
            "processes": made.processes, "threads": made.threads, "context_switches": counts.kernel.switches,
            "wakeups": counts.kernel.wakeups, "page_faults": counts.kernel.page_faults,
            "hard_faults": made.hard_faults, "cpu_samples": made.samples, "cpu_samples_idle": made.idle_samples,
            "cpu_samples_with_stack": made.samples_with_stack, "image_loads": made.image_loads,
            "images_listed": made.images_listed, "disk_transfers": made.disk_transfers,
            "file_operations": made.file_operations, "network_transfers": made.network_transfers,
            "interrupts": made.interrupts, "stacks_of_other_events": made.stacks_of_other_events,
            "sessions": made.sessions, "inferences": made.inferences, "operators": made.operators,
            "engine_packets": made.engine_packets, "power_events": made.power_events,
        },
        "busiest_processes": busy,
        "losses": losses_json(facts.losses),
        "left_out": facts.dropped.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
    })
}

/// Items that the decoder dropped because a table was full or because they did not match.
pub fn dropped(counts: &EtwCounts) -> Vec<(&'static str, u64)> {
    [
        ("processes and threads", counts.lives.dropped),
        ("names of processes", counts.lives.dropped_texts),
        ("frames of stacks", counts.samples.dropped_frames),
        ("stacks that came too late", counts.samples.late_stacks),
        ("stacks without their event", counts.stacks.without_owner),
        ("keys of stacks", counts.stacks.keys_dropped),
        ("events of ONNX Runtime", counts.ort.dropped),
        ("inferences without end", counts.ort.unmatched_starts),
        ("inferences without beginning", counts.ort.unmatched_stops),
        ("packets of engines", counts.dxg.dropped),
        ("packets of unknown contexts", counts.dxg.unknown_contexts),
        ("records with a wrong time", counts.wrong_times),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .collect()
}

/// The summary for people.
pub fn lines(facts: &Facts<'_>) -> Vec<String> {
    let made = &facts.made;
    let switches = facts.decoder.counts().kernel.switches;
    let coverage = facts.decoder.coverage();
    let parts = [
        (made.inferences, "inference"),
        (made.sessions, "session"),
        (made.operators, "operator event"),
        (made.processes, "process"),
        (made.threads, "thread"),
        (switches, "context switch"),
        (made.samples - made.idle_samples, "CPU sample"),
        (made.hard_faults, "hard fault"),
        (made.disk_transfers, "disk transfer"),
        (made.file_operations, "file operation"),
        (made.network_transfers, "network transfer"),
        (made.image_loads, "image load"),
        (made.images_listed, "listed image"),
        (made.engine_packets, "engine packet"),
        (made.power_events, "power event"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| units::counted(count, what))
        .collect();
    let mut lines = vec![if parts.is_empty() {
        "this trace has no events about processes, scheduling, I/O or inferences".to_owned()
    } else {
        parts.join(", ")
    }];
    lines.push(format!(
        "{} of {} events used; recordings have no table for the others",
        units::count(coverage.used()),
        units::count(facts.records)
    ));
    for busy in facts.busy.iter().take(5) {
        lines.push(busy_line(busy, switches > 0, made.samples));
    }
    lines
}

/// One sentence about the resources that a process used.
pub fn busy_line(busy: &Busy, has_switches: bool, all_samples: u64) -> String {
    let totals = &busy.totals;
    let mut text = format!("{} ({}): ", busy.name, busy.pid);
    if has_switches {
        text += &format!("{} on processors", units::nanoseconds(totals.run_ns as f64));
    } else {
        let share = totals.samples as f64 / all_samples.max(1) as f64;
        text +=
            &format!("{} ({} of all)", units::counted(totals.samples, "CPU sample"), units::percent(share));
    }
    for (bytes, what) in [
        (totals.disk_read_bytes, "read"),
        (totals.disk_write_bytes, "written"),
        (totals.network_sent_bytes, "sent"),
        (totals.network_received_bytes, "received"),
    ] {
        if bytes > 0 {
            text += &format!(", {} {what}", units::bytes(bytes as f64));
        }
    }
    text
}

/// Losses of the tracing session, damage of the file and dropped items, one sentence each.
pub fn warnings(facts: &Facts<'_>) -> Vec<String> {
    let dropped =
        facts.dropped.iter().map(|(what, count)| format!("left out: {} {what}", units::count(*count)));
    loss_sentences(facts.losses).into_iter().chain(dropped).collect()
}

fn kind_name(kind: EventKind) -> String {
    match kind {
        EventKind::Kernel { hook, version } => {
            let name = ortscope_etl::payload::kernel::hook_name(ortscope_etl::Hook(hook));
            name.map_or_else(|| format!("kernel {hook:#06x} v{version}"), |name| format!("{name} v{version}"))
        }
        EventKind::Classic { class, kind, version } => format!("class {class} type {kind} v{version}"),
        EventKind::Event { provider, id, version } => format!("provider {provider} id {id} v{version}"),
        EventKind::Message => "WPP message".to_owned(),
        EventKind::Error => "error marker".to_owned(),
    }
}
