//! The rows of one measurement, reduced to what its result needs. The same code takes them from a running worker and from
//! a recording, so both give the same result.

mod devices;
mod sensors;

use std::collections::{BTreeMap, HashSet};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, InferenceRow, Phase, ProcessSampleRow, SystemSampleRow, TableId, Text,
    UnavailabilityRow,
};
use ortscope_core::tables::{ReadError, Scan, Tables};

pub use devices::{CounterReport, DeviceReport, HeatReport, Hottest};
pub use sensors::{MAX_SENSORS, SensorReadings};

use crate::facts::{Fact, FactRecord, MeasurementPlan, Outcome};

/// The maximum number of inferences of a measurement. One that reaches it is stopped, and the report says so.
pub const MAX_INFERENCES: usize = 5_000_000;
/// The processors of the machine as a sensor.
const MACHINE: &str = "machine";
/// The maximum number of lost devices that are listed.
const MAX_LOST: usize = 100;
/// The annotation kind of devices that can be read again.
const DEVICE_BACK: &str = "device_back";
/// Reasons within this time of the first reading belong to the beginning.
const BEGINNING_NS: u64 = 50_000_000;

/// A scan is given up after this many damaged batches: a reader that always fails must not keep us forever.
const MAX_DAMAGED: usize = 10_000;

/// One inference, reduced to what is analyzed.
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

/// Everything that a measurement left.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    pub first: Vec<Inference>,
    /// The measured loop, in the order of arrival.
    pub steady: Vec<Inference>,
    /// Latencies of `steady`, kept separately so that the stop rule need not copy them.
    pub steady_run_ns: Vec<u64>,
    /// Decoder models: prompts (token 0) and tokens.
    pub generated: Vec<Inference>,
    /// Runs with the operator profiler on; they are in no latency figure.
    pub profiled: Vec<Inference>,
    pub failed_inferences: u64,
    pub facts: Vec<Fact>,
    pub samples: Vec<ProcessSampleRow>,
    pub devices: DeviceReadings,
    /// Facts that could not be read: a defect, and reported as one.
    pub unreadable_facts: u64,
}

impl Measurement {
    pub fn inferences(&self) -> usize {
        self.steady.len() + self.generated.len()
    }

