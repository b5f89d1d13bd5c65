//! Power, energy, heat and throttling over a range.

use std::collections::BTreeMap;

use ortscope_core::schema::{DeviceSampleRow, InferenceRow, KernelEventRow, TableId, Text};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{Sensors, end_to_end_ns};
use serde_json::{Value, json};

use super::timeline::reasons as timeline_reasons;
use super::{Answer, about, number, optional};
use crate::app::{App, Asked};
use crate::error::ApiError;

const MAX_SENSORS: usize = 200;

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

pub fn energy(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let tables = source.tables();
    let scan = Scan { from_ns: Some(range.0), to_ns: Some(range.1), every_tick: true, ..Scan::all() };
    let (mut sensors, mut power) = (Sensors::default(), Sum::default());
    let (mut joules, mut last_ns) = (0.0, None::<u64>);
    let mut heat: BTreeMap<Text, Sum> = BTreeMap::new();
    let mut tracks: BTreeMap<String, ()> = BTreeMap::new();
    for batch in tables.scan(TableId::DeviceSamples, &scan) {
        for row in batch?.rows::<DeviceSampleRow>().filter(|row| row.value.is_finite()) {
            sensors.add(&row);
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
                tracks.insert(ortscope_core::live::TrackId::device(&row.device, &row.metric).to_string(), ());
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
            for row in batch?.rows::<KernelEventRow>().filter(|row| &*row.kind == "throttle") {
                throttles += 1;
                throttled_ns = throttled_ns.saturating_add(row.duration_ns.unwrap_or(0));
            }
        }
    }
    let has_power = power.count > 0;
    let per_inference = (has_power && inferences > 0).then(|| power.mean() * busy_s / inferences as f64);
    let reasons = timeline_reasons(&source)?;
    let at = range.1.saturating_sub(1);
    let mut unavailable: BTreeMap<&str, String> = BTreeMap::new();
    let mut missing = |field: &'static str, is_there: bool, otherwise: &str| {
        if !is_there {
            let reason = reasons.why(&format!("energy.{field}"), at).unwrap_or(otherwise);
            unavailable.insert(field, reason.to_owned());
        }
    };
    let no_power = "no power was recorded; `ortscope doctor` says what would measure it here";
    missing("power_w", has_power, no_power);
    missing("joules", has_power, no_power);
    let why = if has_power { "no inferences in this time" } else { no_power };
    missing("joules_per_inference", per_inference.is_some(), why);
    missing("inferences_per_watt", per_inference.is_some(), why);
    missing(
        "flops_per_watt",
        false,
        if has_power { "the model's FLOPs are not known here" } else { no_power },
    );
    let grams = app.carbon_grams_per_kwh;
    let no_grams = "say how many grams a kilowatt hour costs where you are: `ortscope serve --carbon GRAMS`";
    missing("carbon_grams", has_power && grams.is_some(), if has_power { no_grams } else { no_power });
    missing("temperatures", !heat.is_empty(), "no thermometer was read");
    missing("throttling", throttles > 0, "no source told of throttling");
    let temperatures: Vec<Value> = heat
        .iter()
        .map(|(device, sum)| {
            json!({
                "device": device, "mean_celsius": number(sum.mean()), "max_celsius": number(sum.max),
                "last_celsius": number(sum.last),
            })
        })
        .collect();
    let mut answer = about(&source, range);
    let power_json = has_power.then(
        || json!({ "mean": number(power.mean()), "max": number(power.max), "last": number(power.last) }),
    );
    let carbon = grams.filter(|_| has_power).map(|grams| joules / 3.6e6 * grams);
    for (name, value) in [
        ("power_w", power_json.unwrap_or_default()),
        ("joules", optional(has_power.then_some(joules))),
        ("joules_per_inference", optional(per_inference)),
        (
            "inferences_per_watt",
            optional(per_inference.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules)),
        ),
        ("flops_per_watt", Value::Null),
        ("carbon_grams", optional(carbon)),
        ("carbon_grams_per_kwh", optional(grams)),
        ("temperatures", temperatures.into()),
        (
            "throttling",
            if throttles > 0 {
                json!({ "events": throttles, "total_ms": number(throttled_ns as f64 / 1e6) })
            } else {
                Value::Null
            },
        ),
        ("tracks", json!(tracks.keys().collect::<Vec<_>>())),
        ("unavailable", json!(unavailable)),
    ] {
        answer.insert(name.into(), value);
    }
    Answer::json(&answer)
}
