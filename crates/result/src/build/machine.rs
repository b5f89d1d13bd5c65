//! Series of the whole machine and of its devices.

use std::collections::BTreeMap;

use ortscope_core::schema::{DeviceSampleRow, SystemSampleRow, TableId, Text};
use ortscope_core::tables::Scan;

use super::explain::Explainer;
use super::reader::Reader;
use super::thin::{Intervals, SeriesName};
use crate::{ReportError, Series, SeriesUnit};
use ortscope_core::units::clean;

/// Sensors that are shown.
const MAX_SENSORS: usize = 48;

pub(super) fn system(reader: &mut Reader<'_>, explainer: &mut Explainer) -> Result<Vec<Series>, ReportError> {
    let mut series: [Intervals; 4] = Default::default();
    let mut last: Option<(u64, Option<u64>)> = None;
    // One row per tick is little here, and means need every tick.
    let scan = Scan { every_tick: true, ..Scan::all() };
    reader.each_batch(TableId::SystemSamples, &scan, |batch| {
        for row in batch.rows::<SystemSampleRow>() {
            let now = row.timestamp_ns;
            let before = last.replace((now, row.context_switches));
            let lasted = before.map_or(0, |(before, _)| now.saturating_sub(before));
            if lasted > 0 {
                explainer.machine_interval(now - lasted, now, row.cpu_percent, row.cpu_frequency_hertz);
            }
            let switches = before
                .and_then(|(_, before)| Some(row.context_switches?.saturating_sub(before?)))
                .filter(|_| lasted > 0)
                .map(|switches| switches as f64 * 1e9 / lasted as f64);
            let values = [
                row.cpu_percent,
                row.memory_used_bytes.map(|bytes| bytes as f64),
                row.cpu_frequency_hertz,
                switches,
            ];
            for (series, value) in series.iter_mut().zip(values) {
                value.into_iter().for_each(|value| series.add(now, value, lasted));
            }
        }
    })?;
    let names = [
        ("cpu_percent", SeriesUnit::Percent, "measured, share of all processors"),
        ("memory_used_bytes", SeriesUnit::Bytes, "measured, read"),
        ("cpu_frequency_hertz", SeriesUnit::Hertz, "measured, mean of the processors"),
        (
            "context_switches_per_second",
            SeriesUnit::PerSecond,
            "measured, derived from totals of the machine",
        ),
    ];
    Ok(series
        .into_iter()
        .zip(names)
        .filter_map(|(intervals, (metric, unit, method))| {
            let name = SeriesName {
                of: "machine".to_owned(),
                metric: metric.to_owned(),
                unit,
                source: "system_samples".to_owned(),
                method: method.to_owned(),
            };
            intervals.series(name, |time_ns| reader.seconds(time_ns))
        })
        .collect())
}

/// Series by device and metric, and how many sensors were left out.
pub(super) fn devices(reader: &mut Reader<'_>) -> Result<(Vec<Series>, u64), ReportError> {
    struct Sensor {
        intervals: Intervals,
        source: Text,
        method: Text,
        last_ns: Option<u64>,
    }
    let mut sensors: BTreeMap<(Text, Text), Sensor> = BTreeMap::new();
    let mut left_out = std::collections::BTreeSet::new();
    let scan = Scan { every_tick: true, ..Scan::all() };
    reader.each_batch(TableId::DeviceSamples, &scan, |batch| {
        for row in batch.rows::<DeviceSampleRow>() {
            let key = (row.device, row.metric);
            if !sensors.contains_key(&key) && sensors.len() >= MAX_SENSORS {
                if left_out.len() < 100_000 {
                    left_out.insert(key);
                }
                continue;
            }
            let sensor = sensors.entry(key).or_insert_with(|| Sensor {
                intervals: Intervals::default(),
                source: row.source,
                method: row.method.text().clone(),
                last_ns: None,
            });
            let last = sensor.last_ns.replace(row.timestamp_ns).unwrap_or(row.timestamp_ns);
            sensor.intervals.add(row.timestamp_ns, row.value, row.timestamp_ns.saturating_sub(last));
        }
    })?;
    let series = sensors.into_iter().filter_map(|((device, metric), sensor)| {
        let name = SeriesName {
            of: clean(&device, 60),
            metric: clean(&metric, 60),
            unit: unit_of(&metric),
            source: clean(&sensor.source, 60),
            method: clean(&sensor.method, 60),
        };
        sensor.intervals.series(name, |time_ns| reader.seconds(time_ns))
    });
    Ok((series.collect(), left_out.len() as u64))
}

/// The unit stands at the end of a metric's name.
fn unit_of(metric: &str) -> SeriesUnit {
    let endings = [
        ("percent", SeriesUnit::Percent),
        ("ratio", SeriesUnit::Ratio),
        ("bytes", SeriesUnit::Bytes),
        ("hertz", SeriesUnit::Hertz),
        ("watts", SeriesUnit::Watts),
        ("joules", SeriesUnit::Joules),
        ("celsius", SeriesUnit::Celsius),
        ("per_second", SeriesUnit::PerSecond),
        ("count", SeriesUnit::Count),
    ];
    endings.iter().find(|(ending, _)| metric.ends_with(ending)).map_or(SeriesUnit::Other, |(_, unit)| *unit)
}
