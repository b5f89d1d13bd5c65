//! AMD's NPU by the questions its driver answers: what it draws, how busy its columns are, which process submits work.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ortscope_decode::amdxdna::{
    CONTEXT_BYTES, QUERY_CONTEXTS, QUERY_SENSORS, SENSOR_BYTES, SensorKind, contexts, sensors,
};

use super::{Found, Missing, Reader, Reading};

const SOURCE: &str = "amdxdna";
/// Power and eight columns, with room for more.
const MAX_SENSORS: usize = 32;
/// The driver allows fewer.
const MAX_CONTEXTS: usize = 256;

/// Asks the driver one question; the answer is so long.
pub(crate) type Ask = Box<dyn FnMut(u32, &mut [u8]) -> io::Result<usize> + Send>;

struct Npu {
    device: String,
    ask: Ask,
    /// Answers are written here.
    room: Vec<u8>,
    has_sensors: bool,
    told: bool,
}

pub(super) fn find(file: &Path, device: String, found: &mut Found) {
    match crate::sys::amdxdna_questions(file) {
        Ok(ask) => found.readers.push(Box::new(Npu::new(device, ask))),
        Err(error) => found.missing.push(Missing {
            what: "npu",
            why: format!("AMD's NPU is there, but {} does not open: {error}", file.display()),
            hint: "be in the group that owns it (render), or pass /dev/accel to the container".to_owned(),
        }),
    }
}

impl Npu {
    fn new(device: String, ask: Ask) -> Self {
        let room = vec![0; (MAX_SENSORS * SENSOR_BYTES).max(MAX_CONTEXTS * CONTEXT_BYTES)];
        Self { device, ask, room, has_sensors: true, told: false }
    }
}

impl Reader for Npu {
    fn describe(&self) -> String {
        format!("{} (amdxdna)", self.device)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut tell =
            |device: &str, metric, value| out(Reading { at_ns, device, metric, value, source: SOURCE });
        let answer = (self.ask)(QUERY_SENSORS, &mut self.room[..MAX_SENSORS * SENSOR_BYTES]);
        match answer {
            Ok(length) if self.has_sensors => {
                let (mut columns, mut busy) = (0_u32, 0.0);
                for sensor in sensors(self.room.get(..length).unwrap_or_default()) {
                    match sensor.kind {
                        SensorKind::PowerWatts => tell(&self.device, "power_watts", sensor.value),
                        SensorKind::ColumnUtilization => {
                            columns += 1;
                            busy += sensor.value.clamp(0.0, 1.0);
                        }
                        SensorKind::Other(_) => {}
                    }
                }
                if columns > 0 {
                    tell(&self.device, "utilization_ratio", busy / f64::from(columns));
                }
            }
            Ok(_) => {}
            // The first generation has no sensors; contexts it has.
            Err(error) => {
                self.has_sensors = false;
                if !std::mem::replace(&mut self.told, true) {
                    lost.push(Missing {
                        what: "npu",
                        why: format!("{} does not tell its power and use: {error}", self.device),
                        hint: "XDNA 2 with a driver of 2026 does; what processes submit is told all the same"
                            .to_owned(),
                    });
                }
            }
        }
        if let Ok(length) = (self.ask)(QUERY_CONTEXTS, &mut self.room[..MAX_CONTEXTS * CONTEXT_BYTES]) {
            let mut processes: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
            for context in contexts(self.room.get(..length).unwrap_or_default()) {
                let sums = processes.entry(context.pid).or_default();
                sums.0 = sums.0.saturating_add(context.submissions);
                sums.1 = sums.1.saturating_add(context.completions);
            }
            for (pid, (submissions, completions)) in processes {
                let whose = format!("process-{pid}/{}", self.device);
                tell(&whose, "submissions_count", submissions as f64);
                tell(&whose, "completions_count", completions as f64);
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

    fn told(npu: &mut Npu) -> (Vec<String>, usize) {
        let (mut told, mut lost) = (Vec::new(), Vec::new());
        let mut out = |reading: Reading<'_>| {
            told.push(format!("{} {} {:.2}", reading.device, reading.metric, reading.value));
        };
        npu.read(1, &mut out, &mut lost);
        (told, lost.len())
    }

    #[test]
    fn power_columns_and_processes() {
        let ask: Ask = Box::new(|question, room| {
            room.fill(0);
            if question == QUERY_SENSORS {
                for (at, (label, value, unit, kind)) in
                    [("Total Power", 2500_u32, "mW", 0), ("Column 0", 40, "%", 1), ("Column 1", 60, "%", 1)]
                        .into_iter()
                        .enumerate()
                {
                    let one = &mut room[at * SENSOR_BYTES..];
                    one[..label.len()].copy_from_slice(label.as_bytes());
                    one[64..68].copy_from_slice(&value.to_le_bytes());
                    one[144..144 + unit.len()].copy_from_slice(unit.as_bytes());
                    one[161] = kind;
                }
                return Ok(3 * SENSOR_BYTES);
            }
            room[16..24].copy_from_slice(&77_u64.to_le_bytes());
            room[24..32].copy_from_slice(&9_u64.to_le_bytes());
            room[32..40].copy_from_slice(&8_u64.to_le_bytes());
            Ok(CONTEXT_BYTES)
        });
        let mut npu = Npu::new("npu0".to_owned(), ask);
        let expected = [
            "npu0 power_watts 2.50",
            "npu0 utilization_ratio 0.50",
            "process-77/npu0 submissions_count 9.00",
            "process-77/npu0 completions_count 8.00",
        ];
        assert_eq!(told(&mut npu), (expected.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn a_driver_without_sensors_says_so_once() {
        let mut npu = Npu::new("npu0".to_owned(), Box::new(|_, _| Err(io::ErrorKind::Unsupported.into())));
        assert_eq!((told(&mut npu), told(&mut npu)), ((vec![], 1), (vec![], 0)));
    }
}
