//! Missing metrics with their reasons and hints.

use crate::sampler::{Missing, ReadError};

/// Metrics that Windows never provides to a sampler.
pub(super) fn never(is_wine: bool) -> Vec<Missing> {
    let mut missing = vec![
        Missing::new(
            "processor",
            "system snapshots do not include the processor of a thread",
            Some("kernel events include every switch"),
        ),
        Missing::new(
            "network_connections",
            "Windows does not count the connections of a process in snapshots",
            Some("kernel events include their start and end"),
        ),
        Missing::new(
            "cpu_frequency_hertz",
            "Windows reports the nominal frequency to samplers, not the actual one",
            Some("cpu_frequency_limit_ratio shows how far the system reduces it"),
        ),
    ];
    if is_wine {
        missing.extend(
            NOT_IN_WINE
                .iter()
                .map(|track| Missing::new(track, "Wine does not report it", Some("available on Windows"))),
        );
    }
    missing
}

/// Metrics that Wine 8 does not report, or always with the same value.
const NOT_IN_WINE: [&str; 21] = [
    "cpu_cycles",
    "context_switches",
    "page_faults",
    "hard_faults",
    "paged_pool_bytes",
    "non_paged_pool_bytes",
    "read_operations",
    "write_operations",
    "other_operations",
    "read_bytes",
    "write_bytes",
    "peak_handle_count",
    "gdi_objects",
    "user_objects",
    "command_line",
    "priority",
    "state",
    "active_threads",
    "suspended_threads",
    "interrupts",
    "swap_used_bytes",
];

/// Metrics that can turn out to be missing during sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    Handle,
    Network,
    Affinity,
    Objects,
    Power,
}

impl Absent {
    fn missing(self) -> Missing {
        match self {
            Self::Handle => Missing::new(
                "exit_code",
                "processes of other users and of the system may not be opened: they have no exit code, affinity, \
                 windows, peak of handles and command line",
                Some("run as administrator"),
            ),
            Self::Network => Missing::new(
                "network_received_bytes",
                "only Windows 11 24H2 and newer count the network traffic of a process",
                Some("kernel events include every packet"),
            ),
            Self::Affinity => Missing::new(
                "affinity_mask",
                "a process that runs in several groups of 64 processors has no single mask",
                None,
            ),
            Self::Objects => Missing::new(
                "user_objects",
                "GDI and USER objects of other users' or sessions' processes cannot be counted",
                Some("run as administrator, in the same session"),
            ),
            Self::Power => Missing::new("mains_ratio", "this machine does not report its power source", None),
        }
    }
}

/// Reasons that are pending, each reported once.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    reported: Vec<Absent>,
    waiting: Vec<Missing>,
}

impl Reasons {
    pub fn report(&mut self, reason: Absent) {
        if !self.reported.contains(&reason) {
            self.reported.push(reason);
            self.waiting.push(reason.missing());
        }
    }

    /// Without a list there are no values, so every new reason is reported.
    pub fn no_list(&mut self, error: &ReadError) {
        let missing = Missing::new("processes", format!("the process list cannot be read: {error}"), None);
        if self.waiting.last() != Some(&missing) {
            self.waiting.push(missing);
        }
    }

    pub fn take(&mut self, emit: &mut dyn FnMut(Missing)) {
        self.waiting.drain(..).for_each(emit);
    }
}
