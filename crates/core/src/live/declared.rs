//! Which tracks come from which columns: the one declarative table of the live memory. A new track starts here.

use crate::schema::{TableId, Unit};

/// How the value of a track comes out of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Derive {
    /// The column itself.
    Value(&'static str),
    /// Sum of some columns less the sum of others, in whole numbers; not below zero.
    Sum { plus: &'static [&'static str], minus: &'static [&'static str] },
    /// 1 for every row: only the count of the buckets matters.
    One,
    /// One column in percent of another.
    PercentOf(&'static str, &'static str),
    /// A counter's growth per second since the row before.
    PerSecond(&'static str),
    /// A counter of nanoseconds: its growth in percent of the time since the row before; 100 = one core.
    PercentOfTime(&'static str),
}

/// Which rows have the track: those where this column is true, is false, or has a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Only {
    True(&'static str),
    False(&'static str),
    Present(&'static str),
}

#[derive(Debug)]
pub(super) struct TrackDef {
    pub metric: &'static str,
    pub unit: Unit,
    pub doc: &'static str,
    pub derive: Derive,
    pub only: &'static [Only],
}

const fn track(metric: &'static str, unit: Unit, derive: Derive, doc: &'static str) -> TrackDef {
    TrackDef { metric, unit, doc, derive, only: &[] }
}

const fn track_if(
    metric: &'static str,
    unit: Unit,
    derive: Derive,
    only: &'static [Only],
    doc: &'static str,
) -> TrackDef {
    TrackDef { metric, unit, doc, derive, only }
}

const OK: Only = Only::True("ok");

#[rustfmt::skip]
static SESSION: &[TrackDef] = &[
    track_if("latency_ns", Unit::Nanoseconds, Derive::Value("run_ns"), &[OK],
        "The call into ONNX Runtime alone, of inferences that succeeded."),
    track_if("end_to_end_ns", Unit::Nanoseconds,
        Derive::Sum { plus: &["copy_in_ns", "run_ns", "copy_out_ns"], minus: &[] }, &[OK],
        "Copying in, the call and copying out, of inferences that succeeded."),
    track_if("response_ns", Unit::Nanoseconds,
        Derive::Sum { plus: &["timestamp_ns", "copy_in_ns", "run_ns", "copy_out_ns"], minus: &["planned_ns"] },
        &[OK, Only::Present("queue_depth")],
        "From the planned start to the end, waiting included, of open-loop inferences that succeeded."),
    track("queue_depth", Unit::Count, Derive::Value("queue_depth"),
        "Requests waiting when this one started, in open-loop scenarios."),
    track_if("failures", Unit::Count, Derive::One, &[Only::False("ok")],
        "One for each inference that failed: the count of a bucket is what matters."),
];

#[rustfmt::skip]
static SYSTEM: &[TrackDef] = &[
    track("cpu_percent", Unit::Percent, Derive::Value("cpu_percent"), "Busy share of all processors."),
    track("memory_used_bytes", Unit::Bytes, Derive::Value("memory_used_bytes"), "Physical memory in use."),
    track("memory_percent", Unit::Percent, Derive::PercentOf("memory_used_bytes", "memory_total_bytes"),
        "Physical memory in use, of all there is."),
    track("swap_used_bytes", Unit::Bytes, Derive::Value("swap_used_bytes"), "Swap or page file in use."),
    track("context_switches_per_second", Unit::Hertz, Derive::PerSecond("context_switches"),
        "Context switches of the machine per second."),
    track("interrupts_per_second", Unit::Hertz, Derive::PerSecond("interrupts"),
        "Interrupts of the machine per second."),
    track("process_count", Unit::Count, Derive::Value("process_count"), "Processes alive."),
    track("cpu_frequency_hertz", Unit::Hertz, Derive::Value("cpu_frequency_hertz"),
        "Mean frequency of the processors."),
];

#[rustfmt::skip]
static PROCESS: &[TrackDef] = &[
    // The first one is the load by which the busiest processes are found.
    track("cpu_percent", Unit::Percent, Derive::PercentOfTime("cpu_time_ns"),
        "CPU time since the sample before; 100 is one core."),
    track("working_set_bytes", Unit::Bytes, Derive::Value("working_set_bytes"), "Resident memory."),
    track("private_bytes", Unit::Bytes, Derive::Value("private_bytes"), "Memory of this process alone."),
    track("thread_count", Unit::Count, Derive::Value("thread_count"), "Threads alive."),
    track("handle_count", Unit::Count, Derive::Value("handle_count"), "Open handles or file descriptors."),
    track("read_bytes_per_second", Unit::Bytes, Derive::PerSecond("read_bytes"), "Bytes read per second."),
    track("write_bytes_per_second", Unit::Bytes, Derive::PerSecond("write_bytes"), "Bytes written per second."),
    track("context_switches_per_second", Unit::Hertz, Derive::PerSecond("context_switches"),
        "Context switches of all its threads per second."),
    track("page_faults_per_second", Unit::Hertz, Derive::PerSecond("page_faults"), "Page faults of all kinds per second."),
];

static DEVICE: &[TrackDef] =
    &[track("", Unit::None, Derive::Value("value"), "A reading of one sensor of a device.")];

/// The tables that have tracks, the columns that identify the owner, and the tracks.
pub(super) static TABLES: &[(TableId, &[&str], &[TrackDef])] = &[
    (TableId::Inferences, &["session_id"], SESSION),
    (TableId::SystemSamples, &[], SYSTEM),
    (TableId::ProcessSamples, &["pid", "process_start", "cpu_time_ns"], PROCESS),
    (TableId::DeviceSamples, &["device", "metric", "source", "method"], DEVICE),
];

/// Most tracks a row can have.
pub(super) const MAX_TRACKS: usize = 9;
/// Index of the process track with the CPU load.
pub(super) const LOAD_TRACK: usize = 0;

/// The unit given by the suffix of a device metric's name.
pub fn unit_of_metric(metric: &str) -> Unit {
    let units = [
        ("_watts", Unit::Watts),
        ("_joules", Unit::Joules),
        ("_ratio", Unit::Ratio),
        ("_percent", Unit::Percent),
        ("_hertz", Unit::Hertz),
        ("_bytes", Unit::Bytes),
        ("_ns", Unit::Nanoseconds),
        ("_ms", Unit::Milliseconds),
        ("_count", Unit::Count),
    ];
    units.iter().find(|(end, _)| metric.ends_with(end)).map_or(Unit::None, |(_, unit)| *unit)
}
