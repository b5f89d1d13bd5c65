//! The sink of a measurement: keeps what the statistics need, compactly, and the worker's messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_analyze::energy::Readings;
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, InferenceRow, ProcessSampleRow, TableId, UnavailabilityRow,
};
use ortscope_sources::MESSAGE_KIND;

use super::protocol::WorkerMessage;

/// Inferences kept. A measurement that reaches it is stopped, and the report says so.
pub const MAX_INFERENCES: usize = 5_000_000;
/// Readings of one counter of energy: a day at ten a second.
const MAX_READINGS: usize = 864_000;

/// One inference, reduced to what is analysed.
#[derive(Debug, Clone, Copy)]
pub struct Inference {
    pub planned_nanos: u64,
    pub start_nanos: u64,
    pub copy_in_nanos: u64,
    pub run_nanos: u64,
    pub copy_out_nanos: u64,
    pub token: Option<u32>,
    pub queue_depth: Option<u32>,
}

impl Inference {
    pub fn end_to_end_nanos(&self) -> u64 {
        self.copy_in_nanos + self.run_nanos + self.copy_out_nanos
    }

    pub fn end_nanos(&self) -> u64 {
        self.start_nanos + self.end_to_end_nanos()
    }
}

/// Everything a worker gave.
#[derive(Debug, Default)]
pub struct Collected {
    pub first: Vec<Inference>,
    /// The measured loop, in the order of arrival.
    pub steady: Vec<Inference>,
    /// Latencies of `steady`, kept beside it so that the stop rule can look without copying.
    pub steady_run_nanos: Vec<u64>,
    /// Decoder models: prompts (token 0) and tokens.
    pub generated: Vec<Inference>,
    /// With the operator profiler on: in no figure of latency.
    pub profiled: Vec<Inference>,
    pub failed_inferences: u64,
    pub messages: Vec<WorkerMessage>,
    pub samples: Vec<ProcessSampleRow>,
    pub energy: CollectedEnergy,
    /// Messages that could not be read: a defect, and reported as one.
    pub unreadable_messages: u64,
}

/// Counters of energy, and why there are none.
#[derive(Debug, Default)]
pub struct CollectedEnergy {
    pub meters: BTreeMap<String, Readings>,
    pub source: String,
    pub why_not: Option<String>,
}

impl CollectedEnergy {
    fn add(&mut self, row: &DeviceSampleRow) {
        if &*row.metric != "energy_joules" {
            return;
        }
        if self.source.is_empty() {
            self.source = row.source.to_string();
        }
        let readings = self.meters.entry(row.device.to_string()).or_default();
        if readings.len() < MAX_READINGS {
            readings.push((row.timestamp_ns, row.value));
        }
    }
}

impl Collected {
    pub fn inferences(&self) -> usize {
        self.steady.len() + self.generated.len()
    }
}

/// Shared by the sink and the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Collector(Arc<Mutex<Collected>>);

impl Collector {
    pub fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything, at the end.
    pub fn take(&self) -> Collected {
        std::mem::take(&mut *self.lock())
    }
}

impl Sink for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut collected = self.lock();
        match batch.table() {
            TableId::Inferences => {
                for row in batch.rows::<InferenceRow>() {
                    keep(&mut collected, &row);
                }
            }
            TableId::DeviceSamples => {
                batch.rows::<DeviceSampleRow>().for_each(|row| collected.energy.add(&row));
            }
            TableId::Unavailability => {
                for row in batch.rows::<UnavailabilityRow>().filter(|row| &*row.track == "energy") {
                    let hint = row.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
                    collected.energy.why_not.get_or_insert_with(|| format!("{}{hint}", row.reason));
                }
            }
            TableId::ProcessSamples => collected.samples.extend(batch.rows::<ProcessSampleRow>()),
            TableId::Annotations => {
                for row in batch.rows::<AnnotationRow>().filter(|row| &*row.kind == MESSAGE_KIND) {
                    match serde_json::from_str(&row.text) {
                        Ok(message) => collected.messages.push(message),
                        Err(_) => collected.unreadable_messages += 1,
                    }
                }
            }
            // Losses are counted by the pipeline and reported from there; the rest is for recordings.
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

fn keep(collected: &mut Collected, row: &InferenceRow) {
    if !row.ok {
        collected.failed_inferences += 1;
        return;
    }
    let inference = Inference {
        planned_nanos: row.planned_ns,
        start_nanos: row.timestamp_ns,
        copy_in_nanos: row.copy_in_ns,
        run_nanos: row.run_ns,
        copy_out_nanos: row.copy_out_ns,
        token: row.token.and_then(|token| u32::try_from(token).ok()),
        queue_depth: row.queue_depth.and_then(|depth| u32::try_from(depth).ok()),
    };
    match &*row.phase {
        "first" => collected.first.push(inference),
        "prefill" | "token" => collected.generated.push(inference),
        "profiled" => collected.profiled.push(inference),
        _ => {
            collected.steady.push(inference);
            collected.steady_run_nanos.push(inference.run_nanos);
        }
    }
}
