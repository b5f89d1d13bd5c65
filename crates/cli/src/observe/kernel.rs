//! What was asked of the kernel: how many events came, how many did not, and what each class of them costs the watched.

use std::collections::BTreeMap;

use ortscope_sources::KernelSummary;
use ortscope_sources::kernel::{CounterSum, TraceBackend};
use serde::Serialize;

use ortscope_core::units;

/// Sums of file I/O that the text shows.
const MAX_FILE_LINES: usize = 8;
/// Processes whose counters the text shows.
const MAX_COUNTER_LINES: usize = 8;

#[derive(Debug, Serialize)]
pub struct Kernel {
    /// bpf, perf_rings or etw.
    pub backend: &'static str,
    /// Of the whole machine, by kind.
    pub events: BTreeMap<&'static str, u64>,
    pub lost: u64,
    pub recursion_misses: u64,
    /// Switches that did not continue the one before on their processor.
    pub chain_breaks: u64,
    pub ring_bytes: usize,
    /// For how long the costs were measured.
    pub cost_measured_seconds: f64,
    pub costs: Vec<Cost>,
    /// With the class `files`, of the watched processes.
    pub file_io: Vec<FileSum>,
    /// With the class `images`: programs and libraries that watched processes mapped.
    pub image_loads: u64,
    /// With `--counters`, of the watched processes.
    pub counters: Vec<Counter>,
}

/// What a process counted by a counter of the processor.
#[derive(Debug, Serialize)]
pub struct Counter {
    pub pid: u32,
    pub name: String,
    pub value: u64,
}

/// All calls of one kind by one process.
#[derive(Debug, Serialize)]
pub struct FileSum {
    pub pid: u32,
    /// read, write, open or sync.
    pub operation: &'static str,
    /// What the files are: file, pipe, socket, …
    pub kind: &'static str,
    pub calls: u64,
    pub failed: u64,
    pub bytes: u64,
    /// Inside the calls, of all threads together.
    pub seconds: f64,
    pub longest_seconds: f64,
}

/// What a class costs those whose events it sees, measured by the kernel around each run of its programs.
#[derive(Debug, Serialize)]
pub struct Cost {
    pub class: &'static str,
    pub runs_per_second: f64,
    /// With the two readings of the clock that measure it.
    pub nanoseconds_per_run: f64,
    /// Of all processors together, in percent of one.
    pub core_percent: f64,
}

impl From<KernelSummary> for Kernel {
    fn from(summary: KernelSummary) -> Self {
        let tally = summary.tally;
        let events = [
            ("switches", tally.switches),
            ("wakeups", tally.wakeups),
            ("migrations", tally.migrations),
            ("starts", tally.starts),
            ("execs", tally.execs),
            ("exits", tally.exits),
            ("page_faults", tally.page_faults),
            ("block_io", tally.block_io),
            ("memory_calls", tally.memory_calls),
        ];
        let seconds = summary.measured_ns as f64 / 1e9;
        let measured = summary.costs.iter().filter(|cost| cost.runs > 0 && seconds > 0.0);
        let cost = |cost: &ortscope_sources::ClassCost| Cost {
            class: cost.class,
            runs_per_second: cost.runs as f64 / seconds,
            nanoseconds_per_run: cost.total_ns as f64 / cost.runs as f64,
            core_percent: cost.total_ns as f64 / 1e9 / seconds * 100.0,
        };
        Self {
            backend: match summary.backend {
                TraceBackend::Bpf => "bpf",
                TraceBackend::PerfRing => "perf_rings",
                TraceBackend::Etw => "etw",
            },
            events: events.into_iter().collect(),
            lost: summary.counts.lost,
            recursion_misses: summary.counts.recursion_misses,
            chain_breaks: summary.counts.chain_breaks,
            ring_bytes: summary.ring_bytes,
            cost_measured_seconds: seconds,
            costs: measured.map(cost).collect(),
            file_io: summary
                .file_io
                .iter()
                .map(|io| FileSum {
                    pid: io.thread.pid,
                    operation: io.operation.name(),
                    kind: io.kind.name(),
                    calls: io.calls,
                    failed: io.failed,
                    bytes: io.bytes,
                    seconds: io.total_ns as f64 / 1e9,
                    longest_seconds: io.longest_ns as f64 / 1e9,
                })
                .collect(),
            image_loads: summary.image_loads,
            counters: summary
                .counters
                .into_iter()
                .map(|CounterSum { pid, name, value }| Counter { pid, name, value })
                .collect(),
        }
    }
}

/// The lines of the summary.
pub fn lines(kernel: &Kernel) -> Vec<String> {
    let total: u64 = kernel.events.values().sum();
    let mut head =
        format!("{} by {}", units::counted(total, "kernel event"), kernel.backend.replace('_', " "));
    let missed = kernel.lost + kernel.recursion_misses;
    if missed + kernel.chain_breaks > 0 {
        let (missed, breaks) = (units::count(missed), units::count(kernel.chain_breaks));
        head += &format!(", {missed} missed, {breaks} breaks in the chain of switches");
    }
    let mut lines = vec![head];
    let mut files: Vec<&FileSum> = kernel.file_io.iter().collect();
    files.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    for sum in files.into_iter().take(MAX_FILE_LINES) {
        lines.push(format!(
            "{:>8}  {} {}: {} calls, {}, {} inside, longest {}",
            sum.pid,
            sum.operation,
            sum.kind,
            units::count(sum.calls),
            units::bytes(sum.bytes as f64),
            units::nanoseconds(sum.seconds * 1e9),
            units::nanoseconds(sum.longest_seconds * 1e9)
        ));
    }
    for counters in kernel.counters.chunk_by(|one, other| one.pid == other.pid).take(MAX_COUNTER_LINES) {
        let values: Vec<String> =
            counters.iter().map(|one| format!("{} {}", one.name, units::count(one.value))).collect();
        lines.push(format!("{:>8}  {}", counters[0].pid, values.join(", ")));
    }
    if kernel.image_loads > 0 {
        lines.push(format!("{} of programs and libraries", units::counted(kernel.image_loads, "mapping")));
    }
    if !kernel.costs.is_empty() {
        let cost = |cost: &Cost| {
            format!("{} {:.0} ns ({:.3} %)", cost.class, cost.nanoseconds_per_run, cost.core_percent)
        };
        let costs: Vec<String> = kernel.costs.iter().map(cost).collect();
        lines.push(format!("cost per run, and of one core together: {}", costs.join(", ")));
    }
    lines
}
