//! GPU and NPU use per process, from the client statistics that drivers expose (`/proc/PID/fdinfo`).
//!
//! A process is found by its descriptors of `/dev/dri` and `/dev/accel`. Scanning all descriptors of a machine is
//! expensive, so the scan is repeated only after 100 times its duration, which keeps it below 1% of a core. In between,
//! only the files of known clients are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ortscope_core::clock::now_ns;
use ortscope_decode::drm_fdinfo::{self, DrmClient, EngineTime};

use super::files::{entries, name_of};
use super::{Found, Missing, Reader, Reading};

const PERIOD_NS: u64 = 500_000_000;
/// Limit for tracked descriptors; a busy desktop has several dozen.
const MAX_CLIENTS: usize = 1024;
const SOURCE: &str = "fdinfo";

/// Device names by bus address, or by driver for devices without an address.
pub(super) type Names = BTreeMap<String, Named>;

/// A device with client statistics.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub device: String,
    /// Whether the driver itself reports utilization.
    pub reports_utilization: bool,
}

struct Clients {
    proc: PathBuf,
    names: Names,
    /// Device descriptors, with the process that owns them.
    known: Vec<(u32, PathBuf)>,
    /// Time of the next scan.
    search_due_ns: u64,
    /// Some processes could not be inspected, so the list is incomplete.
    is_partial: bool,
    told_partial: bool,
    /// Engine times of each client at the last reading, and when it was taken.
    last: BTreeMap<ClientKey, (u64, Vec<(String, EngineTime)>)>,
}

/// Device, process and client or descriptor: several descriptors may show the same client.
type ClientKey = (String, u32, u64);

pub(super) fn find(root: &Path, names: Names, found: &mut Found) {
    if names.is_empty() {
        return;
    }
    found.readers.push(Box::new(Clients {
        proc: root.join("proc"),
        names,
        known: Vec::new(),
        search_due_ns: 0,
        is_partial: false,
        told_partial: false,
        last: BTreeMap::new(),
    }));
}

impl Clients {
    fn search(&mut self) {
        self.known.clear();
        self.is_partial = false;
        for process in entries(&self.proc, "") {
            let Ok(pid) = name_of(&process).parse::<u32>() else { continue };
            let descriptors = match fs_err::read_dir(process.join("fd")) {
                Ok(descriptors) => descriptors,
                Err(error) => {
                    // A process that has exited is not a loss.
                    self.is_partial |= error.kind() == ErrorKind::PermissionDenied;
                    continue;
                }
            };
            for descriptor in descriptors.flatten() {
                let Ok(target) = fs_err::read_link(descriptor.path()) else { continue };
                let target = target.to_string_lossy();
                let is_device = target.starts_with("/dev/dri/") || target.starts_with("/dev/accel/");
                if is_device && self.known.len() < MAX_CLIENTS {
                    self.known.push((pid, process.join("fdinfo").join(descriptor.file_name())));
                }
            }
        }
    }

    fn device_of(&self, client: &DrmClient) -> Option<&str> {
        let by_address = client.address.as_ref().and_then(|address| self.names.get(address));
        by_address.or_else(|| self.names.get(&client.driver)).map(|named| named.device.as_str())
    }
}

/// Fraction of the time that an engine was busy between two readings; `None` if unknown.
fn share(before: EngineTime, now: EngineTime, passed_ns: u64, capacity: u64) -> Option<f64> {
    let ratio = match (before, now) {
        (EngineTime::Nanoseconds(before), EngineTime::Nanoseconds(now)) => {
            now.saturating_sub(before) as f64 / passed_ns.max(1) as f64
        }
        (
            EngineTime::Cycles { client: before, total: total_before },
            EngineTime::Cycles { client: now, total },
        ) => {
            let total = total.checked_sub(total_before).filter(|total| *total > 0)?;
            now.saturating_sub(before) as f64 / total as f64
        }
        _ => return None,
    };
    // The driver's timestamp differs slightly from ours.
    Some((ratio / capacity.max(1) as f64).min(1.0))
}

/// A driver's count may decrease briefly; the larger one is kept.
fn later(before: EngineTime, now: EngineTime) -> EngineTime {
    match (before, now) {
        (EngineTime::Nanoseconds(before), EngineTime::Nanoseconds(now)) => {
            EngineTime::Nanoseconds(before.max(now))
        }
        (EngineTime::Cycles { client: before, .. }, EngineTime::Cycles { client, total }) => {
            EngineTime::Cycles { client: before.max(client), total }
        }
        (_, now) => now,
    }
}

