//! AMD NPUs through driver queries: power, utilization of the columns, and submissions per process.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ortscope_decode::amdxdna::{
    CONTEXT_BYTES, QUERY_CONTEXTS, QUERY_SENSORS, SENSOR_BYTES, SensorKind, contexts, sensors,
};

use super::{Found, Missing, Reader, Reading};

const SOURCE: &str = "amdxdna";
/// Power and eight columns, with spare capacity.
const MAX_SENSORS: usize = 32;
/// The driver allows fewer.
const MAX_CONTEXTS: usize = 256;

/// Sends one query to the driver and returns the length of the response.
pub(crate) type DriverQuery = Box<dyn FnMut(u32, &mut [u8]) -> io::Result<usize> + Send>;

struct Npu {
    device: String,
    query: DriverQuery,
    /// Buffer for responses.
    buffer: Vec<u8>,
    has_sensors: bool,
    is_missing_reported: bool,
}

pub(super) fn find(file: &Path, device: String, found: &mut Found) {
    match crate::sys::amdxdna_query(file) {
        Ok(query) => found.readers.push(Box::new(Npu::new(device, query))),
        Err(error) => found.missing.push(Missing::new(
            "npu",
            format!("an AMD NPU is present, but {} cannot be opened: {error}", file.display()),
            "join the group that owns it (render), or pass /dev/accel to the container",
        )),
    }
}

impl Npu {
    fn new(device: String, query: DriverQuery) -> Self {
        let buffer = vec![0; (MAX_SENSORS * SENSOR_BYTES).max(MAX_CONTEXTS * CONTEXT_BYTES)];
        Self { device, query, buffer, has_sensors: true, is_missing_reported: false }
    }
}

impl Reader for Npu {
    fn describe(&self) -> String {
        format!("{} (amdxdna)", self.device)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut emit =
            |device: &str, metric, value| out(Reading { at_ns, device, metric, value, source: SOURCE });
        let answer = (self.query)(QUERY_SENSORS, &mut self.buffer[..MAX_SENSORS * SENSOR_BYTES]);
        match answer {
            Ok(length) if self.has_sensors => {
                let (mut columns, mut busy) = (0_u32, 0.0);
                for sensor in sensors(self.buffer.get(..length).unwrap_or_default()) {
                    match sensor.kind {
                        SensorKind::PowerWatts => emit(&self.device, "power_watts", sensor.value),
                        SensorKind::ColumnUtilization => {
                            columns += 1;
                            busy += sensor.value.clamp(0.0, 1.0);
                        }
                        SensorKind::Other(_) => {}
                    }
                }
                if columns > 0 {
                    emit(&self.device, "utilization_ratio", busy / f64::from(columns));
                }
            }
            Ok(_) => {}
            // The first generation has contexts but no sensors.
            Err(error) => {
                self.has_sensors = false;
                if !std::mem::replace(&mut self.is_missing_reported, true) {
                    lost.push(Missing::new(
                        "npu",
                        format!("{} does not report power and utilization: {error}", self.device),
                        "XDNA 2 with a 2026 driver does; submissions per process are still reported",
                    ));
                }
            }
        }
        if let Ok(length) = (self.query)(QUERY_CONTEXTS, &mut self.buffer[..MAX_CONTEXTS * CONTEXT_BYTES]) {
            let mut processes: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
            for context in contexts(self.buffer.get(..length).unwrap_or_default()) {
                let sums = processes.entry(context.pid).or_default();
                sums.0 = sums.0.saturating_add(context.submissions);
                sums.1 = sums.1.saturating_add(context.completions);
            }
            for (pid, (submissions, completions)) in processes {
                let process_device = format!("process-{pid}/{}", self.device);
                emit(&process_device, "submissions_count", submissions as f64);
                emit(&process_device, "completions_count", completions as f64);
            }
        }
    }

    fn period_ns(&self) -> u64 {
        500_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(npu: &mut Npu) -> (Vec<String>, usize) {
        let (mut readings, mut lost) = (Vec::new(), Vec::new());
        let mut out = |reading: Reading<'_>| {
            readings.push(format!("{} {} {:.2}", reading.device, reading.metric, reading.value));
        };
        npu.read(1, &mut out, &mut lost);
        (readings, lost.len())
    }

    #[test]
    fn power_column_utilization_and_process_counts_are_reported() {
        let query: DriverQuery = Box::new(|number, buffer| {
            buffer.fill(0);
            if number == QUERY_SENSORS {
                for (at, (label, value, unit, kind)) in
                    [("Total Power", 2500_u32, "mW", 0), ("Column 0", 40, "%", 1), ("Column 1", 60, "%", 1)]
                        .into_iter()
                        .enumerate()
                {
                    let one = &mut buffer[at * SENSOR_BYTES..];
                    one[..label.len()].copy_from_slice(label.as_bytes());
                    one[64..68].copy_from_slice(&value.to_le_bytes());
                    one[144..144 + unit.len()].copy_from_slice(unit.as_bytes());
                    one[161] = kind;
                }
                return Ok(3 * SENSOR_BYTES);
            }
            buffer[16..24].copy_from_slice(&77_u64.to_le_bytes());
            buffer[24..32].copy_from_slice(&9_u64.to_le_bytes());
            buffer[32..40].copy_from_slice(&8_u64.to_le_bytes());
            Ok(CONTEXT_BYTES)
        });
        let mut npu = Npu::new("npu0".to_owned(), query);
        let expected = [
            "npu0 power_watts 2.50",
            "npu0 utilization_ratio 0.50",
            "process-77/npu0 submissions_count 9.00",
            "process-77/npu0 completions_count 8.00",
        ];
        assert_eq!(read(&mut npu), (expected.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn a_driver_without_sensors_is_reported_once() {
        let mut npu = Npu::new("npu0".to_owned(), Box::new(|_, _| Err(io::ErrorKind::Unsupported.into())));
        assert_eq!((read(&mut npu), read(&mut npu)), ((vec![], 1), (vec![], 0)));
    }
}
