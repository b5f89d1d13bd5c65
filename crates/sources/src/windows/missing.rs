//! What has no value here, why, and what the user can do.

use crate::sampler::{Missing, ReadError};

/// What Windows tells nobody who samples.
pub(super) fn never(is_wine: bool) -> Vec<Missing> {
    let mut missing = vec![
        Missing::new(
            "processor",
            "which processor a thread ran on is not in a snapshot of the system",
            Some("kernel events see every switch"),
        ),
        Missing::new(
            "network_connections",
            "Windows counts connections of a process in no snapshot",
            Some("kernel events see them begin and end"),
        ),
        Missing::new(
            "cpu_frequency_hertz",
            "Windows tells a sampler the nominal frequency, not the real one",
            Some("cpu_frequency_limit_ratio says how far the system lowers it"),
        ),
    ];
    if is_wine {
        missing.extend(NOT_IN_WINE.iter().map(|track| {
            Missing::new(track, "this is Wine, which does not tell it", Some("on Windows it is measured"))
        }));
    }
    missing
}

/// What Wine 8 does not answer, or with the same value whatever happens.
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

/// What can turn out to be missing while processes are read.
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
                "only Windows 11 24H2 and later count the traffic of a process",
                Some("kernel events see every packet"),
            ),
            Self::Affinity => Missing::new(
                "affinity_mask",
                "a process that runs in several groups of 64 processors has no single mask",
                None,
            ),
            Self::Objects => Missing::new(
                "user_objects",
                "GDI and USER objects of processes of other users or sessions may not be counted",
                Some("run as administrator, in the same session"),
            ),
            Self::Power => Missing::new("mains_ratio", "this machine does not say what feeds it", None),
        }
    }
}

/// Reasons that wait to be told, each once.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    said: Vec<Absent>,
    waiting: Vec<Missing>,
}

impl Reasons {
    pub fn say(&mut self, reason: Absent) {
        if !self.said.contains(&reason) {
            self.said.push(reason);
            self.waiting.push(reason.missing());
        }
    }

    /// No list, no values: this is worth saying every time it is another reason.
    pub fn no_list(&mut self, error: &ReadError) {
        let missing = Missing::new("processes", format!("they cannot be listed: {error}"), None);
        if self.waiting.last() != Some(&missing) {
            self.waiting.push(missing);
        }
    }

    pub fn take(&mut self, tell: &mut dyn FnMut(Missing)) {
        self.waiting.drain(..).for_each(tell);
    }
}
