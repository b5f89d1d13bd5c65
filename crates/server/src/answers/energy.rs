//! `/energy`: power, energy, temperature and throttling over a range.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_analyze::measurement::DeviceReadings;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, KernelEventKind, KernelEventRow, TableId, Text};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{Sensors, Unavailable, end_to_end_ns};
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use super::timeline::reasons as timeline_reasons;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_SENSORS: usize = 200;

/// Power, energy, temperature and throttling.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Energy {
    #[serde(flatten)]
    pub about: About,
    pub power_w: Option<PowerFigures>,
    pub joules: Option<f64>,
    pub joules_per_inference: Option<f64>,
    pub inferences_per_watt: Option<f64>,
    pub flops_per_watt: Option<f64>,
    /// Joules × the configured grams per kilowatt hour; null if that is not configured.
    pub carbon_grams: Option<f64>,
    pub carbon_grams_per_kwh: Option<f64>,
    pub temperatures: Vec<TemperatureFigures>,
    pub throttling: Option<Throttling>,
    /// Tracks for /metrics/history.
    pub tracks: Vec<String>,
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PowerFigures {
    pub mean: f64,
    pub max: f64,
    pub last: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TemperatureFigures {
    pub device: Text,
    pub mean_celsius: f64,
    pub max_celsius: f64,
    pub last_celsius: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Throttling {
    pub events: u64,
    pub total_ms: f64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    count: u64,
    sum: f64,
    max: f64,
    last: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.count += 1;
        self.sum += value;
        self.last = value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

pub fn energy(app: &App, asked: &Asked) -> Result<Energy, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let tables = source.tables();
    let scan = Scan { from_ns: Some(range.0), to_ns: Some(range.1), every_tick: true, ..Scan::all() };
    let (mut sensors, mut power) = (Sensors::default(), Sum::default());
    let mut readings = DeviceReadings::default();
    let (mut joules, mut last_ns) = (0.0, None::<u64>);
    let mut heat: BTreeMap<Text, Sum> = BTreeMap::new();
    let mut tracks: BTreeSet<String> = BTreeSet::new();
    for batch in tables.scan(TableId::DeviceSamples, &scan) {
        for row in batch?.rows::<DeviceSampleRow>().filter(|row| row.value.is_finite()) {
            sensors.add(&row);
            readings.add(&row);
            let is_power = &*row.metric == "power_watts";
            if is_power && let Some(watts) = sensors.power_w(row.timestamp_ns) {
                if let Some(last) = last_ns {
                    joules += watts * row.timestamp_ns.saturating_sub(last) as f64 / 1e9;
                }
                last_ns = Some(row.timestamp_ns);
                power.add(watts);
            }
            let is_heat = row.metric.ends_with("temperature_celsius");
            if is_heat && (heat.len() < MAX_SENSORS || heat.contains_key(&row.device)) {
                heat.entry(Text::clone(&row.device)).or_default().add(row.value);
            }
            if (is_power || is_heat) && tracks.len() < MAX_SENSORS {
                tracks.insert(ortscope_core::live::TrackId::device(&row.device, &row.metric).to_string());
            }
        }
    }
    let (mut inferences, mut busy_s) = (0_u64, 0.0);
    for batch in tables.scan(TableId::Inferences, &Scan { every_tick: false, ..scan.clone() }) {
        for row in batch?.rows::<InferenceRow>().filter(|row| row.ok) {
            inferences += 1;
            busy_s += end_to_end_ns(&row) as f64 / 1e9;
        }
    }
    let (mut throttles, mut throttled_ns) = (0_u64, 0_u64);
    if tables.row_count(TableId::KernelEvents) > 0 {
        for batch in tables.scan(TableId::KernelEvents, &Scan { every_tick: false, ..scan }) {
            for row in batch?.rows::<KernelEventRow>().filter(|row| row.kind == KernelEventKind::Throttle) {
                throttles += 1;
                throttled_ns = throttled_ns.saturating_add(row.duration_ns.unwrap_or(0));
            }
        }
    }
    // Devices count throttling themselves; the same function judges the measured loop of a run.
    let heat_report = readings.heat(range);
    for throttled in &heat_report.throttled {
        throttles += throttled.times.unwrap_or(1);
        throttled_ns = throttled_ns.saturating_add((throttled.milliseconds.unwrap_or(0.0) * 1e6) as u64);
    }
    let is_watched = throttles > 0 || heat_report.is_watched;
    let has_power = power.count > 0;
    let per_inference = (has_power && inferences > 0).then(|| power.mean() * busy_s / inferences as f64);
    let reasons = timeline_reasons(&source)?;
    let at = range.1.saturating_sub(1);
    let mut unavailable = Unavailable::default();
    let mut missing = |field: &str, is_there: bool, otherwise: &str| {
        if !is_there {
            let reason = reasons.why(&format!("energy.{field}"), at).unwrap_or(otherwise);
            unavailable.insert(field, reason);
        }
    };
    let no_power = "no power was recorded; `ortscope doctor` lists the options";
    missing("power_w", has_power, no_power);
    missing("joules", has_power, no_power);
    let why = if has_power { "no inferences in this time" } else { no_power };
    missing("joules_per_inference", per_inference.is_some(), why);
    missing("inferences_per_watt", per_inference.is_some(), why);
    let flops_per_inference = if has_power { flops_per_run(&source)? } else { None };
    let flops_per_watt = flops_per_inference.zip(per_inference.filter(|joules| *joules > 0.0));
    let flops_per_watt = flops_per_watt.map(|(flops, joules)| flops / joules);
    let no_flops = "the operators of the model were not profiled, so its FLOPs are unknown";
    missing("flops_per_watt", flops_per_watt.is_some(), if has_power { no_flops } else { no_power });
    let grams = app.carbon_grams_per_kwh;
    let no_grams = "set the grams of CO2 per kilowatt hour: `ortscope serve --carbon GRAMS`";
    missing("carbon_grams", has_power && grams.is_some(), if has_power { no_grams } else { no_power });
    missing("temperatures", !heat.is_empty(), "no temperature sensor was read");
    missing("throttling", is_watched, "no source reports throttling");
    let temperature = |(device, sum): (Text, Sum)| TemperatureFigures {
        device,
        mean_celsius: sum.mean(),
        max_celsius: sum.max,
        last_celsius: sum.last,
    };
    Ok(Energy {
        about: About::new(&source, range),
        power_w: has_power.then(|| PowerFigures { mean: power.mean(), max: power.max, last: power.last }),
        joules: has_power.then_some(joules),
        joules_per_inference: per_inference,
        inferences_per_watt: per_inference.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules),
        flops_per_watt,
        carbon_grams: grams.filter(|_| has_power).map(|grams| joules / 3.6e6 * grams),
        carbon_grams_per_kwh: grams,
        temperatures: heat.into_iter().map(temperature).collect(),
        throttling: is_watched.then(|| Throttling { events: throttles, total_ms: throttled_ns as f64 / 1e6 }),
        tracks: tracks.into_iter().collect(),
        unavailable,
    })
}

/// FLOPs of one inference, if all measurements of the source agree on them.
fn flops_per_run(source: &Source) -> Result<Option<f64>, ApiError> {
    let runs = ortscope_result::runs(source.tables(), None)?;
    let mut known =
        runs.iter().filter_map(|run| run.operators.as_ref()).map(|section| section.flops.flops_per_run);
    let first = known.next().filter(|flops| *flops > 0);
    Ok(first.filter(|first| known.all(|other| other == *first)).map(|flops| flops as f64))
}
