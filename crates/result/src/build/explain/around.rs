//! What devices and the machine did around slow inferences.

use std::collections::BTreeMap;

use ortscope_analyze::correlation::{Around, Sensor, around, is_joined};
use ortscope_core::schema::{DeviceSampleRow, SystemSampleRow, TableId, Text};
use ortscope_core::tables::Scan;

use super::super::reader::Reader;
use super::windows::Window;
use crate::ReportError;
use ortscope_core::units::clean;

/// Readings farther away than this cannot matter: the longest mean that is joined, and a little.
const REACH_NS: u64 = 2_500_000_000;
/// Sensors that are looked at.
const MAX_SENSORS: usize = 2_000;

/// The readings that belong to an inference.
pub(super) fn of(reader: &mut Reader<'_>, window: &Window) -> Result<Vec<Around>, ReportError> {
    let mut sensors: BTreeMap<(Text, Text), Vec<(u64, f64)>> = BTreeMap::new();
    let scan = Scan {
        from_ns: Some(window.start_ns.saturating_sub(REACH_NS)),
        to_ns: Some(window.end_ns.saturating_add(REACH_NS)),
        every_tick: true,
        ..Scan::all()
    };
    let mut add = |device: Text, metric: Text, at_ns: u64, value: f64| {
        let key = (device, metric);
        if is_joined(&key.1) && (sensors.len() < MAX_SENSORS || sensors.contains_key(&key)) {
            sensors.entry(key).or_default().push((at_ns, value));
        }
    };
    reader.each_batch(TableId::DeviceSamples, &scan, |batch| {
        for row in batch.rows::<DeviceSampleRow>() {
            add(row.device, row.metric, row.timestamp_ns, row.value);
        }
    })?;
    reader.each_batch(TableId::SystemSamples, &scan, |batch| {
        for row in batch.rows::<SystemSampleRow>() {
            if let Some(percent) = row.cpu_percent {
                add("machine".into(), "cpu_percent".into(), row.timestamp_ns, percent);
            }
        }
    })?;
    for readings in sensors.values_mut() {
        readings.sort_by_key(|(at_ns, _)| *at_ns);
    }
    let sensors: Vec<Sensor<'_>> =
        sensors.iter().map(|((device, metric), readings)| Sensor { device, metric, readings }).collect();
    let mut found = around(&sensors, window.start_ns, window.end_ns);
    for one in &mut found {
        (one.device, one.metric) = (clean(&one.device, 60), clean(&one.metric, 60));
    }
    Ok(found)
}
