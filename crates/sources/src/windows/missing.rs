//! What has no value here, why, and what the user can do.

use crate::sampler::Missing;

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
        missing.extend(WINE_LEAVES_AT_ZERO.iter().map(|track| {
            Missing::new(track, "this is Wine, which does not count it", Some("on Windows it is measured"))
        }));
    }
    missing
}

/// What Wine 8 answers with the same value whatever happens: zero, or one state for all threads.
const WINE_LEAVES_AT_ZERO: [&str; 20] = [
    "cpu_cycles",
    "context_switches",
    "page_faults",
    "hard_faults",
    "paged_pool_bytes",
    "non_paged_pool_bytes",
    "private_bytes",
    "read_operations",
    "write_operations",
    "other_operations",
    "read_bytes",
    "write_bytes",
    "peak_handle_count",
    "gdi_objects",
    "user_objects",
    "state",
    "active_threads",
    "suspended_threads",
    "interrupts",
    "swap_used_bytes",
];

pub(super) fn no_handle() -> Missing {
    Missing::new(
        "exit_code",
        "processes of other users and of the system may not be opened: they have no exit code, affinity, windows, \
         peak of handles and command line",
        Some("run as administrator"),
    )
}

pub(super) fn no_network() -> Missing {
    Missing::new(
        "network_received_bytes",
        "only Windows 11 24H2 and later count the traffic of a process",
        Some("kernel events see every packet"),
    )
}

pub(super) fn no_affinity() -> Missing {
    Missing::new(
        "affinity_mask",
        "a process that runs in several groups of 64 processors has no single mask",
        None,
    )
}

pub(super) fn no_objects() -> Missing {
    Missing::new(
        "user_objects",
        "GDI and USER objects of processes of other users or sessions may not be counted",
        Some("run as administrator, in the same session"),
    )
}

pub(super) fn no_power() -> Missing {
    Missing::new("mains_ratio", "this machine does not say what feeds it", None)
}
