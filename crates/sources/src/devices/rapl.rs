//! Energy of processors by their own counters (RAPL), as Linux shows them under powercap.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::counted::{CountedEnergy, Of};
use super::files::{entries, name_of, number, text};
use super::presence::Presence;
use super::{Back, Found, Missing, Reader, Reading};

const SOURCE: &str = "rapl";

/// One counter.
#[derive(Debug)]
struct Zone {
    device: String,
    file: PathBuf,
    energy: CountedEnergy,
    file_is_there: Presence,
}

#[derive(Debug)]
struct Rapl {
    zones: Vec<Zone>,
    /// Two dies that show one counter are found when both have moved.
    checked_mirrors: bool,
    back: Vec<Back>,
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let powercap = root.join("sys/class/powercap");
    // The same package can be shown twice; the one by registers is preferred to the one by memory.
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    let (mut denied, mut shown) = (false, false);
    for prefix in ["intel-rapl:", "intel-rapl-mmio:"] {
        for directory in entries(&powercap, prefix) {
            shown = true;
            let Some(device) = device_of(&directory, &powercap) else { continue };
            let file = directory.join("energy_uj");
            match number(&file) {
                Ok(_) => {
                    let range = number(&directory.join("max_energy_range_uj")).ok();
                    let energy = CountedEnergy::new(Of::Machine, range, 1e-6);
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
    // Who may not read the files may be allowed to ask the kernel's events.
    let (readers, reasons) = (found.readers.len(), found.missing.len());
    crate::sys::energy_events(root, found);
    let (counts, is_explained) = (found.readers.len() > readers, found.missing.len() > reasons);
    if counts || (is_explained && !shown) {
        return;
    }
    found.missing.push(nothing(denied, shown));
}

/// Why no counter can be read, and what would change it.
fn nothing(denied: bool, shown: bool) -> Missing {
    let (why, hint) = match (denied, shown) {
        (true, _) => (
            "only root may read the processor's energy counters (since CVE-2020-8694)",
            "run as root, or let your group read them: chgrp and chmod g+r /sys/class/powercap/*/energy_uj",
        ),
        (false, true) => ("the processor's energy counters cannot be read", "look into /sys/class/powercap"),
        (false, false) => (
            "this machine shows no energy counters of its processor: a virtual machine, or a kernel without intel_rapl",
            "on the machine itself: modprobe intel_rapl_msr (Intel, and AMD since Zen)",
        ),
    };
    Missing { what: "energy", why: why.to_owned(), hint: hint.to_owned() }
}

/// `package-0`, `dram-0`, `cores-0`, `uncore-0` or `psys`; `None` for what is none of these.
fn device_of(directory: &Path, powercap: &Path) -> Option<String> {
    let name = text(&directory.join("name")).ok()?;
    if name == "psys" {
        return Some(name);
    }
    if let Some(number) = name.strip_prefix("package-") {
        // Several dies of a package have names of their own: `package-0-die-1`.
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

    fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }
}

impl Rapl {
    /// Dies of some processors all show the package's counter: added up they would be too much.
    fn drop_mirrors(&mut self, lost: &mut Vec<Missing>) {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        self.zones.retain(|zone| {
            let shows = zone.energy.shows();
            let is_mirror = zone.device.starts_with("package-") && seen.contains(&shows);
            if is_mirror {
                lost.push(Missing {
                    what: "energy",
                    why: format!("{} shows the counter of another package and is left out", zone.device),
                    hint: "nothing to do: the other one counts for both".to_owned(),
                });
            } else if zone.device.starts_with("package-") {
                seen.push(shows);
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
        back: &mut Vec<Back>,
    ) {
        let device = &self.device;
        let reading = match number(&self.file) {
            Ok(reading) => reading,
            Err(error) => {
                let why = || format!("{device} cannot be read any more: {}", error.kind());
                let missing = || Of::Machine.missing(why(), "it was there at the start");
                self.file_is_there.lose(at_ns, missing, lost);
                return;
            }
        };
        self.file_is_there.find(at_ns, back);
        let Some(used) = self.energy.take(at_ns, reading, device, lost, back) else { return };
        let mut tell = |metric, value| out(Reading { at_ns, device, metric, value, source: SOURCE });
        tell("energy_joules", used.joules);
        if let Some(watts) = used.watts {
            tell("power_watts", watts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_how_to_be_allowed() {
        assert!(nothing(true, true).hint.contains("chmod g+r"));
        assert!(nothing(false, false).hint.contains("modprobe"));
        assert!(nothing(false, true).why.contains("cannot be read"));
    }
}
