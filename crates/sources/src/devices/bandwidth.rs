//! Memory bandwidth and last-level cache occupancy from resctrl (Intel RDT, AMD QoS).

use std::path::{Path, PathBuf};

use super::files::{entries, name_of, number};
use super::{Found, Missing, Reader, Reading};

const SOURCE: &str = "resctrl";
const PERIOD_NS: u64 = 500_000_000;

/// One last-level cache.
#[derive(Debug)]
struct Domain {
    device: String,
    directory: PathBuf,
    before: [Option<(u64, u64)>; 2],
}

#[derive(Debug)]
struct Resctrl(Vec<Domain>);

/// Files with byte counters, and the metric for their growth.
const COUNTS: [(&str, &str); 2] =
    [("mbm_total_bytes", "memory_bytes_per_second"), ("mbm_local_bytes", "memory_local_bytes_per_second")];
const OCCUPANCY: &str = "llc_occupancy";

pub(super) fn find(root: &Path, found: &mut Found) {
    let resctrl = root.join("sys/fs/resctrl");
    let domains: Vec<Domain> = entries(&resctrl.join("mon_data"), "mon_L3_")
        .into_iter()
        // Idle domains have counters too; a file that cannot be read is not a counter.
        .filter(|directory| {
            COUNTS.iter().any(|(file, _)| number(&directory.join(file)).is_ok())
                || number(&directory.join(OCCUPANCY)).is_ok()
        })
        .map(|directory| {
            let number = name_of(&directory).trim_start_matches("mon_L3_").trim_start_matches('0').to_owned();
            let number = if number.is_empty() { "0".to_owned() } else { number };
            Domain { device: format!("l3-{number}"), directory, before: [None; 2] }
        })
        .collect();
    let (readers, reasons) = (found.readers.len(), found.missing.len());
    if !domains.is_empty() {
        found.readers.push(Box::new(Resctrl(domains)));
    }
    crate::sys::memory_bandwidth(root, found);
    if found.readers.len() == readers && found.missing.len() == reasons {
        let why = if resctrl.exists() {
            "resctrl is not mounted, and the memory controllers expose no counters"
        } else {
            "no memory traffic counters: neither resctrl nor memory controller counters exist (as in virtual machines)"
        };
        let hint = "on bare metal, as root: mount -t resctrl resctrl /sys/fs/resctrl";
        found.missing.push(Missing::new("memory_bandwidth", why, hint));
    }
}

impl Reader for Resctrl {
    fn describe(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|domain| domain.device.as_str()).collect();
        format!("memory bandwidth and occupancy of {} (resctrl)", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        for Domain { device, directory, before } in &mut self.0 {
            for ((file, metric), before) in COUNTS.iter().zip(before) {
                // The kernel temporarily writes `Unavailable` or `Error`.
                let Ok(bytes) = number(&directory.join(file)) else { continue };
                let Some((since_ns, last)) = before.replace((at_ns, bytes)) else { continue };
                // A counter that decreased was reset; its traffic in this interval is unknown.
                if let Some(moved) = bytes.checked_sub(last).filter(|_| at_ns > since_ns) {
                    let value = moved as f64 / ((at_ns - since_ns) as f64 / 1e9);
                    out(Reading { at_ns, device, metric, value, source: SOURCE });
                }
            }
            if let Ok(bytes) = number(&directory.join(OCCUPANCY)) {
                out(Reading { at_ns, device, metric: "occupied_bytes", value: bytes as f64, source: SOURCE });
            }
        }
    }

    fn period_ns(&self) -> u64 {
        PERIOD_NS
    }
}