    pub fn plan(&self) -> Option<&MeasurementPlan> {
        self.facts.iter().find_map(|fact| match fact {
            Fact::Plan(plan) => Some(&**plan),
            _ => None,
        })
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Outcome(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// Takes the rows of a batch that belong to the measurement, all of whose rows the source emits.
    pub fn take(&mut self, batch: &Batch) {
        self.take_where(batch, |_| true, |_| true);
    }

    /// Takes the rows of some sessions and processes.
    fn take_where(&mut self, batch: &Batch, of_session: impl Fn(&str) -> bool, of_pid: impl Fn(u64) -> bool) {
        match batch.table() {
            TableId::Inferences => {
                let rows = batch.rows::<InferenceRow>().filter(|row| of_session(&row.session_id));
                rows.for_each(|row| self.keep(&row));
            }
            TableId::DeviceSamples => {
                batch.rows::<DeviceSampleRow>().for_each(|row| self.devices.add(&row));
            }
            TableId::SystemSamples => {
                for row in batch.rows::<SystemSampleRow>() {
                    if let Some(percent) = row.cpu_percent {
                        self.devices.sensors.add(MACHINE, "cpu_percent", row.timestamp_ns, percent);
                    }
                }
            }
            TableId::Unavailability => {
                batch.rows::<UnavailabilityRow>().for_each(|row| self.devices.miss(&row));
            }
            TableId::ProcessSamples => {
                self.samples.extend(batch.rows::<ProcessSampleRow>().filter(|row| of_pid(row.pid)));
            }
            TableId::Annotations => {
                for row in batch.rows::<AnnotationRow>() {
                    if &*row.kind == DEVICE_BACK {
                        self.devices.back(&row);
                    }
                    match FactRecord::read(&row) {
                        Some(Ok(record)) if of_session(&record.session_id) => self.facts.push(record.fact),
                        Some(Err(_)) => self.unreadable_facts += 1,
                        Some(Ok(_)) | None => {}
                    }
                }
            }
            // The pipeline counts losses and reports them in the outcome; the rest is for recordings.
            _ => {}
        }
    }

    fn keep(&mut self, row: &InferenceRow) {
        if !row.ok {
            self.failed_inferences += 1;
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
            Some(Phase::First) => self.first.push(inference),
            Some(Phase::Prefill | Phase::Token) => self.generated.push(inference),
            Some(Phase::Profiled) => self.profiled.push(inference),
            _ => {
                self.steady.push(inference);
                self.steady_run_ns.push(inference.run_ns);
            }
        }
    }

    /// The measurements in a recording, in the order of their plans.
    pub fn read_all(tables: &dyn Tables) -> Result<Vec<Self>, ReadError> {
        let mut plans: Vec<(u64, MeasurementPlan)> = Vec::new();
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        each_readable(tables, TableId::Annotations, &Scan::all(), |batch| {
            for row in batch.rows::<AnnotationRow>() {
                let Some(Ok(record)) = FactRecord::read(&row) else { continue };
                match record.fact {
                    Fact::Plan(plan) => plans.push((row.timestamp_ns, *plan)),
                    Fact::Outcome(_) => drop(ends.insert(record.session_id, row.timestamp_ns)),
                    _ => {}
                }
            }
        })?;
        plans.sort_by_key(|(from_ns, plan)| (plan.position, *from_ns));
        plans.into_iter().map(|(from_ns, plan)| Self::read(tables, from_ns, &plan, &ends)).collect()
    }

    fn read(
        tables: &dyn Tables,
        from_ns: u64,
        plan: &MeasurementPlan,
        ends: &BTreeMap<String, u64>,
    ) -> Result<Self, ReadError> {
        let sessions: HashSet<&str> = plan.session_ids.iter().map(String::as_str).collect();
        let end_ns = plan.session_ids.first().and_then(|id| ends.get(id)).map(|end_ns| end_ns + 1);
        let mut measurement = Self::default();
        let scan = Scan { from_ns: Some(from_ns), every_tick: true, ..Scan::all() };
        let pids: HashSet<u64> = plan.pid.into_iter().collect();
        for table in [
            TableId::Annotations,
            TableId::Inferences,
            TableId::ProcessSamples,
            TableId::SystemSamples,
            TableId::DeviceSamples,
            TableId::Unavailability,
        ] {
            // Windows and operators are learned after the outcome.
            let to_ns = end_ns.filter(|_| table != TableId::Annotations);
            each_readable(tables, table, &Scan { to_ns, ..scan.clone() }, |batch| {
                measurement.take_where(batch, |id| sessions.contains(id), |pid| pids.contains(&pid));
            })?;
        }
        Ok(measurement)
    }
}

/// The readings of devices, and why some are missing.
#[derive(Debug, Clone, Default)]
pub struct DeviceReadings {
    pub sensors: SensorReadings,
    /// The source of the energy or power of each device.
    pub energy_sources: BTreeMap<String, String>,
    pub why_no_energy: Option<String>,
    pub why_no_counters: Option<String>,
    pub why_no_l2: Option<String>,
    /// Devices that vanished or stopped responding: when, and why.
    pub lost: Vec<(u64, String)>,
    /// When the first device reported something, or why it does not.
    begun_ns: Option<u64>,
}

impl DeviceReadings {
    pub fn add(&mut self, row: &DeviceSampleRow) {
        self.begun_ns.get_or_insert(row.timestamp_ns);
        // A counter is better than a power: where a device has both, its source is the one that counts.
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

    /// A lost device can be read again.
    fn back(&mut self, row: &AnnotationRow) {
        if self.lost.len() < MAX_LOST {
            self.lost.push((row.timestamp_ns, row.text.to_string()));
        }
    }

    fn miss(&mut self, row: &UnavailabilityRow) {
        if row.to_ns.is_some() {
            // The end of an interval that was reported before.
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
        // A device that never worked is reported at the beginning; one that is reported later was there, or seemed to be.
        let families: [&str; 5] = ["energy", "gpu", "npu", "temperature", "devices"];
        // The track of one sensor is its device and metric.
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

/// Hands on the batches that can be read. Damage is reported by whoever shows the recording; here the rest still counts.
fn each_readable(
    tables: &dyn Tables,
    table: TableId,
    scan: &Scan,
    mut see: impl FnMut(&Batch),
) -> Result<(), ReadError> {
    let mut damaged = 0;
    for batch in tables.scan(table, scan) {
        match batch {
            Ok(batch) => see(&batch),
            Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
            Err(_) if damaged < MAX_DAMAGED => damaged += 1,
            Err(_) => break,
        }
    }
    Ok(())
}

/// The session identifier of a measurement: its first session's.
pub fn session_id(plan: &MeasurementPlan) -> Text {
    plan.session_ids.first().map_or_else(Text::default, |id| id.as_str().into())
}
