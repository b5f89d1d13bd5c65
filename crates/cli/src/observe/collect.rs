//! The sink behind the summary: what each process did, and its spikes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_analyze::processes::{Processes, SpikeFinder};
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{
    AnnotationRow, InferenceRow, KernelEventKind, KernelEventRow, OperatorRow, ProcessRow, ProcessSampleRow,
    SessionRow, TableId, UnavailabilityRow,
};
use ortscope_sources::ProcessMilli;
use serde::Serialize;

use super::inferences::Inferences;
use ortscope_core::units;

/// Reasons that are kept.
const MAX_UNAVAILABLE: usize = 100;
/// Processes whose scheduling is summed up.
const MAX_PROCESSES: usize = 20_000;

#[derive(Debug, Default)]
pub struct Collected {
    pub processes: Processes,
    pub spikes: Option<SpikeFinder>,
    /// The last sample of every process: spikes are between two of them.
    last: HashMap<(u64, u64), (u64, u64)>,
    /// Metrics without a value: which, why, how to get them.
    pub unavailable: Vec<UnavailabilityRow>,
    pub notes: Vec<String>,
    /// Of the watched processes that are instrumented.
    pub inferences: Inferences,
    /// Spikes come from kernel events.
    has_millis: bool,
    /// What the kernel did to each process.
    pub scheduling: HashMap<u64, Scheduling>,
}

/// Sums over the threads of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Scheduling {
    /// Times another thread was preferred, and for how long together.
    pub preemptions: u64,
    pub preempted_seconds: f64,
    /// Times it waited for something.
    pub waits: u64,
    /// Time in which threads could run and had no processor.
    pub delay_seconds: f64,
    pub longest_delay_seconds: f64,
    pub migrations: u64,
    pub page_faults: u64,
    pub hard_faults: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Collector(Arc<Mutex<Collected>>);

impl Collector {
    pub fn new(spike_percent: Option<f64>) -> Self {
        let collected = Collected { spikes: spike_percent.map(SpikeFinder::new), ..Collected::default() };
        Self(Arc::new(Mutex::new(collected)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Collected {
        std::mem::take(&mut *self.lock())
    }
}

impl Sink for Collector {
    fn name(&self) -> &str {
        "summary"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut collected = self.lock();
        match batch.table() {
            TableId::ProcessSamples => {
                batch.rows::<ProcessSampleRow>().for_each(|row| collected.sample(&row));
            }
            TableId::Processes => {
                batch.rows::<ProcessRow>().for_each(|row| collected.processes.note(&row));
            }
            TableId::KernelEvents => {
                batch.rows::<KernelEventRow>().for_each(|row| collected.kernel_event(&row));
            }
            TableId::Unavailability => {
                // The end of an interval is told as an event too.
                for row in batch.rows::<UnavailabilityRow>().filter(|row| row.to_ns.is_none()) {
                    if collected.unavailable.len() < MAX_UNAVAILABLE {
                        collected.unavailable.push(row);
                    }
                }
            }
            TableId::Annotations => {
                batch.rows::<AnnotationRow>().for_each(|row| collected.annotation(&row));
            }
            TableId::Inferences => {
                batch.rows::<InferenceRow>().for_each(|row| collected.inferences.inference(&row));
            }
            TableId::Sessions => {
                batch.rows::<SessionRow>().for_each(|row| collected.inferences.note(row));
            }
            TableId::Operators => {
                batch.rows::<OperatorRow>().for_each(|row| collected.inferences.operator(&row));
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

impl Collected {
    /// The progress text.
    pub fn status(&self) -> String {
        let processes = units::counted(self.processes.len() as u64, "process");
        match self.inferences.count() {
            0 => processes,
            count => format!("{processes}  {}", units::counted(count, "inference")),
        }
    }

    pub fn milli(&mut self, milli: ProcessMilli) {
        self.has_millis = true;
        if let Some(spikes) = &mut self.spikes {
            let process = (u64::from(milli.pid), milli.start_ns);
            spikes.window(process, milli.from_ns, milli.from_ns + 1_000_000, u64::from(milli.used_ns));
        }
    }

    fn annotation(&mut self, row: &AnnotationRow) {
        if &*row.kind != "rate" {
            self.inferences.mark(&row.kind);
        }
        // The others are many, and on the time line.
        let is_note = matches!(
            &*row.kind,
            "rate"
                | "error"
                | "profile"
                | "provider_fallback"
                | "profiling_unavailable"
                | "device"
                | "device_back"
                | "clock"
        );
        if is_note && self.notes.len() < MAX_UNAVAILABLE && !self.notes.iter().any(|note| **note == *row.text)
        {
            self.notes.push(row.text.to_string());
        }
    }

    fn kernel_event(&mut self, row: &KernelEventRow) {
        let Some(pid) = row.pid else { return };
        let Some(
            kind @ (KernelEventKind::ContextSwitch
            | KernelEventKind::Wait
            | KernelEventKind::Migration
            | KernelEventKind::PageFault
            | KernelEventKind::HardFault),
        ) = row.kind.known()
        else {
            return;
        };
        if self.scheduling.len() >= MAX_PROCESSES && !self.scheduling.contains_key(&pid) {
            return;
        }
        let of = self.scheduling.entry(pid).or_default();
        let delay = row.value.unwrap_or(0) as f64 / 1e9;
        match kind {
            KernelEventKind::ContextSwitch => {
                of.preemptions += 1;
                of.preempted_seconds += row.duration_ns.unwrap_or(0) as f64 / 1e9;
            }
            KernelEventKind::Wait => of.waits += 1,
            KernelEventKind::Migration => of.migrations += 1,
            KernelEventKind::PageFault => of.page_faults += 1,
            KernelEventKind::HardFault => of.hard_faults += 1,
            _ => {}
        }
        if matches!(kind, KernelEventKind::ContextSwitch | KernelEventKind::Wait) {
            of.delay_seconds += delay;
            of.longest_delay_seconds = of.longest_delay_seconds.max(delay);
        }
    }

    fn sample(&mut self, row: &ProcessSampleRow) {
        self.processes.add(row);
        // Kernel events tell the same to the millisecond.
        let Some(spikes) = self.spikes.as_mut().filter(|_| !self.has_millis) else { return };
        let process = (row.pid, row.process_start);
        let before = self.last.insert(process, (row.timestamp_ns, row.cpu_time_ns));
        if let Some((from_ns, used_ns)) = before {
            spikes.window(process, from_ns, row.timestamp_ns, row.cpu_time_ns.saturating_sub(used_ns));
        }
    }
}