#[derive(Default)]
struct Use {
    engines: BTreeMap<String, f64>,
    local_bytes: u64,
    bytes: u64,
    has_memory: bool,
}

impl Use {
    fn busiest(&self) -> Option<f64> {
        self.engines.values().copied().reduce(f64::max)
    }
}

impl Reader for Clients {
    fn describe(&self) -> String {
        let devices: BTreeSet<&str> = self.names.values().map(|named| named.device.as_str()).collect();
        let devices: Vec<&str> = devices.into_iter().collect();
        format!("processes on {} (fdinfo)", devices.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        if at_ns >= self.search_due_ns {
            let begin_ns = now_ns();
            self.search();
            let cost_ns = now_ns().saturating_sub(begin_ns);
            self.search_due_ns = at_ns + (cost_ns * 100).max(PERIOD_NS);
            if self.is_partial && !std::mem::replace(&mut self.told_partial, true) {
                lost.push(Missing::new(
                    "gpu_processes",
                    "GPU and NPU use is visible only for your own processes",
                    "run as root, or with CAP_SYS_PTRACE, to see other users' processes",
                ));
            }
        }
        let mut processes: BTreeMap<(u32, String), Use> = BTreeMap::new();
        let mut devices: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        let mut seen: BTreeSet<ClientKey> = BTreeSet::new();
        for (index, (pid, file)) in self.known.iter().enumerate() {
            // A descriptor that was closed is dropped by the next scan.
            let Ok(text) = fs_err::read_to_string(file) else { continue };
            let Some(client) = drm_fdinfo::parse(&text) else { continue };
            let Some(device) = self.device_of(&client).map(str::to_owned) else { continue };
            let number = client.client.unwrap_or(u64::MAX - index as u64);
            let key = (device.clone(), if client.client.is_some() { 0 } else { *pid }, number);
            if !seen.insert(key.clone()) {
                continue;
            }
            let used = processes.entry((*pid, device.clone())).or_default();
            for memory in &client.memory {
                let bytes = memory.used_bytes().unwrap_or(0);
                used.has_memory = true;
                used.bytes = used.bytes.saturating_add(bytes);
                used.local_bytes = used.local_bytes.saturating_add(if memory.is_local() { bytes } else { 0 });
            }
            let before = self.last.get(&key);
            let mut now = Vec::with_capacity(client.engines.len());
            for engine in &client.engines {
                let known = before.and_then(|(at, engines)| {
                    let time = engines.iter().find(|(name, _)| *name == engine.name)?.1;
                    Some((*at, time))
                });
                let Some((since_ns, time)) = known.filter(|(since_ns, _)| *since_ns < at_ns) else {
                    now.push((engine.name.clone(), engine.busy));
                    continue;
                };
                now.push((engine.name.clone(), later(time, engine.busy)));
                if let Some(ratio) = share(time, engine.busy, at_ns - since_ns, engine.capacity) {
                    *used.engines.entry(engine.name.clone()).or_default() += ratio;
                    *devices.entry(device.clone()).or_default().entry(engine.name.clone()).or_default() +=
                        ratio;
                }
            }
            self.last.insert(key, (at_ns, now));
        }
        self.last.retain(|key, _| seen.contains(key));
        for ((pid, device), used) in &processes {
            let process_device = format!("process-{pid}/{device}");
            let mut emit = |device: &str, metric, value| {
                out(Reading { at_ns, device, metric, value, source: SOURCE });
            };
            if let Some(ratio) = used.busiest() {
                emit(&process_device, "utilization_ratio", ratio.min(1.0));
            }
            for (engine, ratio) in &used.engines {
                emit(&format!("{process_device}/{engine}"), "utilization_ratio", ratio.min(1.0));
            }
            if used.has_memory {
                emit(&process_device, "memory_used_bytes", used.bytes as f64);
                emit(&process_device, "memory_local_bytes", used.local_bytes as f64);
            }
        }
        // The sum is the device's utilization only if all clients are visible and the driver has no figure of its
        // own.
        let unreported = self.names.values().filter(|named| !named.reports_utilization && !self.is_partial);
        for Named { device, .. } in unreported {
            if let Some(engines) = devices.get(device) {
                let value = engines.values().copied().fold(0.0, f64::max).min(1.0);
                out(Reading { at_ns, device, metric: "utilization_ratio", value, source: SOURCE });
            }
        }
    }

    fn period_ns(&self) -> u64 {
        PERIOD_NS
    }
}
