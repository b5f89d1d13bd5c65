//! The cost of sampling: measured every second, emitted as rows, readable from outside, and kept below the limit.

use std::sync::{Arc, Mutex, PoisonError};

use ortscope_core::pipeline::Emitter;
use ortscope_core::rate_control::{RateChange, RateControl};
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, Method, Text};

use super::backend::ProcessBackend;
use super::schedule::Schedule;

/// Measurement interval.
const PERIOD_NS: u64 = 1_000_000_000;

/// Cost of a sampler in its last full second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OwnCost {
    /// CPU time of the sampling thread and its backup per elapsed time, 1 = one core. `None` in the first second.
    pub cpu_ratio: Option<f64>,
    /// Resident memory of the whole program.
    pub memory_bytes: Option<u64>,
    /// Current and requested rate of the fastest group.
    pub rate_hertz: f64,
    pub asked_hertz: f64,
    /// Ticks more than half a period late, and skipped samples, since the start.
    pub late_ticks: u64,
    pub skipped_ticks: u64,
    /// Ticks, and emitted process samples, since the start.
    pub ticks: u64,
    pub process_samples: u64,
}

/// Reads the cost of a running sampler.
#[derive(Debug, Clone, Default)]
pub struct OwnCostHandle(Arc<Mutex<OwnCost>>);

impl OwnCostHandle {
    pub fn get(&self) -> OwnCost {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, cost: OwnCost) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cost;
    }
}

#[derive(Debug)]
pub(super) struct CostMeter {
    handle: OwnCostHandle,
    cost: OwnCost,
    since: Option<(u64, Option<u64>)>,
    /// Texts for its rows; `None` if no rows are emitted.
    texts: Option<Texts>,
}

#[derive(Debug)]
struct Texts {
    device: Text,
    source: Text,
    metrics: [Text; 5],
}

impl CostMeter {
    pub fn new(handle: OwnCostHandle, rows: bool) -> Self {
        let metrics = [
            "own_cpu_ratio",
            "own_memory_bytes",
            "sampling_hertz",
            "late_ticks_count",
            "skipped_ticks_count",
        ];
        let texts = Texts {
            device: "ortscope".into(),
            source: "process-sampler".into(),
            metrics: metrics.map(Into::into),
        };
        Self { handle, cost: OwnCost::default(), since: None, texts: rows.then_some(texts) }
    }

    pub fn count(&mut self, process_samples: u64) {
        self.cost.ticks += 1;
        self.cost.process_samples += process_samples;
    }

    /// Must be called after every tick. Once per second it measures, emits and adjusts; returns true if the rate
    /// changed.
    pub fn after_tick(
        &mut self,
        now_ns: u64,
        backup_cpu_ns: u64,
        backend: &mut dyn ProcessBackend,
        control: &mut RateControl,
        schedule: &Schedule,
        out: &mut Emitter,
    ) -> bool {
        let cpu_of_both = |of_one: Option<u64>| Some(of_one? + backup_cpu_ns);
        let Some((since_ns, cpu_then)) = self.since else {
            self.since = Some((now_ns, cpu_of_both(backend.own_cpu_ns())));
            return false;
        };
        let elapsed = now_ns.saturating_sub(since_ns);
        if elapsed < PERIOD_NS {
            return false;
        }
        let cpu_now = cpu_of_both(backend.own_cpu_ns());
        self.since = Some((now_ns, cpu_now));
        let used = cpu_now.zip(cpu_then).map(|(now, then)| now.saturating_sub(then));
        self.cost.cpu_ratio = used.map(|used| used as f64 / elapsed as f64);
        self.cost.memory_bytes = backend.own_memory_bytes();
        (self.cost.late_ticks, self.cost.skipped_ticks) = (schedule.late(), schedule.skipped());
        let change = self.cost.cpu_ratio.and_then(|ratio| control.period_cost(ratio));
        self.cost.rate_hertz = control.rate_hertz();
        self.cost.asked_hertz = control.rate_hertz() / control.factor();
        self.handle.set(self.cost);
        self.emit(now_ns, out);
        if let Some(change) = change {
            out.emit(&annotation(now_ns, change, control.limit_ratio(), self.cost.cpu_ratio));
        }
        change.is_some()
    }

    fn emit(&self, now_ns: u64, out: &mut Emitter) {
        let Some(texts) = &self.texts else {
            return;
        };
        let values = [
            self.cost.cpu_ratio,
            self.cost.memory_bytes.map(|bytes| bytes as f64),
            Some(self.cost.rate_hertz),
            Some(self.cost.late_ticks as f64),
            Some(self.cost.skipped_ticks as f64),
        ];
        for (metric, value) in texts.metrics.iter().zip(values) {
            if let Some(value) = value {
                out.emit(&DeviceSampleRow {
                    timestamp_ns: now_ns,
                    device: Arc::clone(&texts.device),
                    metric: Arc::clone(metric),
                    value,
                    source: Arc::clone(&texts.source),
                    method: Method::Measured.into(),
                });
            }
        }
    }
}

fn annotation(now_ns: u64, change: RateChange, limit: f64, cost: Option<f64>) -> AnnotationRow {
    let (from, to, why) = match change {
        RateChange::Lowered { from_hertz, to_hertz } => (from_hertz, to_hertz, "is over"),
        RateChange::Raised { from_hertz, to_hertz } => (from_hertz, to_hertz, "is well below"),
    };
    let text = format!(
        "sampling rate {from:.1} → {to:.1} Hz: its cost of {:.2} % of a core {why} the limit of {:.1} %",
        cost.unwrap_or_default() * 100.0,
        limit * 100.0
    );
    AnnotationRow { timestamp_ns: now_ns, kind: "sampling_rate".into(), text: text.into() }
}
