//! Energy of processors by their own counters (RAPL), as Linux shows them under powercap.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ortscope_decode::energy_counter::{EnergyCounter, Step};

use super::files::{entries, name_of, number, text};
use super::{Found, Missing, Reader, Reading};

const SOURCE: &str = "rapl";
/// A counter that stands still for so long does not count: it is shown by a virtual machine that has none.
const STILL_NANOS: u64 = 2_000_000_000;

/// One counter.
#[derive(Debug)]
struct Zone {
    device: String,
    file: PathBuf,
    counter: EnergyCounter,
    /// When the counter last moved.
    moved_ns: u64,
    /// Power is a difference: the reading before this one.
    before: Option<(u64, u64)>,
    is_silent: bool,
}

#[derive(Debug)]
struct Rapl {
    zones: Vec<Zone>,
    /// Two dies that show one counter are found when both have moved.
    checked_mirrors: bool,
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
                    let counter = EnergyCounter::new(number(&directory.join("max_energy_range_uj")).ok());
                    let zone = Zone {
                        device: device.clone(),
                        file,
                        counter,
                        moved_ns: 0,
                        before: None,
                        is_silent: false,
                    };
                    zones.entry(device).or_insert(zone);
                }
                Err(error) => denied |= error.kind() == ErrorKind::PermissionDenied,
            }
        }
    }
    if !zones.is_empty() {
        found.readers.push(Box::new(Rapl { zones: zones.into_values().collect(), checked_mirrors: false }));
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
        self.zones.retain_mut(|zone| zone.read(at_ns, out, lost));
        if !self.checked_mirrors && self.zones.iter().all(|zone| zone.counter.total() > 0) {
            self.checked_mirrors = true;
            self.drop_mirrors(lost);
        }
    }
}

impl Rapl {
    /// Dies of some processors all show the package's counter: added up they would be too much.
    fn drop_mirrors(&mut self, lost: &mut Vec<Missing>) {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        self.zones.retain(|zone| {
            let shows = (zone.before.map_or(0, |(_, reading)| reading), zone.counter.total());
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
    /// `false`: it cannot be read any more.
    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) -> bool {
        let reading = match number(&self.file) {
            Ok(reading) => reading,
            Err(error) => {
                let why = format!("{} cannot be read any more: {}", self.device, error.kind());
                lost.push(Missing { what: "energy", why, hint: "it was there at the start".to_owned() });
                return false;
            }
        };
        let step = self.counter.advance(reading);
        let before = self.before.replace((at_ns, reading));
        match step {
            Step::First => self.moved_ns = at_ns,
            Step::Used(microjoules) => {
                self.moved_ns = at_ns;
                self.is_silent = false;
                let mut tell = |metric, value| {
                    out(Reading { at_ns, device: &self.device, metric, value, source: SOURCE });
                };
                tell("energy_joules", self.counter.total() as f64 / 1e6);
                if let Some((since_ns, _)) = before.filter(|(since_ns, _)| *since_ns < at_ns) {
                    tell("power_watts", microjoules as f64 / 1e6 / ((at_ns - since_ns) as f64 / 1e9));
                }
            }
            Step::Still if at_ns.saturating_sub(self.moved_ns) >= STILL_NANOS && !self.is_silent => {
                self.is_silent = true;
                let why = format!("{} has a counter that does not count", self.device);
                let hint =
                    "a virtual machine shows it without having it; measure on the machine itself".to_owned();
                lost.push(Missing { what: "energy", why, hint });
            }
            Step::Still | Step::Reset => {}
        }
        true
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
