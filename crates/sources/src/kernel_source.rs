//! The pipeline source for kernel events: rows for the watched processes, and their exact CPU use per millisecond.
//!
//! The millisecond resolution comes from event timestamps; the rings are drained only 20 times per second.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ortscope_core::kernel::{EventTally, FileIo, FileKind, FileOperation, KernelEvent, ThreadState, Usage};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::AnnotationRow;
use ortscope_decode::kernel_rows::KernelRows;

use crate::kernel::{CounterSum, ProgramCost, TraceBackend, TraceError, TraceOptions};
use crate::{KernelTrace, ThreadSnapshot};

/// Drain interval.
const DRAIN_NS: u64 = 50_000_000;
/// Interval for reading file I/O and counter sums.
const SUMS_EVERY_NS: u64 = 1_000_000_000;
/// Limit for sums in the summary; rows have all of them.
const MAX_FILE_SUMS: usize = 20_000;
/// The same limit for counters.
const MAX_COUNTER_SUMS: usize = 20_000;
const BUCKET_NS: u64 = 1_000_000;

/// One millisecond of a process: its CPU time on all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMilli {
    pub pid: u32,
    /// Start of its first thread; 0 if that was not observed.
    pub start_ns: u64,
    pub from_ns: u64,
    /// At most one millisecond per thread.
    pub used_ns: u32,
    /// CPU time that became known late because a switch was missed; it belongs to an unknown earlier moment.
    pub late_ns: u64,
}

/// Called for every millisecond in which a watched process ran, and for the first idle one after it.
pub type OnMilli = Box<dyn FnMut(ProcessMilli) + Send>;

/// Event counts for the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCounts {
    pub events: u64,
    pub lost: u64,
    pub recursion_misses: u64,
    /// Switches that did not continue the previous one on their processor: an event was missed.
    pub chain_breaks: u64,
}

/// Overhead of the programs of one event class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassCost {
    pub class: &'static str,
    /// Executions of its programs while overhead was measured. Programs at system calls run for every call on the
    /// machine.
    pub runs: u64,
    pub total_ns: u64,
}

/// Results and overhead of a trace that has ended.
#[derive(Debug, Clone)]
pub struct KernelSummary {
    pub backend: TraceBackend,
    pub counts: KernelCounts,
    /// Events of the whole machine.
    pub tally: EventTally,
    pub ring_bytes: usize,
    /// How long overhead was measured; 0 if it was not.
    pub measured_ns: u64,
    pub costs: Vec<ClassCost>,
    /// Watched processes: one sum per process, operation and file kind, with the id of the first thread.
    pub file_io: Vec<FileIo>,
    /// Programs and libraries that watched processes mapped.
    pub image_loads: u64,
    /// Watched processes: one sum per process and processor counter.
    pub counters: Vec<CounterSum>,
}

/// Provides the [`KernelSummary`] after the source has ended.
#[derive(Debug, Clone, Default)]
pub struct KernelHandle(Arc<Mutex<Option<KernelSummary>>>, Arc<AtomicBool>);

impl KernelHandle {
    /// `None` while the trace is running or if it could not start.
    pub fn take(&self) -> Option<KernelSummary> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the trace has started or failed to start.
    pub fn is_ready(&self) -> bool {
        self.1.load(Ordering::Acquire)
    }
}

fn by_class(programs: &[ProgramCost]) -> Vec<ClassCost> {
    let mut classes: BTreeMap<&'static str, ClassCost> = BTreeMap::new();
    for program in programs {
        let class = program.class;
        let cost = classes.entry(class).or_insert(ClassCost { class, runs: 0, total_ns: 0 });
        cost.runs += program.runs;
        cost.total_ns += program.total_ns;
    }
    classes.into_values().collect()
}

/// Traces the whole machine and reports some processes.
pub struct KernelSource {
    info: SourceInfo,
    options: TraceOptions,
    watched: Option<HashSet<u32>>,
    on_milli: Option<OnMilli>,
    handle: KernelHandle,
}

impl std::fmt::Debug for KernelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelSource").field("options", &self.options).finish_non_exhaustive()
    }
}

