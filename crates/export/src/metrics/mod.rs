//! Rows as metrics: few series with few labels, for systems that watch many machines.
//!
//! [`Metrics`] takes rows as they come, of a live pipeline or of a recording, and gives [`Family`]s: counters, gauges,
//! histograms and summaries. Prometheus's text ([`exposition`]), its remote write and OTLP are written of the same
//! families, so that the same question has the same answer everywhere.
//!
//! Labels are model, provider, device, kind and severity, never the name of a node or the id of a session: their number
//! grows with use, and a time series lives for weeks. What is that fine is in Parquet. The number of series is bounded;
//! what is beyond goes to the label `other` and is counted.

mod exposition;
mod families;
mod inferences;
pub(crate) mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    DeviceSampleRow, FindingRow, InferenceRow, LossRow, OperatorKind, OperatorRow, ProcessSampleRow,
    SessionRow, SystemSampleRow, TableId, Text,
};

pub use exposition::exposition;
pub(crate) use exposition::write;
pub use families::{Family, Histogram, Kind, Point, Summary, Value};
use inferences::Inferences;
pub use inferences::Window;

use crate::wire::end_to_end_ns;

/// Pairs of model and provider; each is some 30 series.
const MAX_MODELS: usize = 250;
/// Sensors of devices, each a series.
const MAX_SENSORS: usize = 1_000;
/// Kinds of losses and severities, each a series.
const MAX_KINDS: usize = 100;
/// Sessions and processes that are remembered.
const MAX_SESSIONS: usize = 10_000;
/// A label that is longer is cut.
const MAX_LABEL_CHARS: usize = 200;
const OTHER: &str = "other";
const UNKNOWN: &str = "unknown";

/// Tables that become metrics.
pub(crate) const TABLES: &[TableId] = &[
    TableId::Inferences,
    TableId::Operators,
    TableId::SystemSamples,
    TableId::DeviceSamples,
    TableId::ProcessSamples,
    TableId::Losses,
    TableId::Findings,
];

/// Model and execution provider.
type ModelKey = (Text, Text);

#[derive(Debug, Clone)]
struct Session {
    model: Text,
    provider: Text,
}

#[derive(Debug, Clone, Copy, Default)]
struct OperatorSums {
    count: u64,
    nanos: u128,
}

#[derive(Debug, Clone)]
struct ProcessNow {
    cpu_time_ns: u64,
    working_set_bytes: u64,
    private_bytes: Option<u64>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Metrics {
    window: Window,
    sessions: BTreeMap<Text, Session>,
    model_of_pid: BTreeMap<u64, Text>,
    inferences: BTreeMap<ModelKey, Inferences>,
    operators: BTreeMap<ModelKey, OperatorSums>,
    system: Option<SystemSampleRow>,
    sensors: BTreeMap<(Text, Text), f64>,
    processes: BTreeMap<(u64, u64), ProcessNow>,
    losses: BTreeMap<Text, u64>,
    findings: BTreeMap<Text, u64>,
    /// Rows that had to share a label with others, or had none.
    pub left_out: u64,
}

/// Cut, so that nobody's text makes a series of a megabyte.
fn label(text: &Text) -> Text {
    match text.char_indices().nth(MAX_LABEL_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default().into(),
        None if text.is_empty() => UNKNOWN.into(),
        None => Arc::clone(text),
    }
}

/// The entry of a key, or that of `other` when there are too many.
fn bounded<'m, K: Ord + Clone, V: Default>(
    map: &'m mut BTreeMap<K, V>,
    key: K,
    other: impl FnOnce() -> K,
    most: usize,
    left_out: &mut u64,
) -> &'m mut V {
    if map.len() >= most && !map.contains_key(&key) {
        *left_out += 1;
        return map.entry(other()).or_default();
    }
    map.entry(key).or_default()
}

impl Metrics {
    /// `window` is what percentiles are of.
    pub fn new(window: Window) -> Self {
        Self { window, ..Self::default() }
    }

    /// Takes rows of any table; those that tell nothing are passed over.
    pub fn take(&mut self, batch: &Batch) {
        match batch.table() {
            TableId::Sessions => batch.rows().for_each(|row| self.session(&row)),
            TableId::Inferences => batch.rows().for_each(|row| self.inference(&row)),
            TableId::Operators => batch.rows().for_each(|row| self.operator(&row)),
            TableId::SystemSamples => self.system = batch.rows().last().or(self.system.take()),
            TableId::DeviceSamples => batch.rows().for_each(|row| self.sensor(&row)),
            TableId::ProcessSamples => batch.rows().for_each(|row| self.process(&row)),
            TableId::Losses => batch.rows().for_each(|row: LossRow| {
                let left_out = &mut self.left_out;
                *bounded(&mut self.losses, label(&row.kind), || OTHER.into(), MAX_KINDS, left_out) +=
                    row.count;
            }),
            TableId::Findings => batch.rows().for_each(|row: FindingRow| {
                let left_out = &mut self.left_out;
                *bounded(
                    &mut self.findings,
                    label(row.severity.text()),
                    || OTHER.into(),
                    MAX_KINDS,
                    left_out,
                ) += 1;
            }),
            _ => {}
        }
    }

