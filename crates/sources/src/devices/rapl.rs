//! Processor energy from RAPL counters, which Linux exposes under powercap.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::energy_meter::{EnergyDomain, EnergyMeter};
use super::files::{entries, name_of, number, text};
use super::{Found, Missing, Presence, Reader, Reading, Recovered};

const SOURCE: &str = "rapl";

/// One counter.
#[derive(Debug)]
struct Zone {
    device: String,
    file: PathBuf,
    energy: EnergyMeter,
    file_is_there: Presence,
}

#[derive(Debug)]
struct Rapl {
    zones: Vec<Zone>,
    /// Two dies that mirror one counter are recognizable once both have advanced.
    checked_mirrors: bool,
    back: Vec<Recovered>,
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let powercap = root.join("sys/class/powercap");
    // The same package may appear twice; the MSR-based zone takes precedence over the MMIO-based one.
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    let (mut denied, mut shown) = (false, false);
    for prefix in ["intel-rapl:", "intel-rapl-mmio:"] {
        for directory in entries(&powercap, prefix) {
            shown = true;
            let Some(device) = device_name(&directory, &powercap) else { continue };
            let file = directory.join("energy_uj");
            match number(&file) {
                Ok(_) => {
                    let range = number(&directory.join("max_energy_range_uj")).ok();
                    let energy = EnergyMeter::new(EnergyDomain::Machine, range, 1e-6);
                    let file_is_there = Presence::default();
                    let zone = Zone { device: device.clone(), file, energy, file_is_there };
                    zones.entry(device).or_insert(zone);
                }
                Err(error) => denied |= error.kind() == ErrorKind::PermissionDenied,
            }
        }
    }
    if !zones.is_empty() {
        found.readers.push(Box::new(Rapl {
            zones: zones.into_values().collect(),
            checked_mirrors: false,
            back: Vec::new(),
        }));
        return;
    }
    // Users without access to the files may have access to perf events.
    let (readers, reasons) = (found.readers.len(), found.missing.len());
    crate::sys::energy_events(root, found);
    let (counts, is_explained) = (found.readers.len() > readers, found.missing.len() > reasons);
    if counts || (is_explained && !shown) {
        return;
    }
    found.missing.push(no_counters(denied, shown));
}

/// Reason and hint when no counter can be read.
fn no_counters(denied: bool, shown: bool) -> Missing {
    let (why, hint) = match (denied, shown) {
        (true, _) => (
            "only root may read the processor's energy counters (since CVE-2020-8694)",
            "run as root, or grant your group access: chgrp and chmod g+r /sys/class/powercap/*/energy_uj",
        ),
        (false, true) => ("the processor's energy counters cannot be read", "check /sys/class/powercap"),
        (false, false) => (
            "this machine exposes no processor energy counters: a virtual machine, or a kernel without intel_rapl",
            "on bare metal: modprobe intel_rapl_msr (Intel, and AMD since Zen)",
        ),
    };
    Missing::new("energy", why, hint)
}

/// `package-0`, `dram-0`, `cores-0`, `uncore-0` or `psys`; `None` for other zones.
fn device_name(directory: &Path, powercap: &Path) -> Option<String> {
    let name = text(&directory.join("name")).ok()?;
    if name == "psys" {
        return Some(name);
    }
    if let Some(number) = name.strip_prefix("package-") {
        // The dies of a package have their own names: `package-0-die-1`.
        return Some(format!("package-{number}"));
    }
    let zone = name_of(directory);
    let package = zone.rsplit_once(':').map(|(package, _)| powercap.join(package))?;
    let number = text(&package.join("name")).ok()?.strip_prefix("package-")?.to_owned();
    let part = match name.as_str() {
        "core" => "cores",
        "uncore" => "uncore",
        "dram" => "dram",
        _ => return None,
    };
    Some(format!("{part}-{number}"))
}

impl Reader for Rapl {
    fn describe(&self) -> String {
        let names: Vec<&str> = self.zones.iter().map(|zone| zone.device.as_str()).collect();
        format!("{} (RAPL)", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let back = &mut self.back;
        self.zones.iter_mut().for_each(|zone| zone.read(at_ns, out, lost, back));
        if !self.checked_mirrors && self.zones.iter().all(|zone| zone.energy.has_counted()) {
            self.checked_mirrors = true;
            self.drop_mirrors(lost);
        }
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }
}

impl Rapl {
    /// On some processors every die shows the package's counter, which must not be counted twice.
    fn drop_mirrors(&mut self, lost: &mut Vec<Missing>) {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        self.zones.retain(|zone| {
            let state = zone.energy.state();
            let is_mirror = zone.device.starts_with("package-") && seen.contains(&state);
            if is_mirror {
                lost.push(Missing::new(
                    "energy",
                    format!("{} mirrors the counter of another package and is ignored", zone.device),
                    "no action needed: the other counter covers both",
                ));
            } else if zone.device.starts_with("package-") {
                seen.push(state);
            }
            !is_mirror
        });
    }
}

impl Zone {
    fn read(
        &mut self,
        at_ns: u64,
        out: &mut dyn FnMut(Reading<'_>),
        lost: &mut Vec<Missing>,
        back: &mut Vec<Recovered>,
    ) {
        let device = &self.device;
        let reading = match number(&self.file) {
            Ok(reading) => reading,
            Err(error) => {
                let why = || format!("{device} can no longer be read: {}", error.kind());
                let missing = || EnergyDomain::Machine.missing(why(), "it was available at the start");
                self.file_is_there.lose(at_ns, missing, lost);
                return;
            }
        };
        self.file_is_there.find(at_ns, back);
        let Some(used) = self.energy.advance(at_ns, reading, device, lost, back) else { return };
        let mut emit = |metric, value| out(Reading { at_ns, device, metric, value, source: SOURCE });
        emit("energy_joules", used.joules);
        if let Some(watts) = used.watts {
            emit("power_watts", watts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_access_has_a_hint() {
        assert!(no_counters(true, true).hint.contains("chmod g+r"));
        assert!(no_counters(false, false).hint.contains("modprobe"));
        assert!(no_counters(false, true).why.contains("cannot be read"));
    }
}
