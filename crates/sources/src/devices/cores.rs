//! Clock frequency of every processor (the process sampler reports utilization), and battery power.

use std::path::{Path, PathBuf};

use super::battery::{self, BatteryPower, MAINS, NO_RATE};
use super::files::{entries, name_of, number, signed, text};
use super::{Found, Missing, Reader, Reading, Recovered};

/// The kernel measures a frequency on request, so poll no more often than is useful.
const FREQUENCY_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Clocks(Vec<(String, PathBuf)>);

pub(super) fn clocks(root: &Path, found: &mut Found) {
    let is_cpu = |name: &str| {
        name.strip_prefix("cpu")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let cpus = entries(&root.join("sys/devices/system/cpu"), "cpu");
    let mut files: Vec<(String, PathBuf)> = cpus
        .into_iter()
        .filter(|cpu| is_cpu(&name_of(cpu)))
        .map(|cpu| (name_of(&cpu), cpu.join("cpufreq/scaling_cur_freq")))
        .collect();
    files.retain(|(_, file)| number(file).is_ok());
    if files.is_empty() {
        found.missing.push(Missing::new(
            "cpu_frequency",
            "this machine does not expose processor frequencies (most virtual machines do not)",
            "on bare metal a cpufreq driver provides them: intel_pstate, amd_pstate, acpi-cpufreq",
        ));
    } else {
        found.readers.push(Box::new(Clocks(files)));
    }
}

impl Reader for Clocks {
    fn describe(&self) -> String {
        format!("frequencies of {} processors (cpufreq)", self.0.len())
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        for (device, file) in &self.0 {
            // An offline processor has no frequency until it is back online.
            if let Ok(kilohertz @ 1..) = number(file) {
                let value = kilohertz as f64 * 1e3;
                out(Reading { at_ns, device, metric: "frequency_hertz", value, source: "cpufreq" });
            }
        }
    }

    fn period_ns(&self) -> u64 {
        FREQUENCY_NS
    }
}

/// Batteries that power the machine: their discharge is the power of the whole machine.
#[derive(Debug)]
struct Batteries {
    directories: Vec<PathBuf>,
    power: BatteryPower,
}

pub(super) fn battery(root: &Path, found: &mut Found) {
    let supplies = entries(&root.join("sys/class/power_supply"), "");
    let is_battery = |supply: &PathBuf| {
        text(&supply.join("type")).is_ok_and(|kind| kind == "Battery")
            // Skips batteries of peripherals, such as a mouse.
            && text(&supply.join("scope")).map_or(true, |scope| scope != "Device")
    };
    let directories: Vec<PathBuf> = supplies.into_iter().filter(is_battery).collect();
    if directories.iter().any(|battery| power_of(battery).is_some() || is_charging(battery)) {
        found.readers.push(Box::new(Batteries { directories, power: BatteryPower::default() }));
    } else {
        let why = if directories.is_empty() { "this machine has no battery" } else { NO_RATE };
        found.missing.push(battery::missing(why));
    }
}

fn is_charging(battery: &Path) -> bool {
    text(&battery.join("status"))
        .is_ok_and(|status| matches!(status.as_str(), "Charging" | "Full" | "Not charging"))
}

/// Watts with either sign: drivers disagree on which direction is negative.
fn power_of(battery: &Path) -> Option<f64> {
    if let Ok(microwatts) = signed(&battery.join("power_now")) {
        return Some((microwatts as f64 / 1e6).abs());
    }
    let microamperes = signed(&battery.join("current_now")).ok()? as f64;
    let microvolts = signed(&battery.join("voltage_now")).ok()? as f64;
    Some((microamperes * microvolts / 1e12).abs())
}

impl Reader for Batteries {
    fn describe(&self) -> String {
        let state = if self.directories.iter().any(|battery| is_charging(battery)) {
            "active only while discharging"
        } else {
            "discharging: power of the whole machine"
        };
        let names: Vec<String> = self.directories.iter().map(|battery| name_of(battery)).collect();
        format!("system (battery {}: {state})", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let discharges =
            |battery: &PathBuf| text(&battery.join("status")).is_ok_and(|status| status == "Discharging");
        let watts: f64 =
            self.directories.iter().filter(|battery| discharges(battery)).filter_map(|b| power_of(b)).sum();
        // While a battery is charging, the machine runs on mains power.
        let is_mains = self.directories.iter().any(|battery| is_charging(battery));
        let watts = match (is_mains, watts > 0.0) {
            (true, _) => Err(MAINS),
            (false, true) => Ok(watts),
            (false, false) => Err(NO_RATE),
        };
        self.power.report(at_ns, watts, out, lost);
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        self.power.take_recovered(back);
    }

    fn period_ns(&self) -> u64 {
        1_000_000_000
    }
}