impl KernelSource {
    /// `watched`: these processes and their children; `None` for all.
    pub fn new(options: TraceOptions, watched: Option<HashSet<u32>>) -> Self {
        let info = SourceInfo {
            name: "kernel",
            tracks: vec!["kernel_events".to_owned()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, options, watched, on_milli: None, handle: KernelHandle::default() }
    }

    pub fn handle(&self) -> KernelHandle {
        self.handle.clone()
    }

    /// Adds a callback for the exact CPU use of the watched processes per millisecond.
    #[must_use]
    pub fn with_millis(mut self, on_milli: OnMilli) -> Self {
        self.on_milli = Some(on_milli);
        self
    }
}

impl Source for KernelSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        match KernelTrace::open(&self.options) {
            Ok(_) => Availability::Ready,
            Err(error) => {
                let (why, hint) = split(&error);
                Availability::Unavailable { why, hint: hint.unwrap_or_default() }
            }
        }
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let opened = KernelTrace::open(&self.options);
        self.handle.1.store(true, Ordering::Release);
        let mut trace = opened.map_err(|error| source_error(&error))?;
        let now_ns = control.clock().now_ns();
        for class in trace.unavailable() {
            out.unavailable(now_ns, &format!("kernel_events/{}", class.class.name()), &class.why, None);
        }
        let mut run = Run {
            rows: KernelRows::new(self.watched.clone()),
            counts: KernelCounts::default(),
            tally: EventTally::default(),
            file_io: BTreeMap::new(),
            sums_asked_ns: now_ns,
            image_loads: 0,
            counters: BTreeMap::new(),
            millis: Millis::new(now_ns, self.watched.clone()),
        };
        run.begin();
        let (mut next_ns, mut told_end) = (now_ns, false);
        loop {
            next_ns += DRAIN_NS;
            let goes_on = control.sleep_until(next_ns);
            run.drain(&mut trace, !goes_on, out);
            for note in trace.take_notes() {
                out.unavailable(control.clock().now_ns(), "kernel_events", &note, None);
            }
            if let Some(why) = trace.ended().filter(|_| goes_on && !std::mem::replace(&mut told_end, true)) {
                out.unavailable(control.clock().now_ns(), "kernel_events", why, None);
            }
            run.drain_files(&mut trace, control.clock().now_ns(), !goes_on, out);
            let settled_ns = control.clock().now_ns().saturating_sub(trace.latest_ns());
            run.millis.report(settled_ns, self.on_milli.as_mut());
            out.flush();
            if !goes_on {
                run.finish(control.clock().now_ns(), out);
                let summary = KernelSummary {
                    backend: trace.backend(),
                    counts: run.counts,
                    tally: run.tally,
                    ring_bytes: trace.ring_bytes(),
                    measured_ns: trace.measured_ns(),
                    costs: by_class(&trace.costs()),
                    file_io: run.file_io.into_values().collect(),
                    image_loads: run.image_loads,
                    counters: run
                        .counters
                        .into_iter()
                        .map(|((pid, name), value)| CounterSum { pid, name, value })
                        .collect(),
                };
                *self.handle.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
                return Ok(());
            }
            next_ns = next_ns.max(control.clock().now_ns().saturating_sub(DRAIN_NS));
        }
    }
}

struct Run {
    rows: KernelRows,
    counts: KernelCounts,
    tally: EventTally,
    file_io: BTreeMap<(u32, FileOperation, FileKind), FileIo>,
    sums_asked_ns: u64,
    image_loads: u64,
    counters: BTreeMap<(u32, String), u64>,
    millis: Millis,
}

impl Run {
    /// Reads the names and run times of existing threads.
    fn begin(&mut self) {
        let mut states: Vec<ThreadState> = Vec::new();
        // Without a snapshot, names become known as threads start.
        if let Ok(mut snapshot) = ThreadSnapshot::open()
            && snapshot.take(&mut states).is_ok()
        {
            self.millis.usage.begin(&states);
            for state in &states {
                self.rows.name(state.thread.tid, &state.name.to_string());
            }
        }
    }

