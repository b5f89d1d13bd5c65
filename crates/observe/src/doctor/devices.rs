//! Reads every device as a measurement would, so that only working devices are listed.

use std::collections::BTreeMap;
use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_sources::devices::{Found, Missing, Reading};

use super::{Check, State};
use ortscope_core::units;

/// Checks devices other than the processors: their current readings, or why there are none. Also returns the names of GPUs
/// and NPUs.
pub fn device_checks() -> (Vec<Check>, Vec<String>) {
    let mut found = crate::devices::found();
    ortscope_sources::devices::process_counters(&[std::process::id()], &mut found);
    let described: Vec<String> = found.readers.iter().map(|reader| reader.describe()).collect();
    let mut lost = Vec::new();
    let mut now = look(&mut found, &mut lost);
    let readers = described.iter().map(|text| {
        let shows = now.remove(text).filter(|shows| !shows.is_empty());
        let shows = shows.map(|shows| format!(": {}", shows.join(", "))).unwrap_or_default();
        Check {
            name: "devices",
            state: State::Ok,
            text: units::clean(&format!("{text}{shows}"), 200),
            hint: None,
        }
    });
    let readers: Vec<Check> = readers.collect();
    let missing = found.missing.iter().chain(&lost).map(|missing| Check {
        name: missing.what,
        state: State::Warning,
        text: missing.why.clone(),
        hint: Some(missing.hint.clone()),
    });
    let checks = readers.into_iter().chain(missing).collect();
    let is_accelerator = |text: &String| text.starts_with("gpu") || text.starts_with("npu");
    (checks, described.into_iter().filter(is_accelerator).collect())
}

/// Reads every device several times and keeps the last readings. Power is a difference of energy, for which half a second
/// is enough.
fn look(found: &mut Found, lost: &mut Vec<Missing>) -> BTreeMap<String, Vec<String>> {
    const ROUNDS: u64 = 5;
    /// Limit per reader, because a machine may have a hundred processors.
    const MAX_SHOWN: usize = 4;
    let mut shown = BTreeMap::new();
    for round in 0..=ROUNDS {
        for reader in &mut found.readers {
            let name = reader.describe();
            let mut shows = Vec::new();
            let mut tell = |reading: Reading<'_>| {
                if reading.value.is_finite() && !reading.device.starts_with("process-") {
                    shows.extend(words(&reading));
                }
            };
            reader.read(now_ns(), &mut tell, lost);
            shows.truncate(MAX_SHOWN);
            if !shows.is_empty() {
                shown.insert(name, shows);
            }
        }
        if round < ROUNDS && !found.readers.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    shown
}

/// Formats a reading; `None` for metrics that have no meaning by themselves.
fn words(reading: &Reading<'_>) -> Option<String> {
    let Reading { device, metric, value, .. } = *reading;
    let text = match metric {
        "power_watts" => format!("{} W", units::digits(value)),
        "temperature_celsius" => format!("{value:.0} °C"),
        "frequency_hertz" => format!("{} GHz", units::digits(value / 1e9)),
        "utilization_ratio" => format!("{} busy", units::percent(value)),
        "memory_used_bytes" => format!("{} used", units::bytes(value)),
        _ => return None,
    };
    Some(format!("{device} {text}"))
}
