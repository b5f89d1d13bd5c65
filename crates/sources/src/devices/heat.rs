//! Temperatures, and thermal throttling of the processor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::{entries, name_of, number, signed, text};
use super::{Found, Missing, Presence, Reader, Reading, Recovered};

/// Driver names of processor temperature sensors.
const PROCESSOR_DRIVERS: &[&str] = &["coretemp", "k10temp", "zenpower", "cpu_thermal"];

#[derive(Debug)]
struct Thermometers {
    files: Vec<(String, PathBuf, Presence)>,
    back: Vec<Recovered>,
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let mut thermometers = Vec::new();
    for chip in entries(&root.join("sys/class/hwmon"), "hwmon") {
        let Ok(driver) = text(&chip.join("name")) else { continue };
        if !PROCESSOR_DRIVERS.contains(&driver.as_str()) {
            continue;
        }
        for input in entries(&chip, "temp").into_iter().filter(|path| name_of(path).ends_with("_input")) {
            let label = input.with_file_name(name_of(&input).replace("_input", "_label"));
            let label = text(&label).unwrap_or_else(|_| name_of(&input).replace("_input", ""));
            thermometers.push((format!("{driver}/{label}"), input));
        }
    }
    if thermometers.is_empty() {
        for zone in entries(&root.join("sys/class/thermal"), "thermal_zone") {
            if let Ok(kind) = text(&zone.join("type")) {
                thermometers.push((format!("zone/{kind}"), zone.join("temp")));
            }
        }
    }
    thermometers.retain(|(_, file)| signed(file).is_ok());
    if thermometers.is_empty() {
        found.missing.push(Missing::new(
            "temperature",
            "this machine exposes no temperature sensor: a virtual machine, or a missing driver",
            "on bare metal: modprobe coretemp (Intel) or k10temp (AMD)",
        ));
    } else {
        let files = thermometers.into_iter().map(|(name, file)| (name, file, Presence::default()));
        found.readers.push(Box::new(Thermometers { files: files.collect(), back: Vec::new() }));
    }
    throttling(root, found);
}

impl Reader for Thermometers {
    fn describe(&self) -> String {
        let names: Vec<&str> = self.files.iter().map(|(name, ..)| name.as_str()).collect();
        format!("temperature of {}", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        for (device, file, presence) in &mut self.files {
            match signed(file) {
                Ok(millidegrees) => {
                    presence.find(at_ns, &mut self.back);
                    let value = millidegrees as f64 / 1000.0;
                    out(Reading { at_ns, device, metric: "temperature_celsius", value, source: "hwmon" });
                }
                Err(error) => {
                    let why =
                        || format!("temperature sensor {device} can no longer be read: {}", error.kind());
                    let hint = "it was available at the start".to_owned();
                    presence.lose(at_ns, || Missing::new("temperature", why(), hint), lost);
                }
            }
        }
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }

    /// Temperatures change slowly.
    fn period_ns(&self) -> u64 {
        1_000_000_000
    }
}

/// How often and for how long packages and cores were throttled.
#[derive(Debug)]
struct Throttles(Vec<(String, PathBuf, &'static str)>);

fn throttling(root: &Path, found: &mut Found) {
    let (mut files, mut packages) = (Vec::new(), BTreeSet::new());
    for cpu in entries(&root.join("sys/devices/system/cpu"), "cpu") {
        let directory = cpu.join("thermal_throttle");
        if number(&directory.join("core_throttle_count")).is_err() {
            continue;
        }
        let name = name_of(&cpu);
        files.push((name.clone(), directory.join("core_throttle_count"), "throttle_count"));
        files.push((name, directory.join("core_throttle_total_time_ms"), "throttle_milliseconds"));
        // Every processor of a package repeats the package's values.
        let package = number(&cpu.join("topology/physical_package_id")).unwrap_or(0);
        if packages.insert(package) {
            let device = format!("package-{package}");
            files.push((device.clone(), directory.join("package_throttle_count"), "throttle_count"));
            files.push((device, directory.join("package_throttle_total_time_ms"), "throttle_milliseconds"));
        }
    }
    files.retain(|(_, file, _)| number(file).is_ok());
    if files.is_empty() {
        found.missing.push(Missing::new(
            "throttling",
            "the kernel does not count thermal throttling on this machine",
            "available on Intel processors outside virtual machines (thermal_throttle)",
        ));
    } else {
        found.readers.push(Box::new(Throttles(files)));
    }
}

impl Reader for Throttles {
    fn describe(&self) -> String {
        "thermal throttling".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        for (device, file, metric) in &self.0 {
            // An offline processor has no file until it is back online.
            if let Ok(value) = number(file) {
                out(Reading { at_ns, device, metric, value: value as f64, source: "thermal_throttle" });
            }
        }
    }

    fn period_ns(&self) -> u64 {
        1_000_000_000
    }
}