    fn drain(&mut self, trace: &mut KernelTrace, is_last: bool, out: &mut Emitter) {
        let (rows, millis) = (&mut self.rows, &mut self.millis);
        let tally = &mut self.tally;
        let mut take = |event| {
            tally.count(&event);
            millis.apply(&event);
            rows.push(&event, &mut |row| out.emit(&row));
        };
        let stats = if is_last { trace.finish(&mut take) } else { trace.drain(&mut take) };
        self.counts.events += stats.events;
        self.counts.lost += stats.lost;
        self.counts.recursion_misses += stats.recursion_misses;
        self.counts.chain_breaks = millis.usage.counts().chain_breaks;
        out.lost("kernel events", stats.lost + stats.recursion_misses);
    }

    /// Reads mapped files and, once per second and at the end, the sums of file I/O and counters.
    fn drain_files(&mut self, trace: &mut KernelTrace, now_ns: u64, is_last: bool, out: &mut Emitter) {
        let (rows, loads) = (&mut self.rows, &mut self.image_loads);
        let lost = trace.drain_images(&mut |load| {
            *loads += u64::from(rows.image(&load, &mut |row| out.emit(&row)));
        });
        out.lost("mapped file records", lost);
        if !is_last && now_ns.saturating_sub(self.sums_asked_ns) < SUMS_EVERY_NS {
            return;
        }
        self.sums_asked_ns = now_ns;
        let (sums, lost) = trace.take_file_io();
        out.lost("file I/O calls beyond the limit of sums", lost);
        for io in sums {
            if !rows.file_io(now_ns, &io, &mut |row| out.emit(&row)) || self.file_io.len() >= MAX_FILE_SUMS {
                continue;
            }
            let sum = self.file_io.entry((io.thread.pid, io.operation, io.kind)).or_insert(FileIo {
                calls: 0,
                failed: 0,
                bytes: 0,
                total_ns: 0,
                longest_ns: 0,
                ..io
            });
            sum.calls += io.calls;
            sum.failed += io.failed;
            sum.bytes += io.bytes;
            sum.total_ns += io.total_ns;
            sum.longest_ns = sum.longest_ns.max(io.longest_ns);
        }
        let (counters, lost) = trace.take_counters();
        out.lost("process counters beyond the limit of sums", lost);
        for counter in counters {
            let is_watched =
                rows.counter(now_ns, counter.pid, &counter.name, counter.value, &mut |row| out.emit(&row));
            let key = (counter.pid, counter.name);
            if is_watched && (self.counters.len() < MAX_COUNTER_SUMS || self.counters.contains_key(&key)) {
                let sum = self.counters.entry(key).or_default();
                *sum = sum.saturating_add(counter.value);
            }
        }
    }

    fn finish(&self, now_ns: u64, out: &mut Emitter) {
        out.lost("thread stretches beyond the limit", self.rows.untracked());
        let KernelCounts { events, lost, recursion_misses, chain_breaks } = self.counts;
        let text = format!(
            r#"{{"events":{events},"lost":{lost},"recursion_misses":{recursion_misses},"chain_breaks":{chain_breaks}}}"#
        );
        out.emit(&AnnotationRow { timestamp_ns: now_ns, kind: "kernel".into(), text: text.into() });
        out.flush();
    }
}

/// Reports the milliseconds of processes once and in order.
struct Millis {
    usage: Usage,
    /// End of the last reported millisecond with CPU time: a gap starts with one empty millisecond, so that every
    /// stretch has an end.
    ends: HashMap<(u32, u64), u64>,
    watched: Option<HashSet<u32>>,
}

impl Millis {
    fn new(from_ns: u64, watched: Option<HashSet<u32>>) -> Self {
        Self { usage: Usage::new(BUCKET_NS, from_ns), ends: HashMap::new(), watched }
    }

    fn apply(&mut self, event: &KernelEvent) {
        // Children of watched processes are watched too.
        if let (KernelEvent::Start(start), Some(watched)) = (event, &mut self.watched)
            && watched.contains(&start.parent.pid)
        {
            watched.insert(start.thread.pid);
        }
        self.usage.apply(event);
    }

