//! Energy from the kernel's `power` events, for systems where powercap exposes none: the same RAPL counters through
//! another interface.
//!
//! Virtual machines expose such events without supporting them: they open and stay at 0. Each is tested before it is
//! used.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use ortscope_decode::energy_counter::{EnergyCounter, Step};
use ortscope_decode::procfs;

use super::counters::count;
use super::perf_open::{self, Event};
use crate::devices::{Found, Missing, Reader, Reading};

const SOURCE: &str = "perf";
/// The counters advance every millisecond; a package drawing a tenth of a watt advances them a hundred times within
/// this.
const TRIAL: Duration = Duration::from_millis(60);
/// A counter that has not advanced for this long is considered stuck.
const STILL_NS: u64 = 2_000_000_000;

/// Event names and their devices.
const DOMAINS: [(&str, &str); 5] =
    [("pkg", "package"), ("cores", "cores"), ("ram", "dram"), ("gpu", "uncore"), ("psys", "psys")];

/// One energy event of one package.
#[derive(Debug)]
struct Domain {
    device: String,
    file: File,
    joules_per_count: f64,
    counter: EnergyCounter,
    before_ns: Option<u64>,
    moved_ns: Option<u64>,
    is_silent: bool,
}

#[derive(Debug)]
struct Power(Vec<Domain>);

/// Declaration of an event: its number, and joules per count.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Declared {
    config: u64,
    joules_per_count: f64,
}

fn declared(pmu: &Path, name: &str) -> Option<Declared> {
    let text = |file: String| fs_err::read_to_string(pmu.join(file)).ok();
    let event = text(format!("events/energy-{name}"))?;
    let config = u64::from_str_radix(event.trim().strip_prefix("event=0x")?, 16).ok()?;
    let scale: f64 = text(format!("events/energy-{name}.scale"))?.trim().parse().ok()?;
    (scale.is_finite() && scale > 0.0).then_some(Declared { config, joules_per_count: scale })
}

/// Finds working events and reports the reasons for others. Reports nothing if the kernel has no such events.
pub fn energy_events(root: &Path, found: &mut Found) {
    let pmu = root.join("sys/bus/event_source/devices/power");
    let text = |name: &str| fs_err::read_to_string(pmu.join(name)).ok();
    let Some(kind) = text("type").and_then(|kind| kind.trim().parse::<u32>().ok()) else { return };
    let cpus = text("cpumask").and_then(|mask| procfs::parse_cpu_list(mask.trim().as_bytes()));
    let cpus = cpus.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| vec![0]);
    let (mut domains, mut error) = (Vec::new(), None);
    for (name, part) in DOMAINS {
        let Some(Declared { config, joules_per_count }) = declared(&pmu, name) else { continue };
        for (package, cpu) in cpus.iter().enumerate() {
            // One processor represents the whole machine.
            if part == "psys" && package > 0 {
                break;
            }
            let device = if part == "psys" { part.to_owned() } else { format!("{part}-{package}") };
            match perf_open::open_machine(*cpu, Event { kind, config }) {
                Ok(descriptor) => domains.push(Domain {
                    device,
                    file: File::from(descriptor),
                    joules_per_count,
                    counter: EnergyCounter::new(None),
                    before_ns: None,
                    moved_ns: None,
                    is_silent: false,
                }),
                Err(why) => error = error.or(Some(why)),
            }
        }
    }
    retain_counting(&mut domains, found);
    if let Some(error) = error.filter(|_| domains.is_empty()) {
        found.missing.push(Missing {
            what: "energy",
            why: format!("the kernel's energy events cannot be opened: {error}"),
            hint: "run as root, or CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0".to_owned(),
        });
    }
    if !domains.is_empty() {
        found.readers.push(Box::new(Power(domains)));
    }
}

fn retain_counting(domains: &mut Vec<Domain>, found: &mut Found) {
    if domains.is_empty() {
        return;
    }
    std::thread::sleep(TRIAL);
    let mut still = Vec::new();
    domains.retain_mut(|domain| {
        let counts = count(&mut domain.file).is_some_and(|count| count > 0.0);
        if !counts {
            still.push(domain.device.clone());
        }
        counts
    });
    if !still.is_empty() {
        found.missing.push(not_counting(&still.join(", ")));
    }
}

fn not_counting(devices: &str) -> Missing {
    Missing {
        what: "energy",
        why: format!("{devices} does not count: the counter opens and stays at 0"),
        hint: "virtual machines expose it without supporting it; measure on bare metal".to_owned(),
    }
}

impl Reader for Power {
    fn describe(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|domain| domain.device.as_str()).collect();
        format!("{} (perf power events)", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        for domain in &mut self.0 {
            let step = count(&mut domain.file).map(|count| domain.counter.advance(count as u64));
            let before_ns = domain.before_ns.replace(at_ns);
            let moved_ns = *domain.moved_ns.get_or_insert(at_ns);
            let mut emit = |metric, value| {
                out(Reading { at_ns, device: &domain.device, metric, value, source: SOURCE });
            };
            if let Some(Step::Used(counts)) = step {
                domain.moved_ns = Some(at_ns);
                domain.is_silent = false;
                emit("energy_joules", domain.counter.total() as f64 * domain.joules_per_count);
                if let Some(since_ns) = before_ns.filter(|since_ns| *since_ns < at_ns) {
                    let joules = counts as f64 * domain.joules_per_count;
                    emit("power_watts", joules / ((at_ns - since_ns) as f64 / 1e9));
                }
            } else if at_ns.saturating_sub(moved_ns) >= STILL_NS
                && !std::mem::replace(&mut domain.is_silent, true)
            {
                lost.push(not_counting(&domain.device));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_pmu_nothing_is_reported() {
        let (root, mut found) = (tempfile::tempdir().expect("a directory"), Found::default());
        energy_events(root.path(), &mut found);
        assert!(found.missing.is_empty() && found.readers.is_empty());
    }

    #[test]
    fn an_event_has_a_number_and_joules_per_count() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| {
            fs_err::create_dir_all(root.path().join("events")).expect("a directory");
            fs_err::write(root.path().join("events").join(name), text).expect("a file");
        };
        put("energy-pkg", "event=0x02\n");
        put("energy-pkg.scale", "2.3283064365386962890625e-10\n");
        let package = declared(root.path(), "pkg").expect("an event");
        assert_eq!((package.config, package.joules_per_count * 4_294_967_296.0), (2, 1.0));
        put("energy-ram", "config=7\n");
        put("energy-ram.scale", "nan\n");
        assert_eq!((declared(root.path(), "ram"), declared(root.path(), "psys")), (None, None));
    }

    /// An event that opens on every system and never counts: `PERF_COUNT_SW_DUMMY`.
    #[test]
    fn an_event_that_stays_at_zero_is_rejected() {
        let Ok(descriptor) = perf_open::open_process(std::process::id(), Event { kind: 1, config: 9 }) else {
            return;
        };
        let mut found = Found::default();
        let mut domains = vec![Domain {
            device: "psys".to_owned(),
            file: File::from(descriptor),
            joules_per_count: 1.0,
            counter: EnergyCounter::new(None),
            before_ns: None,
            moved_ns: None,
            is_silent: false,
        }];
        retain_counting(&mut domains, &mut found);
        assert!(domains.is_empty());
        assert!(found.missing[0].why.starts_with("psys does not count"), "{found:?}");
    }
}