    fn session(&mut self, row: &SessionRow) {
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&row.session_id) {
            self.left_out += 1;
            return;
        }
        let first = row.execution_providers.split(',').next().unwrap_or_default().trim();
        let session = Session { model: label(&row.model_name), provider: label(&first.into()) };
        if let Some(pid) = row.pid {
            self.model_of_pid.insert(pid, Arc::clone(&session.model));
        }
        self.sessions.insert(Arc::clone(&row.session_id), session);
    }

    fn key(&self, session_id: &Text) -> ModelKey {
        match self.sessions.get(session_id) {
            Some(session) => (Arc::clone(&session.model), Arc::clone(&session.provider)),
            None => (UNKNOWN.into(), UNKNOWN.into()),
        }
    }

    fn inference(&mut self, row: &InferenceRow) {
        let key = self.key(&row.session_id);
        let other = || (OTHER.into(), OTHER.into());
        let sums = bounded(&mut self.inferences, key, other, MAX_MODELS, &mut self.left_out);
        sums.add(row.timestamp_ns, end_to_end_ns(row), row.run_ns, row.ok, self.window);
    }

    fn operator(&mut self, row: &OperatorRow) {
        // What is beside the operators contains them: it would be counted twice.
        if row.kind != OperatorKind::Operator {
            return;
        }
        let key = (self.key(&row.session_id).0, label(&row.execution_provider));
        let other = || (OTHER.into(), OTHER.into());
        let sums = bounded(&mut self.operators, key, other, MAX_MODELS, &mut self.left_out);
        sums.count += 1;
        sums.nanos += u128::from(row.duration_ns);
    }

    fn sensor(&mut self, row: &DeviceSampleRow) {
        // Single processors and our own cost are for the dashboard of one machine.
        if !row.value.is_finite() || &*row.metric == "busy_ratio" || row.device.starts_with("ortscope") {
            return;
        }
        let key = (label(&row.device), label(&row.metric));
        if self.sensors.len() >= MAX_SENSORS && !self.sensors.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.sensors.insert(key, row.value);
    }

    fn process(&mut self, row: &ProcessSampleRow) {
        // Only those that have a session: the others are not what a fleet is watched for.
        if !self.model_of_pid.contains_key(&row.pid) {
            return;
        }
        let key = (row.pid, row.process_start);
        if self.processes.len() >= MAX_SESSIONS && !self.processes.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let now = ProcessNow {
            cpu_time_ns: row.cpu_time_ns,
            working_set_bytes: row.working_set_bytes,
            private_bytes: row.private_bytes,
        };
        self.processes.insert(key, now);
    }

    /// A new window of percentiles begins.
    pub(crate) fn begin_window(&mut self) {
        self.inferences.values_mut().for_each(Inferences::begin_window);
    }

    /// Everything, by name.
    pub fn families(&self) -> Vec<Family> {
        TABLES.iter().flat_map(|table| self.families_of(*table)).collect()
    }

    /// What comes of the rows of one table.
    pub(crate) fn families_of(&self, table: TableId) -> Vec<Family> {
        let mut families = match table {
            TableId::Inferences => families::inferences(&self.inferences),
            TableId::Operators => families::operators(
                self.operators.iter().map(|(key, sums)| (key, sums.count, sums.nanos as f64 / 1e9)),
            ),
            TableId::SystemSamples => families::system(self.system.as_ref()),
            TableId::DeviceSamples => families::sensors(&self.sensors),
            TableId::ProcessSamples => self.process_families(),
            TableId::Losses => families::losses(&self.losses),
            TableId::Findings => families::findings(&self.findings),
            _ => Vec::new(),
        };
        families.retain(|family| !family.points.is_empty());
        families
    }

    /// Processes of one model together.
    fn process_families(&self) -> Vec<Family> {
        let mut by_model: BTreeMap<&Text, (f64, f64, Option<f64>)> = BTreeMap::new();
        for ((pid, _), now) in &self.processes {
            let Some(model) = self.model_of_pid.get(pid) else { continue };
            let sums = by_model.entry(model).or_insert((0.0, 0.0, Some(0.0)));
            sums.0 += now.cpu_time_ns as f64 / 1e9;
            sums.1 += now.working_set_bytes as f64;
            // A sum with a part missing is not the sum.
            sums.2 = sums.2.zip(now.private_bytes).map(|(sum, bytes)| sum + bytes as f64);
        }
        families::processes(&by_model)
    }
}
