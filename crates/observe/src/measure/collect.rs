//! The sink of a measurement: keeps the data for the statistics compactly, and the worker's messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, InferenceRow, Phase, ProcessSampleRow, SystemSampleRow, TableId,
    UnavailabilityRow,
};
use ortscope_sources::MESSAGE_KIND;

use super::protocol::WorkerMessage;
use super::sensors::{MAX_SENSORS, SensorReadings};

/// Maximum number of inferences. A measurement that reaches it is stopped, and the report says so.
pub const MAX_INFERENCES: usize = 5_000_000;
/// The device name of the machine's processor load.
const MACHINE: &str = "machine";
/// Maximum number of listed device losses in one measurement.
const MAX_LOST: usize = 100;
/// Annotation kind of a device that is readable again.
const DEVICE_BACK: &str = "device_back";
/// Reasons within this time of the start mean that a device never worked.
const BEGINNING_NS: u64 = 50_000_000;
/// One inference, reduced to the analyzed fields.
#[derive(Debug, Clone, Copy)]
pub struct Inference {
    pub planned_ns: u64,
    pub start_ns: u64,
    pub copy_in_ns: u64,
    pub run_ns: u64,
    pub copy_out_ns: u64,
    pub token: Option<u32>,
    pub queue_depth: Option<u32>,
}

impl Inference {
    pub fn end_to_end_ns(&self) -> u64 {
        self.copy_in_ns + self.run_ns + self.copy_out_ns
    }

    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.end_to_end_ns()
    }
}

/// All data of one worker.
#[derive(Debug, Default)]
pub struct Collected {
    pub first: Vec<Inference>,
    /// The measured loop, in the order of arrival.
    pub steady: Vec<Inference>,
    /// Latencies of `steady`, kept separately so that the stop rule needs no copy.
    pub steady_run_ns: Vec<u64>,
    /// Decoder models: prompts (token 0) and tokens.
    pub generated: Vec<Inference>,
    /// With the operator profiler on; not part of any latency figure.
    pub profiled: Vec<Inference>,
    pub failed_inferences: u64,
    pub messages: Vec<WorkerMessage>,
    pub samples: Vec<ProcessSampleRow>,
    pub devices: CollectedDevices,
    /// Messages that could not be parsed; reported as a defect.
    pub unreadable_messages: u64,
}

/// Readings of devices, and the reasons for missing ones.
#[derive(Debug, Default)]
pub struct CollectedDevices {
    pub sensors: SensorReadings,
    /// The source of each device's energy or power.
    pub energy_sources: BTreeMap<String, String>,
    pub why_no_energy: Option<String>,
    pub why_no_counters: Option<String>,
    pub why_no_l2: Option<String>,
    /// Devices that stopped working during the measurement: when, and why.
    pub lost: Vec<(u64, String)>,
    /// Time of the first reading or reason.
    begun_ns: Option<u64>,
}

impl CollectedDevices {
    fn add(&mut self, row: &DeviceSampleRow) {
        self.begun_ns.get_or_insert(row.timestamp_ns);
        // An energy counter is more exact than a power reading, so its source wins.
        let is_better = match &*row.metric {
            "energy_joules" => {
                self.energy_sources.get(&*row.device).is_none_or(|known| *known != *row.source)
            }
            "power_watts" => !self.energy_sources.contains_key(&*row.device),
            _ => false,
        };
        if is_better && self.energy_sources.len() < MAX_SENSORS {
            self.energy_sources.insert(row.device.to_string(), row.source.to_string());
        }
        self.sensors.add(&row.device, &row.metric, row.timestamp_ns, row.value);
    }

    /// A lost device works again.
    fn back(&mut self, row: &AnnotationRow) {
        if self.lost.len() < MAX_LOST {
            self.lost.push((row.timestamp_ns, row.text.to_string()));
        }
    }

    fn miss(&mut self, row: &UnavailabilityRow) {
        if row.to_ns.is_some() {
            // The end of an earlier reason.
            return;
        }
        let hint = row.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let why = format!("{}{hint}", row.reason);
        let place = match &*row.track {
            "energy" => &mut self.why_no_energy,
            "cpu_counters" => &mut self.why_no_counters,
            "l2_hit_ratio" => &mut self.why_no_l2,
            _ => &mut None,
        };
        place.get_or_insert(why);
        // Devices that never existed are reported at the start; a later report means that a device was lost.
        let families = ["energy", "gpu", "npu", "temperature", "devices"];
        // Tracks of one sensor are named `device/metric`.
        let is_of_devices = families.contains(&&*row.track)
            || (row.track.contains('/')
                && !row.track.starts_with("process/")
                && !row.track.starts_with("kernel_events/"));
        let begun_ns = *self.begun_ns.get_or_insert(row.from_ns);
        let is_later = row.from_ns.saturating_sub(begun_ns) > BEGINNING_NS;
        if is_of_devices && is_later && self.lost.len() < MAX_LOST {
            self.lost.push((row.from_ns, row.reason.to_string()));
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

    /// Takes all data at the end.
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
                batch.rows::<DeviceSampleRow>().for_each(|row| collected.devices.add(&row));
            }
            TableId::SystemSamples => {
                for row in batch.rows::<SystemSampleRow>() {
                    if let Some(percent) = row.cpu_percent {
                        collected.devices.sensors.add(MACHINE, "cpu_percent", row.timestamp_ns, percent);
                    }
                }
            }
            TableId::Unavailability => {
                batch.rows::<UnavailabilityRow>().for_each(|row| collected.devices.miss(&row));
            }
            TableId::ProcessSamples => collected.samples.extend(batch.rows::<ProcessSampleRow>()),
            TableId::Annotations => {
                for row in batch.rows::<AnnotationRow>() {
                    if &*row.kind == DEVICE_BACK {
                        collected.devices.back(&row);
                    }
                    if &*row.kind != MESSAGE_KIND {
                        continue;
                    }
                    match serde_json::from_str(&row.text) {
                        Ok(message) => collected.messages.push(message),
                        Err(_) => collected.unreadable_messages += 1,
                    }
                }
            }
            // The pipeline counts and reports losses; other tables are only for recordings.
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
        planned_ns: row.planned_ns,
        start_ns: row.timestamp_ns,
        copy_in_ns: row.copy_in_ns,
        run_ns: row.run_ns,
        copy_out_ns: row.copy_out_ns,
        token: row.token.and_then(|token| u32::try_from(token).ok()),
        queue_depth: row.queue_depth.and_then(|depth| u32::try_from(depth).ok()),
    };
    match row.phase.known() {
        Some(Phase::First) => collected.first.push(inference),
        Some(Phase::Prefill | Phase::Token) => collected.generated.push(inference),
        Some(Phase::Profiled) => collected.profiled.push(inference),
        _ => {
            collected.steady.push(inference);
            collected.steady_run_ns.push(inference.run_ns);
        }
    }
}
