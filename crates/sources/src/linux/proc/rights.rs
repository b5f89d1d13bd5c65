//! What this user can observe, and hints for the rest.

use std::os::unix::fs::MetadataExt as _;

use ortscope_core::metric::Availability;
use ortscope_decode::procfs::{self, HidePid};

use crate::sampler::Missing;

/// Inode of the initial pid namespace (`PROC_PID_INIT_INO`): any other one is a container's.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

pub(super) fn probe() -> Availability {
    if !std::path::Path::new("/proc/self/stat").exists() {
        return Availability::Unavailable {
            why: "/proc is not mounted".into(),
            hint: "mount it: mount -t proc proc /proc".into(),
        };
    }
    let hidden = std::fs::read("/proc/mounts").ok().and_then(|mounts| procfs::hide_pid(&mounts));
    let privileged = rustix::process::geteuid().is_root();
    match hidden {
        Some(HidePid::NoAccess | HidePid::Invisible) if !privileged => Availability::Degraded {
            why: "/proc is mounted with hidepid: processes of other users are hidden".into(),
            hint: "run as root, or as a member of the group in the gid option of the mount".into(),
        },
        _ if is_contained() => Availability::Degraded {
            why: "running in a container: only its own processes are visible".into(),
            hint: "run ortscope outside, or in a container with the host's pid namespace (--pid=host)".into(),
        },
        _ => Availability::Ready,
    }
}

fn is_contained() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != FIRST_PID_NAMESPACE)
}

/// Metrics that Linux never provides.
pub(super) fn never(counts_cycles: bool) -> Vec<Missing> {
    let windows = "available only on Windows";
    let mut missing: Vec<Missing> =
        ["paged_pool_bytes", "non_paged_pool_bytes", "other_operations", "gdi_objects", "user_objects"]
            .map(|track| Missing::new(track, windows, None))
            .into();
    if !counts_cycles {
        let why = "the CPU clock counts time, not cycles";
        let hint = "--cycles counts them if the machine exposes its counters";
        missing.push(Missing::new("cpu_cycles", why, Some(hint)));
    }
    missing.push(Missing::new(
        "peak_handle_count",
        "Linux does not record the peak number of open descriptors",
        None,
    ));
    missing
}

pub(super) fn no_rights_for_io() -> Missing {
    Missing::new(
        "read_bytes",
        "I/O counters of other users' processes are not readable",
        Some("run as their user, as root, or with CAP_SYS_PTRACE"),
    )
}

pub(super) fn no_network() -> Missing {
    Missing::new(
        "network_received_bytes",
        "sockets of other users' processes, or in another network namespace, are not readable",
        Some("run as their user, as root, or with CAP_SYS_PTRACE; for a container, run inside it"),
    )
}

pub(super) fn no_exit_code() -> Missing {
    Missing::new(
        "exit_code",
        "before Linux 6.15 only the parent of a process can read its exit code",
        Some("kernel events (CAP_BPF and CAP_PERFMON, or CAP_PERFMON) include every exit"),
    )
}

pub(super) fn no_rights_for_handles() -> Missing {
    Missing::new(
        "handle_count",
        "open descriptors of other users' processes cannot be counted before Linux 6.2",
        Some("run as their user, as root, or with CAP_SYS_PTRACE"),
    )
}

pub(super) fn no_frequency() -> Missing {
    Missing::new(
        "cpu_frequency_hertz",
        "this machine does not expose processor frequencies (most virtual machines)",
        None,
    )
}

pub(super) fn no_pressure() -> Missing {
    Missing::new(
        "cpu_pressure_some_ratio",
        "this kernel does not measure pressure",
        Some("boot with psi=1; requires CONFIG_PSI"),
    )
}