    fn report(&mut self, to_ns: u64, on_milli: Option<&mut OnMilli>) {
        let Some(on_milli) = on_milli else { return self.usage.settle(to_ns, &mut |_| {}) };
        let (ends, watched) = (&mut self.ends, &self.watched);
        let mut emit = |milli: ProcessMilli| {
            let end = ends.insert((milli.pid, milli.start_ns), milli.from_ns + BUCKET_NS);
            if let Some(from_ns) = end.filter(|end_ns| *end_ns < milli.from_ns) {
                on_milli(ProcessMilli { from_ns, used_ns: 0, late_ns: 0, ..milli });
            }
            on_milli(milli);
        };
        // Threads of a process in the same millisecond are adjacent.
        let mut open: Option<ProcessMilli> = None;
        self.usage.settle(to_ns, &mut |window| {
            let pid = window.thread.pid;
            if watched.as_ref().is_some_and(|watched| !watched.contains(&pid)) {
                return;
            }
            let start_ns = window.process_start_ns.unwrap_or(0);
            let used_ns = window.used_ns.min(BUCKET_NS) as u32;
            let late_ns = window.used_ns - u64::from(used_ns);
            let next = ProcessMilli { pid, start_ns, from_ns: window.from_ns, used_ns, late_ns };
            match &mut open {
                Some(open) if ProcessMilli { used_ns, late_ns, ..*open } == next => {
                    open.used_ns = open.used_ns.saturating_add(used_ns);
                    open.late_ns += late_ns;
                }
                open => open.replace(next).into_iter().for_each(&mut emit),
            }
        });
        open.into_iter().for_each(&mut emit);
        let settled_ns = to_ns - to_ns % BUCKET_NS;
        ends.retain(|(pid, start_ns), end_ns| {
            let goes_on = *end_ns >= settled_ns;
            if !goes_on {
                let (pid, start_ns, from_ns) = (*pid, *start_ns, *end_ns);
                on_milli(ProcessMilli { pid, start_ns, from_ns, used_ns: 0, late_ns: 0 });
            }
            goes_on
        });
    }
}

pub(crate) fn split(error: &TraceError) -> (String, Option<String>) {
    let text = error.to_string();
    match text.split_once("\n  hint: ") {
        Some((why, hint)) => (why.to_owned(), Some(hint.to_owned())),
        None => (text, None),
    }
}

pub(crate) fn source_error(error: &TraceError) -> SourceError {
    let (why, hint) = split(error);
    if error.is_permission() {
        return SourceError::Permission { what: why, hint: hint.unwrap_or_default() };
    }
    SourceError::Failed(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ortscope_core::kernel::{Switch, SwitchReason, Task};

    /// Regression: a thread with a missed switch showed up to 300% of a core in the window in which this became
    /// known.
    #[test]
    fn late_cpu_time_is_not_attributed_to_the_current_millisecond() {
        let thread = Task { tid: 7, pid: 7 };
        let mut millis = Millis::new(0, None);
        let switch = |at_ns, prev, next, prev_run_ns| {
            KernelEvent::Switch(Switch {
                at_ns,
                cpu: 0,
                prev,
                next,
                prev_run_ns,
                prev_wait_ns: None,
                prev_memory_mark: None,
                reason: SwitchReason::Preempted,
            })
        };
        millis.apply(&switch(1_000_000, thread, Task::IDLE, Some(500_000)));
        let mut reported = Vec::new();
        millis.report(200_000_000, Some(&mut (Box::new(|_| ()) as OnMilli)));
        // It ran for 150 ms after a missed switch.
        millis.apply(&switch(200_500_000, thread, Task::IDLE, Some(150_500_000)));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1000);
        let mut on_milli: OnMilli = Box::new(move |milli| sender.send(milli).expect("an open channel"));
        millis.report(202_000_000, Some(&mut on_milli));
        reported.extend(receiver.try_iter());
        assert!(reported.iter().all(|milli| milli.used_ns <= 1_000_000), "{reported:?}");
        let all: u64 = reported.iter().map(|milli| u64::from(milli.used_ns) + milli.late_ns).sum();
        assert_eq!(all, 150_000_000);
    }
}
