//! The sink of what devices and the machine tell, to be joined with inferences by time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ortscope_analyze::correlation::{Around, Sensor, around, is_joined};
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{DeviceSampleRow, SystemSampleRow, TableId};

/// Readings of all sensors together (64 MB): 100 of them for more than an hour. Later ones are not kept.
const MAX_READINGS: usize = 4_000_000;
/// What the processors of the machine do is a sensor of its own.
const MACHINE: &str = "machine";

/// Readings by device and metric, in the order of time.
#[derive(Debug, Default)]
pub struct Readings {
    sensors: BTreeMap<(String, String), Vec<(u64, f64)>>,
    kept: usize,
    /// When the first reading came that found no room.
    pub full_at_ns: Option<u64>,
}

impl Readings {
    pub fn iter(&self) -> impl Iterator<Item = (&(String, String), &Vec<(u64, f64)>)> {
        self.sensors.iter()
    }

    /// What belongs to a stretch of time.
    pub fn around(&self, start_ns: u64, end_ns: u64) -> Vec<Around> {
        let sensors: Vec<Sensor<'_>> =
            self.iter().map(|((device, metric), readings)| Sensor { device, metric, readings }).collect();
        around(&sensors, start_ns, end_ns)
    }

    fn add(&mut self, device: &str, metric: &str, at_ns: u64, value: f64) {
        if !is_joined(metric) {
            return;
        }
        if self.kept >= MAX_READINGS {
            self.full_at_ns.get_or_insert(at_ns);
            return;
        }
        self.kept += 1;
        let readings = self.sensors.entry((device.to_owned(), metric.to_owned())).or_default();
        // Sources of their own threads may be a moment late.
        let place = readings.partition_point(|(known_ns, _)| *known_ns <= at_ns);
        readings.insert(place, (at_ns, value));
    }
}

/// Shared by the pipeline and the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Sensors(Arc<Mutex<Readings>>);

impl Sensors {
    /// Takes everything, at the end.
    pub fn take(&self) -> Readings {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Sensors {
    fn name(&self) -> &str {
        "sensors"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match batch.table() {
            TableId::DeviceSamples => {
                for row in batch.rows::<DeviceSampleRow>() {
                    readings.add(&row.device, &row.metric, row.timestamp_ns, row.value);
                }
            }
            TableId::SystemSamples => {
                for row in batch.rows::<SystemSampleRow>() {
                    if let Some(percent) = row.cpu_percent {
                        readings.add(MACHINE, "cpu_percent", row.timestamp_ns, percent);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_joined_and_late_ones_put_in_order() {
        let mut sensors = Sensors::default();
        let mut batch = Batch::new(TableId::DeviceSamples);
        for (at_ns, value) in [(100_000_000, 0.5), (300_000_000, 0.1), (200_000_000, 0.9)] {
            let (device, metric) = ("gpu0".into(), "utilization_ratio".into());
            batch.push(&DeviceSampleRow {
                timestamp_ns: at_ns,
                device,
                metric,
                value,
                ..DeviceSampleRow::default()
            });
        }
        sensors.consume(&batch).unwrap();
        let mut batch = Batch::new(TableId::SystemSamples);
        for at_ns in [100_000_000, 200_000_000] {
            batch.push(&SystemSampleRow {
                timestamp_ns: at_ns,
                cpu_percent: Some(40.0),
                ..SystemSampleRow::default()
            });
        }
        sensors.consume(&batch).unwrap();
        let readings = sensors.take();
        let found = readings.around(120_000_000, 130_000_000);
        let seen: Vec<(&str, f64)> = found.iter().map(|one| (one.device.as_str(), one.value)).collect();
        assert_eq!(seen, [("gpu0", 0.9), ("machine", 40.0)]);
        assert!(sensors.take().iter().next().is_none());
    }
}
