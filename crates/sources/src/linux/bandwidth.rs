//! Memory bandwidth of the whole machine from memory controller counters (perf uncore events), where permitted.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use ortscope_decode::procfs;

use super::counters::count;
use super::perf_open::{self, Event};
use crate::devices::{Found, Missing, Reader, Reading};

const SOURCE: &str = "perf";
/// Kernel names of memory controller events, and their metrics.
const EVENTS: [(&str, &str); 4] = [
    ("cas_count_read", "read_bytes_per_second"),
    ("cas_count_write", "write_bytes_per_second"),
    ("data_read", "read_bytes_per_second"),
    ("data_write", "write_bytes_per_second"),
];
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
/// Limit for open counters; a large server has two dozen controllers.
const MAX_COUNTERS: usize = 256;

#[derive(Debug)]
struct Counter {
    metric: &'static str,
    file: File,
    bytes_per_count: f64,
    before: Option<f64>,
}

#[derive(Debug)]
struct Controllers {
    counters: Vec<Counter>,
    before_ns: Option<u64>,
}

/// Encodes `event=0x04,umask=0x03` into the bits named by the kernel's `format` files.
fn config(pmu: &Path, event: &str) -> Option<u64> {
    let mut config = 0;
    for term in event.trim().split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let digits = value.trim_start_matches("0x");
        let value = u64::from_str_radix(digits, if digits.len() < value.len() { 16 } else { 10 }).ok()?;
        let format = fs_err::read_to_string(pmu.join("format").join(name)).ok()?;
        // `config:8-15`; events in other words or in scattered bits are not supported.
        let bits = format.trim().strip_prefix("config:")?;
        let (first, last) = bits.split_once('-').unwrap_or((bits, bits));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let width = last.checked_sub(first)?.checked_add(1).filter(|_| last < 64)?;
        if width < 64 && value >> width != 0 {
            return None;
        }
        config |= value << first;
    }
    Some(config)
}

/// Bytes per count; `None` for events that do not count bytes.
fn bytes_per_count(pmu: &Path, name: &str) -> Option<f64> {
    let text =
        |suffix: &str| fs_err::read_to_string(pmu.join("events").join(format!("{name}.{suffix}"))).ok();
    let scale: f64 = text("scale")?.trim().parse().ok()?;
    let unit = match text("unit")?.trim() {
        "MiB" => BYTES_PER_MIB,
        "Bytes" | "bytes" => 1.0,
        _ => return None,
    };
    Some(scale * unit).filter(|bytes| bytes.is_finite() && *bytes > 0.0)
}

/// Finds memory controller counters. If there are some that do not work, the reason is reported.
pub fn memory_bandwidth(root: &Path, found: &mut Found) {
    let devices = root.join("sys/bus/event_source/devices");
    let (mut counters, mut error) = (Vec::new(), None);
    for entry in fs_err::read_dir(&devices).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("uncore_imc") {
            continue;
        }
        let pmu = entry.path();
        let text = |name: &str| fs_err::read_to_string(pmu.join(name)).ok();
        let Some(kind) = text("type").and_then(|kind| kind.trim().parse().ok()) else { continue };
        let cpus = text("cpumask").and_then(|mask| procfs::parse_cpu_list(mask.trim().as_bytes()));
        for (name, metric) in EVENTS {
            let event = text(&format!("events/{name}"));
            let Some(config) = event.and_then(|event| config(&pmu, &event)) else { continue };
            let Some(bytes_per_count) = bytes_per_count(&pmu, name) else { continue };
            for cpu in cpus.iter().flatten() {
                if counters.len() >= MAX_COUNTERS {
                    break;
                }
                match perf_open::open_machine(*cpu, Event { kind, config }) {
                    Ok(file) => counters.push(Counter {
                        metric,
                        file: File::from(file),
                        bytes_per_count,
                        before: None,
                    }),
                    Err(why) => error = error.or(Some(why)),
                }
            }
        }
    }
    if !counters.is_empty() {
        found.readers.push(Box::new(Controllers { counters, before_ns: None }));
    } else if let Some(error) = error {
        let hint = if error.kind() == ErrorKind::PermissionDenied {
            "run as root, or CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0"
        } else {
            "see `perf stat -a -e uncore_imc/cas_count_read/ sleep 1`"
        };
        let why = format!("memory controller counters cannot be opened: {error}");
        found.missing.push(Missing { what: "memory_bandwidth", why, hint: hint.to_owned() });
    }
}

impl Reader for Controllers {
    fn describe(&self) -> String {
        format!("memory bandwidth from {} memory controller counters (perf)", self.counters.len())
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        let since_ns = self.before_ns.replace(at_ns).filter(|since_ns| *since_ns < at_ns);
        let mut sums: [(&str, Option<f64>); 2] =
            [("read_bytes_per_second", None), ("write_bytes_per_second", None)];
        for counter in &mut self.counters {
            let Some(now) = count(&mut counter.file) else { continue };
            let Some(before) = counter.before.replace(now) else { continue };
            if let Some((_, sum)) = sums.iter_mut().find(|(metric, _)| *metric == counter.metric) {
                *sum = Some(sum.unwrap_or(0.0) + (now - before).max(0.0) * counter.bytes_per_count);
            }
        }
        for (metric, bytes) in sums {
            if let Some((bytes, since_ns)) = bytes.zip(since_ns) {
                let value = bytes / ((at_ns - since_ns) as f64 / 1e9);
                out(Reading { at_ns, device: "memory", metric, value, source: SOURCE });
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

    #[test]
    fn events_are_encoded_as_the_kernel_specifies() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs_err::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs_err::write(path, text).expect("a file");
        };
        put("format/event", "config:0-7\n");
        put("format/umask", "config:8-15\n");
        put("format/edge", "config:18\n");
        put("format/other", "config1:0-7\n");
        assert_eq!(config(root.path(), "event=0x04,umask=0x03\n"), Some(0x0304));
        assert_eq!(config(root.path(), "event=5,edge"), Some(0x4_0005));
        for event in ["event=0x104", "other=1", "unknown=1", "event=zz", ""] {
            assert_eq!(config(root.path(), event), None, "{event}");
        }
        put("events/cas_count_read.scale", "6.103515625e-5\n");
        put("events/cas_count_read.unit", "MiB\n");
        assert_eq!(bytes_per_count(root.path(), "cas_count_read"), Some(64.0));
        put("events/cas_count_read.unit", "Joules\n");
        assert_eq!(bytes_per_count(root.path(), "cas_count_read"), None);
    }
}
